"""From a config and a pair of neighbours to an experiment: the task, what it claims there, and its statistics."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from understudy.audits.claims.claim import Claim
from understudy.audits.claims.experiment import Outcome, Trial, nudged
from understudy.audits.claims.pairs import Pair
from understudy.audits.claims.rehearsal import AskedOnce, rehearsed
from understudy.audits.claims.statistics import ReleaseKind, ReleaseScores, ReplyScores, slots_of
from understudy.config.build import build_method
from understudy.config.schema import Config
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.federation.method import Method
from understudy.privacy.accounting import Spending
from understudy.privacy.charges import Charge
from understudy.privacy.mechanism import NoisySum

DELTA = 1e-5  # at which a published claim is printed, where the config has none
COUPLED, MANY_COUPLED = 6, 24  # pairs of runs that share their noise: of slow tasks, and of quick ones
RARE = 8  # times as many where the record was never sampled
NAMES = 12  # clients among whom an attacker may choose: each has other public streams
QUICK = 0.05  # seconds: repetitions so short that a choice among clients is cheap
# Releases per round that are tested: as many as still claim at least so many misses at so many false alarms, or no
# experiment of a few hundred runs could contradict them.
STEPS = (24, 16, 12, 8, 6, 4, 3, 2, 1)
FALSE_ALARMS, MISSES = 0.05, 0.3


@dataclass(frozen=True)
class Scored:
    """One row in the making."""

    mechanism: int  # which charge of the task; −1: all of them
    what: str  # releases, or reply
    scores: ReleaseScores | ReplyScores
    claim: Claim


@dataclass(frozen=True)
class Prepared:
    trial: Trial
    pair: Pair
    scored: tuple[Scored, ...]
    seconds: float  # of one repetition

    def once(self, number: int) -> dict[str, float]:
        """Even numbers run on the set without the record, odd ones with it."""
        outcome = self.trial.run(self.pair.with_record if number % 2 else self.pair.without)
        return {
            f"{at}|{name}": value
            for at, one in enumerate(self.scored)
            for name, value in one.scores(outcome).items()
        }


@lru_cache(maxsize=256)
def claim_of(spendings: tuple[Spending, ...], delta: float) -> Claim:
    """Its curve takes a second to compute, and many rows share one."""
    return Claim(spendings, delta)


def steps_to_test(spent: Spending, rounds: int, delta: float) -> int:
    """Releases per round, at most as many as there are."""
    for steps in STEPS:
        claim = claim_of((replace(spent, steps=steps * rounds),), delta)
        if steps <= spent.steps and claim.least_misses(np.array([FALSE_ALARMS]))[0] >= MISSES:
            return steps
    return 1


def built(config: Config, data: Federation) -> Method:
    return build_method(config, data, "eager")


def asked_by(config: Config, data: Federation, pair: Pair) -> tuple[Method, list[AskedOnce]]:
    method = built(config, data)
    return method, rehearsed(method, pair.with_record, config.top.seed, config.top.privacy)


def prepare(config: Config, data: Federation, pair: Pair, task: str, most: int, seconds: float) -> Prepared:
    """``seconds``: how long a repetition may take, before its reply is given up."""
    method, asked = asked_by(config, data, pair)
    first = next((one for one in asked if one.task == task), None)
    if first is None:
        raise UserError(f"{task} was not asked for.")
    published = method.published_claim(pair.without) if not first.charges else None
    trial = _trial(config, method, first, published=published is not None)
    charged = sum(charge.steps for charge in first.charges) if published is None else published.spending.steps
    if charged > most + len(first.charges):  # no setting makes this task short
        trial = replace(trial, most=most)
    took, reference = _timed(trial, pair)
    if trial.most is None and took > seconds:
        trial = replace(trial, most=most)
        took, reference = _timed(trial, pair)
    if not any(reference.releases) and not any(reply is not None for reply in reference.replies):
        raise UserError(reference.refusal or f"{task} released nothing and sent nothing.")
    trial, coupled = _coupled(trial, pair, first.charges, took)
    spendings = [Spending(charge.rate, charge.noise, charge.steps) for charge in first.charges]
    delta = first.charges[0].delta if first.charges else config.top.privacy.delta if config.top.privacy else DELTA
    if published is not None:
        spendings = [published.spending]
    without = trial.run(pair.without)
    scored = [
        *_of_releases(without, coupled, first.charges, spendings, delta),
        *_of_reply(trial, method, without, coupled, first.charges, spendings, delta),
    ]
    return Prepared(trial, pair, tuple(scored), took)


def _trial(config: Config, method: Method, asked: AskedOnce, *, published: bool) -> Trial:
    """A published claim is one round's, and takes all sampling to be secret: there, public streams are fresh too."""
    briefs = [(asked.round, asked.brief)]
    if not published and asked.round and method.rounds > asked.round:
        briefs.append((asked.round + 1, nudged(asked.brief, config.top.seed)))
    seed = None if published else config.top.seed
    return Trial(method, config.top.privacy, seed, asked.task, tuple(briefs), asked.memory)


