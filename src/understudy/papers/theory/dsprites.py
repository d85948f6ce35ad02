"""Shapes by quadrant and form, the dSprites study of "Synthetic data shuffling accelerates the convergence of federated
learning under data heterogeneity": twelve clients, each with one form in one quadrant, a β-VAE at each of them, and the
two knobs of the exchange: ρ, the share of records a generator sees, and ñ, the number of images a client sends.

Scaled to minutes: 16×16 pixels, 230 records per client, an MLP, and for every ρ 150 updates of a β-VAE half as wide as
the paper's. So few updates cannot follow a rising capacity, so it uses the plain objective (C = 0, γ = β = 1), and
images are drawn with the spread of the class. Learning rate and objective were chosen with seed 1000 on validation
images.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from understudy.config.resolve import resolve
from understudy.papers.compared import over_rounds
from understudy.papers.study import Changes, Drawing, Findings, Panel, StudyLine, StudyTable, said
from understudy.papers.tuned import line_of
from understudy.runs.play import play
from understudy.runs.rounds import Result
from understudy.runs.watching import Observer

ABOUT = "Shapes by quadrant and form over twelve clients: FedAvg with images of local β-VAEs, shuffled"
EARLY = 4  # the round that "a few rounds" means in the table
COMMON: Changes = {
    "data": {
        "name": "shapes",
        "clients": 12,
        "shapes": {"scales": 1, "rotations": 4, "positions": 16},
        "mean": [0.065],  # over all pixels, most of which are black
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
    # Poor generators are part of the study, so their images are sent too.
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


def dsprites(seeds: Sequence[int], changes: Changes, vae: Changes, out: Path, observer: Observer) -> Findings:
    lines = []
    for label, change in settings(vae).items():
        observer.says(f"\n{label}")
        runs = [_run({**change, **changes, "seed": seed}, out, label, observer) for seed in seeds]
        lines.append(line_of(label, runs))
    return _findings(lines)


def _run(changes: Changes, out: Path, label: str, observer: Observer) -> Result:
    name = "".join(letter if letter.isalnum() else "-" for letter in label)
    folder = out / "runs" / f"{name}-seed-{changes['seed']}"
    return play(resolve(dict(COMMON), changes), folder, resume=True, observer=observer)


def _findings(lines: Sequence[StudyLine]) -> Findings:
    last = lines[0].rounds[-1]
    early = [[seed[min(EARLY, last)] for seed in one.values] for one in lines]
    rows = [[one.label, said(few), said(one.accuracies)] for one, few in zip(lines, early, strict=True)]
    table = StudyTable(["setting", f"accuracy after round {EARLY}, %", f"after round {last}"], rows)
    exchange = ["none", "own, not shuffled", "ρ = 100 %", "real, shuffled"]
    knobs = ["none", "ρ = 4 %", "ρ = 16 %", "ρ = 100 %", "ñ = 58"]
    panels = [
        _panel("what is added to a client's records", lines, exchange),
        _panel("records a generator sees (ρ), images sent (ñ)", lines, knobs),
    ]
    return Findings(ABOUT, lines, {"table": [table]}, {"table": Drawing(ABOUT, panels)})


def _panel(heading: str, lines: Sequence[StudyLine], labels: Sequence[str]) -> Panel:
    looks = {one.label: look for look, one in enumerate(lines)}
    return over_rounds(heading, {one.label: one for one in lines if one.label in labels}, looks)
