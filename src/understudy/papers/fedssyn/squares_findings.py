"""What least squares showed: cells by draw, panels, tables and sentences, all from the measured rows."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from understudy.papers.study import Drawing, Findings, Panel, StudyTable, TableCell, Trace, spread
from understudy.papers.theory.least_squares import CLIENTS, LOCAL_STEPS

ABOUT = f"Least squares, {CLIENTS} clients, {LOCAL_STEPS} local steps: what shuffling a share p of the records does"
Rows = list[dict[str, Any]]
ROUNDS, FITTED_RATIO, SLOPE, ZETA, OF_MEAN = "rounds to ε", "A_p/A_0 fitted", "√L_p·ζ_p", "ζ_p alone", "averaged model"
KEYS = {ROUNDS: "rounds", FITTED_RATIO: "coefficient", SLOPE: "slope", ZETA: "zeta", OF_MEAN: "of_mean"}
FLOOR, NOISY_ROUNDS, NOISY_PREDICTED = "error floor", "rounds, single records", "σ_p²/σ²"


def at_zeta2(what: str, knob: float) -> str:
    """A row without noise."""
    return f"{what}, ζ² = {knob:g}"


def at_sigma2(knob: float) -> str:
    """A row of floors."""
    return f"{FLOOR}, σ² = {knob:g}"


def share(p: float) -> str:
    """A column."""
    return f"p = {p:g}"


def squares_findings(floors: Rows, drift: Rows, noise: Rows) -> Findings:
    values: dict[TableCell, Sequence[float]] = dict(_cells(floors, drift, noise))
    panels = [_drift_panel(values, drift), _floor_panel(values, floors), _noise_panel(values, noise)]
    numbers = {"floors": floors, "drift": drift, "noise": noise}
    return Findings(
        ABOUT,
        (),
        {"table": [_ratios_table(values)]},
        {"table": Drawing(ABOUT, panels)},
        notes=_notes(values, floors, drift),
        numbers=numbers,
        values={cell: values[cell] for cell in sorted(values, key=lambda cell: _p(cell[1])) if _p(cell[1])},
    )


def _cells(floors: Rows, drift: Rows, noise: Rows) -> Iterator[tuple[TableCell, list[float]]]:
    """Everything as a share of what it is without shuffling, one number per draw of the data."""
    for row in drift:
        first = next(one for one in drift if one["knob"] == row["knob"])
        for what, key in KEYS.items():
            yield (at_zeta2(what, row["knob"]), share(row["p"])), _over(row[key], first[key])
    by_cell: dict[tuple[float, float], list[float]] = {}
    for row in floors:
        by_cell.setdefault((row["knob"], row["p"]), []).append(row["clients"])
    for (knob, p), found in by_cell.items():
        yield (at_sigma2(knob), share(p)), _over(found, by_cell[knob, 0.0])
    for row in noise:
        first = next(one for one in noise if one["knobs"] == row["knobs"])
        for what, key in ((NOISY_ROUNDS, "rounds"), (NOISY_PREDICTED, "sigma2")):
            yield (at_zeta2(what, row["knobs"][0]), share(row["p"])), _over(row[key], first[key])


def _over(values: Sequence[float], first: Sequence[float]) -> list[float]:
    return [value / one for value, one in zip(values, first, strict=True)]


def _ratios_table(values: Mapping[TableCell, Sequence[float]]) -> StudyTable:
    rows, columns = (list(dict.fromkeys(cell[at] for cell in values)) for at in (0, 1))
    columns.sort(key=_p)
    body = [[row, *(_ratio(values.get((row, column), ())) for column in columns)] for row in rows]
    return StudyTable(["as a share of what it is without shuffling", *columns], body)


def _p(column: str) -> float:
    return float(column.removeprefix("p = "))


def _ratio(found: Sequence[float]) -> str:
    """What is worked out, or comes from one seed, has no spread."""
    if len(found) < 2:
        return f"{found[0]:.3f}" if found else "–"
    return f"{statistics.fmean(found):.3f} ± {spread(found):.3f}"


# ---- pictures


def _shares(rows: Rows, key: str, knob: Any) -> list[float]:
    return list(dict.fromkeys(row["p"] for row in rows if row[key] == knob))


def _trace(
    label: str, row: str, shares: Sequence[float], values: Mapping[TableCell, Sequence[float]], look: int, style: Any
) -> Trace:
    return Trace(label, shares, [statistics.fmean(values[row, share(p)]) for p in shares], look, style)


def _drift_panel(values: Mapping[TableCell, Sequence[float]], drift: Rows) -> Panel:
    traces = []
    knobs = list(dict.fromkeys(row["knob"] for row in drift))
    for look, knob in enumerate(knobs):
        shares = _shares(drift, "knob", knob)
        for what, style in ((ROUNDS, "line and dots"), (FITTED_RATIO, "dots")):
            traces.append(_trace(at_zeta2(what, knob), at_zeta2(what, knob), shares, values, look, style))
    for look, (what, style) in enumerate(((SLOPE, "dashed"), (ZETA, "dotted")), len(knobs)):
        shares = _shares(drift, "knob", knobs[-1])
        traces.append(_trace(what, at_zeta2(what, knobs[-1]), shares, values, look, style))
    heading = "no noise: rounds of the clients' models to 1.1·10⁻⁶, rate tuned, as a share of those at p = 0"
    return Panel(heading, "shuffled share p", "share of what it is at p = 0", traces, log_y=True)


def _floor_panel(values: Mapping[TableCell, Sequence[float]], floors: Rows) -> Panel:
    knobs = list(dict.fromkeys(row["knob"] for row in floors))
    traces = [
        _trace(f"σ² = {knob:g}", at_sigma2(knob), _shares(floors, "knob", knob), values, look, "line and dots")
        for look, knob in enumerate(knobs)
    ]
    return Panel("floor of (1/n)Σ‖x_i − x*‖² at one rate", "shuffled share p", "share of the floor at p = 0", traces)


def _noise_panel(values: Mapping[TableCell, Sequence[float]], noise: Rows) -> Panel:
    traces = []
    for look, (zeta2, sigma2) in enumerate(dict.fromkeys(tuple(row["knobs"]) for row in noise)):
        shares = _shares(noise, "knobs", [zeta2, sigma2])
        for what, style in ((NOISY_ROUNDS, "line and dots"), (NOISY_PREDICTED, "dashed")):
            label = f"{what}, ζ² = {zeta2:g}, σ² = {sigma2:g}"
            traces.append(_trace(label, at_zeta2(what, zeta2), shares, values, look, style))
    heading = "single records: rounds of the averaged model, rate tuned, as a share of those at p = 0"
    return Panel(heading, "shuffled share p", "share of what it is at p = 0", traces)


# ---- in sentences


def _notes(values: Mapping[TableCell, Sequence[float]], floors: Rows, drift: Rows) -> list[str]:
    off = max(abs(row["measured"] / row["predicted"] - 1) for row in floors)
    last = drift[-1]
    mean = statistics.fmean(values[at_zeta2(OF_MEAN, last["knob"]), share(last["p"])])
    return [
        f"The averaged model gains more than its parts: at p = {last['p']:g} and ζ² = {last['knob']:g} it needs "
        f"{mean:.3f} of the rounds; (1 − p)² is {(1 - last['p']) ** 2:.3f}. To first order its drift is a product of "
        "differences between optima and between curvatures, and shuffling reduces both.",
        f"The floor of the averaged model's excess loss is that of drift plus η·σ_p²/(4n) to within {100 * off:.0f} %.",
    ]
