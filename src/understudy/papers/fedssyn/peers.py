"""Table 2, figures A.1 and A.2: Fedssyn beside other uses of synthetic data: FedGen (features from the server), DENSE
(images against an ensemble) and FedDM (condensed images every round).

All have the same network and the same passes over records per round, and their rates are tuned alike: the clients' for
methods that train there, the server's for FedDM. FedGen diverges at rates where the others do best, so it has its own
grid, below that point. FedDM is compared over as many rounds as the paper's crossing needs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from understudy.papers.comparison import Comparison, Contender, ShuffledImages
from understudy.papers.fedssyn.setups import (
    CIFAR10,
    CIFAR100,
    CONV,
    DIFFUSION,
    PAPER_RATES,
    RATES,
    SEEDS,
    TINY,
    TINY_VAE,
    VAE,
    quickly,
)
from understudy.papers.study import Changes, Scale

SSYN_LINE, FEDGEN, DENSE, FEDDM = "Fedssyn", "FedGEN", "DENSE", "FedDM"
SERVER_RATE = "method.server.lr"
LONG = 40  # rounds: the paper's Fedssyn is ahead of FedDM after 30 to 40


@dataclass(frozen=True)
class Peers:
    """One data set and split."""

    column: str
    config: Changes
    changes: Changes
    generator: Changes
    exchange: Changes
    peers: Mapping[str, Changes]
    target: float
    rates: Sequence[float]
    fedgen_rates: Sequence[float]
    seeds: Sequence[int]
    tuning: Changes
    long: int  # rounds beside FedDM
    long_seeds: Sequence[int] = (0, 1)  # beside FedDM; the paper has two runs each
    feddm_rates: Sequence[float] = ()  # of its server; empty: as the others
    audited: bool = False

    def label(self, line: str) -> str:
        return f"{line}, {self.column}"

    def comparison(self, contenders: Sequence[Contender]) -> Comparison:
        about = f"Fedssyn beside FedGen, DENSE and FedDM: {self.column}"
        return Comparison("fedssyn-peers", about, self.config, self.rates, self.seeds, contenders, tuning=self.tuning)

    def shuffling(self) -> Contender:
        images = ShuffledImages(self.generator, exchange=self.exchange)
        audited = quickly(self.audited)
        return Contender(self.label(SSYN_LINE), self.changes, images=images, audited=audited)

    def peer(self, name: str) -> Contender:
        rates = self.fedgen_rates if name == FEDGEN else ()
        return Contender(self.label(name), {**self.peers[name], **self.changes}, rates=rates)

    def long_lines(self) -> list[Contender]:
        """Both as far as the crossing; rates are those of fewer rounds."""
        rounds = {"method.rounds": self.long}
        images = ShuffledImages(self.generator, exchange=self.exchange)
        seeds = self.long_seeds
        shuffling = Contender(self.label(f"{SSYN_LINE}, long"), {**self.changes, **rounds}, images=images, seeds=seeds)
        feddm = {**self.peers[FEDDM], **self.changes, **rounds}
        audited = quickly(self.audited)
        return [
            shuffling,
            Contender(self.label(f"{FEDDM}, long"), feddm, SERVER_RATE, self.feddm_rates, seeds=seeds, audited=audited),
        ]


# ---- desk and smoke

_SERVER: Changes = {"epochs": 50, "batch": 256, "momentum": 0.9, "weight_decay": 5e-4}
_DESK: Mapping[str, Changes] = {
    FEDGEN: {"method.name": "fedgen"},
    DENSE: {
        "method.name": "dense",
        "method.pre_rounds": 4,
        "method.student_init": "server",
        "method.alone.epochs": 10,
        "method.epochs_a_round": 2,
        "method.images": 64,
        "method.generator_steps": 10,
    },
    FEDDM: {"method": {"name": "feddm", "rounds": 5, "radius": 2.0, "real_batch": 32, "steps": 40, "server": _SERVER}},
}
_QUICK: Mapping[str, Changes] = {
    FEDGEN: {"method.name": "fedgen"},
    DENSE: {
        "method.name": "dense",
        "method.alone.epochs": 1,
        "method.epochs_a_round": 1,
        "method.images": 4,
        "method.generator_steps": 1,
    },
    FEDDM: {"method": {"name": "feddm", "rounds": 1, "ipc": 1, "steps": 1, "real_batch": 8, "server": {"epochs": 1}}},
}
_QUICK_CONV: Changes = {**TINY, "model": {"name": "small-convnet", "width": 2, "fast": "eager"}}


def _at_desk(alpha: float) -> Peers:
    return Peers(
        f"α={alpha:g}",
        CONV,
        {"data.split.alpha": alpha},
        VAE,
        {},
        _DESK,
        0.8,
        (0.01, *RATES),
        (0.005, 0.01, 0.02, 0.03, 0.05),
        SEEDS,
        {"method.rounds": 5},
        LONG,
        feddm_rates=(0.01, 0.03, 0.1),
        audited=alpha == 0.1,
    )


# ---- paper


def _paper_peers(images_per_class: int) -> dict[str, Changes]:
    server = {"epochs": 500, "batch": 256, "momentum": 0.9, "weight_decay": 5e-4}
    return {
        FEDGEN: {"method.name": "fedgen", "method.preset": "fedssyn"},
        DENSE: {"method.name": "dense", "method.preset": "fedssyn", "method.rounds": 30},
        FEDDM: {
            "method": {"name": "feddm", "rounds": LONG, "weights": "pool", "ipc": images_per_class, "server": server}
        },
    }


def _at_paper(data: str, config: Changes, alpha: float, target: float, ipc: int) -> Peers:
    return Peers(
        f"{data}α={alpha:g}",
        config,
        {"data.split.alpha": alpha},
        DIFFUSION,
        {"images": 5000},
        _paper_peers(ipc),
        target,
        PAPER_RATES,
        (0.05, 0.1, 0.2),
        SEEDS,
        {},
        LONG,
        feddm_rates=(0.01,),
    )


CIFAR100_TOO = "CIFAR-100, "
ALL_PEERS: Mapping[Scale, Sequence[Peers]] = {
    "smoke": [
        Peers(
            "α=0.1",
            _QUICK_CONV,
            {"data.split.alpha": 0.5},
            TINY_VAE,
            {},
            _QUICK,
            0.8,
            (0.1,),
            (0.1,),
            (0,),
            {},
            2,
            (0,),
        )
    ],
    "desk": [_at_desk(0.01), _at_desk(0.1)],
    "paper": [
        _at_paper("", CIFAR10, 0.01, 0.44, 10),
        _at_paper("", CIFAR10, 0.1, 0.66, 10),
        _at_paper(CIFAR100_TOO, CIFAR100, 0.01, 0.3, 5),
        _at_paper(CIFAR100_TOO, CIFAR100, 0.1, 0.4, 5),
    ],
}
