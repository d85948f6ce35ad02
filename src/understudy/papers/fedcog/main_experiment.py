"""FedCOG's main experiment: rounds of averaging, then rounds with generated images, on two skewed splits.

"Fake It Till Make It: Federated Learning with Consensus-Oriented Generation". Most of its tables vary this experiment,
so they share runs: the first rounds of FedAvg are run once, and FedAvg and all variants of FedCOG go on from a copy.
"""

from collections.abc import Callable, Mapping, Sequence
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

    column: str  # what tables call it
    config: Changes
    averaged: int = 50  # rounds of FedAvg that FedAvg and FedCOG begin with
    rounds: int = 70
    rates: Sequence[float] = (0.01,)
    rates_of: Mapping[str, Sequence[float]] = field(default_factory=dict)  # of methods that need others
    seeds: Sequence[int] = (0,)
    fedcog: Changes = field(default_factory=dict)  # what is smaller than in the paper
    tuning: Changes = field(default_factory=dict)  # likewise, while rates are tuned
    seeds_of: Mapping[str, Sequence[int]] = field(default_factory=dict)  # of methods that take long
    measure: str = "accuracy"
    common: Changes = field(default_factory=dict)  # what a variation changes for all methods
    varies: str = ""  # of a variation: the column of the setting that it varies, whose rates it takes

    def cog(self, weighting: str, **more: Any) -> dict[str, Any]:
        """FedCOG as an add-on that begins after the rounds of averaging."""
        settings = {"from_round": self.averaged + 1, **self.fedcog, **more}
        return {"name": "fedcog", "kd_weighting": weighting, **settings}

    def within(self, column: str, common: Changes) -> "Setting":
        """A variation, for the comparison of this setting: it takes the rates that were tuned here."""
        return replace(self, column=column, common={**self.common, **common}, varies=self.varies or self.column)

    def stopped_at(self, rounds: int) -> "Setting":
        return replace(self, rounds=rounds)

    # ---- lines

    def baseline(self, row: str) -> Contender:
        """A method of table 1 that is not FedCOG."""
        if row == FEDAVG:
            return self.continued(row, {})
        return Contender(self.label(row), self._whole(BASELINES[row]), **self._rated(row), seeds=self._seeds(row))

    def variant(self, row: str, weighting: str, **settings: Any) -> Contender:
        """FedCOG with some of its settings changed, after the shared rounds."""
        return self.continued(row, {"with": [self.cog(weighting, **settings)]})

    def continued(self, row: str, changes: Changes, after: str = FEDAVG, kept: bool = False) -> Contender:
        """Any line that goes on from the first rounds of the method ``after``, with its rate."""
        begins = FirstRounds({**BASELINES[after], **self.common, "with": [self.cog("fixed")]}, self.averaged)
        # FedCOG takes part in them only by keeping each client's local model, to disagree with later.
        changes, rated = self._whole({**BASELINES[after], **changes}), self._rated(after, row)
        return Contender(self.label(row), changes, **rated, seeds=self._seeds(after), begins=begins, kept=kept)

    def tunes(self, method: str) -> bool:
        """Whether there is a rate to choose."""
        return len(self.rates_of.get(method, self.rates)) > 1

    def _rated(self, method: str, row: str = "") -> dict[str, Any]:
        """Its own rates, or those of the line that is tuned for it."""
        tuned = f"{method}, {self.varies or self.column}"
        if self.tunes(method) and tuned != self.label(row or method):
            return {"like": tuned}
        return {"rates": self.rates_of.get(method, ())}

    def _seeds(self, method: str) -> Sequence[int]:
        return self.seeds_of.get(method, ())

    def _whole(self, changes: Changes) -> Changes:
        return {"with": [], **changes, **self.common, "method.rounds": self.rounds}

    def label(self, row: str) -> str:
        return f"{row}, {self.column}"

    def comparison(self, name: str, about: str, contenders: Sequence[Contender]) -> Comparison:
        named, of_lines = f"{name}, {self.column}", (self.rates, self.seeds, contenders, self.measure)
        # Where a record has few of many labels, whoever names none is right on most: accuracy would choose that.
        tuned_on = f"validation_{self.measure if self.measure == 'macro_f1' else 'accuracy'}"
        return Comparison(named, about, self.config, *of_lines, tuned_on=tuned_on, tuning=self.tuning)


