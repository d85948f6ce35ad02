"""ε for a person with several records: group privacy, from what was promised to one record.

If every record is in every release, k records together move a sum by at most k clips: that is the Gaussian mechanism at
σ/k, exactly. If records are sampled, each of the k has its own draw, and σ/k at the same rate would be wrong; then only
the general rule is used. A chain of k neighbours leads from the records without the person to those with, so that what
is (ε, δ) for one record is

    (k ε,  δ (1 + e^ε + … + e^((k−1)ε)))

for k of them (Dwork and Roth, The Algorithmic Foundations of Differential Privacy, theorem 2.2, with its δ). An
accountant gives an ε for every δ, so ε is taken at the largest δ' for which the sum on the right is the δ promised.
"""

import math
from collections.abc import Sequence

from understudy.errors import UserError
from understudy.privacy.accounting import LEAST_DELTA, Spending, epsilon
from understudy.privacy.promise import Accountant

HALVINGS = 30  # of the range of exponents in which δ' is searched


def group_epsilon(spent: Sequence[Spending], records: int, delta: float, accountant: Accountant = "rdp") -> float:
    """ε at ``delta`` for a person with up to this many ``records``; infinite where no bound is known."""
    if records < 1:
        raise UserError(f"A person has at least one record, not {records}.")
    if records == 1:
        return epsilon(spent, delta, accountant)
    if all(some.rate == 1 for some in spent):
        return epsilon([Spending(1.0, some.noise / records, some.steps) for some in spent], delta, accountant)
    return _by_chain(spent, records, delta)


def _by_chain(spent: Sequence[Spending], records: int, delta: float) -> float:
    """By the Rényi accountant, which is quick; it bounds the same ε."""

    def fits(exponent: float) -> bool:
        each = epsilon(spent, 10**exponent)
        return exponent * math.log(10) + _log_sum(each, records) <= math.log(delta)

    least, most = math.log10(LEAST_DELTA) + 1e-9, math.log10(delta)
    if not fits(least):
        return math.inf
    for _ in range(HALVINGS):
        middle = (least + most) / 2
        least, most = (middle, most) if fits(middle) else (least, middle)
    return records * epsilon(spent, 10**least)


def _log_sum(each: float, records: int) -> float:
    """ln(1 + e^ε + … + e^((k−1)ε)), without overflow."""
    last = (records - 1) * each
    return last + math.log(sum(math.exp(at * each - last) for at in range(records)))
