"""FedCOG's study on Fashion-MNIST: rounds of averaging, then rounds with generated images, on two skewed splits.

"Fake It Till Make It: Federated Learning with Consensus-Oriented Generation". The first rounds are the same for
all variants, so they are run once, and each variant continues from a copy of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from understudy.config.read import read
from understudy.config.resolve import resolve
from understudy.config.schema import Config
from understudy.papers.printed import COG, PRINTED
from understudy.papers.study import Changes, Drawing, Findings, Panel, Shown, Study, StudyLine, StudyTable, Trace
from understudy.papers.tuned import line_of
from understudy.runs.branching import branch
from understudy.runs.play import play
from understudy.runs.watching import Observer

ABOUT = "FedCOG's Fashion-MNIST study: ten clients, averaging first, then both weightings of FedCOG beside FedAvg"
SPLITS: Mapping[str, Changes] = {
    "dirichlet": {},
    "groups": {"data.split": {"kind": "label-groups", "labels_per_client": 2}},
}
SAID = {"dirichlet": "Dirichlet 0.1", "groups": "two labels per client"}
VARIANTS = {"fedavg": "FedAvg", "fixed": "FedCOG, fixed weighting", "balanced": "FedCOG, balanced weighting"}
TABLE_1 = next(one.figures for one in PRINTED if (one.paper, one.place) == (COG, "table 1"))
PUBLISHED = {
    split: {one: float(TABLE_1["fedavg" if one == "fedavg" else "fedcog"].split(" / ")[at]) for one in VARIANTS}
    for at, split in enumerate(SPLITS)
}


@dataclass(frozen=True)
class CogPlan:
    averaged: int = 50  # rounds of FedAvg that all variants begin with
    rounds: int = 70
    changes: Changes = field(default_factory=dict)
    fedcog: Changes = field(default_factory=dict)

    def config(self, split: str, variant: str, rounds: int) -> Config:
        changes = {**SPLITS[split], **self.changes, **self.after_averaging(variant, rounds)}
        return resolve(read("fedcog-fashion-mnist"), changes)

    def after_averaging(self, variant: str, rounds: int) -> Changes:
        """What a variant changes after the shared rounds."""
        fedcog = {"name": "fedcog", "from_round": self.averaged + 1, **self.fedcog, "kd_weighting": variant}
        return {"with": [] if variant == "fedavg" else [fedcog], "method.rounds": rounds}


def fedcog_study(plan: CogPlan, out: Path, observer: Observer) -> Findings:
    return _findings(plan, {split: _runs(plan, split, out / split, observer) for split in SPLITS})


def _runs(plan: CogPlan, split: str, home: Path, observer: Observer) -> dict[str, StudyLine]:
    observer.says(f"\n{SAID[split]}: {plan.averaged} rounds of averaging")
    # With FedCOG, which so far only keeps each client's local model and later continues from it.
    play(plan.config(split, "fixed", plan.averaged), home / "base", resume=True, observer=observer)
    found = {}
    for variant, label in VARIANTS.items():
        observer.says(f"\n{SAID[split]}: {label}")
        config = branch(home / "base", home / variant, plan.after_averaging(variant, plan.rounds))
        result = play(config, home / variant, resume=True, observer=observer)
        found[variant] = line_of(f"{variant}, {SAID[split]}", [result])
    return found


def _findings(plan: CogPlan, found: Mapping[str, Mapping[str, StudyLine]]) -> Findings:
    rows, panels, notes = [], [], []
    for split, lines in found.items():
        curves = {variant: [100 * value for value in one.values[0]] for variant, one in lines.items()}
        for variant, label in VARIANTS.items():
            after = curves[variant][plan.averaged + 1 :]
            ours = (curves[variant][plan.averaged], after[-1], max(after), sum(after) / len(after))
            told = PUBLISHED[split][variant]
            rows.append([f"{SAID[split]}: {label}", *(f"{value:.1f}" for value in ours), f"{told:.2f}"])
        traces = [
            Trace(label, lines[variant].rounds, curves[variant], look)
            for look, (variant, label) in enumerate(VARIANTS.items())
        ]
        since = (plan.averaged, plan.rounds)
        panels.append(Panel(SAID[split], "round", "test accuracy (%), one seed", traces, shaded=since))
        gains = ", ".join(f"{VARIANTS[v]} {curves[v][-1] - curves['fedavg'][-1]:+.1f}" for v in ("fixed", "balanced"))
        published = PUBLISHED[split]["fixed"] - PUBLISHED[split]["fedavg"]
        notes.append(f"{SAID[split]}, points above FedAvg after the last round: {gains}; published {published:+.2f}.")
    headings = ("split and method", f"after round {plan.averaged}", "last round", "best", "mean since", "published")
    tables = {"table": [StudyTable(headings, rows)]}
    every = [one for lines in found.values() for one in lines.values()]
    return Findings(ABOUT, every, tables, {"table": Drawing(ABOUT, panels)}, notes=notes)


SMOKE = CogPlan(
    averaged=1,
    rounds=2,
    changes={
        "data.name": "digits",
        "data.limit": 200,
        "data.clients": 5,
        "model": "softmax",
        "method.local.steps": 2,
        "method.local.augment": [],
        "engine": "inline",
    },
    fedcog={"images": 10, "steps": 2},
)
STUDIES = (
    Study(
        "fedcog-fashion-mnist",
        ABOUT,
        {"smoke": partial(fedcog_study, SMOKE), "paper": partial(fedcog_study, CogPlan())},
        Shown(
            "Fashion-MNIST, SimpleCNN, 10 clients, 50 rounds of FedAvg and 20 more: {}",
            r"(?P<more>(?P<method>fedavg|fixed|balanced), .+)",
            {"fixed": "fedcog", "balanced": "fedcog"},
            "paper",
        ),
    ),
)
