"""The least-squares check as a study: the error floor against σ², and rounds to ε for several shares p, tuned.

What the theory says about FedAvg (n clients, τ local steps, rate η), with ζ_p² = (1−p)²ζ², L_p and σ_p² of Lemma 1,
and which error it is compared with here:

- where drift dominates, the rounds to ε, each with its best rate, scale as √L_p·ζ_p. The paper shows it for the error
  of the clients' models, (1/n)Σ‖x_i − x*‖², at ε = 1.1·10⁻⁶, and so does this; its ζ² is not given, so there are three
  here, with the rounds for the mean of these models beside them.
- shuffling lowers the floor of that error more at low noise (its second claim).
- the floor of the averaged model's excess loss is that of drift plus η·σ_p²/(4n) for these losses, and where noise
  dominates, the rounds until it is below ε scale as σ_p².
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from understudy.errors import UserError
from understudy.papers.study import Findings
from understudy.papers.theory.least_squares import (
    CLIENTS,
    Array,
    Squares,
    clients_without_noise,
    drawn,
    floor_without_noise,
    rounds_to,
    with_noise,
    without_noise,
)
from understudy.papers.theory.least_squares_findings import (
    DRIFT_GOAL,
    DRIFT_ZETA2,
    FLOOR_RATE,
    FLOOR_SHARES,
    FLOOR_SIGMA2,
    NOISE_GOAL,
    NOISY,
    SHARES,
    Rows,
    findings,
)
from understudy.randomness import numpy_generator
from understudy.runs.watching import Observer

FLOOR_ZETA2, DRIFT_ROUNDS = 100.0, 2000


def least_squares(draws: int, rounds: int, seeds: int, _: Path, observer: Observer) -> Findings:
    """``draws`` of the data; ``rounds`` of every noisy simulation, ``seeds`` of its steps."""
    observer.says("error floor")
    floors = _floors(rounds, seeds)
    observer.says("rounds to ε")
    return findings(floors, _drift(draws), _noise(draws, rounds, seeds))


def _shuffled(base: Squares, p: float, draw: int) -> Squares:
    return base.shuffled(p, numpy_generator(draw, "least squares", "shuffle"))


def _floors(rounds: int, seeds: int) -> Rows:
    """Means of both errors over the second half of the rounds, started near the optimum."""
    bases = [drawn(FLOOR_ZETA2, sigma2, 0) for sigma2 in FLOOR_SIGMA2]
    found = []
    for p in FLOOR_SHARES:
        problems = [_shuffled(base, p, 0) for base in bases]
        rng = numpy_generator("least squares", "floors", round(100 * p))
        errors = with_noise(problems, np.array([FLOOR_RATE]), rounds, seeds, rng, start=0.0)
        late = [kind[rounds // 2 :].mean((0, 2, 3)) for kind in (errors.mean, errors.clients)]
        for knob, problem, floor, of_clients in zip(FLOOR_SIGMA2, problems, *late, strict=True):
            zeta2, sigma2 = problem.at_optimum()
            drift = floor_without_noise(problem, FLOOR_RATE)
            predicted = drift + FLOOR_RATE * sigma2 / (4 * CLIENTS)
            row = {"p": p, "knob": knob, "zeta2": zeta2, "sigma2": sigma2, "measured": floor, "predicted": predicted}
            found.append({**row, "clients": of_clients})
    return found


def _best(excess: Array, goal: float, rates: Array) -> tuple[float, float]:
    """Fewest rounds over the rates, the last axis; and that rate."""
    rounds = rounds_to(excess, goal)
    if not np.isfinite(rounds).any():
        raise UserError(f"least squares: no rate reached {goal:g} in {len(excess)} rounds; simulate more.")
    return float(rounds.min()), float(rates[rounds.argmin()])


def _drift(draws: int) -> Rows:
    """Full local gradients: no noise, so drift alone decides."""
    return [row for knob in DRIFT_ZETA2 for row in _drift_of(knob, draws)]


def _drift_of(knob: float, draws: int) -> Rows:
    rows: Rows = []
    rates = np.geomspace(1e-5, 2e-2, 150)
    for p in SHARES:
        problems = [_shuffled(drawn(knob, 0.0, draw), p, draw) for draw in range(draws)]
        best = [_best(clients_without_noise(one, rates, DRIFT_ROUNDS), DRIFT_GOAL, rates) for one in problems]
        bends = [np.square(one.a).mean() / 2 for one in problems]  # from the excess loss back to ‖w − x*‖²
        of_mean = [
            _best(without_noise(one, rates, DRIFT_ROUNDS) / bend, DRIFT_GOAL, rates)[0]
            for one, bend in zip(problems, bends, strict=True)
        ]
        zeta = [float(np.sqrt(one.at_optimum()[0])) for one in problems]
        slope = [float(np.sqrt(one.smoothness)) * z for one, z in zip(problems, zeta, strict=True)]
        row = _ratios(rows, p, [rounds for rounds, _ in best], [rate for _, rate in best])
        rows.append(row | {"knob": knob, "zeta": zeta, "slope": slope, "of_mean": of_mean})
        first = rows[0]
        rows[-1] |= {
            "predicted": _mean_ratio(slope, first["slope"]),
            "zeta_ratio": _mean_ratio(zeta, first["zeta"]),
            "mean_ratio": _mean_ratio(of_mean, first["of_mean"]),
        }
    return rows


def _noise(draws: int, rounds: int, seeds: int) -> Rows:
    """Single records: noise decides, and shuffling real records of different clients adds to it."""
    rates = np.geomspace(5e-5, 2e-3, 13)
    found: Rows = []
    for knobs in NOISY:
        rows: Rows = []
        problems = [[_shuffled(drawn(*knobs, draw), p, draw) for p in SHARES] for draw in range(draws)]
        excess = [
            with_noise(of_draw, rates, rounds, seeds, numpy_generator("least squares", "noise", draw)).mean.mean(-1)
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
