"""The run's ledger by itself: what left, how often, how much of it is covered, and what that makes of ε."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from understudy.privacy import ledger as of_ledger
from understudy.privacy.accounting import Spending, epsilon
from understudy.privacy.charges import Charge, epsilon_of
from understudy.privacy.ledger import Ledger, Release

# 200 releases at rate 0.0256 and σ = 1 cost 2.787 at δ = 1e-5.
CHARGE = Charge("run", 1, 1, "task", 0, "sampled Gaussian", 1.0, 1.0, 0.0256, 200, 1e-5, "rdp", ("mean",))
REPLY = Release("ash", 1, 1, "task", {"mean": ("statistics", 8)}, (CHARGE,), "first")


def recorded(*releases: Release) -> Ledger:
    ledger = Ledger()
    for release in releases:
        ledger.record(release)
    return Ledger.from_json(ledger.to_json())  # as it is read again


def test_releases_and_bytes_are_added_up_over_rounds() -> None:
    again = replace(REPLY, round=2, charges=(replace(CHARGE, round=2),), sha256="second")
    ledger = recorded(REPLY, again)
    line = ledger.lines["ash", "task", "mean"]
    assert (line["releases"], line["bytes"], line["covered"]) == (2, 16, 2)
    assert ledger.epsilon_of("ash") == pytest.approx(epsilon([Spending(0.0256, 1.0, 2 * 200)], 1e-5))


def test_the_same_bytes_sent_again_tell_nothing_new() -> None:
    ledger = recorded(REPLY, REPLY)
    assert ledger.lines["ash", "task", "mean"]["releases"] == 1
    assert ledger.epsilon_of("ash") == pytest.approx(2.787, abs=1e-3)
    assert recorded(REPLY, replace(REPLY, sha256="other")).lines["ash", "task", "mean"]["releases"] == 2


def test_a_part_that_was_bare_once_has_no_guarantee_however_often_it_was_covered() -> None:
    bare = replace(REPLY, round=2, charges=(), sha256="second")
    assert recorded(REPLY).epsilon_of("ash") is not None
    assert recorded(REPLY, bare).epsilon_of("ash") is None
    assert recorded(bare, REPLY).epsilon is None


def test_a_charge_covers_the_parts_that_it_names() -> None:
    more = replace(REPLY, parts={"mean": ("statistics", 8), "radius": ("scalars", 4), "box": ("keys", 16)})
    ledger = recorded(more)
    assert {part: line["covered"] for (_, _, part), line in ledger.lines.items()} == {"mean": 1, "radius": 0, "box": 1}
    assert ledger.epsilon is None


def test_a_run_is_as_private_as_its_least_private_client() -> None:
    little = replace(REPLY, client="beech", charges=(replace(CHARGE, steps=1),))
    ledger = recorded(REPLY, little)
    of_beech = ledger.epsilon_of("beech")
    assert of_beech is not None
    assert of_beech < 2
    assert ledger.epsilon == ledger.epsilon_of("ash") == pytest.approx(2.787, abs=1e-3)


class Visited(dict[Any, Any]):
    """Counts how often somebody goes through all of it."""

    times = 0

    def __iter__(self) -> Iterator[Any]:
        self.times += 1
        return super().__iter__()

    def items(self) -> Any:
        self.times += 1
        return super().items()

    def values(self) -> Any:
        self.times += 1
        return super().values()


@pytest.mark.parametrize("kind", ["weights", "keys"])
def test_a_round_does_not_go_through_all_clients_ever_seen(kind: str) -> None:
    ledger = Ledger(Visited(), Visited())
    for client in range(2000):
        ledger.record(Release(f"client-{client}", 1, 1, "train", {"change": (kind, 8)}, sha256="1"))
        assert ledger.epsilon == (None if kind == "weights" else 0.0)
    assert (ledger.lines.times, ledger.charges.times) == (0, 0)  # type: ignore[attr-defined]


def test_epsilon_is_worked_out_again_only_for_those_who_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    worked = []

    def counted(charges: Any, *given: Any) -> float:
        worked.append(len(charges))
        return epsilon_of(charges, *given)

    monkeypatch.setattr(of_ledger, "epsilon_of", counted)
    ledger = Ledger()
    for client in range(20):
        ledger.record(replace(REPLY, client=f"client-{client}"))
    assert ledger.epsilon == pytest.approx(2.787, abs=1e-3)
    assert worked == [1] * 20
    ledger.record(replace(REPLY, client="client-3", round=2, charges=(replace(CHARGE, round=2),), heard=2))
    assert ledger.epsilon == pytest.approx(epsilon([Spending(0.0256, 1.0, 2 * 200)], 1e-5))
    assert (ledger.epsilon, worked[20:]) == (ledger.epsilon_of("client-3"), [2])