Group = Sequence[Setting]  # of one comparison: the first is tuned, the others vary it


def compared(
    name: str,
    about: str,
    groups: Sequence[Group],
    lines: Callable[[Setting], Sequence[Contender]],
    tuned: Sequence[str] = (FEDAVG,),
    split: str = "",
) -> list[Comparison]:
    """A comparison per group: the lines of each setting, or only of those with a certain split, and the methods of the
    first setting whose rates they take."""
    found = []
    for group in groups:
        wanted = [one for one in group if not split or split_of(one) == split]
        chosen = [group[0].baseline(row) for row in tuned if group[0].tunes(row)]
        every = [*chosen, *(line for one in wanted for line in lines(one))]
        by_label = {line.label: line for line in every}
        found.append(group[0].comparison(name, about, list(by_label.values())))
    return found


def split_of(setting: Setting) -> str:
    """NIID-1 or NIID-2."""
    return setting.column.split()[-1]


# ---- scales


def at_papers_scale(preset: str, column: str, labels_per_client: int | None = None) -> Setting:
    """A preset of the paper; with ``labels_per_client`` on its second split."""
    words = read(preset)
    data = dict(words["data"])
    if labels_per_client is not None:
        data["split"] = {"kind": "label-groups", "labels_per_client": labels_per_client}
    # Whole runs are spread over processes, so a run needs only one.
    config = {**words, "data": data, "engine": {"name": "inline"}}
    return Setting(column, config, rates_of=PAPER_RATES)


FASHION: Sequence[Group] = (
    [at_papers_scale("fedcog-fashion-mnist", "Fashion-MNIST NIID-1")],
    [at_papers_scale("fedcog-fashion-mnist", "Fashion-MNIST NIID-2", 2)],
)
CIFAR10: Sequence[Group] = (
    [at_papers_scale("fedcog-cifar10", "CIFAR-10 NIID-1")],
    [at_papers_scale("fedcog-cifar10", "CIFAR-10 NIID-2", 2)],
)
CIFAR100: Sequence[Group] = (
    [at_papers_scale("fedcog-cifar100", "CIFAR-100 NIID-1")],
    [at_papers_scale("fedcog-cifar100", "CIFAR-100 NIID-2", 10)],
)


def _both_splits(config: Mapping[str, Any], dirichlet: Changes, **of_setting: Any) -> Group:
    """Rates are tuned where clients lack whole labels, and used on both splits."""
    groups = {"kind": "label-groups", "labels_per_client": 2}
    config = {**config, "data": {**config["data"], "split": groups}}
    second = Setting("Fashion-MNIST NIID-2", config, **of_setting)
    return [second, second.within("Fashion-MNIST NIID-1", {"data.split": dict(dirichlet)})]


# The gain of the balanced weighting where clients lack whole labels shows here as it does at the paper's scale.
DESK: Sequence[Group] = (
    _both_splits(
        {
            "data": {"name": "fashion-mnist", "limit": 6000, "size": 16, "clients": 10, "mean": [0.5], "std": [0.5]},
            "model": {"name": "simple-cnn"},
            "method": {"name": "fedavg", "local": {"steps": 50, "batch": 32, "momentum": 0.9}},
            "engine": {"name": "inline"},
        },
        {"kind": "dirichlet", "alpha": 0.1, "style": "niid-bench"},
        averaged=12,
        rounds=20,
        rates=(0.01, 0.03, 0.1),
        rates_of={"SCAFFOLD": (0.03, 0.1, 0.3), "FedReg": (0.03, 0.1, 0.3), "FedGen": (0.003, 0.01, 0.03)},
        seeds=(0, 1, 2),
        seeds_of={"FedReg": (0,)},
        fedcog={"images": 32, "steps": 50},
        tuning={"method.rounds": 8},
    ),
)
SMOKE: Sequence[Group] = (
    _both_splits(
        {
            "data": {"name": "digits", "limit": 200, "clients": 5},
            "model": {"name": "mlp", "hidden": [8]},
            "method": {"name": "fedavg", "local": {"steps": 2, "batch": 32, "momentum": 0.9}},
            "engine": {"name": "inline"},
        },
        {"kind": "dirichlet", "alpha": 0.1},
        averaged=1,
        rounds=2,
        rates=(0.05,),
        fedcog={"images": 10, "steps": 2},
    ),
)
ONE_SPLIT: Sequence[Group] = [SMOKE[0][:1]]
