"""FedReg: "Acceleration of Federated Learning with Alleviated Forgetting in Local Training", algorithm 1.

A client learns from its records without unlearning what the broadcast model w₀ knows. That knowledge is probed with
inputs made from the records: ``pseudo`` ones, far away (10 sign-gradient steps of 0.1 up the loss of w₀, labelled by w₀
itself), and ``perturbed`` ones, nearby (steps of 0.001, with the record's own label). Each step is

    g₁ = the gradient on the batch at γw + (1−γ)w₀,                 w ← w − η g₁
    g₂, g₃ = those on its pseudo and perturbed inputs at ½(w + w₀),  δ = w − w₀
    ω = max(0, ⟨δ, g₂⟩ / ‖g₂‖²),   ω₁ = max(0, ⟨δ − ω g₂, g₃⟩ / ‖g₃‖²),   w ← w − ω g₂ − ω₁ g₃

The step must be plain SGD, so momentum, weight decay and clipping are refused. With ``mask``, the component of g₁ along
another gradient is removed first: that of the pseudo inputs' loss towards uniform labels, taken at the same point.
Clients count equally unless ``weights`` says otherwise. Only the model is sent.

The authors use γ = 0.25 on CIFAR-100 (preset ``authors-cifar100``). In their release both kinds of inputs can be the
same tensor as the records, and are never clamped to the range of inputs. Here they are copies and are clamped: pixels
at black and white, other numbers at the client's smallest and largest. Running statistics follow the pass on the
records alone. Both kinds of inputs have the usual loss, also under a term that replaces that of the records (FedLC).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.method import ONLY_NUMBERS, Takes, taken_by_all
from understudy.federation.registry import method
from understudy.learning.loop import Batch, Pull, Trained, total_loss
from understudy.learning.losses import per_record_loss
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.methods.shared.precompute import worth_keeping
from understudy.models.network import Network


class FedRegSettings(AveragingSettings):
    weights: Literal["size", "uniform"] = "uniform"
    gamma: float = Field(default=0.5, ge=0, le=1)  # γ: the gradient is taken at γw + (1−γ)w₀
    climbs: int = Field(default=10, ge=0)  # sign-gradient steps per generated input
    pseudo_step: float = Field(default=0.1, ge=0)  # size of these steps for pseudo inputs
    perturbed_step: float = Field(default=0.001, ge=0)  # size of these steps for perturbed inputs
    mask: bool = False  # remove the gradient's component along that of the pseudo inputs


@dataclass(frozen=True)
class Made:
    """Inputs made from some records, and w₀'s labels of the pseudo ones."""

    pseudo: Tensor
    soft: Tensor
    perturbed: Tensor


class Maker:
    """Makes inputs with the broadcast model: for all records at once if they are reused, or batch by batch."""

    def __init__(self, settings: FedRegSettings, client: Client, net: Network, w: Tensor):
        self._settings, examples = settings, client.examples
        self._low, self._high = input_range(net, examples)
        self._kept: Made | None = None
        if worth_keeping(settings.local, client, 2 * math.prod(net.problem.shape)):
            net.load(w)
            self._kept = self._in_batches(net, examples)
        else:
            self._global = net.twin(w, "fedreg.global")

    def of(self, batch: Batch) -> Made:
        if self._kept is None:
            return self._make(self._global, batch.x, batch.y)
        kept, rows = self._kept, batch.rows
        return Made(kept.pseudo[rows], kept.soft[rows], kept.perturbed[rows])

    def _in_batches(self, net: Network, examples: Examples) -> Made:
        pairs = zip(*(torch.split(part, self._settings.local.batch) for part in (examples.x, examples.y)), strict=True)
        some = [self._make(net, x.to(net.device), y.to(net.device)) for x, y in pairs]
        return Made(*(torch.cat(parts) for parts in zip(*((m.pseudo, m.soft, m.perturbed) for m in some), strict=True)))

    def _make(self, net: Network, x: Tensor, y: Tensor) -> Made:
        pseudo = self._climb(net, x, y, self._settings.pseudo_step)
        with net.scoring():
            logits = net(pseudo)[1]  # all outputs, including those that a term added to the head
        soft = logits.sigmoid() if net.problem.multilabel else logits.softmax(1)
        return Made(pseudo, soft, self._climb(net, x, y, self._settings.perturbed_step))

    def _climb(self, net: Network, x: Tensor, y: Tensor, step: float) -> Tensor:
        """Steps up the loss, each record by itself; the records are not changed."""
        here = net.problem.scale(x).clone()
        with net.frozen():
            for _ in range(self._settings.climbs):
                here.requires_grad_()
                (slope,) = torch.autograd.grad(per_record_loss(net.problem, net(here)[1], y).sum(), here)
                here = (here.detach() + step * slope.sign()).clamp(self._low, self._high)
        return here


