"""The run's ledger by itself: what left, how often, how much of it is covered, and what that makes of ε."""

from dataclasses import replace

import pytest

from understudy.privacy.accounting import Spending, epsilon
from understudy.privacy.charges import Charge
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
