"""From a config and a pair of neighbours to an experiment: the task, what it claims there, and its statistics."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from understudy.audits.claims.claim import Claim
from understudy.audits.claims.coupling import Coupled, coupled, timed
from understudy.audits.claims.experiment import Repetition, Trial, nudged
from understudy.audits.claims.pairs import Neighbours
from understudy.audits.claims.rehearsal import AskedOnce, rehearsed
from understudy.audits.claims.statistics import ReleaseKind, ReleaseScores, ReplyScores, slots_of
from understudy.config.build import build_method
from understudy.config.schema import Config
from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.federation.message import Message
from understudy.federation.method import Method
from understudy.privacy.accounting import Spending
from understudy.privacy.charges import Charge
from understudy.privacy.mechanism import NoisySum

KEPT_NUMBERS = 1_000_000  # of a round's releases
DELTA = 1e-5  # at which a published claim is printed, where the config has none

# Releases per round that are tested: as many as still claim at least so many misses at so many false alarms, or no
# experiment of a few hundred runs could contradict them.
STEPS = (24, 16, 12, 8, 6, 4, 3, 2)
FALSE_ALARMS, MISSES = 0.05, 0.3


@dataclass(frozen=True)
class Scored:
    """One row in the making."""

    mechanism: int  # which charge of the task; −1: all of them together
    what: str  # releases, first release, or reply
    scores: ReleaseScores | ReplyScores
    claim: Claim


@dataclass(frozen=True)
class Prepared:
    trial: Trial
    pair: Neighbours
    scored: tuple[Scored, ...]
    fitted_on: int  # pairs of runs

    def once(self, number: int) -> dict[str, float]:
        """Even numbers run on the set without the record, odd ones with it."""
        outcome = self.trial.run(self.pair.with_record if number % 2 else self.pair.without)
        return {
            f"{at}|{name}": value for at, one in enumerate(self.scored) for name, value in one.scores(outcome).items()
        }


@dataclass(frozen=True)
class RoundClaim:
    """What one round of a task claims: charge by charge, or as published."""

    charges: tuple[Charge, ...]
    spendings: tuple[Spending, ...]
    delta: float


@lru_cache(maxsize=256)
def claim_of(spendings: tuple[Spending, ...], delta: float) -> Claim:
    """Its curve takes a while to compute, and many rows share one."""
    return Claim(spendings, delta)


def steps_to_test(spent: Spending, rounds: int, delta: float) -> int:
    """Releases per round, at most as many as there are; two at least, since noise used again shows between them."""
    for steps in (steps for steps in STEPS if steps <= spent.steps):
        claim = claim_of((replace(spent, steps=steps * rounds),), delta)
        if claim.least_misses(np.array([FALSE_ALARMS]))[0] >= MISSES:
            return steps
    return min(2, max(1, spent.steps))


def asked_by(config: Config, data: Federation, pair: Neighbours) -> tuple[Method, list[AskedOnce]]:
    method = build_method(config, data, "eager")
    return method, rehearsed(method, pair.with_record, config.top.seed, config.top.privacy)


def prepare(config: Config, data: Federation, pair: Neighbours, task: str, most: int, seconds: float) -> Prepared:
    """``most``: releases per round. ``seconds``: how long a repetition may take; what takes longer gives up its reply,
    then some of its releases."""
    method, asked = asked_by(config, data, pair)
    first = next((one for one in asked if one.task == task), None)
    if first is None or (first.refusal and not first.charges):
        raise UserError(first.refusal if first is not None else f"{task} was not asked for.")
    spent = spent_by(config, method, first, pair.without)
    trial = _trial(config, method, first)
    if sum(some.steps for some in spent.spendings) > most + len(spent.spendings):  # no setting makes this task short
        trial = replace(trial, most=most)
    took = timed(trial, pair)
    if trial.most is None and took.seconds > seconds:
        trial = replace(trial, most=most)
        took = timed(trial, pair)
    if took.seconds > seconds and most > 2:
        trial = replace(trial, most=max(2, int(most * seconds / took.seconds)))
        took = timed(trial, pair)
    outcome = took.outcome
    trial = replace(trial, kept=_affordable(outcome))
    if not any(outcome.releases) and not any(reply is not None for reply in outcome.replies):
        raise UserError(outcome.refusal or f"{task} released nothing and sent nothing.")
    seen = coupled(trial, pair, took.of_processor, sampled=any(some.rate < 1 for some in spent.spendings))
    return Prepared(seen.trial, pair, (*_of_releases(seen, spent), *_of_reply(seen, spent)), len(seen.runs))


def _affordable(outcome: Repetition) -> int:
    """Releases per round that fit into memory, dozens of times over; two at least."""
    size = max((release.noised.numel() for some in outcome.releases for release in some), default=1)
    return max(2, KEPT_NUMBERS // size)


def spent_by(config: Config, method: Method, asked: AskedOnce, own: Examples) -> RoundClaim:
    """``own``: the records, which a published claim may depend on."""
    if asked.charges:
        counted = tuple(Spending(charge.rate, charge.noise, charge.steps) for charge in asked.charges)
        return RoundClaim(asked.charges, counted, asked.charges[0].delta)
    published = method.published_claim(own)
    if published is None:
        raise UserError(f"{asked.task} claims nothing for these records.")
    return RoundClaim((), (published.spending,), DELTA if config.top.privacy is None else config.top.privacy.delta)


def _trial(config: Config, method: Method, asked: AskedOnce) -> Trial:
    """Two rounds where there are several; a published claim is one round's."""
    briefs = [(asked.round, asked.brief)]
    if asked.charges and asked.round and method.rounds > asked.round:
        briefs.append((asked.round + 1, nudged(asked.brief, config.top.seed)))
    return Trial(method, config.top.privacy, config.top.seed, asked.task, tuple(briefs), asked.memory)


