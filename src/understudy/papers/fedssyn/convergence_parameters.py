"""Figures 5 (A.7) and A.8: ζ², σ² and δ² of the theory, measured on the way (``measure``) at one shared model: over the
clients' own records, and with the images they are dealt; beside them what Lemma 1 allows,

    ζ_p² ≤ (1 − p)²ζ²,    σ_p² ≤ (1 − p)σ² + pσ̃² + p(1 − p)ζ² + p(1 − p)δ².
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from understudy.papers.carrying_out import PlayedLines
from understudy.papers.claims import PaperClaim, above, all_of, at_least, at_most, near
from understudy.papers.comparison import Contender, ShuffledImages
from understudy.papers.fedssyn.generator_knobs import (
    BOTH,
    DESK_STAGES,
    EARLY,
    FORTY_SKEWED,
    LATE,
    NONE,
    PAPER_STAGES,
    SMOKE_STAGES,
)
from understudy.papers.fedssyn.lines import FULL, SetupColumn, column
from understudy.papers.printed import SSYN
from understudy.papers.published import FromRuns, Published, Study
from understudy.papers.study import Drawing, Findings, Panel, StudyLine, StudyTable, TableCell, Trace, said
from understudy.runs.folder import RunFolder

Measurements = Sequence[Mapping[str, float]]  # of one run: a line of metrics per measured round
QUANTITIES = ("zeta2", "sigma2", "zeta2_shuffled", "zeta2_bound", "sigma2_shuffled", "sigma2_bound")
MORE_QUANTITIES = ("delta2", "sigma2_pool", "share_shuffled")
MEASURED = ("round", *QUANTITIES, *MORE_QUANTITIES)


def measured(lines: PlayedLines, label: str, seeds: Sequence[int]) -> list[Measurements]:
    """By seed: from the runs, or as stored earlier."""
    folders = [lines.folders[label, seed] for seed in seeds if (label, seed) in lines.folders]
    if not folders:
        found: list[Measurements] = lines.numbers.get("measured", {}).get(label, [])
        return found
    metrics = [RunFolder(folder).metrics() for folder in folders]
    return [[{key: line[key] for key in MEASURED if key in line} for line in run if "zeta2" in line] for run in metrics]


def _mean(run: Measurements, of: Callable[[Mapping[str, float]], float]) -> float:
    """Over the measured rounds after the first model."""
    return statistics.fmean(of(line) for line in (run[1:] or run))


def _mean_of(run: Measurements, key: str) -> float:
    return _mean(run, lambda line: line[key])


# ---- figure 5

SHARES = {"p = 0.06": 0.06, "p = 0.5": 0.5}
KEPT, ALLOWED, NOISE_KEPT, NOISE_ALLOWED = "ζ_p²/ζ²", "Lemma 1: (1 − p)²", "σ_p²/σ²", "Lemma 1: σ_p²/σ²"
DOMINATES = "(1 − p)σ² of what Lemma 1 allows of σ_p²"
OWN_ZETA, OWN_SIGMA, ACCURACY = (
    "ζ² at its own model, of that at p = 0",
    "σ² at its own model, of that at p = 0",
    "top-1",
)


def _share_label(one: SetupColumn, p: str) -> str:
    return one.label(f"measured, {p}")


def _parameters(one: SetupColumn, given: Mapping[str, int | None], every: int) -> FromRuns:
    changes = {**one.changes, "measure": every}
    contenders = [
        one.plain(NONE),
        one.with_shuffled(NONE),
        Contender(_share_label(one, "p = 0"), changes, like=one.label(NONE)),
    ]
    for p, count in given.items():
        images = ShuffledImages(one.generator, exchange=one.exchange() if count is None else {"images": count})
        contenders.append(Contender(_share_label(one, p), changes, like=one.label(BOTH), images=images))
    return FromRuns([one.comparison(contenders)], partial(_tell_parameters, one, tuple(given)))


def _tell_parameters(one: SetupColumn, shares: Sequence[str], lines: PlayedLines) -> Findings:
    about = "ζ² and σ² with shuffled images, beside Lemma 1"
    values: dict[TableCell, Sequence[float]] = {}
    found = {p: measured(lines, _share_label(one, p), one.seeds) for p in ("p = 0", *shares)}
    for p in shares:
        runs = found[p]
        if not runs:
            continue
        values[KEPT, p] = [_mean(run, lambda line: line["zeta2_shuffled"] / line["zeta2"]) for run in runs]
        values[ALLOWED, p] = [_mean(run, lambda line: line["zeta2_bound"] / line["zeta2"]) for run in runs]
        values[NOISE_KEPT, p] = [_mean(run, lambda line: line["sigma2_shuffled"] / line["sigma2"]) for run in runs]
        values[NOISE_ALLOWED, p] = [_mean(run, lambda line: line["sigma2_bound"] / line["sigma2"]) for run in runs]
        values[DOMINATES, p] = [_mean(run, _own_noise) for run in runs]
        if len(found["p = 0"]) == len(runs):
            for row, key in ((OWN_ZETA, "zeta2"), (OWN_SIGMA, "sigma2")):
                pairs = zip(runs, found["p = 0"], strict=True)
                values[row, p] = [_mean_of(run, f"{key}_shuffled") / _mean_of(none, key) for run, none in pairs]
    labels = [_share_label(one, p) for p in ("p = 0", *shares)]
    mine = [lines[label] for label in labels if label in lines]
    for p in ("p = 0", *shares):
        if (label := _share_label(one, p)) in lines:
            values[ACCURACY, p] = [100 * value for value in lines[label].accuracies]
    numbers = {"measured": {_share_label(one, p): runs for p, runs in found.items() if runs}}
    panels = _parameter_panels({p: runs for p, runs in found.items() if p != "p = 0" and runs})
    pictures = {"table": Drawing(about, panels)} if panels else {}
    return Findings(about, mine, {"table": [_lines_table(mine)]}, pictures, numbers=numbers, values=values)


def _own_noise(line: Mapping[str, float]) -> float:
    return (1 - line["share_shuffled"]) * line["sigma2"] / line["sigma2_bound"]


def _lines_table(lines: Sequence[StudyLine]) -> StudyTable:
    return StudyTable(
        ["line", "accuracy after the last round, %"], [[one.label, said(one.accuracies)] for one in lines]
    )


def _parameter_panels(found: Mapping[str, Sequence[Measurements]]) -> list[Panel]:
    panels = []
    for name, key in (("ζ²", "zeta2"), ("σ²", "sigma2")):
        traces = []
        for look, (p, runs) in enumerate(found.items()):
            traces.append(_over_rounds(f"{p}, measured", runs, f"{key}_shuffled", look, "line and dots"))
            traces.append(_over_rounds(f"{p}, Lemma 1", runs, f"{key}_bound", look, "dashed"))
        panels.append(Panel(f"{name} with images", "round", name, traces, log_y=True))
    return panels


def _over_rounds(label: str, runs: Sequence[Measurements], key: str, look: int, style: Any) -> Trace:
    rounds = [line["round"] for line in runs[0]]
    means = [statistics.fmean(run[at][key] for run in runs) for at in range(min(map(len, runs)))]
    return Trace(label, rounds[: len(means)], means, look, style)


FIG5 = Study(
    "fedssyn-fig5",
    "ζ² and σ² with and without shuffled images, at the same model and beside the lemma",
    {
        "smoke": _parameters(column("smoke", f"{FULL}, α=0.01"), {"p = 0.06": 3, "p = 0.5": None}, 1),
        "desk": _parameters(column("desk", f"{FULL}, α=0.01"), {"p = 0.06": 26, "p = 0.5": None}, 5),
        "paper": _parameters(column("paper", f"{FULL}, α=0.1"), {"p = 0.06": 287, "p = 0.5": None}, 10),
    },
    published=Published(
        SSYN,
        "figure 5 (A.7)",
        {(OWN_ZETA, "p = 0.06"): 0.5},
        [
            PaperClaim(
                "At the same model ζ² matches Lemma 1 at p = 0.06 (within 10 %).",
                near((KEPT, "p = 0.06"), (ALLOWED, "p = 0.06"), 0.1),
            ),
            PaperClaim(
                "At the same model σ² matches Lemma 1 at p = 0.06 (within 10 %).",
                near((NOISE_KEPT, "p = 0.06"), (NOISE_ALLOWED, "p = 0.06"), 0.1),
            ),
            PaperClaim(
                "(1 − p)σ² dominates the other terms that Lemma 1 adds up for σ_p².",
                at_least((DOMINATES, "p = 0.06"), 0.5),
            ),
            PaperClaim(
                "With p = 0.06, each run at its own model, ζ² is reduced by half.", at_most((OWN_ZETA, "p = 0.06"), 0.5)
            ),
            PaperClaim(
                "With p = 0.5 both ζ² and σ² are much smaller, each run at its own model.",
                all_of(at_most((row, "p = 0.5"), 0.7) for row in (OWN_ZETA, OWN_SIGMA)),
            ),
        ],
        unit="shares; top-1 in %",
        grain=0.05,
        remarks=[
            "“Reduced by half” stands in the text; the figure prints no numbers. Means over the rounds measured, after "
            "the first model. “Much smaller” is taken as at most 0.7.",
            "The paper's split is Dirichlet 0.1; at the desk it is 0.01, on 4000 MNIST images at 14×14.",
            "The lemma assumes equal shares p and the whole pool; here each client has a part, so a ratio may lie "
            "above it.",
        ],
    ),
)

# ---- figure A.8

DELTA_TERM, SIGMA_TERM, POOL_TERM = "p(1 − p)δ²", "(1 − p)σ²", "pσ̃²"


def _stage_label(one: SetupColumn, stage: str) -> str:
    return one.label(f"measured, {stage}")


def _stages(one: SetupColumn, epochs: Mapping[str, int | None], images: int | None, every: int) -> FromRuns:
    exchange: dict[str, Any] = dict(one.exchange() if images is None else {"images": images})
    contenders = [one.plain(NONE), one.with_shuffled(NONE)]
    for stage, epoch in epochs.items():
        chosen = ShuffledImages(one.generator, exchange={**exchange, **({} if epoch is None else {"epoch": epoch})})
        changes = {**one.changes, "measure": every}
        contenders.append(Contender(_stage_label(one, stage), changes, like=one.label(BOTH), images=chosen))
    return FromRuns([one.comparison(contenders)], partial(_tell_stages, one, tuple(epochs)))


def _tell_stages(one: SetupColumn, stages: Sequence[str], lines: PlayedLines) -> Findings:
    about = "What of σ_p² comes from δ², with images of earlier and later stages of the generators"
    values: dict[TableCell, Sequence[float]] = {}
    found = {stage: runs for stage in stages if (runs := measured(lines, _stage_label(one, stage), one.seeds))}
    for stage, runs in found.items():
        terms: Mapping[str, Callable[[Mapping[str, float]], float]] = {
            DELTA_TERM: lambda line: line["share_shuffled"] * (1 - line["share_shuffled"]) * line["delta2"],
            SIGMA_TERM: lambda line: (1 - line["share_shuffled"]) * line["sigma2"],
            POOL_TERM: lambda line: line["share_shuffled"] * line["sigma2_pool"],
            "δ²": lambda line: line["delta2"],
            "ζ_p²": lambda line: line["zeta2_shuffled"],
        }
        for row, term in terms.items():
            values[row, stage] = [_mean(run, term) for run in runs]
    mine = [lines[label] for stage in stages if (label := _stage_label(one, stage)) in lines]
    for stage in stages:
        if (label := _stage_label(one, stage)) in lines:
            values[ACCURACY, stage] = [100 * value for value in lines[label].accuracies]
    traces = [
        _over_rounds(f"{name}, {stage}", runs, key, look, style)
        for look, (stage, runs) in enumerate(found.items())
        for name, key, style in (("δ²", "delta2", "line and dots"), ("σ²", "sigma2", "dashed"))
    ]
    pictures = {"table": Drawing(about, [Panel("δ² and σ²", "round", "", traces, log_y=True)])} if traces else {}
    numbers = {"measured": {_stage_label(one, stage): runs for stage, runs in found.items()}}
    return Findings(about, mine, {"table": [_lines_table(mine)]}, pictures, numbers=numbers, values=values)


JUDGED = (EARLY, LATE)
FIGA8 = Study(
    "fedssyn-figA8",
    "δ² with images of earlier and later stages of the generators, beside σ²",
    {
        "smoke": _stages(column("smoke", f"{FULL}, α=0.01"), SMOKE_STAGES, None, 1),
        "desk": _stages(column("desk", FORTY_SKEWED), DESK_STAGES, 133, 10),
        "paper": _stages(column("paper", FORTY_SKEWED), PAPER_STAGES, 1500, 10),
    },
    published=Published(
        SSYN,
        "figure A.8",
        {},
        [
            PaperClaim(
                "Less of the noise with images comes from δ² than from σ².",
                all_of(above((SIGMA_TERM, stage), (DELTA_TERM, stage)) for stage in JUDGED),
            ),
            PaperClaim(
                "Less of it comes from δ² than from the noise of the images themselves, σ̃².",
                all_of(above((POOL_TERM, stage), (DELTA_TERM, stage)) for stage in JUDGED),
            ),
        ],
        unit="terms of Lemma 1; top-1 in %",
        grain=0.05,
        remarks=[
            "The figure prints no numbers. p = 0.57 with forty clients; terms are means over the rounds measured, "
            "after the first model, each run at its own model.",
            "Early and late are epochs 50 and 450 in the paper, 1 and 20 of a VAE at the desk (MNIST at 14×14).",
        ],
    ),
)
