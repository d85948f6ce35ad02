"""What an attacker computes from one repetition: one number each, larger or smaller with the record in.

Everything that a statistic knows beforehand (the direction in which the record moves a release, a run to compare with)
is fixed before any repetition that is counted. Directions come from pairs of runs that share their noise, so that the
difference is what the record does; an attacker who knows both sets can compute them.

Releases are brought to units of their noise: a statistic sees the noised sum over the divisor of the repetition, times
the divisor of the reference run. So a divisor that follows the records shows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from understudy.audits.claims.experiment import Repetition
from understudy.privacy.mechanism import NoisySum

LEAST = 1e-30  # log sizes of nothing at all
HIT = 1e-9  # of the largest difference: below it the record was not in the release

Slot = tuple[int, int]  # round, and the release's number in it


@dataclass(frozen=True)
class ReleaseKind:
    """What releases of one mechanism share; the clip may differ from round to round."""

    shape: tuple[int, ...]
    noise: float

    @classmethod
    def of(cls, release: NoisySum) -> "ReleaseKind":
        return cls(tuple(release.noised.shape), release.noise)


def slots_of(outcome: Repetition, kind: ReleaseKind) -> dict[Slot, NoisySum]:
    found: dict[Slot, NoisySum] = {}
    for round, releases in enumerate(outcome.releases):
        mine = [release for release in releases if ReleaseKind.of(release) == kind]
        found |= {(round, step): release for step, release in enumerate(mine)}
    return found


@dataclass(frozen=True)
class ReleaseScores:
    """Statistics of the releases of one mechanism."""

    kind: ReleaseKind
    rate: float
    scales: Mapping[Slot, Tensor]  # from what was released to units of noise
    moves: Mapping[Slot, Tensor]  # what the record does on average, in those units
    record: Mapping[Slot, Tensor]  # what it does in a release that it is in
    another: Mapping[Slot, Tensor]  # a run on the set without the record

    @classmethod
    def fitted(
        cls, kind: ReleaseKind, rate: float, reference: Repetition, coupled: Sequence[tuple[Repetition, Repetition]]
    ) -> "ReleaseScores":
        blank = cls.blank(kind, rate, reference)
        scales = blank.scales
        differences = [_difference(blank.units(pair[0]), blank.units(pair[1])) for pair in coupled]
        moves = {slot: torch.stack([some[slot] for some in differences]).mean(0) for slot in scales}
        return cls(kind, rate, scales, moves, _record(differences), blank.units(reference))

    @classmethod
    def blank(cls, kind: ReleaseKind, rate: float, reference: Repetition) -> "ReleaseScores":
        """Only the units of the reference."""
        return cls(
            kind, rate, {slot: _scale(release) for slot, release in slots_of(reference, kind).items()}, {}, {}, {}
        )

    @property
    def first(self) -> "ReleaseScores":
        """The same of the first release alone."""
        slot = min(self.scales)
        return replace(self, scales={slot: self.scales[slot]})

    def units(self, outcome: Repetition) -> dict[Slot, Tensor]:
        found = slots_of(outcome, self.kind)
        return {
            slot: ((found[slot].noised / found[slot].divisor).double() * scale).flatten()
            if slot in found
            else torch.zeros(scale.numel(), dtype=torch.float64)
            for slot, scale in self.scales.items()
        }

    def __call__(self, outcome: Repetition) -> dict[str, float]:
        seen = self.units(outcome)
        all_seen = torch.stack(list(seen.values()))
        away = all_seen - torch.stack([self.another[slot] for slot in seen])
        found = {
            "likelihood ratio": sum(self._likelihood_ratio(u, self.record[slot]) for slot, u in seen.items()),
            "matched filter": sum(float(u @ self.moves[slot]) for slot, u in seen.items()),
            "largest entry": float(all_seen.abs().max()),
            "log size": _log_size(all_seen),
            "distance from another run": _log_size(away),
        }
        return found | _consecutive(seen)

    def _likelihood_ratio(self, seen: Tensor, record: Tensor) -> float:
        """log(1 − q + q·exp(μp − μ²/2)), p along the direction of the record, μ how far it moves the release."""
        mu = float(record.norm())
        if not mu:
            return 0.0
        exponent = float(seen @ record) - mu * mu / 2
        if self.rate == 1:
            return exponent
        return float(np.logaddexp(math.log1p(-self.rate), exponent + math.log(self.rate)))


@dataclass(frozen=True)
class ReplyScores:
    """Statistics of what leaves the client."""

    parts: tuple[str, ...]
    middle: Tensor  # of replies without the record
    direction: Tensor
    another: Tensor

    @classmethod
    def fitted(
        cls, parts: tuple[str, ...], reference: Repetition, coupled: Sequence[tuple[Repetition, Repetition]]
    ) -> "ReplyScores":
        """Along what the record does, divided by how much each number varies anyway."""
        size = max(_reply(one, parts).numel() for pair in coupled for one in pair)
        without, with_record = (
            torch.stack([_fitted_to(_reply(pair[arm], parts), size) for pair in coupled]) for arm in (0, 1)
        )
        spread = without.var(0, unbiased=True)
        floor = spread.mean().clamp(min=LEAST)
        direction = (with_record - without).mean(0) / (0.5 * spread + 0.5 * floor)
        return cls(parts, without.mean(0), direction, _fitted_to(_reply(reference, parts), size))

    def __call__(self, outcome: Repetition) -> dict[str, float]:
        whole = _reply(outcome, self.parts)
        reply = _fitted_to(whole, self.direction.numel())
        return {
            "along a learnt direction": float((reply - self.middle) @ self.direction),
            "log size": _log_size(reply - self.middle),
            "distance from another run": _log_size(reply - self.another),
            "numbers sent": float(whole.numel()),
        }


def _scale(release: NoisySum) -> Tensor:
    divisor = torch.as_tensor(release.divisor, dtype=torch.float64)
    return (divisor / max(release.clip * release.noise, LEAST)).expand(release.noised.shape).clone()


def _difference(without: Mapping[Slot, Tensor], with_record: Mapping[Slot, Tensor]) -> dict[Slot, Tensor]:
    return {slot: with_record[slot] - u for slot, u in without.items()}


def _record(differences: Sequence[Mapping[Slot, Tensor]]) -> dict[Slot, Tensor]:
    """The mean over the releases that the record was in; where it was in none of a slot's, over those of all slots."""
    every = torch.stack([d for some in differences for d in some.values()]).nan_to_num()
    least = HIT * every.norm(dim=1).max()
    overall = _mean_hit(every, least, torch.zeros_like(every[0]))
    return {
        slot: _mean_hit(torch.stack([some[slot] for some in differences]).nan_to_num(), least, overall)
        for slot in differences[0]
    }