def _of_releases(seen: Coupled, spent: RoundClaim) -> list[Scored]:
    first: dict[ReleaseKind, NoisySum] = {}
    for releases in seen.reference.releases:
        for release in releases:
            first.setdefault(ReleaseKind.of(release), release)
    found = []
    for kind, example in first.items():
        mine = charge_of(example, list(first.values()), spent.charges) if spent.charges else 0
        if mine < 0:
            counted = _over_rounds(seen, spent)
        else:
            counted = (replace(spent.spendings[mine], steps=len(slots_of(seen.reference, kind))),)
        scores = ReleaseScores.fitted(kind, max(some.rate for some in counted), seen.reference, seen.runs)
        found.append(Scored(mine, "releases", scores, claim_of(counted, spent.delta)))
        if mine >= 0 and len(scores.scales) > 1:  # it claims more than all of them do together
            once = (replace(spent.spendings[mine], steps=1),)
            found.append(Scored(mine, "first release", scores.first, claim_of(once, spent.delta)))
    return found


def charge_of(example: NoisySum, kinds: Sequence[NoisySum], charges: Sequence[Charge]) -> int:
    """The charge for releases of this kind; −1: no telling, so all charges of the task cover them together."""
    if len(charges) == 1 and len(kinds) == 1:
        return 0
    alike = [at for at, charge in enumerate(charges) if (charge.clip, charge.noise) == (example.clip, example.noise)]
    rivals = [other for other in kinds if (other.clip, other.noise) == (example.clip, example.noise)]
    return alike[0] if len(alike) == 1 and len(rivals) == 1 else -1


def _of_reply(seen: Coupled, spent: RoundClaim) -> list[Scored]:
    replies, trial = [reply for reply in seen.reference.replies if reply is not None], seen.trial
    covered = [part for charge in spent.charges for part in charge.covers] or list(
        trial.method.jobs()[trial.task].kinds
    )
    counts_known = trial.privacy is not None and "counts" in trial.privacy.public
    parts = [part for part in dict.fromkeys(covered) if any(_tells(reply, part, counts_known) for reply in replies)]
    if not parts:
        return []
    scores = ReplyScores.fitted(tuple(parts), seen.reference, seen.runs)
    return [Scored(-1, "reply", scores, claim_of(_over_rounds(seen, spent), spent.delta))]


def _over_rounds(seen: Coupled, spent: RoundClaim) -> tuple[Spending, ...]:
    return tuple(replace(some, steps=some.steps * len(seen.trial.briefs)) for some in spent.spendings)


def _tells(reply: Message, part: str, counts_known: bool) -> bool:
    """Where counts are public, a single number may be one."""
    return part in reply and not (counts_known and reply[part].numel() == 1)
