"""Figure 2 (and A.4): least squares with a share p of all records shuffled. Error floors, and rounds to ε, tuned.

What the paper's theory says about FedAvg (n clients, τ local steps), with ζ_p² = (1−p)²ζ², and L_p of Lemma 1, and
which error is compared with it here:

- where drift dominates, the rounds to ε, each with its best rate, are R_p = A_p/√ε + B_p, and A_p goes like √L_p·ζ_p.
  The paper shows it for the error of the clients' models, (1/n)Σ‖x_i − x*‖², and fits A_p to the rounds to several ε
  up to 1.1·10⁻⁶. So does this; its ζ², n and τ are not given, so there are three ζ² here, and 10 and 10. The rounds for
  the mean of these models stand beside them.
- shuffling lowers the floor of that error more at low noise.
- of our own: the floor of the averaged model's excess loss is that of drift plus η·σ_p²/(4n) for these losses, and
  where noise dominates, the rounds until it is below ε scale as σ_p².
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from understudy.errors import UserError
from understudy.papers.fedssyn.squares_findings import Rows, squares_findings
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
from understudy.randomness import numpy_generator
from understudy.runs.watching import Observer

FLOOR_ZETA2, FLOOR_RATE = 100.0, 2e-4
DRIFT_GOAL, DRIFT_ROUNDS, DRIFT_RATES = 1.1e-6, 2000, np.geomspace(1e-5, 2e-2, 150)
FITTED = tuple(DRIFT_GOAL * np.geomspace(1, 100, 8))  # accuracies whose rounds A_p is fitted to
NOISE_GOAL = 3e-4  # of the excess loss


@dataclass(frozen=True)
class SquaresPlan:
    draws: int  # of the data
    rounds: int  # of every noisy simulation
    seeds: int  # of its steps
    shares: Sequence[float]  # p, without noise; begins with 0
    zeta2: Sequence[float] = (1.0, 10.0, 100.0)  # knobs, without noise
    floor_shares: Sequence[float] = (0.0, 0.5, 1.0)
    floor_sigma2: Sequence[float] = (0.0, 1.0, 10.0, 100.0, 1000.0, 10000.0)  # knobs; the paper names 0 and 1000
    noisy: Sequence[tuple[float, float]] = ((0.0, 1000.0), (1000.0, 1000.0))  # knobs ζ² and σ² of single records
    noisy_shares: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 0.9)


def least_squares(plan: SquaresPlan, _: Path, observer: Observer) -> Findings:
    observer.says("error floors")
    floors = [row for draw in range(plan.draws) for row in _floors(plan, draw)]
    observer.says("rounds to ε without noise")
    drift = [row for knob in plan.zeta2 for row in _drift(plan, knob)]
    observer.says("rounds to ε with single records")
    return squares_findings(floors, drift, [row for knobs in plan.noisy for row in _noise(plan, knobs)])


def _shuffled(base: Squares, p: float, draw: int) -> Squares:
    return base.shuffled(p, numpy_generator(draw, "least squares", "shuffle"))


# ---- error floors


def _floors(plan: SquaresPlan, draw: int) -> Rows:
    """Means of both errors over the second half of the rounds, started near the optimum."""
    bases = [drawn(FLOOR_ZETA2, sigma2, draw) for sigma2 in plan.floor_sigma2]
    found = []
    for p in plan.floor_shares:
        problems = [_shuffled(base, p, draw) for base in bases]
        rng = numpy_generator("least squares", "floors", round(100 * p), draw)
        errors = with_noise(problems, np.array([FLOOR_RATE]), plan.rounds, plan.seeds, rng, start=0.0)
        late = [kind[plan.rounds // 2 :].mean((0, 2, 3)) for kind in (errors.mean, errors.clients)]
        for knob, problem, floor, of_clients in zip(plan.floor_sigma2, problems, *late, strict=True):
            zeta2, sigma2 = problem.at_optimum()
            predicted = floor_without_noise(problem, FLOOR_RATE) + FLOOR_RATE * sigma2 / (4 * CLIENTS)
            row = {"draw": draw, "p": p, "knob": knob, "zeta2": zeta2, "sigma2": sigma2}
            found.append({**row, "measured": float(floor), "predicted": predicted, "clients": float(of_clients)})
    return found


# ---- rounds to ε


def _drift(plan: SquaresPlan, knob: float) -> Rows:
    """Full local gradients: no noise, so drift alone decides. Every list has one number per draw."""
    rows: Rows = []
    for p in plan.shares:
        problems = [_shuffled(drawn(knob, 0.0, draw), p, draw) for draw in range(plan.draws)]
        errors = [clients_without_noise(one, DRIFT_RATES, DRIFT_ROUNDS) for one in problems]
        rows.append(
            {
                "knob": knob,
                "p": p,
                "rounds": [fewest(error, DRIFT_GOAL) for error in errors],
                "coefficient": [_coefficient(error) for error in errors],
                "zeta": [float(np.sqrt(one.at_optimum()[0])) for one in problems],
                "slope": [float(np.sqrt(one.smoothness * one.at_optimum()[0])) for one in problems],
                "of_mean": [fewest(_distance_of_mean(one), DRIFT_GOAL) for one in problems],
            }
        )
    return rows


def _distance_of_mean(problem: Squares) -> Array:
    """(rounds, rates): ‖w − x*‖² of the averaged model."""
    bend = np.square(problem.a).mean() / 2  # from the excess loss back to the distance
    found: Array = without_noise(problem, DRIFT_RATES, DRIFT_ROUNDS) / bend
    return found


def _coefficient(error: Array) -> float:
    """A_p, from a line through the rounds to several accuracies over 1/√ε."""
    return fitted_coefficient(FITTED, [fewest(error, goal) for goal in FITTED])


def fitted_coefficient(goals: Sequence[float], rounds: Sequence[float]) -> float:
    """A of the line R = A/√ε + B that is closest to these rounds (least squares)."""
    slope, _ = np.polyfit(1 / np.sqrt(np.asarray(goals)), np.asarray(rounds), 1)
    return float(slope)


def fewest(errors: Array, goal: float) -> float:
    """Rounds with the best rate; rates are the last axis."""
    rounds = rounds_to(errors, goal)
    if not np.isfinite(rounds).any():
        raise UserError(f"least squares: no rate reached {goal:g} in {len(errors)} rounds; simulate more.")
    return float(rounds.min())


def _noise(plan: SquaresPlan, knobs: tuple[float, float]) -> Rows:
    """Single records: noise decides, and shuffling real records of different clients adds to it."""
    rates = np.geomspace(5e-5, 2e-3, 13)
    problems = [[_shuffled(drawn(*knobs, draw), p, draw) for p in plan.noisy_shares] for draw in range(plan.draws)]
    excess = [
        with_noise(of_draw, rates, plan.rounds, plan.seeds, numpy_generator("least squares", "noise", draw)).mean.mean(
            -1
        )
        for draw, of_draw in enumerate(problems)
    ]
    return [_noisy_row(knobs, p, at, problems, excess) for at, p in enumerate(plan.noisy_shares)]


def _noisy_row(
    knobs: tuple[float, float], p: float, at: int, problems: Sequence[Sequence[Squares]], excess: Sequence[Array]
) -> dict[str, Any]:
    rounds = [fewest(one[:, at], NOISE_GOAL) for one in excess]
    return {"knobs": list(knobs), "p": p, "rounds": rounds, "sigma2": [one[at].at_optimum()[1] for one in problems]}
