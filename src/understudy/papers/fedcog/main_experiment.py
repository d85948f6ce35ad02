"""FedCOG's main experiment: rounds of averaging, then rounds with generated images, on two skewed splits.

"Fake It Till Make It: Federated Learning with Consensus-Oriented Generation". Most of its tables vary this experiment,
so they share runs: the first rounds of FedAvg are run once, and FedAvg and all variants of FedCOG go on from a copy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from understudy.config.read import read
from understudy.papers.comparison import Comparison, Contender, FirstRounds
from understudy.papers.study import Changes

PAPER = "Fake It Till Make It: Federated Learning with Consensus-Oriented Generation"
FEDAVG = "FedAvg"
BALANCED, FIXED = "FedCOG (balanced)", "FedCOG (fixed)"
OURS: Mapping[str, str] = {BALANCED: "balanced", FIXED: "fixed"}
# The control variates of SCAFFOLD and FedReg's corrections are derived for plain SGD, so these two go without momentum
# and weight decay; a rate of 0.01 / (1 − 0.9) makes their steps as long as those of the others.
PLAIN: Changes = {"method.local.momentum": 0.0, "method.local.weight_decay": 0.0}
BASELINES: Mapping[str, Changes] = {
    FEDAVG: {},
    "FedAvgM": {"method.name": "fedavgm", "method.preset": "fedcog-paper"},
    "FedProx": {"method.name": "fedprox", "method.preset": "fedcog"},
    "SCAFFOLD": {"method.name": "scaffold", **PLAIN},
    "MOON": {"method.name": "moon", "method.preset": "fedcog"},
    "FedSAM": {"method.name": "fedsam", "method.preset": "fedcog"},
    "VHL": {"method.name": "vhl", "method.preset": "fedcog"},
    "FedExp": {"method.name": "fedexp"},
    "FedDecorr": {"method.name": "feddecorr", "method.preset": "fedcog"},
    "FedReg": {"method.name": "fedreg", **PLAIN},
    "FedGen": {"method.name": "fedgen", **PLAIN},
}
PAPER_RATES: Mapping[str, Sequence[float]] = {"SCAFFOLD": (0.1,), "FedReg": (0.1,)}


@dataclass(frozen=True)
class Setting:
    """The experiment on one data set and split, at one scale."""

    column: str  # what the paper's tables call it
    config: Changes
    averaged: int = 50  # rounds of FedAvg that FedAvg and FedCOG begin with
    rounds: int = 70
    rates: Sequence[float] = (0.01,)
    rates_of: Mapping[str, Sequence[float]] = field(default_factory=dict)  # of methods that need others
    seeds: Sequence[int] = (0,)
    fedcog: Changes = field(default_factory=dict)  # what is smaller than in the paper
    methods: Mapping[str, Changes] = field(default_factory=dict)  # likewise, by row

    def cog(self, weighting: str, **more: Any) -> dict[str, Any]:
        """FedCOG as an add-on that begins after the rounds of averaging."""
        settings = {"from_round": self.averaged + 1, **self.fedcog, **more}
        return {"name": "fedcog", "kd_weighting": weighting, **settings}

    def baseline(self, row: str, **more: Any) -> Contender:
        """A method of table 1 that is not FedCOG."""
        if row == FEDAVG:
            return Contender(self.label(row), self._whole({}), begins=self.beginning(), **more)
        changes = self._whole({**BASELINES[row], **self.methods.get(row, {})})
        return Contender(self.label(row), changes, rates=self.rates_of.get(row, ()), **more)

    def variant(self, row: str, weighting: str, **settings: Any) -> Contender:
        """FedCOG with some of its settings changed, after the shared rounds, with FedAvg's rate."""
        changes = self._whole({"with": [self.cog(weighting, **settings)]})
        return Contender(self.label(row), changes, like=self.label(FEDAVG), begins=self.beginning())

    def beginning(self) -> FirstRounds:
        # With FedCOG, which so far only keeps each client's local model, to disagree with later.
        return FirstRounds({"with": [self.cog("fixed")]}, self.averaged)

    def _whole(self, changes: Changes) -> Changes:
        return {"with": [], **changes, "method.rounds": self.rounds}

    def label(self, row: str) -> str:
        return f"{row}, {self.column}"

    def comparison(self, name: str, about: str, contenders: Sequence[Contender]) -> Comparison:
        return Comparison(f"{name}, {self.column}", about, self.config, self.rates, self.seeds, contenders)


def at_papers_scale(preset: str, column: str, labels_per_client: int | None = None) -> Setting:
    """A preset of the paper; with ``labels_per_client`` on its second split."""
    words = read(preset)
    data = dict(words["data"])
    if labels_per_client is not None:
        data["split"] = {"kind": "label-groups", "labels_per_client": labels_per_client}
    # Whole runs are spread over processes, so a run needs only one.
    config = {**words, "data": data, "engine": {"name": "inline"}}
    return Setting(column, config, rates_of=PAPER_RATES)


def papers_settings() -> list[Setting]:
    """The six columns of table 1."""
    return [
        at_papers_scale("fedcog-fashion-mnist", "Fashion-MNIST NIID-1"),
        at_papers_scale("fedcog-fashion-mnist", "Fashion-MNIST NIID-2", 2),
        at_papers_scale("fedcog-cifar10", "CIFAR-10 NIID-1"),
        at_papers_scale("fedcog-cifar10", "CIFAR-10 NIID-2", 2),
        at_papers_scale("fedcog-cifar100", "CIFAR-100 NIID-1"),
        at_papers_scale("fedcog-cifar100", "CIFAR-100 NIID-2", 10),
    ]


def smoke_settings() -> list[Setting]:
    """Both splits of digits, with counters of a few: only the path counts."""
    config: dict[str, Any] = {
        "data": {"name": "digits", "limit": 200, "clients": 5, "split": {"kind": "dirichlet", "alpha": 0.1}},
        "model": {"name": "mlp", "hidden": [8]},
        "method": {"name": "fedavg", "local": {"steps": 2, "batch": 32, "lr": 0.05, "momentum": 0.9}},
        "engine": {"name": "inline"},
    }
    groups = {**config["data"], "split": {"kind": "label-groups", "labels_per_client": 2}}
    small = Setting("Fashion-MNIST NIID-1", config, 1, 2, (0.05,), fedcog={"images": 10, "steps": 2})
    return [small, replace(small, column="Fashion-MNIST NIID-2", config={**config, "data": groups})]
