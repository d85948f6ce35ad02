"""FedCOG with one thing changed: its ablation (table 5), its generation steps (table 7), and its parameters (figure 3).

All go on from the rounds of averaging that table 1 begins with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from understudy.papers.carrying_out import PlayedLines
from understudy.papers.claims import PaperClaim, above, all_of, best_of, rising
from understudy.papers.comparison import Contender
from understudy.papers.fedcog.cells import ValueCells, by_split, filled
from understudy.papers.fedcog.main_experiment import (
    BALANCED,
    CIFAR10,
    DESK,
    FEDAVG,
    ONE_SPLIT,
    PAPER,
    SMOKE,
    Group,
    Setting,
    compared,
    split_of,
)
from understudy.papers.published import FromRuns, Published, Study
from understudy.papers.study import Drawing, Findings, Panel, TableCell, Trace

SPLITS = ("NIID-1", "NIID-2")
WEIGHTED = (
    "Everything here has the balanced weighting of the published code, except where the weight of the fixed one is "
    "varied; the paper does not say which it used."
)
SMALLER = "At desk scale the data are 6000 images of Fashion-MNIST at 16×16 instead of CIFAR-10."

# ---- table 5

FULL = "④ both models, soft"
ABLATED: Mapping[str, Mapping[str, Any]] = {
    "① Gaussian noise, soft": {"source": "noise"},
    "② global model, soft": {"source": "global"},
    "③ both models, hard": {"targets": "hard"},
    FULL: {},
}
TABLE_5: Mapping[TableCell, float] = {
    (row, split): value
    for row, values in zip(ABLATED, ((60.98, 49.67), (64.72, 51.61), (63.59, 51.64), (64.88, 53.20)), strict=True)
    for split, value in zip(SPLITS, values, strict=True)
}
ABLATION = "what FedCOG's images are made from, and what is learnt from them"


def _ablated(setting: Setting) -> list[Contender]:
    return [setting.variant(row, "balanced", **settings) for row, settings in ABLATED.items()]


def _tell_rows(about: str, rows: Sequence[str], groups: Sequence[Group], lines: PlayedLines) -> Findings:
    return Findings(about, list(lines.values()), values=filled(lines, by_split(rows, groups)))


def _ablation(groups: Sequence[Group]) -> FromRuns:
    tell = partial(_tell_rows, ABLATION, list(ABLATED), groups)
    return FromRuns(compared("fedcog-table5", ABLATION, groups, _ablated), tell)


def _better(sentence: str, worse: str, likely_cause: str = "") -> PaperClaim:
    test = all_of(above((FULL, split), (worse, split)) for split in SPLITS)
    return PaperClaim(sentence, test, likely_cause=likely_cause)


ABLATION_STUDY = Study(
    "fedcog-table5",
    ABLATION,
    {"smoke": _ablation(SMOKE), "desk": _ablation(DESK), "paper": _ablation(CIFAR10)},
    published=Published(
        PAPER,
        "table 5",
        TABLE_5,
        [
            _better(
                "Generated images help more than Gaussian noise, on both splits.",
                "① Gaussian noise, soft",
                "At the desk what helps is the soft answers of the global model, whatever it is asked: with pictures "
                "of noise they gain as much over FedAvg (5.4 and 9.7 points, table 1) as with images that were made "
                "(4.9 and 8.3), and hard labels on those images lose 12.5 and 6.2 points again, most of the 12.5 in "
                "one seed. Such answers keep local models near the global one: in one round from the same model (the "
                "second split, one seed) they move 42 % as far as FedAvg's with noise, 41 % with made images, and "
                "90 % with hard labels. In print noise is below plain FedAvg, by 3.4 and 0.9 points, so there it does "
                "harm. That is CIFAR-10 with eight times the data; what makes the difference was not looked into.",
            ),
            _better(
                "The disagreement with the client's own model helps, on both splits.",
                "② global model, soft",
                "It hardly changes anything here: the two rows differ by 0.0 to 0.2 points in each seed, always on the "
                "same draws, so the spread of their difference is as small. In print the gap is 0.16 points on the "
                "Dirichlet split, from one run, and 1.6 on the other.",
            ),
            _better("Soft labels help more than hard ones, on both splits.", "③ both models, hard"),
        ],
        remarks=[
            WEIGHTED,
            SMALLER,
            "The full method has 64.88 and 53.20 % here and 64.83 and 54.00 % in table 1, for the same setting.",
        ],
    ),
)

# ---- table 7

STEPS: Mapping[int, float] = {0: 60.98, 50: 65.40, 100: 65.44, 500: 64.80, 1000: 64.92}
GENERATION = "how many steps FedCOG's images are optimised for"


def _stepped(shorter: int, seeds_of_most: Sequence[int], setting: Setting) -> list[Contender]:
    found = []
    for steps in STEPS:
        settings: dict[str, Any] = {"source": "noise"} if steps == 0 else {"steps": steps // shorter}
        one = setting.variant(f"{steps} steps", "balanced", **settings)
        found.append(replace(one, seeds=seeds_of_most) if steps == max(STEPS) else one)
    return found


def _tell_steps(groups: Sequence[Group], lines: PlayedLines) -> Findings:
    labels = by_split([f"{steps} steps" for steps in STEPS], groups)
    found = filled(lines, {("", row): label for (row, split), label in labels.items() if split == "NIID-1"})
    return Findings(GENERATION, list(lines.values()), values=found)


def _generation(groups: Sequence[Group], shorter: int = 1, seeds_of_most: Sequence[int] = ()) -> FromRuns:
    lines = partial(_stepped, shorter, seeds_of_most)
    return FromRuns(compared("fedcog-table7", GENERATION, groups, lines, split="NIID-1"), partial(_tell_steps, groups))


def _steps(steps: int) -> TableCell:
    return "", f"{steps} steps"


GENERATION_STUDY = Study(
    "fedcog-table7",
    GENERATION,
    {"smoke": _generation(SMOKE, 50), "desk": _generation(DESK, seeds_of_most=(0,)), "paper": _generation(CIFAR10)},
    published=Published(
        PAPER,
        "table 7",
        {_steps(steps): value for steps, value in STEPS.items()},
        [
            PaperClaim("A moderate number of steps, 100, is best.", best_of(_steps(100), [_steps(n) for n in STEPS])),
            PaperClaim("Without steps, when images are noise, accuracy is lower.", above(_steps(100), _steps(0))),
            PaperClaim(
                "Too many steps, 500 or 1000, lower the accuracy again.",
                all_of(above(_steps(100), _steps(many)) for many in (500, 1000)),
            ),
        ],
        remarks=[
            WEIGHTED,
            SMALLER + " 32 images per client and round instead of 256, and 1000 steps with one seed.",
            "With 100 steps it has 65.44 % here and 64.83 % in table 1, for the same setting. The published code takes "
            "500 by default.",
        ],
    ),
)

# ---- figure 3

BETAS = (0.1, 0.5, 1.0, 5.0)
DISAGREEMENTS = (0.01, 0.1, 1.0, 10.0)
DISTILLATIONS = (0.001, 0.01, 0.1, 1.0)
COMPARED = (FEDAVG, "FedProx", BALANCED)
SCANS = "the skew of the split, the weight of the disagreement, and the weight of the distillation"


def _beta(beta: float) -> str:
    return f"β = {beta:g}"


def _dis(weight: float) -> str:
    return f"λ_dis = {weight:g}"


def _kd(weight: float) -> str:
    return f"λ_kd = {weight:g}"


def _scanned(setting: Setting) -> list[Contender]:
    found = [setting.variant(_dis(one), "balanced", disagreement=one) for one in DISAGREEMENTS]
    found += [setting.variant(_kd(one), "fixed", kd_weight=one) for one in DISTILLATIONS]
    if split_of(setting) == "NIID-1":
        for beta in BETAS:
            skew = {"kind": "dirichlet", "alpha": beta, "style": "niid-bench"}
            other = setting.within(_beta(beta), {"data.split": skew})
            found += [other.baseline(FEDAVG), other.baseline("FedProx"), other.variant(BALANCED, "balanced")]
    return found


def _tell_scans(groups: Sequence[Group], lines: PlayedLines) -> Findings:
    rows = [*map(_dis, DISAGREEMENTS), *map(_kd, DISTILLATIONS)]
    skewed = {(row, _beta(beta)): f"{row}, {_beta(beta)}" for row in COMPARED for beta in BETAS}
    values = filled(lines, {**skewed, **by_split(rows, groups)})
    return Findings(SCANS, list(lines.values()), pictures={"table": _scan_drawing(values)}, values=values)


def _scan_drawing(values: ValueCells) -> Drawing:
    def dots(cells: Sequence[TableCell]) -> tuple[list[float], list[float]]:
        found = [(at, value) for at, cell in enumerate(cells) for value in values.get(cell, ())]
        return [float(at) for at, _ in found], [value for _, value in found]

    of_beta = [
        Trace(row, *dots([(row, _beta(beta)) for beta in BETAS]), look, "joined seeds")
        for look, row in enumerate(COMPARED)
    ]
    panels = [Panel("(a) skew", "", "accuracy (%)", of_beta, names=[_beta(beta) for beta in BETAS])]
    for heading, names in (
        ("(b) disagreement", [_dis(one) for one in DISAGREEMENTS]),
        ("(c) distillation", [_kd(one) for one in DISTILLATIONS]),
    ):
        traces = [
            Trace(split, *dots([(name, split) for name in names]), look, "joined seeds")
            for look, split in enumerate(SPLITS)
        ]
        panels.append(Panel(heading, "", "accuracy (%)", traces, names=names))
    return Drawing(SCANS, panels)


def _scans(groups: Sequence[Group]) -> FromRuns:
    plans = compared("fedcog-fig3", SCANS, groups, _scanned, tuned=(FEDAVG, "FedProx"))
    return FromRuns(plans, partial(_tell_scans, groups))


def _best_weight(said: str, best: str, names: Sequence[str], likely_cause: str = "") -> PaperClaim:
    tests = (best_of((best, split), [(name, split) for name in names]) for split in SPLITS)
    return PaperClaim(said, all_of(tests), likely_cause=likely_cause)


SCAN_STUDY = Study(
    "fedcog-fig3",
    SCANS,
    {"smoke": _scans(ONE_SPLIT), "desk": _scans(DESK), "paper": _scans(CIFAR10)},
    published=Published(
        PAPER,
        "figure 3",
        {},
        [
            PaperClaim(
                "FedCOG is above FedAvg and FedProx whatever the skew of the Dirichlet split.",
                all_of(
                    above((BALANCED, _beta(beta)), (row, _beta(beta))) for beta in BETAS for row in (FEDAVG, "FedProx")
                ),
            ),
            PaperClaim(
                "The less skewed the split, the higher the accuracy of all three.",
                all_of(rising([(row, _beta(beta)) for beta in BETAS]) for row in COMPARED),
            ),
            _best_weight(
                "A weight λ_dis of 0.1 is best on both splits.",
                _dis(0.1),
                [_dis(one) for one in DISAGREEMENTS],
                "The weight hardly matters here: on each seed the four lie within 1.6 points of one another, on "
                "average within 1.1 (NIID-2) and 0.4 (NIID-1). Another is ahead by less than a point on every seed.",
            ),
            _best_weight(
                "A weight λ_kd of 0.01 is best on both splits.", _kd(0.01), [_kd(one) for one in DISTILLATIONS]
            ),
        ],
        remarks=[WEIGHTED, SMALLER, "The paper prints no numbers for this figure."],
    ),
)
