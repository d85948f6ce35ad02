"""What FedLAP's experiments are run on, at each scale.

Paper: presets fedlap-mnist, -fashion-mnist and -cifar10. Baselines have 5 local epochs with batches of 256, rates 0.01
(CIFAR-10: 0.1) that fall as a cosine, and μ = 0.1.

Desk: 4000 images at 14×14 and a narrow ConvNet. All methods have the same number of rounds and see about as many
records per round: FedLAP ten batches of 128 (1.6 passes over a client's 800 records), the averaging methods two
passes. The six counters are a fraction of the paper's. Rates are constant, as there are few rounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from understudy.config.read import read
from understudy.learning.dsa import WITHOUT_FLIP
from understudy.papers.comparison import Contender
from understudy.papers.study import Changes

PAIRS: Changes = {"kind": "class-pairs", "pairs": "fedlap"}
IN_ONE_PLACE: Changes = {"data.clients": 1, "data.split": {"kind": "iid"}}
AVERAGING: Mapping[str, Changes] = {
    "FedAvg": {},
    "FedProx": {"method.name": "fedprox", "method.mu": 0.1},
    "SCAFFOLD": {"method.name": "scaffold"},
}
ONE_STEP = "FedSGD"
SAME_SERVER, REAL_SAME_SERVER = "FedDM with FedLAP's server", "REAL with FedLAP's server"
LAP_ROWS = ("DSC", ONE_STEP, *AVERAGING, "FedDM", "FedLAP", SAME_SERVER, REAL_SAME_SERVER)
LAP_STAND_INS = ("DSC", "FedDM", "FedLAP", SAME_SERVER, REAL_SAME_SERVER)
POOLED_RATE = "method.server.lr"


@dataclass(frozen=True)
class PairedGround:
    """One data set with class pairs, at one scale: what each kind of method has in its section ``method``."""

    name: str  # as the paper calls it
    config: Changes  # data, network, and FedAvg without local training
    local: Mapping[str, Any]
    feddm: Mapping[str, Any]
    lap: Mapping[str, Any]
    dsc: Mapping[str, Any]
    rates: Sequence[float]
    seeds: Sequence[int]
    audited: Literal["", "quick"] = ""
    pool_rates: Sequence[float] = ()  # of DSC's and FedDM's own servers; empty: like all others

    @property
    def rounds(self) -> int:
        return int(self.config["method"]["rounds"])

    def contender(self, row: str) -> Contender:
        label = f"{row}, {self.name}"
        if row in AVERAGING:
            return Contender(label, {"method.local": self.local, **AVERAGING[row]})
        if row == ONE_STEP:
            one = {key: value for key, value in self.local.items() if key != "epochs"}
            return Contender(label, {"method.name": "fedsgd", "method.local": {**one, "steps": 1}})
        if row == "DSC":
            changes = {**IN_ONE_PLACE, "method": {"name": "dc", "rounds": 1, **self.dsc}}
            return Contender(label, changes, POOLED_RATE, rates=self.pool_rates, audited=self.audited)
        if row == "FedLAP":
            return Contender(label, {"method": {"name": "fedlap", **self.lap}}, "method.lr", audited=self.audited)
        rates = self.pool_rates if row == "FedDM" else ()
        return Contender(label, {"method": self._of_images(row)}, POOLED_RATE, rates=rates, audited=self.audited)

    def _of_images(self, row: str) -> dict[str, Any]:
        """FedDM as it is; or FedDM and REAL with as many epochs, the same plain steps and augmentation as FedLAP."""
        if row == "FedDM":
            return {"name": "feddm", **self.feddm}
        server = {"epochs": self.lap.get("server_epochs", 100), "batch": 512, "momentum": 0.0, "weight_decay": 0.0}
        kinds = {} if self.lap.get("flip", True) else {"dsa_kinds": list(WITHOUT_FLIP)}
        schedule = {"schedule": self.lap.get("schedule", "cosine")}
        alike = {"radius": 10.0, "server": {**server, **schedule}, "dsa": True, **kinds}
        if row == SAME_SERVER:
            return {"name": "feddm", **self.feddm, **alike}
        return {"name": "real", "ipc": self.feddm["ipc"], **alike}


# ---- as published

PAPER_PRESETS = {"MNIST": "fedlap-mnist", "Fa.MNIST": "fedlap-fashion-mnist", "CIFAR-10": "fedlap-cifar10"}


def as_published(name: str) -> PairedGround:
    preset = read(PAPER_PRESETS[name])
    rate = 0.1 if name == "CIFAR-10" else 0.01
    method = {key: value for key, value in preset["method"].items() if key not in ("name", "rounds")}
    return PairedGround(
        name,
        {**preset, "method": {"name": "fedavg", "rounds": preset["method"]["rounds"]}},
        {"epochs": 5, "batch": 256, "schedule": "cosine"},
        {"ipc": 50, "steps": 1000, "server": {"epochs": 500, "batch": 256}},
        {**method, "flip": name != "MNIST", "server_epochs": 100},
        {"ipc": 50},
        (rate,),
        (0, 1, 2),
        pool_rates=(0.01,),
    )


# ---- at the desk

MODEL: Changes = {"name": "small-convnet", "width": 16, "fast": "eager"}
INLINE: Changes = {"name": "inline"}
LAP: Mapping[str, Any] = {
    "stages": 5,
    "real_batches": 2,
    "image_steps": 5,
    "path_epochs": 0,
    "batch": 128,
    "ipc": 10,
    "server_epochs": 50,
    "schedule": "constant",
    "flip": False,
}
DESK_MNIST = PairedGround(
    "MNIST",
    {
        "data": {"name": "mnist-5k", "size": 14, "clients": 5, "split": PAIRS},
        "model": MODEL,
        "method": {"name": "fedavg", "rounds": 4},
        "engine": INLINE,
    },
    {"epochs": 2, "batch": 32},
    {"ipc": 10, "steps": 100, "real_batch": 64, "server": {"epochs": 100}},
    LAP,
    {"ipc": 10, "iterations": 10, "outer": 5, "inner": 5, "real_batch": 64, "server": {"epochs": 100}},
    (0.03, 0.1, 0.3, 1.0),
    (0, 1, 2),
    "quick",
)
DESK_FASHION = PairedGround(
    "Fa.MNIST",
    {
        **DESK_MNIST.config,
        "data": {"name": "fashion-mnist", "size": 14, "limit": 4000, "clients": 5, "split": PAIRS},
    },
    DESK_MNIST.local,
    DESK_MNIST.feddm,
    {**LAP, "flip": True},
    DESK_MNIST.dsc,
    (0.03, 0.1, 0.3),
    (0, 1, 2),
    "quick",
)


# ---- to prove the path

QUICK_LAP: Mapping[str, Any] = {**LAP, "stages": 1, "real_batches": 1, "image_steps": 1, "server_epochs": 2, "ipc": 2}


def smoke(name: str) -> PairedGround:
    """Digits in place of any data set."""
    return PairedGround(
        name,
        {
            "data": {"name": "digits", "limit": 200, "clients": 5, "split": PAIRS},
            "model": {**MODEL, "width": 2},
            "method": {"name": "fedavg", "rounds": 1},
            "engine": INLINE,
        },
        {"epochs": 1, "batch": 32},
        {"ipc": 2, "steps": 1, "server": {"epochs": 2}},
        QUICK_LAP,
        {"ipc": 2, "iterations": 1, "outer": 1, "inner": 1, "server": {"epochs": 2}},
        (0.1,),
        (0,),
    )
