"""Table 1 (and A.1): rounds to a target accuracy, with and without shuffled synthetic data.

Five methods, two splits, all clients or some per round; learning rates tuned alike for every line. The number of
gradient steps is the same with and without synthetic data. Targets are fixed beforehand.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from understudy.papers.carrying_out import PlayedLines
from understudy.papers.claims import PaperClaim, all_of, below, times
from understudy.papers.fedssyn.lines import (
    ALPHAS,
    CIFAR100_TOO,
    COLUMNS,
    FORTY,
    FULL,
    HUNDRED,
    METHODS,
    PART,
    WITH,
    SetupColumn,
)
from understudy.papers.printed import SSYN
from understudy.papers.published import FromRuns, Published, Study
from understudy.papers.study import Drawing, Findings, Panel, Shown, StudyLine, StudyTable, TableCell, Trace, plain

ABOUT = "Rounds to a target accuracy with Fedssyn and without"
NEVER = 101  # what "> 100" counts as: one round more than the run had
TAKES = (FULL, PART, FORTY, HUNDRED)

# ---- as printed, in the order of the columns: rounds with Fedssyn, and without

_CIFAR10 = {
    "FedAvg": "4 (88), 8 (68), 4 (>100), 8 (45), 12 (100), 21 (59), 19 (93), 38 (>100)",
    "Scaffold": "4 (37), 7 (43), 5 (>100), 10 (26), 12 (82), 20 (54), 19 (>100), 31 (84)",
    "FedProx": "4 (94), 8 (43), 4 (>100), 9 (74), 9 (>100), 15 (71), 31 (>100), 37 (>100)",
    "FedDyn": "3 (49), 5 (74), 4 (67), 7 (75), 7 (>100), 12 (>100), 17 (>100), 31 (>100)",
    "FedPVR": "3 (58), 7 (30), 4 (>100), 8 (76), 10 (85), 21 (59), 21 (>100), 35 (>100)",
}
_CIFAR100 = {
    "FedAvg": "15 (89), 19 (>100), 17 (>100), 21 (>100), 37 (>100), 89 (>100), 70 (>100), 59 (>100)",
    "Scaffold": "14 (41), 19 (55), 15 (54), 21 (100), 24 (>100), 71 (>100), 61 (100), 52 (>100)",
    "FedProx": "17 (100), 23 (99), 17 (>100), 23 (>100), 33 (>100), >100 (-), 75 (>100), 60 (>100)",
    "FedDyn": "10 (36), 12 (66), 13 (>100), 15 (100), 25 (>100), 78 (>100), 61 (>100), 60 (>100)",
    "FedPVR": "14 (85), 19 (38), 15 (>100), 20 (100), 23 (>100), 59 (>100), 71 (>100), 58 (>100)",
}
PRINTED_ROWS = {"": _CIFAR10, CIFAR100_TOO: _CIFAR100}  # by the beginning of a column's name


def _counted(text: str) -> int | None:
    return None if text == "-" else NEVER if text == ">100" else int(text)


def _printed() -> dict[TableCell, float]:
    found: dict[TableCell, float] = {}
    names = [f"{takes}, α={alpha:g}" for takes in TAKES for alpha in ALPHAS]
    for data, rows in PRINTED_ROWS.items():
        for method, row in rows.items():
            ours = "SCAFFOLD" if method == "Scaffold" else method
            for name, pair in zip(names, row.split(", "), strict=True):
                shuffled, without = pair.removesuffix(")").split(" (")
                for line, text in ((ours, without), (ours + WITH, shuffled)):
                    if (rounds := _counted(text)) is not None:
                        found[line, data + name] = rounds
    return found


PRINTED_ROUNDS = _printed()

# ---- from runs


@dataclass(frozen=True)
class RoundsNeeded:
    """Until the target, one number per seed; None: not within the run."""

    to_target: Sequence[int | None]
    run: int  # rounds of the run

    @property
    def counted(self) -> list[float]:
        """A seed that never reached the target counts as one round more than the run had."""
        return [self.run + 1 if rounds is None else rounds for rounds in self.to_target]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.counted)

    @property
    def at_least(self) -> bool:
        return None in self.to_target

    def __str__(self) -> str:
        return f"{'> ' if self.at_least else ''}{self.mean:.1f}"


def rounds_to(line: StudyLine, target: float) -> RoundsNeeded:
    """The first scored round of each seed that reaches the target."""
    found = [
        next((at for at, value in zip(line.rounds, seed, strict=True) if value >= target), None) for seed in line.values
    ]
    return RoundsNeeded(found, line.rounds[-1])


def speed_up(without: RoundsNeeded, shuffled: RoundsNeeded) -> str:
    """How many times the rounds; a bound if one side never got there, nothing if neither did."""
    ratio = without.mean / max(shuffled.mean, 1)
    if without.at_least and shuffled.at_least:
        return "–"
    bound = "> " if without.at_least else "< " if shuffled.at_least else ""
    return f"{bound}{ratio:.1f}×"


def tell(columns: Sequence[SetupColumn], lines: PlayedLines) -> Findings:
    values: dict[TableCell, Sequence[float]] = {}
    rows, mine, panels, faster = [], [], [], 0
    for column in columns:
        traces = []
        for look, method in enumerate(METHODS):
            pair = [lines[label] for label in map(column.label, (method, method + WITH)) if label in lines]
            mine += pair
            traces += [_trace(one, look) for one in pair]
            for one in pair:
                values[one.label.split(", ")[0], column.name] = rounds_to(one, column.target).counted
            if len(pair) == 2:
                needed = [rounds_to(one, column.target) for one in pair]
                rows.append(_row(method, column, pair, needed))
                faster += needed[1].mean < needed[0].mean
        if traces:
            heading = f"{column.name}, to {column.target:.0%}"
            panels.append(Panel(heading, "round", "test accuracy (%), mean of seeds", traces))
    note = (
        f"With Fedssyn the target is reached in fewer rounds in {faster} of {len(rows)} settings, in the mean of seeds."
    )
    heads = [
        "method",
        "column",
        "rate without",
        "with",
        "rounds without",
        "with",
        "speed-up",
        "last without, %",
        "with",
    ]
    tables = {"table": [StudyTable(heads, rows, words=2)]}
    return Findings(
        ABOUT, mine, tables, {"table": Drawing(ABOUT, panels, across=2, legend="below")}, notes=[note], values=values
    )


def _row(method: str, column: SetupColumn, pair: Sequence[StudyLine], needed: Sequence[RoundsNeeded]) -> list[str]:
    rates, last = [plain(one.rate) for one in pair], [f"{100 * one.mean:.1f}" for one in pair]
    return [method, column.name, *rates, *map(str, needed), speed_up(*needed), *last]


def _trace(one: StudyLine, look: int) -> Trace:
    """There are many lines, so they have no band."""
    name = one.label.split(", ")[0]
    mean = [100 * value for value in one.by_round()]
    return Trace(name, one.rounds, mean, look, "line" if name.endswith(WITH) else "dashed")


def _experiment(columns: Sequence[SetupColumn]) -> FromRuns:
    comparisons = [
        column.comparison(
            [line for method in column.methods for line in (column.plain(method), column.with_shuffled(method))]
        )
        for column in columns
    ]
    return FromRuns(comparisons, partial(tell, columns))


# ---- the table


def _names(takes: Sequence[str], data: str = "") -> list[str]:
    return [f"{data}{each}, α={alpha:g}" for each in takes for alpha in ALPHAS]


def _fewer(names: Sequence[str]) -> list[TableCell]:
    return [(method, name) for name in names for method in METHODS]


TABLE1 = Study(
    "fedssyn-table1",
    "rounds to a target accuracy of five methods with and without Fedssyn, rates tuned alike",
    {scale: _experiment(columns) for scale, columns in COLUMNS.items()},
    Shown(
        "4000 MNIST images at 14×14, MLP, 20 or 40 rounds: {}",
        r"(FedAvg \+ )?(?P<method>\w+), (?P<more>N=10.*)",
    ),
    Published(
        SSYN,
        "table 1 (A.1)",
        PRINTED_ROUNDS,
        [
            PaperClaim(
                "Shuffled synthetic data reduces the rounds to the target for all five methods (CIFAR-10, N = 10).",
                all_of(below((method + WITH, name), (method, name)) for method, name in _fewer(_names((FULL, PART)))),
            ),
            PaperClaim(
                "The speed-up is at least 1.6-fold in each of these columns.",
                all_of(
                    times((method, name), (method + WITH, name), 1.6) for method, name in _fewer(_names((FULL, PART)))
                ),
            ),
            PaperClaim(
                "The rounds are reduced with 40 clients, a fifth of them per round.",
                all_of(below((method + WITH, name), (method, name)) for method, name in _fewer(_names((FORTY,)))),
            ),
            PaperClaim(
                "The rounds are reduced with 100 clients, a tenth of them per round.",
                all_of(below((method + WITH, name), (method, name)) for method, name in _fewer(_names((HUNDRED,)))),
                ("paper",),
            ),
            PaperClaim(
                "The rounds are reduced on CIFAR-100 in all columns.",
                all_of(
                    below((method + WITH, name), (method, name))
                    for method, name in _fewer(_names(TAKES, CIFAR100_TOO))
                    if (method, name) in PRINTED_ROUNDS
                ),
                ("paper",),
            ),
        ],
        unit="rounds",
        grain=1.0,
        stand_ins=[method + WITH for method in METHODS],
        remarks=[
            f"“> 100” is counted as {NEVER}, one round more than the run had. On CIFAR-100 FedProx with Fedssyn does "
            "not reach 40 % with 40 clients, and what it needs without is not printed.",
            "At the desk: 4000 MNIST images at 14×14, a network with one hidden layer, five local epochs, 20 rounds "
            "(40 with some clients per round), and 80 % as the target of all columns.",
        ],
    ),
    more=[
        "Time to train generators is not counted in rounds. A line with images takes as many gradient steps as the one "
        "without.",
    ],
)
