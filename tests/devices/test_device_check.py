"""`understudy check-device` on a device that is right, and on one that is wrong, unsteady or incomplete."""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from on_both import DEVICE
from torch import Tensor
from typer.testing import CliRunner

from second_device import uploads, without_doubles
from understudy.cli.app import app
from understudy.models.network import Network, Outputs
from understudy.runs import device_check
from understudy.runs.device_check import CASES, check_results
from understudy.runs.device_speed import SpeedTrial, measure_speed

SOME = {name: CASES[name] for name in ("fedavg", "feddm")}
plain = Network.at


@contextmanager
def logits_there(changed: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """The device computes other logits than the processor."""

    def at(net: Network, w: Tensor, x: Tensor) -> Outputs:
        features, logits = plain(net, w, x)
        return features, logits if net.device.type == "cpu" else changed(logits)

    with patch.object(Network, "at", at), patch.object(device_check, "CASES", SOME):
        yield


def test_a_device_that_is_right_agrees_in_every_case() -> None:
    before = uploads()
    with without_doubles():
        found = list(check_results(torch.device(DEVICE)))
    assert [finding.case for finding in found] == list(CASES)
    assert [finding.case for finding in found if not finding.agrees] == []
    assert uploads() > before  # it did run there


def test_a_device_whose_answers_are_wrong_by_a_few_per_cent_is_found_out() -> None:
    with logits_there(lambda logits: 1.03 * logits):
        found = list(check_results(torch.device(DEVICE)))
    assert [finding.agrees for finding in found] == [False, False]
    assert all(finding.repeats and finding.failure is None for finding in found)


def test_a_device_that_does_not_repeat_itself_is_found_out() -> None:
    calls = itertools.count()
    with logits_there(lambda logits: logits * (1 + 1e-6 * next(calls))):
        found = list(check_results(torch.device(DEVICE)))
    assert [finding.repeats for finding in found] == [False, False]
    assert not any(finding.agrees for finding in found)


def refused(logits: Tensor) -> Tensor:
    raise NotImplementedError("this device has no such kernel")


def test_what_a_device_lacks_is_told_and_ends_with_code_1() -> None:
    with logits_there(refused):
        done = CliRunner().invoke(app, ["check-device", DEVICE, "--no-speed", "--json"])
    assert done.exit_code == 1
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["agrees"] is False
    assert all("no such kernel" in run["failure"] for run in told["runs"])


def test_the_accelerator_that_torch_finds_is_taken_where_none_is_named() -> None:
    with patch.object(device_check, "CASES", {"fedavg": CASES["fedavg"]}):
        done = CliRunner().invoke(app, ["check-device", "--no-speed"])
    assert done.exit_code == 0, done.output
    assert "second:0" in done.stdout
    assert "all 1 runs agree" in done.stdout


def test_the_ratio_of_speed_is_of_seconds_per_step() -> None:
    small = SpeedTrial(width=4, batch=4, real_batch=2, least=0.01, takes=2)
    for speed in measure_speed(torch.device(DEVICE), small):
        assert speed.here > 0
        assert speed.ratio == speed.here / speed.there
