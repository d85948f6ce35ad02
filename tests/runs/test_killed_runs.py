"""kill -9 at any moment, then --resume: the model file is the same to the byte, for each of the five methods."""

import json
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from run_and_die import run_and_die

from in_a_fork import in_a_fork

CASES = ("fedavg", "scaffold", "fedcog", "feddm", "fedssyn")
INLINE, TWO_WORKERS = {"name": "inline"}, {"name": "workers", "workers": 2}


def launch(at: int, engine: Mapping[str, object], out: Path, case: str) -> int:
    done = in_a_fork(lambda: run_and_die(at, engine, out, case), out.parent)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.mark.parametrize("case", CASES)
def test_killed_at_five_moments_and_resumed_the_model_is_the_same(case: str, tmp_path: Path) -> None:
    assert launch(0, INLINE, tmp_path / "straight", case) == 0
    # The counts start anew with each launch: in the opening, in a client's reply, at checkpoints, in between.
    deaths = [launch(at, INLINE, tmp_path / "killed", case) for at in (2, 7, 11, 5, 14)]
    assert deaths.count(-signal.SIGKILL) >= 4
    assert launch(0, TWO_WORKERS, tmp_path / "killed", case) == 0
    for file in ("model.safetensors", "split.json", "ledger.json"):
        assert (tmp_path / "killed" / file).read_bytes() == (tmp_path / "straight" / file).read_bytes(), file
    rounds = [json.loads(line)["round"] for line in (tmp_path / "killed/metrics.jsonl").read_text().splitlines()]
    assert rounds == [0, 1, 2, 3]


def test_a_run_whose_main_process_is_killed_while_workers_work_goes_on(tmp_path: Path) -> None:
    assert launch(0, INLINE, tmp_path / "straight", "scaffold") == 0
    assert launch(9, TWO_WORKERS, tmp_path / "killed", "scaffold") == -signal.SIGKILL
    assert launch(0, TWO_WORKERS, tmp_path / "killed", "scaffold") == 0
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("straight", "killed")]
    assert models[0] == models[1]
