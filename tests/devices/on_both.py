"""The same run on the processor and on the second device."""

from collections.abc import Callable
from pathlib import Path

import yaml
from torch import Tensor

from understudy.studies.run import Result

DEVICE = "second:0"
# Both compute with the same kernels, but not always with the same ones: batch-last layers are the processor's alone,
# torch's optimisers take another path, lengths are summed in single precision. A difference of a last bit (1e-7) grows
# over some dozens of steps to a few 1e-6; a wrong draw, label or record changes weights by per cents.
CLOSE = 1e-4


def assert_same_on_both(play: Callable[[Path, str], Result], folder: Path, close: float = CLOSE) -> None:
    """``play``: a run in a folder, on a device."""
    expected, found = play(folder / "processor", "cpu"), play(folder / "device", DEVICE)
    assert yaml.safe_load((folder / "device" / "config.yaml").read_text())["device"] == DEVICE
    failures = [[line["failures"] for line in result.metrics] for result in (found, expected)]
    assert failures[0] == failures[1], f"clients failed: {failures[0]}"
    for name, weights in expected.weights.items():
        apart = distance(found.weights[name], weights)
        assert apart < close, f"{name} differs by {apart:.1e} of its length"


def distance(found: Tensor, expected: Tensor) -> float:
    """Of the whole tensor, relative to its length."""
    return float((found - expected).norm() / expected.norm().clamp(min=1e-6))
