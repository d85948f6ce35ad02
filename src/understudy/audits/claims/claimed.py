"""What a config claims: its mechanisms as the ledger would count one round of them, and pairs that suit them."""

from dataclasses import dataclass, replace

from understudy.audits.claims.findings import ClaimedMechanism
from understudy.audits.claims.pairs import PairMaker
from understudy.audits.claims.preparing import DELTA, asked_by, claim_of
from understudy.audits.claims.rehearsal import AskedOnce
from understudy.audits.claims.variants import planned_records_of, with_plan
from understudy.config.schema import Config
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.privacy.accounting import Spending
from understudy.privacy.charges import Charge
from understudy.privacy.published import PublishedClaim

MOST_OF_A_CLASS = 2000  # records in a set of one class
SMALL_CLASS = 2
MASKS = "secure-aggregation"  # hides single replies in a sum, and is no part of any claim on a client's reply


@dataclass(frozen=True)
class ClaimedTask:
    asked: AskedOnce
    published: PublishedClaim | None  # where nothing is charged
    pairs: PairMaker
    delta: float

    @property
    def longest(self) -> Spending:
        """Of the mechanism with the most steps."""
        if self.published is not None:
            return self.published.spending
        return _spending(max(self.asked.charges, key=lambda charge: charge.steps))

    def mechanisms(self) -> list[ClaimedMechanism]:
        task, published = self.asked.task, self.published
        if published is not None:
            named = f"published: {published.source}"
            return [_mechanism(task, named, False, published.spending, published.clip, self.delta)]
        return [
            _mechanism(task, charge.mechanism, True, _spending(charge), charge.clip, charge.delta)
            for charge in self.asked.charges
        ]


@dataclass(frozen=True)
class ClaimedConfig:
    config: Config  # with a plan that does not depend on counts
    tasks: tuple[ClaimedTask, ...]

    @property
    def why_none(self) -> str:
        """One sentence, where nothing is claimed."""
        return "" if self.tasks else f"{self.config.plan.name} charges nothing, and no claim is published for it."

    @property
    def charges(self) -> dict[str, tuple[Charge, ...]]:
        return {task.asked.task: task.asked.charges for task in self.tasks if task.asked.charges}


def repeatable(config: Config) -> str:
    """One sentence, where noise repeats, so that there is nothing to audit."""
    privacy = config.top.privacy
    if privacy is None or not privacy.test_noise:
        return ""
    return "privacy.test_noise makes the noise repeatable, so no guarantee holds."


def besides_tasks(config: Config, data: Federation) -> tuple[str, ...]:
    """What is released before any task of the method, which no audit of tasks sees."""
    if data.scale is None or config.top.privacy is None:
        return ()
    return (
        "Not tested, the sums of columns in the opening (data.scale: federated): they are charged, but here records "
        "are scaled as if the sums had no noise.",
    )


def claimed_by(config: Config, data: Federation) -> ClaimedConfig:
    """Found by asking for every task once."""
    kept = tuple(one for one in config.add_ons if one.name != MASKS)
    planned = replace(with_plan(config, planned_records_of(config, data)), add_ons=kept)
    pairs, privacy = _pairs(planned, data), planned.top.privacy
    of_one = replace(pairs, held=_of_a_class(data), of_one=True)
    method, asked = asked_by(planned, data, (of_one if privacy is None else pairs).one_record())
    published = method.published_claim(of_one.one_record().without)
    if published is not None and published.spending.rate == 1:  # so does a smaller class, where one record shows more
        of_one = replace(of_one, held=SMALL_CLASS)
    delta = DELTA if privacy is None else privacy.delta
    tasks = [
        ClaimedTask(one, None, pairs, delta) if one.charges else ClaimedTask(one, published, of_one, delta)
        for one in asked
        if one.charges or (published is not None and published.task == one.task)
    ]
    refused = next((one.refusal for one in asked if one.refusal), "")
    if not tasks and refused and (privacy is not None or published is not None):  # else nothing could have been claimed
        raise UserError(refused)
    return ClaimedConfig(planned, tuple(tasks))


def _pairs(config: Config, data: Federation) -> PairMaker:
    pixels = not next(iter(data.sites.values())).own.x.is_floating_point()
    privacy = config.top.privacy
    return PairMaker(data.problem, pixels, 1 if privacy is not None and "labels" in privacy.public else 0)


def _of_a_class(data: Federation) -> int:
    """Records of a class at a client, on average over those that hold it."""
    classes = data.problem.classes
    held = [n for holding in data.sites.values() for n in holding.own.label_counts(classes).tolist() if n]
    return min(MOST_OF_A_CLASS, max(2, round(sum(held) / len(held)))) if held else 2


def _spending(charge: Charge) -> Spending:
    return Spending(charge.rate, charge.noise, charge.steps)


def _mechanism(task: str, name: str, charged: bool, spent: Spending, clip: float, delta: float) -> ClaimedMechanism:
    epsilon = claim_of((spent,), delta).epsilon
    return ClaimedMechanism(task, name, charged, spent.rate, spent.noise, spent.steps, clip, delta, epsilon)
