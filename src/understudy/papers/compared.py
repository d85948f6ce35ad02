"""A tuned comparison as findings: a table with the best on top, one dot per seed, and curves if it has panels."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from understudy.papers.comparison import Comparison
from understudy.papers.published import FromRuns
from understudy.papers.study import Drawing, Findings, Panel, StudyLine, StudyTable, Style, Trace, axis_top, plain, said

MEASURED = "accuracy after the last round (%)"
BANDED = "accuracy (%), band: worst to best seed"
STEP = 10  # percent: accuracy axes begin at a multiple of it
Curves = Mapping[str, StudyLine]  # by their names in the picture


def compared(plan: Comparison, lines: Mapping[str, StudyLine]) -> Findings:
    """Of the lines that are there; a panel with none of its own is left out."""
    mine = [lines[one.label] for one in plan.contenders if one.label in lines]
    tables, pictures = {"table": [standings_table(mine)]}, {"table": standings_drawing(plan.about, mine)}
    drawn = {heading: chosen(lines, labels) for heading, labels in plan.panels.items()}
    if panels := {heading: curves for heading, curves in drawn.items() if curves}:
        tables["curves"] = [curves_table(panels)]
        pictures["curves"] = curves_drawing(plan.about, panels)
    return Findings(plan.about, mine, tables, pictures, config=plan.config, rates=plan.rates)


def comparing(plan: Comparison) -> FromRuns:
    """The study that shows a comparison as it is."""
    return FromRuns([plan], partial(compared, plan))


def chosen(lines: Mapping[str, StudyLine], labels: Mapping[str, str]) -> dict[str, StudyLine]:
    """By their names in the picture, those with curves."""
    return {name: lines[label] for name, label in labels.items() if label in lines and lines[label].values}


# ---- after the last round


def standings_table(lines: Sequence[StudyLine]) -> StudyTable:
    rows = [
        [
            one.label,
            plain(one.rate),
            said(one.accuracies),
            f"{100 * statistics.fmean(one.best):.1f}",
            f"{one.megabytes:.1f}",
            f"{one.seconds:.0f}",
            "not audited" if one.leak is None else f"{100 * one.leak:.1f} %",
        ]
        for one in sorted(lines, key=lambda one: -one.mean)
    ]
    return StudyTable(["method", "rate", "accuracy, mean ± spread", "best round", "MB", "seconds", "leak"], rows)


def standings_drawing(title: str, lines: Sequence[StudyLine]) -> Drawing:
    ordered = sorted(lines, key=lambda one: one.mean)
    measured = f"{MEASURED}: one dot per seed, bar at the mean"
    trace = seeds_trace("", list(enumerate(ordered)))
    panel = Panel("", "", measured, [trace], names=[one.label for one in ordered], sideways=True)
    return Drawing(title, [panel], legend="none")


def seeds_trace(label: str, places: Sequence[tuple[float, StudyLine]], look: int = 0, style: Style = "seeds") -> Trace:
    """Every seed of every line, at the line's place."""
    dots = [(at, 100 * value) for at, one in places for value in one.accuracies]
    return Trace(label, [at for at, _ in dots], [value for _, value in dots], look, style)


# ---- over rounds


def curves_table(panels: Mapping[str, Curves]) -> StudyTable:
    """In each panel: after the last round, and within the megabytes of the line that needed fewest."""
    rows = []
    for heading, curves in panels.items():
        budget = min(one.sent_by_round[-1] for one in curves.values())
        for label, one in sorted(curves.items(), key=lambda each: -each[1].mean):
            end = [str(one.rounds[-1]), said(one.accuracies), f"{one.sent_by_round[-1]:.2f}"]
            rows.append([heading, label, *end, f"{budget:.2f}", said(one.within(budget))])
    headings = ["panel", "method", "last round", "accuracy", "MB", "within", "accuracy there"]
    return StudyTable(headings, rows, words=2)


def curves_drawing(title: str, panels: Mapping[str, Curves]) -> Drawing:
    """On the left over rounds, on the right over megabytes; a line looks the same in all panels."""
    labels = list(dict.fromkeys(label for curves in panels.values() for label in curves))
    looks = {label: number for number, label in enumerate(labels)}
    drawn = []
    for heading, curves in panels.items():
        later = {label: _after_the_opening(one) for label, one in curves.items()}
        lowest = 100 * min(min(one.by_round(min)) for one in later.values())
        highest = 100 * max(max(one.by_round(max)) for one in later.values())
        ylim = (STEP * (lowest // STEP), axis_top(highest))
        by_round = over_rounds(f"{heading}: over rounds", later, looks, "line and dots")
        by_megabyte = over_megabytes(f"{heading}: over megabytes", later, looks, "line and dots")
        drawn += [replace(by_round, ylim=ylim), replace(by_megabyte, ylim=ylim, ylabel="", from_zero=True)]
    return Drawing(title, drawn, across=2, legend="below")


def _after_the_opening(one: StudyLine) -> StudyLine:
    """Without the score before training, so that small differences later are visible."""
    if len(one.rounds) < 2 or one.rounds[0] != 0:
        return one
    values, sent = ([seed[1:] for seed in by_seed] for by_seed in (one.values, one.sent))
    return replace(one, rounds=one.rounds[1:], values=values, sent=sent)


def over_rounds(heading: str, curves: Curves, looks: Mapping[str, int], style: Style = "line") -> Panel:
    traces = [banded(label, one, one.rounds, looks[label], style) for label, one in curves.items()]
    return Panel(heading, "round", BANDED, traces)


def over_megabytes(heading: str, curves: Curves, looks: Mapping[str, int], style: Style = "line") -> Panel:
    traces = [banded(label, one, one.sent_by_round, looks[label], style) for label, one in curves.items()]
    return Panel(heading, "megabytes, up and down, all clients", BANDED, traces)


def banded(label: str, one: StudyLine, x: Sequence[float], look: int, style: Style = "line") -> Trace:
    """The mean over seeds after each round, in a band from the worst seed to the best."""
    low, mean, high = ([100 * value for value in one.by_round(of)] for of in (min, statistics.fmean, max))
    return Trace(label, x, mean, look, style, low, high)
