"""Rate, steps and noise of a client's DP-SGD, from planned and public numbers, never from a secret count."""

from dataclasses import dataclass
from functools import lru_cache

from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.privacy.accounting import Spending, epsilon, noise_for
from understudy.privacy.promise import Accountant, PrivacySettings

Spendings = tuple[Spending, ...]


@dataclass(frozen=True)
class NoisePlan:
    records: int  # n̄
    rate: float  # q
    steps: int  # per round
    noise: float  # σ


def planned(
    privacy: PrivacySettings, local: Local, noise: float | None, own: int, rounds: int, before: Spendings = ()
) -> NoisePlan:
    """For a client that holds ``own`` records, a number used only if it is public.

    What was spent ``before`` on the same records must fit into the same budget.
    """
    records = planned_records(privacy, own)
    rate = min(1.0, local.batch / records)
    steps = local.steps if local.epochs is None else local.epochs * max(1, records // local.batch)
    plan = NoisePlan(records, rate, steps or 0, noise or solved_noise(privacy, rate, (steps or 0) * rounds, before))
    _check_first_round(privacy, plan, before)
    return plan


def _check_first_round(privacy: PrivacySettings, plan: NoisePlan, before: Spendings) -> None:
    if privacy.epsilon is None:
        return
    cost = cost_of((*before, Spending(plan.rate, plan.noise, plan.steps)), privacy)
    if cost > privacy.epsilon:
        alone = "one round alone" if not before else "one round after what was spent before it"
        raise UserError(
            f"privacy.epsilon is {privacy.epsilon:g}, but {alone} would cost {cost:.3g}: write more noise, "
            "fewer or smaller batches, or `noise: null` to have it solved for all rounds."
        )


def cost_of(spent: Spendings, privacy: PrivacySettings) -> float:
    """ε of all of them together, by the config's accountant and δ."""
    return _cost(spent, privacy.delta, privacy.accountant)


@lru_cache(maxsize=64)
def _cost(spent: Spendings, delta: float, accountant: Accountant) -> float:
    return epsilon(spent, delta, accountant)


def check_promise(privacy: PrivacySettings, noise: float | None) -> None:
    """Checks, before anything runs, that there is a planned size and a budget to solve the noise from."""
    planned_records(privacy, 1)
    if noise is None and privacy.epsilon is None:
        raise UserError("method.noise is null, so it is solved from a budget: give privacy.epsilon.")


def planned_records(privacy: PrivacySettings, own: int) -> int:
    if privacy.records is not None:
        return privacy.records
    if "counts" not in privacy.public:
        raise UserError(
            "privacy.records: write how many records a client is planned to hold, or declare the real numbers "
            "public with privacy.public: [counts]."
        )
    return max(1, own)


def solved_noise(privacy: PrivacySettings, rate: float, steps: int, before: Spendings = ()) -> float:
    """The least σ with which this many steps of a run fit the config's budget, after what was spent ``before``."""
    if privacy.epsilon is None:
        raise UserError("method.noise is null, so it is solved from a budget: give privacy.epsilon.")
    return noise_within(privacy.epsilon, privacy, rate, steps, before)


def noise_within(budget: float, privacy: PrivacySettings, rate: float, steps: int, before: Spendings = ()) -> float:
    """The same for a budget that is only part of the config's."""
    return _noise_for(budget, privacy.delta, rate, steps, privacy.accountant, before)


@lru_cache(maxsize=64)
def _noise_for(
    budget: float, delta: float, rate: float, steps: int, accountant: Accountant, before: Spendings
) -> float:
    return noise_for(budget, delta, rate, steps, accountant, before)
