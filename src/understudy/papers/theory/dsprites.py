"""Shapes by quadrant and form, the dSprites study of "Synthetic data shuffling accelerates the convergence of federated
learning under data heterogeneity": twelve clients, each with one form in one quadrant, a β-VAE at each of them, and the
two knobs of the exchange: ρ, the share of its records that a generator sees, and ñ, the images that a client sends.

Scaled to minutes: 16×16 pixels, 230 records a client, an MLP, and whatever ρ is 150 updates of a β-VAE half as wide as
the paper's. So few updates do not follow a rising capacity, so it is the plain objective (C = 0, γ = β = 1), and images
are drawn with the spread of the class. Learning rate and objective were chosen with seed 1000 on validation images.
"""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.config.resolve import resolve
from understudy.papers.experiment import Experiment, Findings, Panel, Trace, markdown_table
from understudy.runs.play import play
from understudy.runs.watching import Observer

Changes = Mapping[str, Any]
EARLY = 4  # the round that "a few rounds" means in the table
COMMON: Changes = {
    "data": {
        "name": "shapes",
        "clients": 12,
        "shapes": {"scales": 1, "rotations": 4, "positions": 16},
        "mean": [0.065],  # of all pixels, most of which are black
        "std": [0.227],
        "split": {"kind": "factor", "factors": ["quadrant", "shape"]},
    },
    "model": {"name": "mlp", "hidden": [128]},
    "method": {"name": "fedavg", "rounds": 12, "local": {"epochs": 2, "batch": 32, "lr": 0.3}},
    "engine": {"name": "inline"},
}
VAE: Changes = {
    "name": "vae",
    "epochs": 1,
    "least_steps": 150,
    "batch": 32,
    "width": 16,
    "hidden": 64,
    "lr": 3e-3,
    "gamma": 1,
    "capacity": 0,
    "spread": "class",
}


def _shuffling(vae: Changes, **more: Any) -> Changes:
    # Poor generators are part of what is looked at, so their images are sent too.
    return {"with": [{"name": "fedssyn", "records": 1.0, "generator": dict(vae), "sound_only": False, **more}]}


def settings(vae: Changes) -> dict[str, Changes]:
    """By label; ñ = 230 is as many images as a client has records, p = ½."""
    return {
        "none": {},
        "own, not shuffled": _shuffling(vae, deal="own"),
        "ρ = 4 %": _shuffling(vae, records=0.04),
        "ρ = 16 %": _shuffling(vae, records=0.16),
        "ρ = 100 %": _shuffling(vae),
        "ñ = 58": _shuffling(vae, images=58),
        "real, shuffled": _shuffling(vae, source="real"),
    }


def dsprites(seeds: Sequence[int], changes: Changes, vae: Changes = VAE) -> Experiment:
    about = "Shapes by quadrant and form over twelve clients: FedAvg with images of local β-VAEs, shuffled"

    def play_all(out: Path, observer: Observer) -> Findings:
        curves: dict[str, list[list[float]]] = {}
        for label, change in settings(vae).items():
            observer.says(f"\n{label}")
            curves[label] = [_curve({**change, **changes, "seed": seed}, out, label, observer) for seed in seeds]
        return _findings(curves)

    return Experiment("dsprites", about, play_all)


def _curve(changes: Changes, out: Path, label: str, observer: Observer) -> list[float]:
    name = "".join(letter if letter.isalnum() else "-" for letter in label)
    folder = out / "runs" / f"{name}-seed-{changes['seed']}"
    result = play(resolve(dict(COMMON), changes), folder, resume=True, observer=observer)
    return [line["accuracy"] for line in result.metrics]


def _findings(curves: Mapping[str, list[list[float]]]) -> Findings:
    rows = []
    for label, runs in curves.items():
        early, last = ([100 * run[min(at, len(run) - 1)] for run in runs] for at in (EARLY, len(runs[0]) - 1))
        rows.append([label, *(f"{statistics.fmean(v):.1f} ± {_spread(v):.1f}" for v in (early, last))])
    table = markdown_table(["setting", f"accuracy after round {EARLY}, %", f"after round {len(runs[0]) - 1}"], rows)
    looks = {label: number for number, label in enumerate(curves)}
    exchange = ["none", "own, not shuffled", "ρ = 100 %", "real, shuffled"]
    knobs = ["none", "ρ = 4 %", "ρ = 16 %", "ρ = 100 %", "ñ = 58"]
    panels = [
        _panel("what is added to a client's records", {name: curves[name] for name in exchange}, looks),
        _panel("records a generator sees (ρ), images sent (ñ)", {name: curves[name] for name in knobs}, looks),
    ]
    return Findings({"accuracies": dict(curves)}, table, panels)


def _spread(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _panel(heading: str, curves: Mapping[str, list[list[float]]], looks: Mapping[str, int]) -> Panel:
    traces = []
    for label, runs in curves.items():
        by_round = [[100 * value for value in values] for values in zip(*runs, strict=True)]
        means, lows, highs = ([of(v) for v in by_round] for of in (statistics.fmean, min, max))
        traces.append(Trace(label, range(len(means)), means, looks[label], "line", lows, highs))
    return Panel(f"{heading}; band: all seeds", "round", "test accuracy (%)", traces)
