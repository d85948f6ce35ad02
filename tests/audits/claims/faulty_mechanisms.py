"""Faults of the kind people make, each planted in DP-FedAvg for as long as a `with` lasts."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import repeat
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from understudy.federation.client import Client
from understudy.learning.loop import Pull, Slope, Step
from understudy.methods import dp_fedavg
from understudy.methods.shared import planned_releases
from understudy.models.network import Network
from understudy.privacy import mechanism
from understudy.privacy.gradients import clipped_gradient_sum
from understudy.privacy.mechanism import NoisyMeans, clip_rows, gaussian, released
from understudy.privacy.planning import NoisePlan
from understudy.randomness import generator

Planted = Callable[[], AbstractContextManager[Any]]


class SameNoiseEachStep(NoisyMeans):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._noises: Iterator[Tensor] = repeat(next(self._noises))


def _charged_with(change: Callable[[Client, NoisePlan, dict[str, Any]], dict[str, Any]]) -> Any:
    """``PrivateAveraging._charged`` with other words for its `NoisyMeans`."""

    def charged(self: Any, client: Client, plan: NoisePlan) -> NoisyMeans:
        clip, expected = self.settings.clip, plan.rate * plan.records
        client.budget.charge(
            rate=plan.rate, noise=plan.noise, steps=plan.steps, clip=clip, covers=("weight", "change"), divisor=expected
        )
        words = {"clip": clip, "noise": plan.noise, "expected": expected, "releases": plan.steps}
        made = change(client, plan, {**words, "rng": client.secret_rng("noise")})
        return NoisyMeans(self.net.grad, **made)

    return patch.object(dp_fedavg.PrivateAveraging, "_charged", charged)


def noise_reused_over_steps() -> Any:
    return patch.object(planned_releases, "NoisyMeans", SameNoiseEachStep)


def noise_reused_over_rounds() -> Any:
    def change(client: Client, _: NoisePlan, words: dict[str, Any]) -> dict[str, Any]:
        if "noise" not in client.memory:
            client.memory["noise"] = torch.randint(2**31, (1,), generator=client.secret_rng("seed"))
        return {**words, "rng": generator("kept", int(client.memory["noise"]))}

    return _charged_with(change)


def noise_without_c() -> Any:
    def drawn(shape: Sequence[int], **named: Any) -> Tensor:
        return gaussian(shape, **{**named, "clip": 1.0})

    return patch.object(mechanism, "gaussian", drawn)


def clip_after_the_mean() -> Any:
    def late(net: Network, x: Tensor, y: Tensor, clip: float) -> Tensor:
        total = clipped_gradient_sum(net, x, y, 1e9)
        records = max(1, len(x))
        return clip_rows((total / records)[None], clip)[0] * records

    return patch.object(dp_fedavg, "clipped_gradient_sum", late)


def a_record_unclipped() -> Any:
    def lax(net: Network, x: Tensor, y: Tensor, clip: float) -> Tensor:
        return clipped_gradient_sum(net, x[:-1], y[:-1], clip) + clipped_gradient_sum(net, x[-1:], y[-1:], 1e9)

    return patch.object(dp_fedavg, "clipped_gradient_sum", lax)


def divisor_by_the_true_count() -> Any:
    def change(client: Client, plan: NoisePlan, words: dict[str, Any]) -> dict[str, Any]:
        return {**words, "expected": plan.rate * max(1, len(client.own))}

    return _charged_with(change)


class DividedByWhatCame(NoisyMeans):
    came = 1

    def __call__(self, total: Tensor) -> Tensor:
        noise = next(self._noises)
        return released(total + noise, divisor=max(1, self.came), clip=self.clip, noise=self.noise)


@contextmanager
def divisor_by_the_batch_that_came() -> Iterator[None]:
    def private(means: Any, **_: bool) -> Slope:
        def slope(net: Network, forward: Step, _: Sequence[Pull]) -> None:
            means.came = len(forward.x)
            net.grad.copy_(means(clipped_gradient_sum(net, forward.x, forward.y, means.clip)))

        return slope

    with patch.object(planned_releases, "NoisyMeans", DividedByWhatCame), patch.object(dp_fedavg, "private", private):
        yield


def sampling_from_the_public_seed() -> Any:
    secret = Client.secret_rng

    def half_secret(self: Client, purpose: str) -> torch.Generator:
        return self.rng(purpose) if purpose == "sampling" else secret(self, purpose)

    return patch.object(Client, "secret_rng", half_secret)


def noise_from_the_runs_seed() -> Any:
    def change(client: Client, _: NoisePlan, words: dict[str, Any]) -> dict[str, Any]:
        return {**words, "rng": client.rng("noise")}

    return _charged_with(change)


FAULTS: dict[str, Planted] = {
    "noise reused over steps": noise_reused_over_steps,
    "noise reused over rounds": noise_reused_over_rounds,
    "noise without C": noise_without_c,
    "clip after the mean": clip_after_the_mean,
    "a record unclipped": a_record_unclipped,
    "divisor by the true count": divisor_by_the_true_count,
    "divisor by the batch that came": divisor_by_the_batch_that_came,
    "sampling from the public seed": sampling_from_the_public_seed,
    "noise from the run's seed": noise_from_the_runs_seed,
}