def _mean_hit(differences: Tensor, least: Tensor, otherwise: Tensor) -> Tensor:
    hits = differences[differences.norm(dim=1) > least]
    return hits.mean(0) if len(hits) else otherwise


def _consecutive(seen: Mapping[Slot, Tensor]) -> dict[str, float]:
    """Noise that is used again vanishes from differences: of a release from the one before it, and from the same one
    of the round before."""
    found: dict[str, float] = {}
    for name, back in (("difference of consecutive releases", (0, 1)), ("difference from the round before", (1, 0))):
        before = [(u, seen.get((slot[0] - back[0], slot[1] - back[1]))) for slot, u in seen.items()]
        sizes = [_log_size(u - other) for u, other in before if other is not None]
        if sizes:
            found |= {name: max(sizes), f"smallest {name}": min(sizes)}
    return found


def _log_size(x: Tensor) -> float:
    return math.log(max(float(x.norm()), LEAST))


def _reply(outcome: Repetition, parts: Sequence[str]) -> Tensor:
    found = [
        reply[part].flatten().double()
        for reply in outcome.replies
        if reply is not None
        for part in parts
        if part in reply
    ]
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.float64)


def _fitted_to(x: Tensor, size: int) -> Tensor:
    return x[:size] if len(x) >= size else torch.cat([x, torch.zeros(size - len(x), dtype=x.dtype)])
