"""What a private run promises to a person with several records, where it is known whose they are (data.person)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.errors import UserError
from understudy.privacy.ledger import Ledger
from understudy.runs.holdings import read_holdings


@dataclass(frozen=True)
class PersonEpsilon:
    epsilon: float | None  # the largest over clients; None: no guarantee
    records: int  # that a person has at most, at one client
    by_client: Mapping[str, float | None]

    def as_dict(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "most_records": self.records, "epsilon_by_client": dict(self.by_client)}


def person_epsilon(folder: Path, ledger: Mapping[str, Any]) -> PersonEpsilon | None:
    """None: it is not known whose records they are, or nothing was promised."""
    held, spent = read_holdings(folder), Ledger.from_json(ledger)
    if held is None or not held.most_of_one or not any(spent.charges.values()):
        return None
    found = {name: spent.epsilon_of_person(name, max(1, held.most_of_one.get(name, 1))) for name in spent.clients}
    whole = None if None in found.values() else max((one for one in found.values() if one is not None), default=0.0)
    return PersonEpsilon(whole, max(held.most_of_one.values()), found)


def person_summary(folder: Path, ledger: Mapping[str, Any]) -> dict[str, Any]:
    """For summary.json."""
    try:
        found = person_epsilon(folder, ledger)
    except UserError:
        return {}
    return {} if found is None else {"epsilon_per_person": found.epsilon, "records_per_person": found.records}
