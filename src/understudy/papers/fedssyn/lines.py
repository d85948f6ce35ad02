"""Columns of table 1 and their lines: five methods with nothing added, with clients' own images, or with shuffled ones.

Many tables and figures show some of these lines, so they are all made here: a run that two of them need is the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from understudy.papers.comparison import Comparison, Contender, ShuffledImages
from understudy.papers.fedssyn.setups import (
    CIFAR10,
    CIFAR100,
    DIFFUSION,
    PAPER_RATES,
    RATES,
    SEEDS,
    SMALL,
    STAGED_DIFFUSION,
    TINY,
    TINY_VAE,
    VAE,
    quickly,
)
from understudy.papers.study import Changes, Scale

METHODS = ("FedAvg", "SCAFFOLD", "FedProx", "FedDyn", "FedPVR")
WITH, OWN = " + Fedssyn", " + own images"  # what a client has besides its records
ALPHAS = (0.01, 0.1)
FULL, PART, FORTY, HUNDRED = "N=10", "N=10 (C=40%)", "N=40 (C=20%)", "N=100 (C=10%)"


@dataclass(frozen=True)
class SetupColumn:
    """One set-up: data, split, who takes part in a round."""

    name: str
    config: Changes
    changes: Changes  # in that config
    target: float  # m: the accuracy whose rounds are counted
    methods: Mapping[str, Changes]
    shuffled: Mapping[str, Changes] = field(default_factory=dict)  # what a method changes besides, with images
    generator: Changes = field(default_factory=dict)
    images: int | None = None  # ñ; None: as many as a client has records
    tuning: int | None = None  # rounds while tuning rates; None: all
    rates: Sequence[float] = RATES
    seeds: Sequence[int] = SEEDS
    audited: bool = False  # lines with shuffled images are attacked

    def label(self, line: str) -> str:
        return f"{line}, {self.name}"

    def exchange(self, **more: object) -> Changes:
        return {**({} if self.images is None else {"images": self.images}), **more}

    def comparison(self, contenders: Sequence[Contender]) -> Comparison:
        about = f"Fedssyn and what it is compared with: {self.name}"
        tuning = {} if self.tuning is None else {"method.rounds": self.tuning}
        return Comparison("fedssyn", about, self.config, self.rates, self.seeds, contenders, tuning=tuning)

    def plain(self, method: str) -> Contender:
        return Contender(self.label(method), {**self.methods[method], **self.changes})

    def with_shuffled(self, method: str) -> Contender:
        changes = {**self.methods[method], **self.shuffled.get(method, {}), **self.changes}
        images = ShuffledImages(self.generator, exchange=self.exchange())
        audited = quickly(self.audited)
        return Contender(self.label(method + WITH), changes, images=images, audited=audited)

    def with_own(self, method: str) -> Contender:
        changes = {**self.methods[method], **self.changes}
        images = ShuffledImages(self.generator, exchange=self.exchange(deal="own"))
        return Contender(self.label(method + OWN), changes, images=images)


def _split(alpha: float) -> dict[str, float]:
    return {"data.split.alpha": alpha}


def _named(takes: str, alpha: float) -> str:
    return f"{takes}, α={alpha:g}"


# ---- desk and smoke

DESK_METHODS: Mapping[str, Changes] = {
    "FedAvg": {},
    "SCAFFOLD": {"method.name": "scaffold"},
    "FedProx": {"method.name": "fedprox", "method.mu": 0.01},
    "FedDyn": {"method.name": "feddyn", "method.alpha": 0.1},
    "FedPVR": {"method.name": "fedpvr"},
}
DESK_TARGET = 0.8
_TAKING: Mapping[str, tuple[Changes, int]] = {
    FULL: ({"method.cohort": 1.0, "method.rounds": 20}, 10),
    PART: ({"method.cohort": 0.4, "method.rounds": 40}, 20),
    FORTY: ({"data.clients": 40, "method.cohort": 0.2, "method.rounds": 40}, 20),
}


def _desk_column(takes: str, alpha: float) -> SetupColumn:
    changes, tuning = _TAKING[takes]
    return SetupColumn(
        _named(takes, alpha),
        SMALL,
        {**_split(alpha), **changes},
        DESK_TARGET,
        DESK_METHODS,
        generator=VAE,
        tuning=tuning,
        audited=(takes, alpha) == (FULL, 0.01),
    )


def _smoke_column(takes: str, alpha: float) -> SetupColumn:
    cohort: Changes = {"method.cohort": 1.0 if takes == FULL else 0.5}
    methods = {name: DESK_METHODS[name] for name in ("FedAvg", "SCAFFOLD")}
    return SetupColumn(
        _named(takes, alpha),
        TINY,
        {**_split(0.5), **cohort},
        DESK_TARGET,
        methods,
        generator=TINY_VAE,
        rates=(0.1,),
        seeds=(0,),
    )


# ---- paper


def _paper_methods(dyn_alpha: float) -> dict[str, Changes]:
    return {
        "FedAvg": {},
        "SCAFFOLD": {"method.name": "scaffold"},
        "FedProx": {"method.name": "fedprox", "method.preset": "fedssyn"},
        "FedDyn": {"method.name": "feddyn", "method.alpha": dyn_alpha, "method.local.clip": 10.0},
        "FedPVR": {"method.name": "fedpvr", "method.preset": "fedssyn"},
    }


_CLIENTS: Mapping[str, tuple[Changes, int]] = {
    FULL: ({"data.clients": 10, "method.cohort": 1.0}, 5000),
    PART: ({"data.clients": 10, "method.cohort": 0.4}, 5000),
    FORTY: ({"data.clients": 40, "method.cohort": 0.2}, 1250),
    HUNDRED: ({"data.clients": 100, "method.cohort": 0.1}, 500),
}
TEN_TARGETS = {0.01: 0.44, 0.1: 0.66}  # m on CIFAR-10
HUNDRED_TARGETS = {FULL: (0.3, 0.4), PART: (0.2, 0.2), FORTY: (0.3, 0.4), HUNDRED: (0.3, 0.3)}  # on CIFAR-100, by α
CIFAR100_TOO = "CIFAR-100, "


def _cifar10_column(takes: str, alpha: float) -> SetupColumn:
    changes, images = _CLIENTS[takes]
    staged = alpha == ALPHAS[0] and takes in (FULL, PART, FORTY)  # stages take space; figures look at these
    return SetupColumn(
        _named(takes, alpha),
        CIFAR10,
        {**_split(alpha), **changes},
        TEN_TARGETS[alpha],
        _paper_methods(0.001),
        {"FedDyn": {"method.alpha": 0.01}},
        STAGED_DIFFUSION if staged else DIFFUSION,
        images,
        rates=PAPER_RATES,
    )


def _cifar100_column(takes: str, alpha: float) -> SetupColumn:
    changes, images = _CLIENTS[takes]
    return SetupColumn(
        CIFAR100_TOO + _named(takes, alpha),
        CIFAR100,
        {**_split(alpha), **changes},
        HUNDRED_TARGETS[takes][ALPHAS.index(alpha)],
        _paper_methods(0.01),
        generator=DIFFUSION,
        images=images,
        rates=PAPER_RATES,
    )


COLUMNS: Mapping[Scale, Sequence[SetupColumn]] = {
    "smoke": [_smoke_column(FULL, 0.01)],
    "desk": [_desk_column(takes, alpha) for takes in _TAKING for alpha in ALPHAS],
    "paper": [
        make(takes, alpha) for make in (_cifar10_column, _cifar100_column) for takes in _CLIENTS for alpha in ALPHAS
    ],
}


def column(scale: Scale, name: str) -> SetupColumn:
    return next(one for one in COLUMNS[scale] if one.name == name)
