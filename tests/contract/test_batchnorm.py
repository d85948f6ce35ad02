"""A network with running statistics through every averaging method, under each policy for buffers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_contract import QUICK
from torch import Tensor, nn

from understudy.config.describe import _built
from understudy.config.resolve import resolve
from understudy.config.schema import Live
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.federation import registry
from understudy.methods.dp_fedavg import PrivateAveraging
from understudy.methods.shared.averaging import Averaging
from understudy.runs.play import play
from understudy.runs.rounds import RunResult

BUILT = {entry.name: _built(entry) for entry in registry.entries() if entry.role == "method"}
PRIVATE = [name for name, method in BUILT.items() if isinstance(method, PrivateAveraging)]  # they refuse such networks
NAMES = [name for name, method in BUILT.items() if isinstance(method, Averaging) and name not in PRIVATE]


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.BatchNorm1d(4), nn.ReLU())
        self.head = nn.Linear(4, 3)

    def features(self, x: Tensor) -> Tensor:
        found: Tensor = self.body(x)
        return found


def federation() -> Federation:
    rng = np.random.default_rng(5)
    sites: dict[str, tuple[Any, Any]] = {}
    for name, records in {"ash": 14, "beech": 25}.items():
        y = np.arange(records) % 3
        x = rng.integers(0, 60, (records, 1, 6, 6)).astype(np.uint8)
        for image, label in zip(x, y, strict=True):
            image[0, 2 * label : 2 * label + 2] += 150
        sites[name] = (x, y)
    return Federation.from_arrays(sites, test=sites["beech"], held_out=0.25, classes=3)


def normed_run(name: str, policy: str, out: Path) -> RunResult:
    torch.manual_seed(0)  # of the live module, which comes with its weights
    words = {
        "method": {"name": name, "rounds": 2, **QUICK.get(name, {}), "buffers": policy},
        "engine": {"name": "inline"},
    }
    return play(resolve(words, {}, Live(data=federation(), model=Normed())), out)


def running(result: RunResult) -> dict[str, Tensor]:
    return {name: value for name, value in result.weights.items() if "running" in name}


@pytest.mark.parametrize("name", NAMES)
def test_averaged_statistics_move_and_stay_statistics(name: str, tmp_path: Path) -> None:
    result = normed_run(name, "average", tmp_path / "run")
    assert result.metrics[-1]["failed"] == 0, result.metrics[-1]["failures"]
    mean, variance = (next(v for n, v in running(result).items() if n.endswith(kind)) for kind in ("mean", "var"))
    assert not torch.equal(mean, torch.zeros(4)), "the running mean never moved"
    assert bool((variance > 0).all()), "a variance below zero: a rule was applied to buffers"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "dense"])  # which refuses: it needs whole models
def test_local_statistics_never_leave_and_the_run_is_scored_at_home(name: str, tmp_path: Path) -> None:
    result = normed_run(name, "local", tmp_path / "run")
    assert result.metrics[-1]["failed"] == 0, result.metrics[-1]["failures"]
    assert result.metrics[-1]["scored_at"] == "clients"
    assert torch.equal(next(v for n, v in running(result).items() if n.endswith("mean")), torch.zeros(4))


@pytest.mark.parametrize("name", NAMES)
def test_forbidden_statistics_are_refused_before_anything_runs(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"running statistics, but method\.buffers is 'forbid'"):
        normed_run(name, "forbid", tmp_path / "run")
    assert not (tmp_path / "run").exists()
