"""`understudy check-device` without an accelerator."""

from unittest.mock import patch

import torch
from typer.testing import CliRunner

from understudy.cli.app import app
from understudy.errors import UserError
from understudy.runs import device_check


def refusal(*words: str) -> str:
    with patch.object(torch.accelerator, "current_accelerator", return_value=None):
        done = CliRunner().invoke(app, ["check-device", *words])
    assert isinstance(done.exception, UserError)
    return str(done.exception)


def test_without_an_accelerator_it_says_so_in_one_sentence() -> None:
    said = refusal()
    assert "finds no CUDA card here" in said
    assert said.count(".\n") == 0
    assert said.endswith(".")


def test_a_device_that_torch_cannot_use_is_refused_by_its_name() -> None:
    assert refusal("nonsense").startswith("The device 'nonsense' cannot be used here: ")


def test_the_processor_agrees_with_itself_to_the_last_bit() -> None:
    with patch.object(device_check, "CASES", {"feddm": device_check.CASES["feddm"]}):
        done = CliRunner().invoke(app, ["check-device", "cpu", "--no-speed"])
    assert done.exit_code == 0, done.output
    assert "0.0e+00" in done.stdout
