"""The least-squares check as a study: the error floor against σ², and rounds to ε for several shares p, tuned.

What the theory says of FedAvg (n clients, τ local steps, rate η), with ζ_p² = (1−p)²ζ² and σ_p² of Lemma 1:
the floor at a fixed rate is that of drift plus η·σ_p²/(4n) for these losses; the rounds to ε, each with its best rate,
go like ζ_p where drift decides, so with (1−p), and like σ_p² where noise decides.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from understudy.errors import UserError
from understudy.randomness import numpy_generator
from understudy.studies.experiment import Experiment, Findings, Panel, Trace, markdown_table
from understudy.studies.theory_least_squares import (
    CLIENTS,
    LOCAL_STEPS,
    Array,
    Squares,
    drawn,
    floor_without_noise,
    rounds_to,
    with_noise,
    without_noise,
)
from understudy.studies.watching import Observer

SHARES = (0.0, 0.25, 0.5, 0.75, 0.9)
FLOOR_RATE, FLOOR_ZETA2, FLOOR_SIGMA2 = 2e-4, 100.0, (1.0, 10.0, 100.0, 1000.0, 10000.0)
DRIFT_GOAL, NOISE_GOAL = 1e-7, 3e-4
NOISY = ((0.0, 1000.0), (1000.0, 1000.0))  # knobs (ζ², σ²)
Rows = list[dict[str, Any]]


def least_squares(draws: int, rounds: int, seeds: int) -> Experiment:
    """``draws`` of the data; ``rounds`` of every noisy simulation, ``seeds`` of its steps."""
    about = f"Least squares, {CLIENTS} clients, {LOCAL_STEPS} local steps: what shuffling a share p of the records does"

    def play(_: Path, observer: Observer) -> Findings:
        observer.says("error floor")
        floors = _floors(rounds, seeds)
        observer.says("rounds to ε")
        drift = _drift(draws)
        noise = _noise(draws, rounds, seeds)
        panels = [_floor_panel(floors), _drift_panel(drift), _noise_panel(noise)]
        numbers = {"floors": floors, "drift": drift, "noise": noise}
        return Findings(numbers, _tables(floors, drift, noise), panels, _notes(floors, drift, noise))

    return Experiment("theory-least-squares", about, play)


def _shuffled(base: Squares, p: float, draw: int) -> Squares:
    return base.shuffled(p, numpy_generator(draw, "least squares", "shuffle"))


def _floors(rounds: int, seeds: int) -> Rows:
    """Mean excess over the second half of the rounds, begun near the optimum."""
    bases = [drawn(FLOOR_ZETA2, sigma2, 0) for sigma2 in FLOOR_SIGMA2]
    found = []
    for p in (0.0, 0.5, 1.0):
        problems = [_shuffled(base, p, 0) for base in bases]
        rng = numpy_generator("least squares", "floors", round(100 * p))
        excess = with_noise(problems, np.array([FLOOR_RATE]), rounds, seeds, rng, start=0.0)
        for knob, problem, floor in zip(FLOOR_SIGMA2, problems, excess[rounds // 2 :].mean((0, 2, 3)), strict=True):
            zeta2, sigma2 = problem.at_optimum()
            drift = floor_without_noise(problem, FLOOR_RATE)
            predicted = drift + FLOOR_RATE * sigma2 / (4 * CLIENTS)
            found.append(
                {"p": p, "knob": knob, "zeta2": zeta2, "sigma2": sigma2, "measured": floor, "predicted": predicted}
            )
    return found


def _best(excess: Array, goal: float, rates: Array) -> tuple[float, float]:
    """Fewest rounds over the rates, the last axis; and that rate."""
    rounds = rounds_to(excess, goal)
    if not np.isfinite(rounds).any():
        raise UserError(f"least squares: no rate came to {goal:g} in {len(excess)} rounds; simulate more of them.")
    return float(rounds.min()), float(rates[rounds.argmin()])


def _drift(draws: int) -> Rows:
    """Full local gradients: no noise, so that drift alone decides."""
    rates = np.geomspace(1e-6, 2e-2, 80)
    found: Rows = []
    for p in SHARES:
        best, zeta = [], []
        for draw in range(draws):
            problem = _shuffled(drawn(FLOOR_ZETA2, 0.0, draw), p, draw)
            best.append(_best(without_noise(problem, rates, 5000), DRIFT_GOAL, rates))
            zeta.append(float(np.sqrt(problem.at_optimum()[0])))
        found.append(_ratios(found, p, [rounds for rounds, _ in best], [rate for _, rate in best]) | {"zeta": zeta})
        found[-1]["predicted"] = _mean_ratio(zeta, found[0]["zeta"])
    return found


def _noise(draws: int, rounds: int, seeds: int) -> Rows:
    """Single records: noise decides, and shuffling real records of unlike clients makes it larger."""
    rates = np.geomspace(5e-5, 2e-3, 13)
    found: Rows = []
    for knobs in NOISY:
        rows: Rows = []
        problems = [[_shuffled(drawn(*knobs, draw), p, draw) for p in SHARES] for draw in range(draws)]
        excess = [
            with_noise(of_draw, rates, rounds, seeds, numpy_generator("least squares", "noise", draw)).mean(-1)
            for draw, of_draw in enumerate(problems)
        ]
        for at, p in enumerate(SHARES):
            best = [_best(one[:, at], NOISE_GOAL, rates) for one in excess]
            sigma2 = [of_draw[at].at_optimum()[1] for of_draw in problems]
            row = _ratios(rows, p, [rounds for rounds, _ in best], [rate for _, rate in best])
            rows.append(row | {"knobs": list(knobs), "sigma2": sigma2})
            rows[-1]["predicted"] = _mean_ratio(sigma2, rows[0]["sigma2"])
        found += rows
    return found


def _ratios(before: Rows, p: float, rounds: list[float], rates: list[float]) -> dict[str, Any]:
    first = before[0]["rounds"] if before else rounds
    return {"p": p, "rounds": rounds, "rates": rates, "measured": _mean_ratio(rounds, first)}


def _mean_ratio(values: Sequence[float], first: Sequence[float]) -> float:
    return float(np.mean(np.array(values) / np.array(first)))


# ---- picture and table


def _floor_panel(rows: Rows) -> Panel:
    traces = []
    for look, p in enumerate((0.0, 0.5, 1.0)):
        mine = [row for row in rows if row["p"] == p]
        x = [row["sigma2"] for row in mine]
        traces.append(Trace(f"p = {p:g}, measured", x, [row["measured"] for row in mine], look, "dots"))
        traces.append(Trace(f"p = {p:g}, predicted", x, [row["predicted"] for row in mine], look, "dashed"))
    heading = f"error floor at rate {FLOOR_RATE:g}: drift + ησ²/4n"
    return Panel(heading, "σ² measured at the optimum", "f(w) − f*, last half of the rounds", traces, True, True)


def _drift_panel(rows: Rows) -> Panel:
    p = [row["p"] for row in rows]
    traces = [
        Trace("measured", p, [row["measured"] for row in rows], 0, "line and dots"),
        Trace("predicted: ζ_p/ζ = 1 − p", p, [row["predicted"] for row in rows], 1, "dashed"),
        Trace("(1 − p)²", p, [(1 - share) ** 2 for share in p], 2, "dotted"),
    ]
    heading = f"no noise: rounds to {DRIFT_GOAL:g}, rate tuned, as a share of those at p = 0"
    return Panel(heading, "shuffled share p", "rounds(p) / rounds(0)", traces, log_y=True)


def _noise_panel(rows: Rows) -> Panel:
    traces = []
    for look, knobs in enumerate(NOISY):
        mine = [row for row in rows if row["knobs"] == list(knobs)]
        p, label = [row["p"] for row in mine], f"knobs ζ² = {knobs[0]:g}, σ² = {knobs[1]:g}"
        traces.append(Trace(f"{label}: measured", p, [row["measured"] for row in mine], look, "line and dots"))
        traces.append(Trace("predicted: σ_p²/σ²", p, [row["predicted"] for row in mine], look, "dashed"))
    heading = f"single records: rounds to {NOISE_GOAL:g}, rate tuned, as a share of those at p = 0"
    return Panel(heading, "shuffled share p", "rounds(p) / rounds(0)", traces, ylim=(0, 2.6))


def _tables(floors: Rows, drift: Rows, noise: Rows) -> str:
    first = markdown_table(
        ["p", "ζ²", "σ²", "floor measured", "predicted"],
        [[f"{r['p']:g}", *(f"{r[key]:.3g}" for key in ("zeta2", "sigma2", "measured", "predicted"))] for r in floors],
    )
    named = [("no noise", row) for row in drift]
    named += [(f"single records, knobs ζ² = {row['knobs'][0]:g}, σ² = {row['knobs'][1]:g}", row) for row in noise]
    rest = markdown_table(
        ["regime", "p", "rounds", "ratio measured", "predicted"],
        [
            [
                name,
                f"{row['p']:g}",
                f"{np.mean(row['rounds']):.0f}",
                f"{row['measured']:.3f}",
                f"{row['predicted']:.3f}",
            ]
            for name, row in named
        ],
    )
    return f"Error floor at rate {FLOOR_RATE:g}\n\n{first}\nRounds to ε, rates tuned\n\n{rest}"


def _notes(floors: Rows, drift: Rows, noise: Rows) -> list[str]:
    off = max(abs(row["measured"] / row["predicted"] - 1) for row in floors)
    last, dear = drift[-1], max(noise, key=lambda row: row["predicted"])
    return [
        f"The floor is what was predicted, to {100 * off:.0f} % at worst.",
        f"Without noise the rounds fall faster than ζ_p/ζ: at p = {last['p']:g} to {last['measured']:.3f}, predicted "
        f"{last['predicted']:.3f}. Shuffling also makes the clients' curvatures alike, which the bound does not count: "
        "to first order the drift of these losses goes with (1 − p)², and so do the rounds.",
        f"With single records shuffling costs rounds where ζ² is not small beside σ²: records of unlike clients are "
        f"noisier company. At p = {dear['p']:g} it is {dear['measured']:.2f} times the rounds; σ_p²/σ² predicts "
        f"{dear['predicted']:.2f}, since it does not see that drift falls at the same time.",
    ]
