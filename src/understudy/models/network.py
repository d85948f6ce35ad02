"""A network as a function of one flat vector.

The vector holds the body's parameters, then the head's, then running statistics. The module's own tensors are views of
it, and their gradients views of ``grad``: loading, stepping and reading a model are single operations on one tensor,
whatever the architecture. Frozen parameters are not in it: they are constants, the same in every network of one config
(`models.frozen`), so they never travel. Nor are buffers of whole numbers, which are saved as they were built.

Where tensors are: whatever lasts or travels (messages, State, memory, records, a model as a vector) is on the CPU. A
network, its ``vector`` and its ``grad`` are on its device, and it moves records and weights there itself. What a loop
uses repeatedly is moved once, before the loop. Random draws come from the CPU's generators, so they are the same for
every device; sums in float64, which not every device supports, are taken on the CPU.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import accumulate
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.models.batch_last import batch_last
from understudy.models.fitness import check_parts
from understudy.models.frozen import digest_of, hold_still, mixes_records
from understudy.models.residents import Residents
from understudy.models.split import SplitNetwork
from understudy.models.zoo import FastPath
from understudy.randomness import private_global_stream

PASS_PIXELS = 16384  # per channel, in one pass of a compiled network: 16 images of 32×32, 256 of 8×8
Precision = Literal["float32", "bfloat16"]
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
        precision: Precision = "float32",
        keeps: int = 0,  # bytes of records that stay on an accelerator
        unknown: str | None = None,  # why the first weights are not known here; None: they are
    ):
        self._unknown = unknown
        self._build, self._seed = build, seed
        self.problem, self.fast, self.device, self.precision = problem, fast, torch.device(device), precision
        self._residents = Residents(self.device, keeps)
        with private_global_stream(seed, "initial weights"):
            module = build()
        check_parts(module)
        self.module = module.to(self.device)
        self._whole = _Scaled(self.module, problem, fast in ("channels-last", "batch-last"))
        self._whole.shift, self._whole.unit = self._whole.shift.to(device), self._whole.unit.to(device)
        self._held = hold_still(self.module)
        self.needs_company = mixes_records(self.module)
        if fast == "compiled" and self.needs_company:
            raise UserError("model.fast: a network with BatchNorm cannot be 'compiled'; write 'eager'.")
        if fast == "compiled" and isinstance(self.module, SplitNetwork):
            raise UserError("model.fast: a network without `features` and `head` cannot be 'compiled'; write 'eager'.")
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
        body, head, kept, self.constants = _parts(self.module, self._held)
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
        self._paths = _paths(self.module)
        self.trained = {**body, **head}  # by name, in the order of the vector
        self.frozen_digest = digest_of({n: t for n, t in self.constants.items() if t.is_floating_point()})
        for parameter in self.trained.values():
            parameter.grad = self.grad[_window(parameter)].view(parameter.shape)

    @property
    def size(self) -> int:
        return self.vector.numel()

    def initial(self) -> Tensor:
        """The weights from the seed or from ``model.start`` (for a live module: those it came with)."""
        if self._unknown is not None:
            raise UserError(self._unknown)
        return self._first.clone()

    def redrawn(self, seed: int) -> Tensor:
        """The weights another seed would give; a live module always gives its own, and so does ``model.start``."""
        if self._unknown is not None:
            raise UserError(self._unknown)
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
            how: dict[str, Any] = {"fast": self.fast, "device": self.device, "precision": self.precision}
            self._twins[role] = Network(self._build, self.problem, seed=self._seed, **how)
            self._twins[role]._residents = self._residents
        self._twins[role].load(w)
        return self._twins[role]

    def there(self, x: Tensor) -> Tensor:
        """Records or labels on the network's device, where they stay for the next time if there is room."""
        return self._residents.there(x)

    def stacked_there(self, parts: Sequence[Tensor]) -> Tensor:
        """The same for those of several clients, one after another in one tensor."""
        return self._residents.stacked(parts)

    def records_there(self, examples: Examples) -> Examples:
        """For a loop that reads them again and again."""
        return replace(examples, x=self.there(examples.x), y=self.there(examples.y))

    def to_score(self, examples: Examples) -> Examples:
        """Records on the device, labels where they were: scores are computed on the processor."""
        return replace(examples, x=self.there(examples.x))

    def at(self, w: Tensor, x: Tensor) -> Outputs:
        """Features and logits of raw records ``x`` under the weights ``w``; ``net.at(net.vector, x)`` is fast."""
        if self.precision == "float32":
            return self._at(w, x)
        with self._lower_precision():
            features, logits = self._at(w, x)
        return features.float(), logits.float()

    def _lower_precision(self) -> AbstractContextManager[None]:
        """Products are computed in bfloat16; weights, gradients and whatever leaves the network stay float32."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def _at(self, w: Tensor, x: Tensor) -> Outputs:
        x = x.to(self.device)
        if w is self.vector:
            return self._in_passes(x) if self._compiled is not None else cast(Outputs, self._quick(x))
        w = w.to(self.device)
        parts = {name: w[where].view(shape) for name, (where, shape) in self.windows.items()}
        return cast(Outputs, functional_call(self._whole, self.placed(parts), (x,)))

    def placed(self, parts: Named) -> dict[str, Tensor]:
        """Weights by their names, for ``functional_call`` on a wrapper with this network's ``module``."""
        return {path: part for name, part in parts.items() for path in self._paths[name]}

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
        if self.precision == "float32":
            return self._read(features, head)
        with self._lower_precision():
            return self._read(features, head).float()

    def _read(self, features: Tensor, head: Tensor | None) -> Tensor:
        module = cast(nn.Module, self.module.head)
        if head is None:
            return cast(Tensor, module(features))
        first, moving = self.head.start, {id(p) for p in self.trained.values()}
        parts = {
            name: head[p.storage_offset() - first :][: p.numel()].view(p.shape)
            for name, p in module.named_parameters()
            if id(p) in moving
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
        """The whole model as a state dict, for saving and for other programs: with what is frozen, and with a shared
        parameter under each of its names."""
        inside = {name: w[where].view(shape).clone() for name, (where, shape) in self.windows.items()}
        found = {**inside, **{name: t.detach().cpu().clone() for name, t in self.constants.items()}}
        aliases = {name: found[of].clone() for name, of in _names(self.module).items() if name != of}
        saved = set(self.module.state_dict())
        return {name: t for name, t in {**found, **aliases}.items() if name in saved}

    def vector_of(self, named: Mapping[str, Tensor]) -> Tensor:
        """The weights that `named` spells out; a KeyError or RuntimeError for those of another network."""
        w = self.initial()
        for name, (where, _) in self.windows.items():
            w[where] = named[name].reshape(-1)
        return w


def _parts(module: nn.Module, held: Collection[str]) -> tuple[Named, Named, Named, Named]:
    """Parameters of the body, of the head, running statistics, and what never changes."""
    in_head = {id(p) for p in cast(nn.Module, module.head).parameters()}
    trained = {n: p for n, p in module.named_parameters() if p.requires_grad}
    body = {n: p for n, p in trained.items() if id(p) not in in_head}
    head = {n: p for n, p in trained.items() if id(p) in in_head}
    constants: dict[str, Tensor] = {n: p for n, p in module.named_parameters() if not p.requires_grad}
    statistics = {n: b for n, b in module.named_buffers() if b.is_floating_point() and n not in held}
    # A counter of batches would differ between one process and many.
    constants |= {n: b.detach().clone() for n, b in module.named_buffers() if n not in statistics}
    return body, head, statistics, constants


def _names(module: nn.Module) -> dict[str, str]:
    """Every name of every parameter and buffer, with the first name that it has."""
    first = {id(t): name for name, t in [*module.named_parameters(), *module.named_buffers()]}
    every = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    return {name: first[id(t)] for name, t in every}


def _paths(module: nn.Module) -> dict[str, list[str]]:
    """By a parameter's first name, how a wrapper of ``module`` reaches it: not through a `SplitNetwork`'s own parts."""
    detours = [name for name, part in module.named_modules() if isinstance(part, SplitNetwork)]
    found: dict[str, list[str]] = {}
    for name, first in _names(module).items():
        for detour in detours:
            if f"{name}.".startswith(f"{detour}." if detour else ""):
                rest = name[len(detour) :].lstrip(".")
                name = f"{detour}.whole.{rest}".lstrip(".")
        found.setdefault(first, []).append(f"module.{name}")
    return found


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
