"""A network as a function of one flat vector.

The vector holds the body's parameters, then the head's, then what is not trained: running statistics and frozen
parameters. The module's own tensors are views of it, and their gradients views of ``grad``: loading, stepping
and reading a model are single operations on one tensor, whatever the architecture.

Where tensors are: whatever lasts or travels (messages, State, memory, records, a model as a vector) is on the CPU. A
network, its ``vector`` and its ``grad`` are on its device, and it moves records and weights there itself. What a loop
uses repeatedly is moved once, before the loop. Random draws come from the CPU's generators, so they are the same for
every device; sums in float64, which not every device supports, are taken on the CPU.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.models.batch_last import batch_last
from understudy.models.zoo import FastPath
from understudy.randomness import private_global_stream

PASS_PIXELS = 16384  # per channel, in one pass of a compiled network: 16 images of 32×32, 256 of 8×8
Named = Mapping[str, Tensor]
Outputs = tuple[Tensor, Tensor]  # features (n, d) and logits (n, classes, or more if a method extended the head)


class _Scaled(nn.Module):
    """Raw records in, features and logits out."""

    def __init__(self, module: nn.Module, problem: Problem, channels_last: bool):
        super().__init__()
        self.module = module
        across = (-1, *[1] * (len(problem.shape) - 1))
        self.shift = torch.tensor(problem.mean or (0.0,)).mul(255).view(across)
        self.unit = torch.tensor(problem.std or (1.0,)).mul(255).view(across)
        self.layout = torch.channels_last if channels_last else torch.contiguous_format

    def forward(self, x: Tensor) -> Outputs:
        if x.ndim == 4:
            # Not `contiguous`: one channel counts as both layouts, and the first convolution must see the right one.
            x = x.to(memory_format=self.layout)
        if x.dtype == torch.uint8:
            x = x.to(torch.float32).sub_(self.shift).div_(self.unit)
        features = self.module.features(x)  # type: ignore[operator]
        return features, self.module.head(features)  # type: ignore[operator]


class Network:
    """One set of storage, reused throughout; ``twin`` makes a second one."""

    def __init__(
        self,
        build: Callable[[], nn.Module],
        problem: Problem,
        *,
        seed: int = 0,
        fast: FastPath = "eager",
        device: torch.device | str = "cpu",
    ):
        self._build, self._seed = build, seed
        self.problem, self.fast, self.device = problem, fast, torch.device(device)
        with private_global_stream(seed, "initial weights"):
            module = build()
        check_parts(module)
        self.module = module.to(self.device)
        self._whole = _Scaled(self.module, problem, fast in ("channels-last", "batch-last"))
        self._whole.shift, self._whole.unit = self._whole.shift.to(device), self._whole.unit.to(device)
        self.needs_company = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in self.module.modules())
        if fast == "compiled" and self.needs_company:
            raise UserError("model.fast: a network with BatchNorm cannot be 'compiled'; write 'eager'.")
        self._lay_out()
        self._twins: dict[str, Network] = {}
        self._modules = list(self.module.modules())
        self._compiled = _compiled(self._whole, self.device) if fast == "compiled" else None
        self._quick = self._batch_last() or self._whole  # for the network's own weights
        self._rows = max(1, PASS_PIXELS // math.prod(problem.shape[1:]))
        self._first = self.vector.cpu().clone()

    def _batch_last(self) -> _Scaled | None:
        quick = batch_last(self.module) if self.fast == "batch-last" and self.device.type == "cpu" else None
        return None if quick is None else _Scaled(quick, self.problem, channels_last=False)

    def _lay_out(self) -> None:
        body, head, kept = _parts(self.module)
        tensors = {**body, **head, **kept}
        at_head, at_kept, end = accumulate(sum(t.numel() for t in part.values()) for part in (body, head, kept))
        self.parameters = at_kept
        self.body, self.head = slice(0, at_head), slice(at_head, at_kept)
        self.trainable, self.buffers = slice(0, at_kept), slice(at_kept, end)
        self.windows = _windows(tensors)
        self.vector, self.grad = torch.empty(end, device=self.device), torch.zeros(at_kept, device=self.device)
        for name, tensor in tensors.items():
            where, shape = self.windows[name]
            self.vector[where] = tensor.detach().reshape(-1).to(torch.float32)
            tensor.data = self.vector[where].view(shape)
        self.trained = {**body, **head}  # by name, in the order of the vector
        for parameter in self.trained.values():
            parameter.grad = self.grad[_window(parameter)].view(parameter.shape)

    @property
    def size(self) -> int:
        return self.vector.numel()

    def initial(self) -> Tensor:
        """The weights from the seed (for a live module: those it came with)."""
        return self._first.clone()

    def redrawn(self, seed: int) -> Tensor:
        """The weights another seed would give; a live module always gives its own."""
        return Network(self._build, self.problem, seed=seed).initial()

    @property
    def matrices(self) -> Tensor:
        """Over the trainable part: 1 in matrices and kernels, 0 in biases and norms' factors."""
        found = torch.zeros(self.parameters, device=self.device)
        for p in self.trained.values():
            found[_window(p)] = float(p.ndim > 1)
        return found

    def load(self, w: Tensor) -> None:
        if w.shape != self.vector.shape:
            raise UserError(
                f"A model of {w.numel()} numbers does not fit a network of {self.size}; "
                "both sides must be built from the same config."
            )
        self.vector.copy_(w)

    def twin(self, w: Tensor, role: str = "twin") -> "Network":
        """Another network of the same kind with the weights ``w``; each role has one, which is reused."""
        if role not in self._twins:
            self._twins[role] = Network(self._build, self.problem, seed=self._seed, fast=self.fast, device=self.device)
        self._twins[role].load(w)
        return self._twins[role]

    def at(self, w: Tensor, x: Tensor) -> Outputs:
        """Features and logits of raw records ``x`` under the weights ``w``; ``net.at(net.vector, x)`` is fast."""
        x = x.to(self.device)
        if w is self.vector:
            return self._in_passes(x) if self._compiled is not None else cast(Outputs, self._quick(x))
        w = w.to(self.device)
        parts = {f"module.{name}": w[where].view(shape) for name, (where, shape) in self.windows.items()}
        return cast(Outputs, functional_call(self._whole, parts, (x,)))

    def _in_passes(self, x: Tensor) -> Outputs:
        """A few records at a time: they stay in the cache, and the compiled code serves a single shape.

        On an accelerator all at once, as it is slow on small batches.
        """
        if not len(x):
            return cast(Outputs, self._whole(x))
        if self.device.type != "cpu":
            return cast(Outputs, cast(Any, self._compiled)(x))
        short = -len(x) % self._rows
        whole = torch.cat([x, x.new_zeros(short, *x.shape[1:])]) if short else x
        features, logits = zip(
            *(cast(Any, self._compiled)(piece) for piece in torch.split(whole, self._rows)), strict=True
        )
        return torch.cat(features)[: len(x)], torch.cat(logits)[: len(x)]

    def read(self, features: Tensor, head: Tensor | None = None) -> Tensor:
        """(n, outputs): the head applied to ``features``; ``head`` may give other weights for it."""
        module = cast(nn.Module, self.module.head)
        if head is None:
            return cast(Tensor, module(features))
        first = self.head.start
        parts = {
            name: head[p.storage_offset() - first :][: p.numel()].view(p.shape) for name, p in module.named_parameters()
        }
        return cast(Tensor, functional_call(module, parts, (features,)))

    def __call__(self, x: Tensor) -> Outputs:
        return self.at(self.vector, x)

    def training(self) -> None:
        """Training mode, unless it is in it already: telling every module takes as long as a small batch."""
        if not all(module.training for module in self._modules):
            self.module.train()

    @contextmanager
    def scoring(self) -> Iterator[None]:
        """Evaluation mode, no gradients."""
        before = self.module.training
        self.module.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.module.train(before)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Evaluation mode, with gradients only for the inputs."""
        before = self.module.training
        self.module.eval().requires_grad_(False)
        try:
            yield
        finally:
            for parameter in self.trained.values():
                parameter.requires_grad_(True)
            self.module.train(before)

    @contextmanager
    def moving(self, part: slice) -> Iterator[None]:
        """Gradients only for parameters in ``part``: no backward pass through a body that does not move."""
        held = [p for p in self.trained.values() if not part.start <= _window(p).start < part.stop]
        try:
            for parameter in held:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter in held:
                parameter.requires_grad_(True)

    def logits(self, x: Tensor) -> Tensor:
        """(n, classes): the outputs used for prediction, without those that a method added to the head."""
        with self.scoring():
            return self(x)[1][:, : self.problem.classes]

    def named(self, w: Tensor) -> dict[str, Tensor]:
        """The weights as a state dict, for saving and for other programs."""
        return {name: w[where].view(shape).clone() for name, (where, shape) in self.windows.items()}

    def vector_of(self, named: Mapping[str, Tensor]) -> Tensor:
        """The weights that `named` spells out; a KeyError or RuntimeError for those of another network."""
        w = self.initial()
        for name, (where, _) in self.windows.items():
            w[where] = named[name].reshape(-1)
        return w


def _parts(module: nn.Module) -> tuple[Named, Named, Named]:
    """Parameters of the body, of the head, and what is not trained."""
    in_head = {id(p) for p in cast(nn.Module, module.head).parameters()}
    trained = {n: p for n, p in module.named_parameters() if p.requires_grad}
    body = {n: p for n, p in trained.items() if id(p) not in in_head}
    head = {n: p for n, p in trained.items() if id(p) in in_head}
    frozen = {n: p for n, p in module.named_parameters() if not p.requires_grad}
    return body, head, {**frozen, **{n: b for n, b in module.named_buffers() if b.is_floating_point()}}


def _windows(tensors: Named) -> dict[str, tuple[slice, torch.Size]]:
    """Where each parameter lies in the vector, in order, and its shape."""
    ends = accumulate(tensor.numel() for tensor in tensors.values())
    return {n: (slice(end - t.numel(), end), t.shape) for (n, t), end in zip(tensors.items(), ends, strict=True)}


def _window(tensor: Tensor) -> slice:
    """Where in the vector a tensor of the module lies."""
    return slice(tensor.storage_offset(), tensor.storage_offset() + tensor.numel())


def _compiled(module: nn.Module, device: torch.device) -> Any:
    # Training, scoring and frozen networks, on pixels and on floats, are one version each. Beyond the limit torch
    # would silently continue without compiling, with other bits: better to fail.
    torch._dynamo.config.recompile_limit = 64
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    return torch.compile(module, dynamic=False if device.type == "cpu" else None)  # elsewhere batches differ in size


def check_outputs(module: nn.Module, problem: Problem) -> None:
    """A user's own network must take such records and give one output per class: tried on two blank records."""
    check_parts(module)
    kind, before = type(module).__name__, module.training
    some = next(module.parameters(), torch.empty(0))
    if some.is_meta:
        raise UserError(f"model: {kind} has weights without numbers (device 'meta'); build it on the CPU.")
    blank = torch.zeros(2, *problem.shape, device=some.device)
    module.eval()  # running statistics and random numbers stay put
    try:
        with torch.no_grad():
            outputs = tuple(module.head(module.features(blank)).shape)  # type: ignore[operator]
    except Exception as error:  # user code may raise anything
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"model: {kind} cannot take records of shape {problem.shape}: {first.rstrip('.')}.") from error
    finally:
        module.train(before)
    if outputs != (2, problem.classes):
        raise UserError(
            f"model: the head of {kind} gives {outputs} for two records; "
            f"it must give (2, {problem.classes}), one number per class."
        )


def check_parts(module: nn.Module) -> None:
    if not callable(getattr(module, "features", None)) or not isinstance(getattr(module, "head", None), nn.Module):
        raise UserError(
            f"The network {type(module).__name__} needs a callable `features(x)` and a module `head`, "
            "so that `head(features(x))` gives the logits."
        )
    for name, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.momentum is None:
            raise UserError(
                f"Layer '{name}' keeps a cumulative average (momentum=None), which depends on a counter that "
                "cannot be averaged over clients; give it a momentum such as 0.1."
            )
