"""Table 1: eleven methods and FedCOG on three data sets, each split in two ways."""

import statistics
from collections.abc import Mapping, Sequence
from functools import partial

from understudy.papers.carrying_out import PlayedLines
from understudy.papers.claims import PaperClaim, above, all_of, row_above, wider
from understudy.papers.comparison import Contender
from understudy.papers.fedcog.cells import by_name, filled, rounds_table
from understudy.papers.fedcog.main_experiment import (
    BALANCED,
    BASELINES,
    CIFAR10,
    CIFAR100,
    DESK,
    FASHION,
    FEDAVG,
    FIXED,
    ONE_SPLIT,
    OURS,
    PAPER,
    Group,
    Setting,
    compared,
)
from understudy.papers.published import FromRuns, Published, Study
from understudy.papers.study import Findings, Scale, Shown, TableCell

ABOUT = "eleven methods and FedCOG with both of its weightings, on three data sets, each split in two ways"
FASHION_MNIST = ("Fashion-MNIST NIID-1", "Fashion-MNIST NIID-2")
CIFAR_10 = ("CIFAR-10 NIID-1", "CIFAR-10 NIID-2")
CIFAR_100 = ("CIFAR-100 NIID-1", "CIFAR-100 NIID-2")
COLUMNS = (*FASHION_MNIST, *CIFAR_10, *CIFAR_100)
AVERAGE = "Avg."
PRINTED: Mapping[str, Sequence[float]] = {
    FEDAVG: (73.07, 64.11, 64.36, 50.55, 39.07, 30.93, 53.68),
    "FedAvgM": (76.81, 67.73, 64.36, 51.32, 39.21, 30.97, 55.07),
    "FedProx": (73.35, 64.44, 63.91, 53.51, 38.81, 30.76, 54.13),
    "SCAFFOLD": (77.02, 58.47, 64.36, 48.35, 42.25, 34.27, 54.12),
    "MOON": (73.21, 63.11, 63.65, 51.01, 39.34, 31.17, 53.58),
    "FedSAM": (76.44, 68.14, 61.38, 50.76, 37.97, 30.75, 54.24),
    "VHL": (73.08, 70.26, 60.81, 51.60, 37.55, 28.41, 53.62),
    "FedExp": (65.03, 59.49, 48.96, 37.97, 35.14, 22.47, 44.84),
    "FedDecorr": (72.77, 60.70, 63.40, 47.53, 37.68, 27.08, 51.53),
    "FedReg": (70.75, 69.89, 55.40, 46.64, 30.95, 23.70, 49.52),
    "FedGen": (72.64, 61.34, 62.45, 49.12, 37.99, 26.93, 51.75),
    BALANCED: (77.34, 73.68, 64.83, 54.00, 42.88, 34.80, 57.92),
    FIXED: (77.34, 73.68, 64.83, 54.00, 42.88, 34.80, 57.92),
}
CELLS: Mapping[TableCell, float] = {
    (row, column): value
    for row, values in PRINTED.items()
    for column, value in zip((*COLUMNS, AVERAGE), values, strict=True)
}


def every_line(setting: Setting) -> list[Contender]:
    baselines = [setting.baseline(row) for row in BASELINES]
    return [*baselines, *(setting.variant(row, weighting) for row, weighting in OURS.items())]


def every_method(groups: Sequence[Group]) -> FromRuns:
    return FromRuns(compared("fedcog-table1", ABOUT, groups, every_line), partial(tell, groups[0][0].averaged))


def tell(since: int, lines: PlayedLines) -> Findings:
    values = filled(lines, by_name(CELLS))
    for row in PRINTED:
        if all((row, column) in values for column in COLUMNS):
            by_seed = zip(*(values[row, column] for column in COLUMNS), strict=False)
            values[row, AVERAGE] = [statistics.fmean(seed) for seed in by_seed]
    rounds = rounds_table(lines.values(), since)
    return Findings(ABOUT, list(lines.values()), {"rounds": [rounds]}, values=values)


def _judged(data: str) -> Sequence[Scale]:
    """Smaller scales have only one of the data sets."""
    return ("smoke", "desk", "paper") if data == "Fashion-MNIST" else ("paper",)


WHY_NOT_FIXED = (
    "The weighting: with a = 1 and b = 0.01 distillation counts for so little that at the desk this row is FedAvg's "
    "within the spread (68.5 and 59.6 against 67.1 and 59.9 % on Fashion-MNIST). With the balanced weighting of the "
    "published code FedCOG is above FedAvg by five and eight points, so the table seems to come from that one."
)


def _best(row: str, columns: Sequence[str]) -> PaperClaim:
    data, weighting = columns[0].split()[0], OURS[row]
    sentence = f"FedCOG, with the {weighting} weighting, is above all eleven baselines on {data}, on both splits."
    why = WHY_NOT_FIXED if row == FIXED else ""
    return PaperClaim(sentence, row_above(row, list(BASELINES), columns), _judged(data), why)


