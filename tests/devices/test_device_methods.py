"""Every method, alone and with each add-on, on a device that is not the processor: one short run, and the contract."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from contract_checks import CHECKS, Case
from on_both import DEVICE, assert_same_on_both
from test_contract import CASES

from second_device import without_doubles
from understudy.config.schema import Config
from understudy.data.federation import Federation
from understudy.runs.rounds import RunResult

SHORT = {"dense": 3}  # rounds; 2 where nothing is written: DENSE averages first
QUICK = [*(name for name in CASES if "+" not in name), "fedavg+fedcog", "fedavg+fedssyn", "fedavg+secure-aggregation"]
TRIED = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES]


@pytest.mark.parametrize("name", TRIED)
def test_a_run_ends_with_the_weights_of_the_processor(name: str, tmp_path: Path) -> None:
    def run(folder: Path, device: str) -> RunResult:
        return CASES[name].play(folder, rounds=SHORT.get(name, 2), device=device)

    assert_same_on_both(run, tmp_path)


@pytest.mark.parametrize("name", ["fedavg", "feddm", "dp-fedavg"])
def test_a_frozen_first_layer_stays_on_the_device_as_on_the_processor(name: str, tmp_path: Path) -> None:
    model = {"name": "mlp", "hidden": [8, 8], "frozen": ["body.1"]}

    def run(folder: Path, device: str) -> RunResult:
        return CASES[name].play(folder, rounds=2, device=device, model=model)

    assert_same_on_both(run, tmp_path)


@dataclass(frozen=True)
class OnDevice(Case):
    """A case of the contract suite that knows no other device."""

    def config(self, data: Federation, **changes: Any) -> Config:
        return super().config(data, **{"device": DEVICE, **changes})


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", CASES)
def test_the_contract_holds_on_the_device(name: str, check: Callable[[Case, Path], None], tmp_path: Path) -> None:
    with without_doubles():
        check(OnDevice(**vars(CASES[name])), tmp_path)


@pytest.mark.parametrize("network", [{"name": "mlp", "hidden": [8]}, {"name": "small-convnet", "width": 4}])
@pytest.mark.parametrize("name", ["fedavg", "scaffold", "feddyn"])
def test_clients_that_train_together_end_with_the_weights_of_the_processor(
    name: str, network: dict[str, Any], tmp_path: Path
) -> None:
    def run(folder: Path, device: str) -> RunResult:
        return CASES[name].play(folder, rounds=2, device=device, model=network, engine={"together": 3})

    assert_same_on_both(run, tmp_path)
