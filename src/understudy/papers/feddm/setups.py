"""What FedDM's experiments are run on, at each scale.

Paper: presets feddm-mnist, feddm-cifar10 and feddm-cifar100. The baselines' local epochs and FedProx's μ were searched
there (5 to 20; 0.01 to 1) and what was chosen is not told; here they are 10 and 0.1, and the learning rate is searched.

Desk: 4000 MNIST images at 14×14 with two blocks of a narrow ConvNet, and 5000 CIFAR-10 images at 16×16 with three; few
rounds, 40 matching steps with batches of 32 instead of 1000 with 256. ρ is 2 and not 5: a point on the sphere differs
from the model by ρ/√P per weight, and P is about 4000 (21 000) instead of 320 000.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from understudy.config.read import read
from understudy.papers.comparison import Contender
from understudy.papers.study import Changes

SERVER_RATE = "method.server.lr"  # what is tuned if the server trains
AVERAGING: Mapping[str, Changes] = {
    "FedAvg": {},
    "FedProx": {"method.name": "fedprox", "method.mu": 0.1},
    "FedNova": {"method.name": "fednova"},
    "SCAFFOLD": {"method.name": "scaffold"},
}
BASELINES = tuple(AVERAGING)
DM_ROWS = (*BASELINES, "FedDM", "REAL")
STAND_INS = ("FedDM", "REAL")
UNMATCHED = ("steps", "real_batch", "image_lr")  # settings of FedDM that REAL lacks


@dataclass(frozen=True)
class Ground:
    """One data set at one scale."""

    name: str  # as the paper calls it
    config: Changes  # data, network and FedAvg
    feddm: Changes  # the section ``method``
    real: Changes
    rates: Sequence[float]  # of averaging
    server_rates: Sequence[float]
    seeds: Sequence[int]
    audited: Literal["", "quick"] = ""

    def averaging(self, row: str, label: str, changes: Changes) -> Contender:
        return Contender(label, {**AVERAGING[row], **changes}, rates=self.rates)

    def pooled(self, row: str, label: str, changes: Changes) -> Contender:
        """FedDM, or REAL with as many images and the same server."""
        given = dict(changes)
        if row == "REAL":
            given = {key: value for key, value in given.items() if key.removeprefix("method.") not in UNMATCHED}
        method = self.feddm if row == "FedDM" else self.real
        return Contender(label, {"method": method, **given}, SERVER_RATE, rates=self.server_rates, audited=self.audited)

    def contender(self, row: str, label: str, changes: Changes) -> Contender:
        return (self.averaging if row in AVERAGING else self.pooled)(row, label, changes)

    def but(self, **changes: Any) -> "Ground":
        return replace(self, **changes)


# ---- as published

PRESETS = {"MNIST": "feddm-mnist", "CIFAR10": "feddm-cifar10", "CIFAR100": "feddm-cifar100"}


def published(name: str) -> Ground:
    config = read(PRESETS[name])
    silent = {"momentum": 0.9, "weight_decay": 5e-4}  # of the server; the paper does not say
    feddm: dict[str, Any] = {**config["method"], "server": {**config["method"]["server"], **silent}}
    real = {**{key: value for key, value in feddm.items() if key not in UNMATCHED}, "name": "real"}
    averaging = {"name": "fedavg", "rounds": feddm["rounds"], "local": {"epochs": 10, "batch": 256}}
    common = {**config, "method": averaging}
    rates = (0.001, 0.01, 0.1)
    return Ground(name, common, feddm, real, rates, (feddm["server"]["lr"],), (0, 1, 2))


# ---- at the desk

SERVER = {"epochs": 50, "batch": 256, "momentum": 0.9, "weight_decay": 5e-4}
FEDDM: Changes = {"name": "feddm", "rounds": 5, "radius": 2.0, "real_batch": 32, "steps": 40, "server": SERVER}
REAL: Changes = {"name": "real", "rounds": 5, "radius": 2.0, "server": SERVER}
LOCAL = {"epochs": 2, "batch": 32}
DESK_MNIST = Ground(
    "MNIST",
    {
        "data": {"name": "mnist-5k", "size": 14, "clients": 10, "split": {"kind": "dirichlet", "alpha": 0.1}},
        "model": {"name": "small-convnet", "width": 16, "fast": "eager"},  # compiling does not pay off in short runs
        "method": {"name": "fedavg", "rounds": 5, "local": LOCAL},
        "engine": {"name": "inline"},
    },
    FEDDM,
    REAL,
    (0.1, 0.3, 1.0),
    (0.1, 0.3, 1.0),
    (0, 1, 2),
    "quick",
)
DESK_CIFAR10 = DESK_MNIST.but(
    name="CIFAR10",
    config={
        **DESK_MNIST.config,
        "data": {
            "name": "cifar10",
            "size": 16,
            "limit": 5000,
            "clients": 10,
            "split": {"kind": "dirichlet", "alpha": 0.1},
        },
        "model": {"name": "convnet", "width": 32, "fast": "eager"},
    },
    rates=(0.03, 0.1, 0.3),
    server_rates=(0.03, 0.1, 0.3),
)

# ---- to prove the path

SMOKE_SERVER = {**SERVER, "epochs": 2}


def smoke(name: str) -> Ground:
    """Digits in place of any data set."""
    return Ground(
        name,
        {
            "data": {"name": "digits", "clients": 3, "limit": 150, "split": {"kind": "dirichlet", "alpha": 0.1}},
            "model": {"name": "small-convnet", "width": 2, "fast": "eager"},
            "method": {"name": "fedavg", "rounds": 1, "local": {"epochs": 1, "batch": 32}},
            "engine": {"name": "inline"},
        },
        {**FEDDM, "rounds": 1, "steps": 1, "server": SMOKE_SERVER},
        {**REAL, "rounds": 1, "server": SMOKE_SERVER},
        (0.1,),
        (0.1,),
        (0,),
    )