def _gains(row: str, first: str, second: str) -> PaperClaim:
    data, weighting = first.split()[0], OURS[row]
    sentence = (
        f"On {data}, FedCOG ({weighting}) gains more over FedAvg where clients lack whole labels (NIID-2) than on "
        "Dirichlet splits (NIID-1)."
    )
    test = wider(((row, second), (FEDAVG, second)), ((row, first), (FEDAVG, first)))
    return PaperClaim(sentence, test, _judged(data))


CLAIMS = (
    _best(BALANCED, FASHION_MNIST),
    _best(BALANCED, CIFAR_10),
    _best(BALANCED, CIFAR_100),
    _best(FIXED, FASHION_MNIST),
    _best(FIXED, CIFAR_10),
    _best(FIXED, CIFAR_100),
    *(_gains(BALANCED, *columns) for columns in (FASHION_MNIST, CIFAR_10, CIFAR_100)),
    PaperClaim(
        "Where clients lack whole labels, SCAFFOLD falls below FedAvg on Fashion-MNIST.",
        above((FEDAVG, FASHION_MNIST[1]), ("SCAFFOLD", FASHION_MNIST[1])),
    ),
    PaperClaim(
        "Where clients lack whole labels, SCAFFOLD falls below FedAvg on CIFAR-10.",
        above((FEDAVG, CIFAR_10[1]), ("SCAFFOLD", CIFAR_10[1])),
        ("paper",),
    ),
    PaperClaim(
        "FedExP is unstable with 400 local steps: it stays below FedAvg on both splits of Fashion-MNIST.",
        all_of(above((FEDAVG, column), ("FedExp", column)) for column in FASHION_MNIST),
    ),
)
REMARKS = (
    "FedSAM has the paper's ρ = 0.5 at paper scale and 0.05, the usual default, at the desk. With ρ = 0.5 its "
    "start is delayed by more rounds than the desk has: on the second split (rate 0.01, one seed) it "
    "is at 17 % after 15 rounds, 41 after 20, 50 after 29 and 63 after 46, while the paper takes 28 times as many "
    "steps. With ρ = 0.05 it keeps up with FedAvg from the start (37 and 36 % after eight rounds at 0.03). FedReg has "
    "one seed.",
    "Twenty rounds of 50 steps, where the paper has 70 of 400, also keep VHL down, which learns to tell 20 classes "
    "apart and is still rising in the last round. SCAFFOLD gains less than in print on the first split: at 0.1 it is "
    "ahead of 0.03, the rate chosen, for 15 rounds (70 and 64 %, one seed), but then collapses to chance.",
    "The paper weighs the distillation in two ways that differ by a factor of hundreds: a = 1, b = 0.01 in its formula "
    "(fixed), and by what a client lacks in its appendix and published code (balanced). Its table does not say which "
    "it used, so both are rows here, beside the same printed numbers.",
    "The table does not say whether it has the last round or the best; ours is the last, and the best and the mean of "
    "the rounds with FedCOG are listed too.",
    "MOON compares features as they are (preset fedcog: μ = 0.01, no projection), 84 numbers of SimpleCNN and 128 of "
    "the network for CIFAR-100, so its model is as large as FedAvg's.",
    "FedAvgM has momentum 0.1 as in the text (0.9 in the published script); VHL has Gaussian noise, the default of "
    "FedCOG's published code. SCAFFOLD and FedReg are defined for plain SGD: no momentum, and a rate of 0.1, which "
    "makes steps as long as 0.01 does with momentum 0.9. FedGen collapses to chance in its third round with momentum "
    "0.9 here, so it has its authors' plain SGD, at 0.01.",
    "At paper scale one seed, and the rate of the paper (0.01); at desk scale rates are tuned alike.",
)
MORE = (
    "One seed at the paper's scale: where clients lack whole labels, the gain on Fashion-MNIST reproduces with the "
    "balanced weighting and not with the fixed one, which rises for six rounds and then swings as FedAvg does. FedAvg "
    "itself swings between 70 and 78 % from round 40 to 50 on the Dirichlet split, so a single round says little, and "
    "FedCOG's rounds swing far less than FedAvg's on both splits.",
    "FedAvg and both forms of FedCOG on Fashion-MNIST were run before the study had a command, all with one commit.",
)
SHOWN = Shown(
    "SimpleCNN, 10 clients, 70 rounds, of which FedCOG joins in the last 20: {}",
    r"(?P<more>(?P<method>[\w-]+)(?: \(\w+\))?, .+)",
    scale="paper",
)
STUDY = Study(
    "fedcog-table1",
    ABOUT,
    {
        "smoke": every_method(ONE_SPLIT),
        "desk": every_method(DESK),
        "paper": every_method([*FASHION, *CIFAR10, *CIFAR100]),
    },
    SHOWN,
    Published(PAPER, "table 1", CELLS, CLAIMS, remarks=REMARKS),
    MORE,
)
