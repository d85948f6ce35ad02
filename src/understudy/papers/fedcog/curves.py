"""Figure 6: accuracy over rounds, from the runs of table 1."""

import statistics
from collections.abc import Sequence
from functools import partial

from understudy.papers.carrying_out import PlayedLines
from understudy.papers.claims import PaperClaim, above, all_of, row_above
from understudy.papers.compared import banded
from understudy.papers.fedcog.cells import percent
from understudy.papers.fedcog.main_experiment import (
    BALANCED,
    BASELINES,
    CIFAR10,
    DESK,
    ONE_SPLIT,
    OURS,
    PAPER,
    Group,
    compared,
    split_of,
)
from understudy.papers.fedcog.twelve_methods import every_line
from understudy.papers.published import FromRuns, Published, Study
from understudy.papers.study import Drawing, Findings, Panel, StudyLine

ABOUT = "accuracy over rounds, with FedCOG after the rounds of averaging"
END, SINCE = "last round", "mean of the rounds with FedCOG"
ROWS = (*BASELINES, *OURS)


def tell(groups: Sequence[Group], lines: PlayedLines) -> Findings:
    settings = [one for group in groups for one in group]
    values, panels = {}, []
    for setting in settings:
        there = {row: lines[setting.label(row)] for row in ROWS if setting.label(row) in lines}
        for row, line in there.items():
            values[row, f"{split_of(setting)}, {END}"] = percent(line.accuracies)
            values[row, f"{split_of(setting)}, {SINCE}"] = percent(_since(line, setting.averaged))
        if there:
            traces = [banded(row, line, line.rounds, look) for look, (row, line) in enumerate(there.items())]
            shaded = (float(setting.averaged), float(setting.rounds))
            panels.append(Panel(setting.column, "round", "accuracy (%)", traces, shaded=shaded))
    drawn = {"curves": Drawing(ABOUT, panels, legend="below")} if panels else {}
    return Findings(ABOUT, list(lines.values()), pictures=drawn, values=values)


def _since(line: StudyLine, averaged: int) -> list[float]:
    at = line.rounds.index(averaged) + 1
    return [statistics.fmean(seed[at:]) for seed in line.values]


def _curves(groups: Sequence[Group]) -> FromRuns:
    return FromRuns(compared("fedcog-table1", ABOUT, groups, every_line), partial(tell, groups))


STUDY = Study(
    "fedcog-fig6",
    ABOUT,
    {"smoke": _curves(ONE_SPLIT), "desk": _curves(DESK), "paper": _curves(CIFAR10)},
    published=Published(
        PAPER,
        "figure 6",
        {},
        [
            PaperClaim(
                "FedCOG performs best after the last round, on both splits.",
                row_above(BALANCED, list(BASELINES), [f"{split}, {END}" for split in ("NIID-1", "NIID-2")]),
            ),
            PaperClaim(
                "From the round in which it joins, FedCOG is above FedAvg in the mean.",
                all_of(
                    above((BALANCED, f"{split}, {SINCE}"), ("FedAvg", f"{split}, {SINCE}"))
                    for split in ("NIID-1", "NIID-2")
                ),
            ),
        ],
        remarks=[
            "The paper does not name the figure's data set and prints no numbers; at paper scale it is CIFAR-10 here. "
            "At desk scale the data are 6000 images of Fashion-MNIST at 16×16.",
        ],
    ),
)
