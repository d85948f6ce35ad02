"""How the U-Net is trained: to find the noise in a noisy image.

    ‖ε − ε_w(√ᾱ_t x₀ + √(1−ᾱ_t) ε, t, label)‖² averaged over pixels, t uniform over the T time steps

(or the same with the velocity in place of ε) by AdamW, with a running average of the weights. The average starts at the
random initial weights, so its decay rises with the number s of updates, min(ema, (1+s)/(10+s)); otherwise it would
still be mostly the start after a thousand updates.

A private run takes Poisson samples of records. Each record's loss is averaged over several (t, ε) before its gradient
is clipped, which costs no privacy (Differentially Private Diffusion Models), and the decay is at most 0.999.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from understudy.errors import UserError
from understudy.learning.ahead import ahead
from understudy.learning.plan import shuffled_batches
from understudy.learning.warping import drawn_warps, warped_by
from understudy.privacy.sgd import PrivateGradients, PrivateSteps, fill_gradients
from understudy.randomness import private_global_stream
from understudy.synthesis.diffusion.network import Frame, predict
from understudy.synthesis.diffusion.schedule import T, add_noise, remaining, wanted
from understudy.synthesis.diffusion.settings import DiffusionSettings

PRIVATE_EMA = 0.999
LOOK_EVERY = 100  # steps: what is not finite stays so, and checking makes a device wait
PASS_AT_ONCE = 512  # records that go through the network together; a larger batch is passed in parts
MAP_AT_ONCE = 1_500_000  # numbers in one full-size map of a private pass: limits its memory

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class FramedRecords:
    """What the network learns from."""

    x: Tensor  # in their frame; pixels between −1 and 1
    y: Tensor
    frame: Frame

    def changed(self, rows: Tensor, mirrored: Tensor, warps: Tensor) -> Tensor:
        """Some of them, mirrored and warped as drawn; with nothing drawn, as they are."""
        if not len(mirrored) and not warps.shape[1]:
            return self.x[rows]
        images = self.frame.take_off(self.x[rows])
        if len(mirrored):
            images = torch.where(mirrored, images.flip(3), images)
        return self.frame.put_on(warped_by(images, warps) if warps.shape[1] else images)


def ema_decay(updates: int, height: float) -> float:
    return min(height, (1 + updates) / (10 + updates))


class Average:
    """A running average of the weights."""

    def __init__(self, weights: Sequence[Tensor], height: float):
        self.weights = [w.detach().clone() for w in weights]
        self._height, self._updates = height, 0

    def update(self, now: Sequence[Tensor]) -> None:
        self._updates += 1
        torch._foreach_lerp_(self.weights, list(now), 1 - ema_decay(self._updates, self._height))


def train(
    net: nn.Module,
    records: FramedRecords,
    settings: DiffusionSettings,
    rng: torch.Generator,
    private: PrivateSteps | None = None,
) -> Iterator[tuple[int, Weights]]:
    """The weights after each epoch of ``settings.stages``."""
    named = dict(net.named_parameters())
    live = [p.detach() for p in named.values()]  # share memory with the parameters
    adam = torch.optim.AdamW(named.values(), lr=settings.lr, weight_decay=settings.decay, fused=True)
    if private is None:
        steps, height = settings.steps(len(records.y)), settings.ema
        gradients = _plain_gradients(net, records, settings, rng, steps)
    else:
        steps, height = private.steps, min(settings.ema, PRIVATE_EMA)
        gradients = _private_gradients(net, records, settings, private)
    average = Average(live, height)
    done = 0
    for epoch in settings.stages:
        for _ in range(epoch * steps // settings.epochs - done):
            next(gradients)
            adam.step()
            average.update(live)
            done += 1
        kept = [w.to("cpu", copy=True) for w in (average.weights if settings.weights == "ema" else live)]
        if not all(bool(torch.isfinite(w).all()) for w in kept):
            raise _diverged(settings)
        yield epoch, dict(zip(named, kept, strict=True))


def _plain_gradients(
    net: nn.Module, records: FramedRecords, settings: DiffusionSettings, rng: torch.Generator, steps: int
) -> Iterator[None]:
    """One batch after another, each record once per epoch; the gradients are left in the network."""
    y, device = records.y, records.x.device
    kept = remaining().to(device)
    stream = int(torch.randint(2**62, (1,), generator=rng))
    batches = shuffled_batches(len(y), settings.batch, steps, rng)
    draws = (_drawn(rows, (len(rows),), records.frame, settings, rng) for rows in batches)
    for step, (_, (rows, heads, warps, t, noise)) in enumerate(ahead(draws, lambda drawn: drawn, device)):
        images = records.changed(rows, heads, warps)
        noisy, goal = add_noise(images, noise, kept[t]), wanted(settings.predicts, images, noise, kept[t])
        # Dropout can only draw from the global stream; here it gets its own, the same wherever training pauses.
        net.zero_grad()
        with private_global_stream(stream, step) if settings.dropout else nullcontext():
            for some in zip(*(torch.split(whole, PASS_AT_ONCE) for whole in (noisy, t, y[rows], goal)), strict=True):
                loss = _loss(net, *some)
                (loss * (len(some[0]) / len(rows))).backward()  # type: ignore[no-untyped-call]
        if step % LOOK_EVERY == 0 and not bool(torch.isfinite(loss)):
            raise _diverged(settings)
        yield


def _private_gradients(
    net: nn.Module, records: FramedRecords, settings: DiffusionSettings, private: PrivateSteps
) -> Iterator[None]:
    x, y, frame = records.x, records.y, records.frame
    kept, draws, coins = remaining().to(x.device), settings.draws_per_record, private.coins
    at_once = max(1, MAP_AT_ONCE // (draws * settings.width * x.shape[2] * x.shape[3]))

    def record(call: Callable[..., Tensor], noisy: Tensor, t: Tensor, label: Tensor, goal: Tensor) -> Tensor:
        return functional.mse_loss(predict(call, noisy, t, label.expand(draws)), goal)

    gradient = PrivateGradients(net, private)
    batches = (private.rows(len(x)) for _ in range(private.steps))
    drawn = (_drawn(rows, (len(rows), draws), frame, settings, coins) for rows in batches)
    for _, (rows, heads, warps, t, noise) in ahead(drawn, lambda each: each, x.device):
        images = records.changed(rows, heads, warps)[:, None]
        noisy, goal = add_noise(images, noise, kept[t]), wanted(settings.predicts, images, noise, kept[t])
        fill_gradients(net, gradient(record, noisy, t, y[rows], goal, at_once=at_once))
        yield


def _loss(net: nn.Module, noisy: Tensor, t: Tensor, labels: Tensor, goal: Tensor) -> Tensor:
    return functional.mse_loss(predict(net, noisy, t, labels), goal)


def _drawn(
    rows: Tensor, each: tuple[int, ...], frame: Frame, settings: DiffusionSettings, rng: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """What a step draws for its ``rows``: which to mirror, their warps, and ``each`` time steps with noise."""
    heads = torch.rand(len(rows) if settings.flip else 0, 1, 1, 1, generator=rng) < 0.5
    warps = drawn_warps(len(rows) if settings.warp else 0, settings.warp, rng)
    times = torch.randint(T, each, generator=rng)
    return rows, heads, warps, times, torch.randn(*each, *frame.shape, generator=rng)


def _diverged(settings: DiffusionSettings) -> UserError:
    return UserError(f"The diffusion generator diverged with lr {settings.lr}; lower the generator's lr.")
