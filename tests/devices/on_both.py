"""The same run on the processor and on the second device."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from second_device import without_doubles
from understudy.config.resolve import resolve
from understudy.config.schema import Live
from understudy.data.federation import Federation
from understudy.runs.play import play
from understudy.runs.rounds import RunResult

DEVICE = "second:0"
# Both compute with the same kernels, but not always with the same ones: batch-last layers are the processor's alone,
# torch's optimisers take another path, lengths are summed in single precision. A difference of a last bit (1e-7) grows
# over some dozens of steps to a few 1e-6; a wrong draw, label or record changes weights by per cents.
CLOSE = 1e-4


def assert_same_on_both(run: Callable[[Path, str], RunResult], folder: Path, close: float = CLOSE) -> RunResult:
    """``run``: in a folder, on a device, which has no float64 here, as Apple's."""
    expected = run(folder / "processor", "cpu")
    with without_doubles():
        found = run(folder / "device", DEVICE)
    assert yaml.safe_load((folder / "device" / "config.yaml").read_text())["device"] == DEVICE
    failures = [[line["failures"] for line in result.metrics] for result in (found, expected)]
    assert failures[0] == failures[1], f"clients failed: {failures[0]}"
    whole = torch.cat([weights.flatten() for weights in expected.weights.values()]).norm()
    for name, weights in expected.weights.items():
        # Of what has hardly left zero, such as a bias, a hundredth of the model's length.
        apart = float((found.weights[name] - weights).norm() / weights.norm().clamp(min=0.01 * whole))
        assert apart < close, f"{name} differs by {apart:.1e} of its length"
    return found


def pictures(side: int = 8, channels: int = 1, *, test: bool = True) -> Federation:
    """Two sites of three classes."""
    rng = np.random.default_rng(5)
    sites: dict[str, tuple[Any, Any]] = {}
    for name, records in {"ash": 14, "beech": 25}.items():
        y = np.arange(records) % 3
        x = rng.integers(0, 60, (records, channels, side, side)).astype(np.uint8)
        for image, label in zip(x, y, strict=True):
            image[:, 2 * label : 2 * label + 2] += 150
        sites[name] = (x, y)
    return Federation.from_arrays(sites, test=sites["beech"] if test else None, held_out=0.25, classes=3)


def run_words(
    words: dict[str, Any], out: Path, device: str, data: Federation | None = None, *, resume: bool = False
) -> RunResult:
    """A config as a person writes it, but for its data."""
    given = {"seed": 3, "model": {"name": "small-convnet", "width": 8}, "engine": {"name": "inline"}, **words}
    return play(resolve({**given, "device": device}, {}, Live(data=data or pictures())), out, resume=resume)
