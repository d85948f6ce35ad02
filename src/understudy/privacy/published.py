"""What a paper claims for a task that charges nothing: the ledger reports none of it, and an audit can test it."""

from dataclasses import dataclass

from understudy.privacy.accounting import Spending


@dataclass(frozen=True)
class PublishedClaim:
    """One round of a task, as its paper counts it."""

    task: str  # by its name among `Method.jobs`
    spending: Spending  # rate, noise in units of the clip, steps
    clip: float
    source: str  # where it is claimed
