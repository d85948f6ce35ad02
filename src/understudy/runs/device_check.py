"""Whether a device computes what the processor computes: the core of the contract, run on both.

Each case is a short run on made-up pictures. It ends well if no client fails that works on the processor, if the two
models are close, and if a second run on the device ends with the same bits.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from understudy.config.resolve import resolve
from understudy.config.schema import Config, Live
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.randomness import numpy_generator
from understudy.runs.play import built, play
from understudy.runs.rounds import RunResult
from understudy.threads import one_thread

CLOSE = 1e-3  # of the way that training went: rounding grows to some 1e-5 in these runs, a wrong record makes per cents
# Images are rounded to bytes or moved by Adam, which follows the sign of slopes that may be nothing but rounding.
CLOSE_WITH_IMAGES = 5e-2

LOCAL = {"epochs": 3, "batch": 8, "lr": 0.1}
FEDAVG = {"name": "fedavg", "local": {**LOCAL, "momentum": 0.5, "augment": ["flip", "crop"]}}
# Noise that can be repeated: it protects nobody, and there is nobody here.
PRIVACY = {"delta": 1e-5, "records": 30, "test_noise": True}
SURROGATE = {
    "stages": 2,
    "restarts": 2,
    "real_batches": 2,
    "image_steps": 2,
    "path_epochs": 1,
    "ipc": 3,
    "batch": 12,
    "lr": 0.05,
    "noise": 0.2,
    "server_epochs": 20,
}
VAE = {"name": "vae", "epochs": 2, "width": 4, "hidden": 8, "least_steps": 0}


@dataclass(frozen=True)
class DeviceCase:
    words: Mapping[str, Any]  # of a config: method, add-ons, privacy, engine
    close: float = CLOSE


CASES: Mapping[str, DeviceCase] = {
    "fedavg": DeviceCase({"method": FEDAVG}),
    "fedavg, together": DeviceCase({"method": FEDAVG, "engine": {"name": "inline", "together": 3}}),
    "feddm": DeviceCase(
        {"method": {"name": "feddm", "ipc": 3, "steps": 10, "real_batch": 8, "server": {"epochs": 20, "lr": 0.05}}}
    ),
    "fedssyn": DeviceCase(
        {"method": FEDAVG, "with": [{"name": "fedssyn", "generator": VAE, "sound_only": False}]}, CLOSE_WITH_IMAGES
    ),
    "fedcog": DeviceCase({"method": FEDAVG, "with": [{"name": "fedcog", "images": 12, "steps": 5}]}, CLOSE_WITH_IMAGES),
    "fedlap-dp": DeviceCase({"method": {"name": "fedlap-dp", **SURROGATE}, "privacy": PRIVACY}),
    "dp-fedavg": DeviceCase(
        {
            "method": {"name": "dp-fedavg", "local": {"steps": 8, "batch": 12, "lr": 0.2}, "clip": 1.0, "noise": 0.2},
            "privacy": PRIVACY,
        }
    ),
}


@dataclass(frozen=True)
class DeviceFinding:
    """What became of one case."""

    case: str
    apart: float | None  # how far the two models are apart, as a share of the way from the first model; None: no model
    allowed: float
    repeats: bool  # whether two runs on the device ended with the same bits
    failure: str | None = None  # why it did not end, or which client failed

    @property
    def agrees(self) -> bool:
        return self.failure is None and self.apart is not None and self.apart <= self.allowed and self.repeats


def device_to_check(wanted: str | None) -> torch.device:
    """The accelerator that torch finds if none is named; with its number if there are several."""
    found = torch.accelerator.current_accelerator(check_available=True)
    if wanted is None and found is None:
        raise UserError(
            f"torch {torch.__version__} finds no CUDA card here and no other accelerator; on a machine that has one, "
            "install the build of torch for it (`understudy check-device cpu` tries out the check itself)."
        )
    try:
        return torch.empty(0, device=wanted or found).device
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0].rstrip(".")
        raise UserError(f"The device '{wanted or found}' cannot be used here: {first}.") from None


def check_results(device: torch.device, began: Callable[[str], None] = lambda case: None) -> Iterator[DeviceFinding]:
    """Case by case; ``began`` is told of each before it runs."""
    with one_thread():
        for name, case in CASES.items():
            began(name)
            with TemporaryDirectory(prefix="understudy-check-") as folder:
                yield _tried(name, case, str(device), Path(folder))


def _tried(name: str, case: DeviceCase, device: str, folder: Path) -> DeviceFinding:
    here = play(_config(case, "cpu"), folder / "here")
    try:
        there, again = (play(_config(case, device), folder / where) for where in ("there", "again"))
    except Exception as error:  # a device may lack anything, and torch says so in many ways
        why = (str(error).splitlines() or [""])[0] or type(error).__name__
        return DeviceFinding(name, None, case.close, repeats=False, failure=why)
    apart = _apart(_start(case), here.weights, there.weights)
    return DeviceFinding(name, apart, case.close, _bytes(there) == _bytes(again), _failed_there(here, there))


def _config(case: DeviceCase, device: str) -> Config:
    model = {"name": "small-convnet", "width": 8, "fast": "eager"}
    words = {"seed": 1, "model": model, "engine": {"name": "inline"}, **case.words, "device": device}
    words["method"] = {"rounds": 2, **case.words["method"]}
    return resolve(words, {}, Live(data=_pictures()))


def _pictures() -> Federation:
    """Three sites of three classes, of different sizes: a bright bar whose place tells the class."""
    rng = numpy_generator("check-device")
    sites = {}
    for site, records in {"ash": 18, "beech": 31, "cedar": 25}.items():
        y = rng.permutation(records) % 3
        x = rng.integers(0, 60, (records, 1, 8, 8)).astype("uint8")
        for image, label in zip(x, y, strict=True):
            image[:, 2 * label : 2 * label + 2] += 150
        sites[site] = (x, y)
    return Federation.from_arrays(sites, test=sites["beech"], classes=3)


def _start(case: DeviceCase) -> dict[str, Tensor]:
    config = _config(case, "cpu")
    assert config.live.data is not None
    net = built(config, config.live.data, None)[0].net
    return net.named(net.initial())


def _apart(start: Mapping[str, Tensor], here: Mapping[str, Tensor], there: Mapping[str, Tensor]) -> float:
    def distance(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> float:
        return float(torch.cat([(a[name].double() - b[name].double()).flatten() for name in start]).norm())

    return distance(there, here) / distance(start, here)


def _bytes(result: RunResult) -> bytes:
    return (result.folder / "model.safetensors").read_bytes()


def _failed_there(here: RunResult, there: RunResult) -> str | None:
    """The first client that failed on the device alone."""
    expected = [line["failures"] for line in here.metrics]
    for line, usual in zip(there.metrics, expected, strict=False):
        for failure in line["failures"]:
            if failure not in usual:
                return f"{failure['client']} failed in round {line['round']}: {failure['why']}"
    return None if len(there.metrics) == len(expected) else "its run ended early"
