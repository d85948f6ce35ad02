"""The results of the least-squares study: panels, tables and sentences, all from the measured rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.papers.study import Drawing, Findings, Panel, StudyTable, Trace
from understudy.papers.theory.least_squares import CLIENTS, LOCAL_STEPS

ABOUT = f"Least squares, {CLIENTS} clients, {LOCAL_STEPS} local steps: what shuffling a share p of the records does"
SHARES = (0.0, 0.25, 0.5, 0.75, 0.9)
FLOOR_RATE, FLOOR_SHARES, FLOOR_SIGMA2 = 2e-4, (0.0, 0.5, 1.0), (1.0, 10.0, 100.0, 1000.0, 10000.0)
DRIFT_ZETA2, DRIFT_GOAL = (1.0, 10.0, 100.0), 1.1e-6
PUBLISHED_UP_TO = 0.6  # the p up to which, in the paper, measured and predicted rounds match
NOISE_GOAL = 3e-4  # of the excess loss
NOISY = ((0.0, 1000.0), (1000.0, 1000.0))  # knobs (ζ², σ²)
DRIFT_KEYS = ("measured", "predicted", "zeta_ratio", "mean_ratio")
Rows = list[dict[str, Any]]


def findings(floors: Rows, drift: Rows, noise: Rows) -> Findings:
    panels = [_drift_panel(drift), _clients_panel(floors), _floor_panel(floors), _noise_panel(noise)]
    notes = [*_drift_notes(drift), *_floor_notes(floors), _noise_note(noise)]
    tables, pictures = {"table": _tables(floors, drift, noise)}, {"table": Drawing(ABOUT, panels)}
    numbers = {"floors": floors, "drift": drift, "noise": noise}
    return Findings(ABOUT, (), tables, pictures, notes=notes, numbers=numbers)


# ---- picture and table


def _floor_panel(rows: Rows) -> Panel:
    traces = []
    for look, p in enumerate(FLOOR_SHARES):
        mine = [row for row in rows if row["p"] == p]
        x = [row["sigma2"] for row in mine]
        traces.append(Trace(f"p = {p:g}, measured", x, [row["measured"] for row in mine], look, "dots"))
        traces.append(Trace(f"p = {p:g}, predicted", x, [row["predicted"] for row in mine], look, "dashed"))
    heading = f"error floor of the averaged model at rate {FLOOR_RATE:g}: drift + ησ²/4n"
    return Panel(heading, "σ² measured at the optimum", "f(w) − f*, last half of the rounds", traces, True, True)


def _clients_panel(rows: Rows) -> Panel:
    traces = []
    for look, p in enumerate(FLOOR_SHARES):
        mine = [row for row in rows if row["p"] == p]
        floors = [row["clients"] for row in mine]
        traces.append(Trace(f"p = {p:g}", [row["knob"] for row in mine], floors, look, "line and dots"))
    heading = f"error floor of the clients' models at rate {FLOOR_RATE:g}"
    return Panel(heading, "σ² (knob)", "(1/n)Σ‖x_i − x*‖², last half of the rounds", traces, True, True)


def _drift_panel(rows: Rows) -> Panel:
    traces = []
    for look, knob in enumerate(DRIFT_ZETA2):
        mine = [row for row in rows if row["knob"] == knob]
        measured = [row["measured"] for row in mine]
        traces.append(Trace(f"measured, ζ² = {knob:g} (knob)", SHARES, measured, look, "line and dots"))
    last = [row for row in rows if row["knob"] == DRIFT_ZETA2[-1]]
    traces.append(Trace("predicted: √L_p·ζ_p", SHARES, [row["predicted"] for row in last], 4, "dashed"))
    traces.append(Trace("ζ_p alone", SHARES, [row["zeta_ratio"] for row in last], 5, "dotted"))
    heading = f"no noise: rounds of the clients' models to {DRIFT_GOAL:g}, rate tuned, as a share of those at p = 0"
    return Panel(heading, "shuffled share p", "rounds(p) / rounds(0)", traces, log_y=True)


def _noise_panel(rows: Rows) -> Panel:
    traces = []
    for look, knobs in enumerate(NOISY):
        mine = [row for row in rows if row["knobs"] == list(knobs)]
        p, label = [row["p"] for row in mine], f"knobs ζ² = {knobs[0]:g}, σ² = {knobs[1]:g}"
        traces.append(Trace(f"{label}: measured", p, [row["measured"] for row in mine], look, "line and dots"))
        traces.append(Trace("predicted: σ_p²/σ²", p, [row["predicted"] for row in mine], look, "dashed"))
    heading = (
        f"single records: rounds of the averaged model to {NOISE_GOAL:g}, rate tuned, as a share of those at p = 0"
    )
    return Panel(heading, "shuffled share p", "rounds(p) / rounds(0)", traces, ylim=(0, 2.6))


def _tables(floors: Rows, drift: Rows, noise: Rows) -> list[StudyTable]:
    keys = ("zeta2", "sigma2", "measured", "predicted", "clients")
    first = StudyTable(
        ["p", "ζ²", "σ²", "floor of the averaged model", "predicted", "floor of the clients' models"],
        [[f"{row['p']:g}", *(f"{row[key]:.3g}" for key in keys)] for row in floors],
        f"Error floors at rate {FLOOR_RATE:g}: f(w) − f* of the averaged model, (1/n)Σ‖x_i − x*‖² of clients'",
    )
    second = StudyTable(
        ["ζ² (knob)", "p", "rounds", "ratio measured", "√L_p·ζ_p predicts", "ζ_p alone", "of the averaged model"],
        [
            [f"{row['knob']:g}", f"{row['p']:g}", f"{np.mean(row['rounds']):.0f}", *_three_places(row, DRIFT_KEYS)]
            for row in drift
        ],
        f"No noise: rounds until (1/n)Σ‖x_i − x*‖² is {DRIFT_GOAL:g}, rates tuned",
    )
    third = StudyTable(
        ["knobs", "p", "rounds", "ratio measured", "predicted"],
        [
            [
                f"ζ² = {row['knobs'][0]:g}, σ² = {row['knobs'][1]:g}",
                f"{row['p']:g}",
                f"{np.mean(row['rounds']):.0f}",
                *_three_places(row, ("measured", "predicted")),
            ]
            for row in noise
        ],
        f"Single records: rounds until f(w) − f* is {NOISE_GOAL:g}, rates tuned",
    )
    return [first, second, third]


def _three_places(row: dict[str, Any], keys: Sequence[str]) -> list[str]:
    return [f"{row[key]:.3f}" for key in keys]


# ---- in sentences


def _drift_notes(drift: Rows) -> list[str]:
    by = {knob: [row for row in drift if row["knob"] == knob and 0 < row["p"] < 0.9] for knob in DRIFT_ZETA2}
    least, most = by[DRIFT_ZETA2[0]], by[DRIFT_ZETA2[-1]]
    shares, squares = (
        _listed([f"{row['p']:g}" for row in most]),
        _listed([f"{(1 - row['p']) ** 2:.2f}" for row in most]),
    )
    measured = [f"{_ratios(rows, 'measured')} with ζ² = {knob:g}" for knob, rows in by.items()]
    faster = [f"{knob:g}" for knob, rows in by.items() if all(row["measured"] < 1 - row["p"] for row in rows)]
    return [
        f"Without noise, rounds of the clients' models at p = {shares} as a share of those at p = 0: "
        f"{'; '.join(measured)} (knobs). √L_p·ζ_p predicts {_ratios(most, 'predicted')}, ζ_p alone "
        f"{_ratios(most, 'zeta_ratio')}.",
        f"{_verdict(least, DRIFT_ZETA2[0])} {_verdict(most, DRIFT_ZETA2[-1])} The further ε lies below ζ², "
        "the smaller the gain from making curvatures alike.",
        "Rounds fall by a larger share than p, at every p listed: "
        + (f"with ζ² = {' and '.join(faster)}." if faster else "with no ζ² tried."),
        f"The averaged model gains more than its parts: {_ratios(most, 'mean_ratio')} with ζ² = {DRIFT_ZETA2[-1]:g}; "
        f"(1 − p)² is {squares}. To first order its drift is a product of differences between optima and between "
        "curvatures, and shuffling reduces both.",
    ]


def _verdict(rows: Rows, knob: float) -> str:
    """How far off the published √L_p·ζ_p is where the paper reports a match, and beside it ζ_p alone."""
    matching = [row for row in rows if row["p"] <= PUBLISHED_UP_TO]
    return (
        f"With ζ² = {knob:g} the measured ratio is within {_furthest(matching, 'predicted')} of √L_p·ζ_p for p ≤ "
        f"{PUBLISHED_UP_TO:g}, where the paper reports a match, and within {_furthest(matching, 'zeta_ratio')} of "
        "ζ_p alone."
    )


def _floor_notes(floors: Rows) -> list[str]:
    by = {(row["p"], row["knob"]): row["clients"] for row in floors}
    low, high = (by[1.0, knob] / by[0.0, knob] for knob in (FLOOR_SIGMA2[0], FLOOR_SIGMA2[-1]))
    holds = "holds" if low < high else "does not hold"
    return [
        f"The claim that shuffling lowers the floor of the clients' models more at low noise {holds}: with all records "
        f"shuffled, {low:.2f} of it is left at σ² = {FLOOR_SIGMA2[0]:g} and {high:.2f} at σ² = {FLOOR_SIGMA2[-1]:g} "
        "(knobs).",
        f"The averaged model's floor matches the prediction to within {_furthest(floors, 'predicted')}.",
    ]


def _noise_note(noise: Rows) -> str:
    dear = max(noise, key=lambda row: row["predicted"])
    return (
        f"With single records, shuffling costs rounds where ζ² is not small beside σ²: mixing records of different "
        f"clients adds noise. At p = {dear['p']:g} it takes {dear['measured']:.2f} times the rounds; σ_p²/σ² predicts "
        f"{dear['predicted']:.2f}, since it ignores that drift falls at the same time."
    )


def _furthest(rows: Rows, key: str) -> str:
    return f"{100 * max(abs(row['measured'] / row[key] - 1) for row in rows):.0f} %"


def _ratios(rows: Rows, key: str) -> str:
    return _listed([f"{row[key]:.2f}" for row in rows])


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"
