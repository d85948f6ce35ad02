"""Pairs of runs that share their noise: their difference is what one record does.

An attacker knows both sets, the task and the public seed, so the direction in which the record moves a release is no
secret. Public streams differ from client to client, so the attacker also looks for a client at whom the record shows.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from understudy.audits.claims.experiment import Repetition, Trial
from understudy.audits.claims.pairs import Neighbours

FEW, MANY = 6, 24  # pairs of runs: of slow tasks, and of quick ones
RARE = 8  # times as many where the record was never sampled
LOOKS = 2  # pairs of runs per client, for the choice among them
NAMES = 24  # clients to choose among
QUICK = 0.05  # seconds of processor: repetitions so short that all of this is cheap


@dataclass(frozen=True)
class Coupled:
    trial: Trial  # with the client that was chosen
    reference: Repetition  # on the set without the record
    runs: tuple[tuple[Repetition, Repetition], ...]  # without and with the record


@dataclass(frozen=True)
class Timed:
    """One repetition. How much is looked at goes by the processor's seconds, so that a busy machine, on which
    everything takes longer, does not make an audit look less closely."""

    seconds: float  # by the clock
    of_processor: float
    outcome: Repetition


def timed(trial: Trial, pair: Neighbours) -> Timed:
    trial.run(pair.with_record, "warming up")  # a network's first pass is slow
    begun, used = time.monotonic(), time.process_time()
    outcome = trial.run(pair.with_record, "timed")
    return Timed(time.monotonic() - begun, time.process_time() - used, outcome)


def coupled(trial: Trial, pair: Neighbours, seconds: float, *, sampled: bool) -> Coupled:
    """``seconds``: of processor, of one repetition. ``sampled``: the record is not in every release."""
    quick = seconds < QUICK
    names = [f"client-{n}" for n in range(NAMES if sampled and quick else 1)]
    tried = {name: _runs(replace(trial, client=name), pair, range(LOOKS)) for name in names}
    best = max(names, key=lambda name: _shown(tried[name])) if len(names) > 1 else names[0]
    trial, found = replace(trial, client=best), tried[best]
    least = MANY if quick else FEW
    while len(found) < least or (len(found) < RARE * least and seconds < 10 * QUICK and not _shown(found)):
        found += _runs(trial, pair, range(len(found), len(found) + 1))
    return Coupled(trial, trial.run(pair.without, "reference"), tuple(found))


def _runs(trial: Trial, pair: Neighbours, numbers: Sequence[int]) -> list[tuple[Repetition, Repetition]]:
    return [(trial.run(pair.without, f"pair {n}"), trial.run(pair.with_record, f"pair {n}")) for n in numbers]


def _shown(runs: Sequence[tuple[Repetition, Repetition]]) -> float:
    """How far the record moves releases on average: Σ ‖mean difference‖². 0: it was in none of them."""
    total = 0.0
    for round in range(len(runs[0][0].releases)):
        for step in range(min(len(one.releases[round]) for pair in runs for one in pair)):
            moves = [b.releases[round][step].noised - a.releases[round][step].noised for a, b in runs]
            if len({tuple(move.shape) for move in moves}) == 1:
                total += float((sum(moves[1:], moves[0]) / len(moves)).double().square().sum().nan_to_num())
    return total
