"""`understudy privacy epsilon` and `understudy privacy noise` as a person types them."""

import json

import pytest
from typer.testing import CliRunner, Result

from understudy.cli import app
from understudy.errors import UserError

PAPER = ["--rate", "0.0256", "--steps", "200", "--delta", "1e-5"]


def typed(*words: str) -> Result:
    return CliRunner().invoke(app, ["privacy", *words])


def test_epsilon_of_the_paper() -> None:
    found = json.loads(typed("epsilon", *PAPER, "--noise", "1", "--json").stdout)
    assert found["epsilon"] == pytest.approx(2.787, abs=5e-4)
    assert (found["accountant"], found["order"], found["note"]) == ("rdp", 6.0, "")
    assert "ε = 2.787 at δ = 1e-05 (rdp)" in typed("epsilon", *PAPER, "--noise", "1").stdout


def test_the_tighter_accountant() -> None:
    found = json.loads(typed("epsilon", *PAPER, "--noise", "1", "--accountant", "pld", "--json").stdout)
    assert found["epsilon"] == pytest.approx(2.38, abs=5e-3)


def test_noise_for_the_papers_epsilon() -> None:
    found = json.loads(typed("noise", *PAPER, "--epsilon", "2.787", "--json").stdout)
    assert found["noise"] == 1.0
    assert found["epsilon"] <= 2.787
    assert "noise = 1.0000 times the clip" in typed("noise", *PAPER, "--epsilon", "2.787").stdout


def test_no_noise_is_an_infinite_epsilon() -> None:
    assert json.loads(typed("epsilon", *PAPER, "--noise", "0", "--json").stdout)["epsilon"] is None
    assert "ε = inf" in typed("epsilon", *PAPER, "--noise", "0").stdout


@pytest.mark.parametrize(
    ("option", "value"),
    [("rate", "1.5"), ("rate", "0"), ("delta", "1"), ("noise", "-1"), ("steps", "-3"), ("accountant", "moments")],
)
def test_a_number_that_cannot_be_is_named(option: str, value: str) -> None:
    words = {"rate": "0.1", "noise": "1", "steps": "10", "delta": "1e-5", option: value}
    done = typed("epsilon", *[part for name, given in words.items() for part in (f"--{name}", given)])
    assert isinstance(done.exception, UserError)
    assert str(done.exception).startswith(f"{option}: ")


def test_an_epsilon_out_of_reach_is_refused() -> None:
    done = typed("noise", "--epsilon", "1e-7", "--rate", "1", "--steps", "10", "--delta", "1e-5")
    assert isinstance(done.exception, UserError)
    assert "ask for at least" in str(done.exception)
