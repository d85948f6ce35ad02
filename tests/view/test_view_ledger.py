"""A ledger as a person reads it."""

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from in_a_fork import understudy
from understudy.errors import UserError
from understudy.privacy.charges import Charge
from understudy.privacy.ledger import Ledger, Release
from understudy.view.ledger import headline, mechanism_rows, not_covered, print_ledger, release_rows

PARTS = {"x": ("examples", 160), "y": ("labels", 10)}


def left(client: str, round: int, parts: dict[str, tuple[str, int]], *spent: Charge) -> Release:
    return Release(client, round, 1, "FedLapDp.distil", parts, spent, sha256=f"{round}")


def charge(round: int, *, test_noise: bool = False, public: tuple[str, ...] = ()) -> Charge:
    place = ("run", round, 1, "FedLapDp.distil", 0)
    claim = ("sampled Gaussian", 1.0, 1.0, 0.0256, 200, 1e-5, "rdp", ("x", "y"), public)
    return Charge(*place, *claim, test_noise=test_noise)  # type: ignore[arg-type]


def ledger(
    clients: tuple[str, ...] = ("ash",), rounds: int = 15, *, test_noise: bool = False, public: tuple[str, ...] = ()
) -> Ledger:
    made = Ledger()
    for client in clients:
        for round in range(1, rounds + 1):
            spent = [charge(round, test_noise=test_noise, public=public)]
            made.record(left(client, round, PARTS, *spent))
    return made


def printed(made: Ledger, folder: Path) -> str:
    (folder / "ledger.json").write_text(json.dumps(made.to_json()))
    text = StringIO()
    print_ledger(folder, Console(file=text, width=150))
    return text.getvalue()


def test_steps_are_summed_over_rounds() -> None:
    rows = mechanism_rows(ledger().to_json())
    # 15 rounds of 200: ε 10.183 at δ = 1e-5.
    assert rows == [
        (
            *("ash", "10.183", "sampled Gaussian", "1", "1", "0.0256", "3,000", "15"),
            *("1e-05", "rdp", "record, added or removed"),
        )
    ]


def test_clients_with_the_same_lines_share_them() -> None:
    made = ledger(("ash", "beech", "cedar", "elm", "fir"), rounds=1)
    made.record(left("oak", 1, PARTS, charge(1), charge(2)))
    spent = mechanism_rows(made.to_json())
    assert [row[0] for row in spent] == ["ash, beech, cedar and 2 more", "oak"]
    # x: 10·4 floats = 160 B; y: 10 B.
    assert release_rows(ledger(rounds=2).to_json()) == [
        ("ash", "FedLapDp.distil", "x", "examples", "2", "320 B", "sampled Gaussian"),
        ("ash", "FedLapDp.distil", "y", "labels", "2", "20 B", "sampled Gaussian"),
    ]


def test_what_is_not_covered_is_said_in_a_sentence() -> None:
    made = ledger(rounds=1)
    assert not_covered(made.to_json()) == []
    made.record(left("ash", 9, {"radius": ("scalars", 4)}))
    assert not_covered(made.to_json()) == ["ash: 'radius' (scalars) of FedLapDp.distil, once"]
    assert headline(made.to_json()) == "No guarantee: see what is not covered."


def test_a_part_that_was_covered_sometimes_was_bare_at_the_other_times() -> None:
    made = ledger(rounds=1)
    for round in (2, 3):
        made.record(left("ash", round, {"x": ("examples", 160)}))
    assert not_covered(made.to_json()) == ["ash: 'x' (examples) of FedLapDp.distil, 2 times"]
    assert release_rows(made.to_json())[0][-1] == "sampled Gaussian, 1 times"


def test_noise_that_can_be_repeated_is_named() -> None:
    (sentence,) = not_covered(ledger(rounds=1, test_noise=True).to_json())
    assert sentence == "ash: all of it, since the noise can be repeated (privacy.test_noise)"


def test_the_whole_of_it(tmp_path: Path) -> None:
    text = printed(ledger(public=("labels",)), tmp_path)
    for said in (
        "ε = 10.183 at δ = 1e-05 (rdp) for one record, added or removed",
        "What was spent",
        "What left",
        "Nothing: every part that left is covered or declared public.",
        "Declared public: labels.",
    ):
        assert said in text


def test_a_run_that_sent_nothing_spent_nothing(tmp_path: Path) -> None:
    assert "ε = 0: nothing that depends on records left." in printed(Ledger(), tmp_path)


def test_a_folder_without_a_ledger_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no ledger\.json"):
        print_ledger(tmp_path)


def test_the_command_prints_the_ledger_for_programs(tmp_path: Path) -> None:
    made = ledger(rounds=1)
    printed(made, tmp_path)
    done = understudy("privacy", "ledger", ".", "--json", cwd=tmp_path)
    assert json.loads(done.stdout) == json.loads(json.dumps(made.to_json()))


def test_a_client_that_spent_and_sent_nothing_is_among_those_that_are_counted() -> None:
    made = ledger(("ash", "beech"), 1)
    made.record(left("cedar", 1, {}, charge(1)))
    assert headline(made.to_json()).endswith("the largest over 3 clients.")
