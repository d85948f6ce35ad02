"""A site's charge log: on disk before a record is touched, never back, and hard at its limit."""

import json
import math
import random
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from understudy.errors import UserError
from understudy.privacy.charges import BudgetSpent, Charge, ChargeLog, Limit, composed, epsilon_of

ROUND = {"rate": 0.0256, "noise": 1.0, "steps": 200}  # one round of FedLAP-DP: ε = 2.787 at δ = 1e-5


def a_charge(round: int = 1, step: int = 1, run: str = "run", test_noise: bool = False) -> Charge:
    return Charge(
        run,
        round,
        step,
        "FedLap.distil",
        0,
        "sampled Gaussian",
        1.0,
        ROUND["noise"],
        ROUND["rate"],
        int(ROUND["steps"]),
        1e-5,
        "rdp",
        ("x", "y"),
        test_noise=test_noise,
    )


def test_rounds_compose_to_the_published_figures() -> None:
    # methods.md: 200 steps give 2.787, 3000 steps (15 rounds) 10.183.
    assert composed([a_charge()], 1e-5, "rdp") == pytest.approx(2.787, abs=1e-3)
    fifteen = [a_charge(round) for round in range(1, 16)]
    assert composed(fifteen, 1e-5, "rdp") == pytest.approx(10.183, abs=1e-3)


def test_noise_that_can_be_repeated_protects_nobody() -> None:
    assert epsilon_of([a_charge(test_noise=True)], 1e-5, "rdp") == float("inf")
    assert epsilon_of([a_charge(test_noise=True), a_charge(2)], 1e-5, "rdp") == float("inf")
    assert epsilon_of([a_charge(), a_charge(2, test_noise=True)], 1e-5, "rdp") == float("inf")


def test_a_charge_is_on_disk_at_once_and_work_that_never_left_reuses_it(tmp_path: Path) -> None:
    log = ChargeLog(tmp_path / "charges.jsonl")
    log.open(a_charge(), [])
    assert ChargeLog(tmp_path / "charges.jsonl").charges() == [a_charge()]
    log.open(a_charge(), [])  # the process was killed and asked again: its reply never left
    assert len(log.charges()) == 1


def test_once_its_reply_has_left_the_same_work_costs_again(tmp_path: Path) -> None:
    log = ChargeLog(tmp_path / "charges.jsonl")
    charged = log.open(a_charge(), [])
    assert charged == a_charge()
    log.close([charged])
    log.close([charged])  # the same bytes are sent once more: nothing new
    assert len((tmp_path / "charges.jsonl").read_text().splitlines()) == 2
    assert log.open(a_charge(), []).number == 1
    assert [charge.number for charge in log.charges()] == [0, 1]


def test_other_work_at_the_same_place_is_charged_beside_it(tmp_path: Path) -> None:
    """As after a restart with more records: a ledger that knows charges by their place must see both."""
    log = ChargeLog(tmp_path / "charges.jsonl")
    log.open(a_charge(), [])
    assert log.open(replace(a_charge(), rate=0.01), []).number == 1
    assert len({charge.place for charge in log.charges()}) == 2


def test_what_could_not_be_read_back_is_not_charged(tmp_path: Path) -> None:
    log = ChargeLog(tmp_path / "charges.jsonl")
    with pytest.raises(UserError, match="cannot be read"):
        log.open(a_charge(round=-1), [])
    assert log.charges() == []


def test_the_limit_is_hard_and_counts_every_run_of_the_site(tmp_path: Path) -> None:
    log, limit = ChargeLog(tmp_path / "charges.jsonl"), Limit("the site's policy", 3.2, 1e-5, "rdp")
    log.open(a_charge(run="last year"), [limit])
    before = log.path.read_bytes()
    with pytest.raises(BudgetSpent, match=r"bring ε to 3\.\d+, and the site's policy allows 3\.2 at δ = 1e-05"):
        log.open(a_charge(run="this year"), [limit])
    assert log.path.read_bytes() == before, "what was refused is not spent"


def test_a_damaged_charge_log_stops_all_spending(tmp_path: Path) -> None:
    log = ChargeLog(tmp_path / "charges.jsonl")
    log.open(a_charge(), [])
    with log.path.open("a") as file:
        file.write(json.dumps({"charge": {}})[:9] + "\n")
    with pytest.raises(UserError, match=r"line 2, cannot be read; what was spent is unknown"):
        log.open(a_charge(2), [])


def test_a_line_that_was_cut_off_was_never_relied_on(tmp_path: Path) -> None:
    log = ChargeLog(tmp_path / "charges.jsonl")
    log.open(a_charge(), [])
    with log.path.open("a") as file:
        file.write(json.dumps({"charge": asdict(a_charge(2))})[:40])  # the power went
    assert log.charges() == [a_charge()]
    log.open(a_charge(3), [])
    assert log.charges() == [a_charge(), a_charge(3)]


@pytest.mark.parametrize(
    "wrong", [{"covers": [[1]]}, {"steps": 1.5}, {"clip": "1"}, {"test_noise": "yes"}, {"task": None}]
)
def test_charges_of_another_make_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError, match="A privacy charge arrived that cannot be read"):
        Charge.of({**asdict(a_charge()), **wrong})


ODD: list[Any] = [
    *(0, 1, -1, 10**9, 10**12, 10**400, 1.5, 1e-300, 1e-12, 0.049, 0.3, 1e12, 1e300, math.inf, -math.inf, math.nan),
    *(True, None, "", "rdp", "pld", "\x1b[2J", "n" * 1000, [], ["x"], ["x"] * 1000, [[1]], {}),
]


def test_any_charge_is_counted_or_our_own_error() -> None:
    rng, became = random.Random(3), Counter[str]()
    for _ in range(1500):
        words = asdict(a_charge())
        for _ in range(rng.choice((1, 1, 2))):
            words[rng.choice([*words])] = rng.choice(ODD)
        try:
            charge = Charge.of(words)
        except UserError:
            became["refused"] += 1
            continue
        composed([a_charge(), charge], 1e-5, "rdp")
        assert "\x1b" not in json.dumps(asdict(charge), allow_nan=False, ensure_ascii=False)
        became["counted"] += 1
    assert min(became["refused"], became["counted"]) > 100
