"""`understudy privacy epsilon` and `understudy privacy noise` as a person types them."""

import json
from pathlib import Path

import pytest

from in_a_fork import understudy

PAPER = ["--rate", "0.0256", "--steps", "200", "--delta", "1e-5"]


def typed(*words: str, code: int = 0) -> str:
    done = understudy("privacy", *words, cwd=Path.cwd(), code=code)
    return done.stderr if code else done.stdout


def test_epsilon_of_the_paper() -> None:
    found = json.loads(typed("epsilon", *PAPER, "--noise", "1", "--json"))
    assert found["epsilon"] == pytest.approx(2.787, abs=5e-4)
    assert (found["accountant"], found["order"], found["note"]) == ("rdp", 6.0, "")
    assert typed("epsilon", *PAPER, "--noise", "1") == "ε = 2.787 at δ = 1e-05 (rdp)\n"


def test_the_tighter_accountant() -> None:
    found = json.loads(typed("epsilon", *PAPER, "--noise", "1", "--accountant", "pld", "--json"))
    assert found["epsilon"] == pytest.approx(2.38, abs=5e-3)


def test_noise_for_the_papers_epsilon() -> None:
    found = json.loads(typed("noise", *PAPER, "--epsilon", "2.787", "--json"))
    assert found["noise"] == 1.0
    assert found["epsilon"] <= 2.787


def test_no_noise_is_an_infinite_epsilon() -> None:
    assert json.loads(typed("epsilon", *PAPER, "--noise", "0", "--json"))["epsilon"] is None


CANNOT_BE = [
    ("rate", "1.5"),
    ("delta", "1"),
    ("accountant", "moments"),
    ("noise", "1e-300"),
    ("noise", "1e300"),
    ("noise", "inf"),
    ("noise", "nan"),
    ("steps", "1" * 400),
]


@pytest.mark.parametrize(("option", "value"), CANNOT_BE)
def test_what_cannot_be_is_named_in_one_sentence(option: str, value: str) -> None:
    words = {"rate": "0.1", "noise": "1", "steps": "10", "delta": "1e-5", option: value}
    said = typed("epsilon", *[part for name, given in words.items() for part in (f"--{name}", given)], code=2)
    assert said.startswith(f"understudy: {option}: ")
    assert said.count("\n") == 1