def input_range(net: Network, examples: Examples) -> tuple[Tensor, Tensor]:
    """Black and white as the network sees them; for other numbers, the smallest and the largest."""
    x = examples.x
    if x.dtype == torch.uint8:
        ends = (torch.full((1, *net.problem.shape), end, dtype=torch.uint8, device=net.device) for end in (0, 255))
        low, high = (net.problem.scale(end) for end in ends)
        return low, high
    return (x.min().to(net.device), x.max().to(net.device)) if len(x) else (x.new_zeros(()), x.new_zeros(()))


class Reminding:
    """One client's steps: the slope of a batch, and after each step the correction towards what w₀ knew."""

    def __init__(self, settings: FedRegSettings, net: Network, w: Tensor, maker: Maker):
        self._settings, self._net, self._maker = settings, net, maker
        self._start = w[net.trainable].to(net.device)
        self._made: Made
        self._y: Tensor

    def slope(self, net: Network, forward: Callable[[], Batch], pulls: Sequence[Pull]) -> None:
        """Leaves g₁ in ``net.grad``."""
        here, now = net.vector[net.trainable], net.vector[net.trainable].clone()
        here.lerp_(self._start, 1 - self._settings.gamma)
        batch = forward()
        self._made, self._y = self._maker.of(batch), batch.y
        net.grad.zero_()
        total_loss(net, batch, pulls).backward()  # type: ignore[no-untyped-call]
        if self._settings.mask:
            g1 = net.grad.clone()
            uniform = torch.full_like(self._made.soft, 0.5 if net.problem.multilabel else 1 / self._made.soft.shape[1])
            away = self._gradient(self._made.pseudo, uniform)
            net.grad.copy_(g1 - along(g1, away) * away)
        here.copy_(now)

    def remind(self, here: Tensor) -> None:
        """After the step: w ← w − ω g₂ − ω₁ g₃."""
        now = here.clone()
        here.lerp_(self._start, 0.5)
        g2 = self._gradient(self._made.pseudo, self._made.soft)
        g3 = self._gradient(self._made.perturbed, self._y)
        moved = now - self._start
        omega = along(moved, g2).clamp(min=0)
        omega1 = along(moved - omega * g2, g3).clamp(min=0)
        here.copy_(now - omega * g2 - omega1 * g3)

    def _gradient(self, x: Tensor, y: Tensor) -> Tensor:
        net = self._net
        statistics = net.vector[net.buffers].clone()
        net.grad.zero_()
        per_record_loss(net.problem, net(x)[1], y).mean().backward()  # type: ignore[no-untyped-call]
        net.vector[net.buffers] = statistics
        return net.grad.clone()


def along(a: Tensor, b: Tensor) -> Tensor:
    """⟨a, b⟩ / ‖b‖², or 0 if b is 0."""
    return a.dot(b) / b.dot(b).clamp(min=1e-30)


class FedReg(Averaging):
    plain_steps: ClassVar[str] = "fedreg's corrections are derived for a step of plain SGD"
    settings: FedRegSettings

    @property
    def takes(self) -> Takes:
        return taken_by_all([ONLY_NUMBERS, super().takes])

    def effort(self, records: int, classes: int) -> int:
        passes = 4 if self.settings.mask else 3
        return passes * super().effort(records, classes) + 2 * self.settings.climbs * records

    def fit(self, client: Client, brief: Message, w: Tensor, pulls: Sequence[Pull]) -> Trained:
        steps = Reminding(self.settings, self.net, w, Maker(self.settings, client, self.net, w))
        descent = replace(self.descent(client, pulls, steps.slope), project=steps.remind)
        return self.walk(client, w, self.plan(client), descent)


@method("fedreg", settings=FedRegSettings, presets={"authors-cifar100": {"gamma": 0.25}})
def fedreg(settings: FedRegSettings) -> Averaging:
    local = settings.local
    given = {"momentum": local.momentum, "weight_decay": local.weight_decay, "clip": local.clip}
    for name, value in given.items():
        if value:
            raise UserError(
                f"fedreg: method.local.{name} cannot be used, because the corrections are derived for a step "
                f"of plain SGD; leave {name} out, or use fedavg."
            )
    return FedReg(settings)