def _timed(trial: Trial, pair: Pair) -> tuple[float, Outcome]:
    trial.run(pair.with_record, "warming up")  # a network's first pass is slow
    begun = time.monotonic()
    outcome = trial.run(pair.with_record)
    return time.monotonic() - begun, outcome


def _coupled(
    trial: Trial, pair: Pair, charges: Sequence[Charge], took: float
) -> tuple[Trial, list[tuple[Outcome, Outcome]]]:
    """Runs that share their noise, for a client at whom the record shows most: its public streams are known."""
    names = [f"client-{n}" for n in range(NAMES if took < QUICK and any(c.rate < 1 for c in charges) else 1)]
    tried = {name: _pairs_of_runs(replace(trial, client=name), pair, range(3)) for name in names}
    best = max(names, key=lambda name: _shown(tried[name])) if len(names) > 1 else names[0]
    trial, found = replace(trial, client=best), tried[best]
    least = MANY_COUPLED if took < QUICK else COUPLED
    while len(found) < least or (len(found) < RARE * least and took < 10 * QUICK and not _shown(found)):
        found += _pairs_of_runs(trial, pair, range(len(found), len(found) + 1))
    return trial, found


def _pairs_of_runs(trial: Trial, pair: Pair, numbers: Sequence[int]) -> list[tuple[Outcome, Outcome]]:
    return [(trial.run(pair.without, f"pair {n}"), trial.run(pair.with_record, f"pair {n}")) for n in numbers]


def _shown(coupled: Sequence[tuple[Outcome, Outcome]]) -> float:
    """How far the record moves releases on average: Σ ‖mean difference‖²."""
    total = 0.0
    for round in range(len(coupled[0][0].releases)):
        for step in range(min(len(one.releases[round]) for pair in coupled for one in pair)):
            moves = [b.releases[round][step].noised - a.releases[round][step].noised for a, b in coupled]
            if len({tuple(move.shape) for move in moves}) == 1:
                total += float((sum(moves[1:], moves[0]) / len(moves)).double().square().sum().nan_to_num())
    return total


def _of_releases(
    reference: Outcome,
    coupled: Sequence[tuple[Outcome, Outcome]],
    charges: Sequence[Charge],
    spendings: Sequence[Spending],
    delta: float,
) -> list[Scored]:
    first: dict[ReleaseKind, NoisySum] = {}
    for releases in reference.releases:
        for release in releases:
            first.setdefault(ReleaseKind.of(release), release)
    found = []
    for kind, example in first.items():
        mine = _charge_of(example, list(first.values()), charges) if charges else 0
        if mine < 0:
            counted = tuple(replace(some, steps=some.steps * len(reference.releases)) for some in spendings)
        else:
            counted = (replace(spendings[mine], steps=len(slots_of(reference, kind))),)
        scores = ReleaseScores.fitted(kind, max(some.rate for some in counted), reference, coupled)
        found.append(Scored(mine, "releases", scores, claim_of(counted, delta)))
    return found


def _charge_of(example: NoisySum, kinds: Sequence[NoisySum], charges: Sequence[Charge]) -> int:
    """The charge for releases of this kind; −1: no telling, so all charges of the task cover them together."""
    if len(charges) == 1 and len(kinds) == 1:
        return 0
    alike = [at for at, charge in enumerate(charges) if (charge.clip, charge.noise) == (example.clip, example.noise)]
    rivals = [other for other in kinds if (other.clip, other.noise) == (example.clip, example.noise)]
    return alike[0] if len(alike) == 1 and len(rivals) == 1 else -1


def _of_reply(
    trial: Trial,
    method: Method,
    reference: Outcome,
    coupled: Sequence[tuple[Outcome, Outcome]],
    charges: Sequence[Charge],
    spendings: Sequence[Spending],
    delta: float,
) -> list[Scored]:
    replies = [reply for reply in reference.replies if reply is not None]
    if not replies:
        return []
    covered = [part for charge in charges for part in charge.covers] or list(method.jobs()[trial.task].kinds)
    known = trial.privacy is not None and "counts" in trial.privacy.public  # then single numbers may be counts
    parts = [part for part in dict.fromkeys(covered) if any(_tells(reply, part, known) for reply in replies)]
    if not parts:
        return []
    rounds = len(trial.briefs)
    claim = claim_of(tuple(replace(some, steps=some.steps * rounds) for some in spendings), delta)
    return [Scored(-1, "reply", ReplyScores.fitted(tuple(parts), reference, coupled), claim)]


def _tells(reply: object, part: str, counts_known: bool) -> bool:
    from understudy.federation.message import Message

    assert isinstance(reply, Message)
    return part in reply and not (counts_known and reply[part].numel() == 1)
