"""Curves of a tuned comparison as panels of a picture: means over seeds, in a band from the worst seed to the best."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from understudy.papers.experiment import Panel, Style, Trace
from understudy.papers.seed_curves import SeedCurve, said, seed_curve
from understudy.papers.tuned import Comparison, Standing

__all__ = ["over_megabytes", "over_rounds", "read_curves", "said"]


def read_curves(plan: Comparison, standings: Sequence[Standing], out: Path) -> dict[str, SeedCurve]:
    """By contender."""
    return {one.label: seed_curve(plan, one, out, one.label) for one in standings}


def over_rounds(
    heading: str, curves: Mapping[str, SeedCurve], looks: Mapping[str, int], styles: Mapping[str, Style] | None = None
) -> Panel:
    """``curves`` by what the picture calls them, as are ``looks``; with ``styles`` lines are many, and have no band."""
    traces = []
    for label, curve in curves.items():
        low, mean, high = ([100 * value for value in line] for line in (curve.lowest, curve.mean, curve.highest))
        bands = (None, None) if styles else (low, high)
        style: Style = styles[label] if styles else "line"
        traces.append(Trace(label, curve.rounds, mean, looks[label], style, *bands))
    measured = "test accuracy (%), mean of seeds" if styles else "test accuracy (%), band: worst to best seed"
    return Panel(heading, "round", measured, traces)


def over_megabytes(heading: str, curves: Mapping[str, SeedCurve], looks: Mapping[str, int]) -> Panel:
    by_round = over_rounds(heading, curves, looks)
    traces = [
        Trace(trace.label, curve.sent, trace.y, trace.look, "line", trace.low, trace.high)
        for trace, curve in zip(by_round.traces, curves.values(), strict=True)
    ]
    return Panel(heading, "megabytes, up and down, all clients", by_round.ylabel, traces)
