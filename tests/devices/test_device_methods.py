"""One short run of every method, alone and with each add-on, on a device that is not the processor."""

from pathlib import Path

import pytest
from on_both import assert_same_on_both
from test_contract import CASES

from understudy.studies.run import Result

SHORT = {"dense": 3}  # rounds; 2 where nothing is written: DENSE averages first
ALL = [pytest.param(name, marks=pytest.mark.slow if "+" in name else ()) for name in CASES]


@pytest.mark.parametrize("name", ALL)
def test_a_run_ends_with_the_weights_of_the_processor(name: str, tmp_path: Path) -> None:
    def play(folder: Path, device: str) -> Result:
        return CASES[name].play(folder, rounds=SHORT.get(name, 2), device=device)

    assert_same_on_both(play, tmp_path)
