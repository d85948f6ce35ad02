"""FedCOG's study on Fashion-MNIST: rounds of averaging, then rounds with generated images, on two skewed splits.

"Fake It Till Make It: Federated Learning with Consensus-Oriented Generation". The first rounds are the same for all
that is compared, so they are run once, and each goes on from a copy of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.config.read import read
from understudy.config.resolve import resolve
from understudy.config.schema import Config
from understudy.papers.experiment import Experiment, Findings, Panel, Trace, markdown_table
from understudy.runs.branching import branch
from understudy.runs.folder import Line
from understudy.runs.play import play
from understudy.runs.watching import Observer

ABOUT = "FedCOG's Fashion-MNIST study: ten clients, averaging first, then both weightings of FedCOG beside FedAvg"
SPLITS: Mapping[str, Mapping[str, Any]] = {
    "dirichlet": {},
    "groups": {"data.split": {"kind": "label-groups", "labels_per_client": 2}},
}
SAID = {"dirichlet": "Dirichlet 0.1", "groups": "two labels a client"}
PUBLISHED = {
    "dirichlet": {"fedavg": 73.07, "fixed": 77.34, "balanced": 77.34},
    "groups": {"fedavg": 64.11, "fixed": 73.68, "balanced": 73.68},
}
VARIANTS = {"fedavg": "FedAvg", "fixed": "FedCOG, fixed weighting", "balanced": "FedCOG, balanced weighting"}


@dataclass(frozen=True)
class CogPlan:
    averaged: int = 50  # rounds of FedAvg that all begin with
    rounds: int = 70
    changes: Mapping[str, Any] = field(default_factory=dict)
    fedcog: Mapping[str, Any] = field(default_factory=dict)

    def config(self, split: str, variant: str, rounds: int) -> Config:
        changes = {**SPLITS[split], **self.changes, **self.after_averaging(variant, rounds)}
        return resolve(read("fedcog-fashion-mnist"), changes)

    def after_averaging(self, variant: str, rounds: int) -> Mapping[str, Any]:
        """What a variant changes once the rounds that all have in common are done."""
        fedcog = {"name": "fedcog", "from_round": self.averaged + 1, **self.fedcog, "kd_weighting": variant}
        return {"with": [] if variant == "fedavg" else [fedcog], "method.rounds": rounds}


def fedcog_study(plan: CogPlan | None = None) -> Experiment:
    chosen = plan or CogPlan()

    def carry_out(out: Path, observer: Observer) -> Findings:
        metrics = {split: _runs(chosen, split, out / split, observer) for split in SPLITS}
        return _findings(chosen, metrics)

    return Experiment("fedcog-fashion-mnist", ABOUT, carry_out)


def _runs(plan: CogPlan, split: str, home: Path, observer: Observer) -> dict[str, list[Line]]:
    observer.says(f"\n{SAID[split]}: {plan.averaged} rounds of averaging")
    # With FedCOG, which does nothing yet but keep each client's local model, from which it goes on.
    play(plan.config(split, "fixed", plan.averaged), home / "base", resume=True, observer=observer)
    found = {}
    for variant, label in VARIANTS.items():
        observer.says(f"\n{SAID[split]}: {label}")
        config = branch(home / "base", home / variant, plan.after_averaging(variant, plan.rounds))
        found[variant] = play(config, home / variant, resume=True, observer=observer).metrics
    return found


def _findings(plan: CogPlan, metrics: Mapping[str, Mapping[str, list[Line]]]) -> Findings:
    rows, panels, notes, numbers = [], [], [], {}
    for split, runs in metrics.items():
        curves = {variant: {line["round"]: 100 * line["accuracy"] for line in runs[variant]} for variant in VARIANTS}
        after = {variant: [curves[variant][r] for r in range(plan.averaged + 1, plan.rounds + 1)] for variant in curves}
        for variant, label in VARIANTS.items():
            mean = sum(after[variant]) / len(after[variant])
            ours = (curves[variant][plan.averaged], after[variant][-1], max(after[variant]), mean)
            told = PUBLISHED[split][variant]
            rows.append([f"{SAID[split]}: {label}", *(f"{value:.1f}" for value in ours), f"{told:.2f}"])
        panels.append(
            Panel(
                SAID[split],
                "round",
                "test accuracy (%), one seed",
                [Trace(label, list(curves[one]), list(curves[one].values()), at) for at, (one, label) in _looks()],
                shaded=(plan.averaged, plan.rounds),
            )
        )
        gains = ", ".join(f"{VARIANTS[v]} {after[v][-1] - after['fedavg'][-1]:+.1f}" for v in ("fixed", "balanced"))
        published = PUBLISHED[split]["fixed"] - PUBLISHED[split]["fedavg"]
        notes.append(f"{SAID[split]}, points above FedAvg after the last round: {gains}; published {published:+.2f}.")
        numbers[split] = curves
    headings = ("split and method", f"after round {plan.averaged}", "last round", "best", "mean since", "published")
    return Findings({"accuracy": numbers}, markdown_table(headings, rows), panels, notes)


def _looks() -> list[tuple[int, tuple[str, str]]]:
    return list(enumerate(VARIANTS.items()))


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
