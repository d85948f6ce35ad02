"""Least squares, the convex check of "Synthetic data shuffling accelerates the convergence of federated learning under
data heterogeneity": n clients with n_i = 100 records each in d = 25 dimensions, F_ij(w) = ½‖A_ij w − b_ij‖²,

    A_ij = i·I,    b_ij ~ N(μ_i, σ²(i·d)⁻²·I),    μ_i ~ N(0, ζ²(i·d)⁻²·I),

and FedAvg with τ local steps of single records (or of all, which leaves no noise). A share p of every client's records
is pooled, shuffled and dealt out again, so the mean of the clients' losses does not change. The paper does not give n
and τ: here both are 10. Its ζ² and σ² are knobs; the resulting values are measured at the optimum.

Two different errors are tracked. The paper's is that of the clients' models at the end of their local steps,
(1/n)Σ‖x_i − x*‖², which includes what drives them apart. The other is the excess loss of their mean, f(w) − f(w*).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.randomness import numpy_generator

Array = NDArray[np.float64]
CLIENTS, RECORDS, DIMENSIONS, LOCAL_STEPS = 10, 100, 25, 10


@dataclass(frozen=True)
class Errors:
    """After each round, along the first axis."""

    mean: Array  # f(w) − f(w*) of the averaged model
    clients: Array  # (1/n)Σ‖x_i − x*‖² of the models before averaging


@dataclass(frozen=True)
class Squares:
    """The records of all clients: a scalar times the identity, and a vector."""

    a: Array  # (clients, records)
    b: Array  # (clients, records, dimensions)

    @property
    def optimum(self) -> Array:
        centre: Array = (self.a[..., None] * self.b).mean((0, 1)) / np.square(self.a).mean()
        return centre

    @property
    def smoothness(self) -> float:
        """L_p of the paper: the largest curvature of a client's loss."""
        return float(np.square(self.a).mean(1).max())

    def excess(self, w: Array) -> Array:
        """f(w) − f(w*) for (…, dimensions)."""
        found: Array = np.square(w - self.optimum).sum(-1) * np.square(self.a).mean() / 2
        return found

    def gradients(self, w: Array) -> Array:
        """(clients, records, dimensions): of every record."""
        return self.a[..., None] * (self.a[..., None] * w - self.b)

    def at_optimum(self) -> tuple[float, float]:
        """ζ² and σ² of the theory, at w*."""
        each = self.gradients(self.optimum)
        of_client = each.mean(1)
        zeta2 = np.square(of_client - of_client.mean(0)).sum(-1).mean()
        return float(zeta2), float(np.square(each - of_client[:, None]).sum(-1).mean())

    def shuffled(self, p: float, rng: np.random.Generator) -> "Squares":
        """The first p·n_i records of each client (they are in no order) are permuted across all clients."""
        moved = round(p * self.a.shape[1])
        order = rng.permutation(len(self.a) * moved)
        a, b = self.a.copy(), self.b.copy()
        a[:, :moved] = self.a[:, :moved].reshape(-1)[order].reshape(len(a), moved)
        b[:, :moved] = self.b[:, :moved].reshape(-1, b.shape[-1])[order].reshape(len(a), moved, b.shape[-1])
        return Squares(a, b)


def drawn(zeta2: float, sigma2: float, seed: int, clients: int = CLIENTS) -> Squares:
    rng = numpy_generator(seed, "least squares")
    i = np.arange(1, clients + 1)[:, None]
    centre = rng.normal(size=(clients, DIMENSIONS)) * np.sqrt(zeta2) / (i * DIMENSIONS)
    spread = np.sqrt(sigma2) / (i * DIMENSIONS)
    b = centre[:, None] + rng.normal(size=(clients, RECORDS, DIMENSIONS)) * spread[:, None]
    return Squares(np.repeat(i.astype(np.float64), RECORDS, axis=1), b)


def without_noise(problem: Squares, rates: Array, rounds: int, steps: int = LOCAL_STEPS) -> Array:
    """(rounds, rates) excess after each round of full local gradients, starting at w = 1, in closed form: a round
    pulls w towards a fixed point by a factor."""
    kept, rest = _resting(problem, rates, steps)
    off, begun = rest - problem.optimum, 1 - rest  # (rates, d)
    left = kept ** np.arange(1, rounds + 1)[:, None]
    squares = np.square(left) * np.square(begun).sum(1) + 2 * left * (begun * off).sum(1) + np.square(off).sum(1)
    found: Array = squares * np.square(problem.a).mean() / 2
    return found


def clients_without_noise(problem: Squares, rates: Array, rounds: int, steps: int = LOCAL_STEPS) -> Array:
    """(rounds, rates): (1/n)Σ‖x_i − x*‖² of the clients' models before they are averaged, else as ``without_noise``.

    From w = rest + kept^t·(1 − rest) client i goes to c_i/h_i + s_i·(w − c_i/h_i), which is off by u_i +
    kept^t·s_i·(1 − rest), where u_i is what remains.
    """
    kept, rest = _resting(problem, rates, steps)
    h, shrink = np.square(problem.a).mean(1), _shrinking(problem, rates, steps)
    own = (problem.a[..., None] * problem.b).mean(1) / h[:, None]  # (clients, d): minimum of its own loss
    off = own + shrink[..., None] * (rest[:, None] - own) - problem.optimum  # (rates, clients, d)
    begun = 1 - rest  # (rates, d)
    left = kept ** np.arange(rounds)[:, None]
    crossed = (shrink * np.einsum("skd,sd->sk", off, begun)).mean(1)
    moving = np.square(shrink).mean(1) * np.square(begun).sum(1)
    found: Array = np.square(off).sum(-1).mean(1) + 2 * left * crossed + np.square(left) * moving
    return found


def floor_without_noise(problem: Squares, rate: float, steps: int = LOCAL_STEPS) -> float:
    """The excess at which full local gradients settle."""
    _, rest = _resting(problem, np.array([rate]), steps)
    return float(problem.excess(rest[0]))


def _resting(problem: Squares, rates: Array, steps: int) -> tuple[Array, Array]:
    """(rates,) the factor by which a round shrinks the distance to the fixed point, and (rates, d) that point."""
    h, c = np.square(problem.a).mean(1), (problem.a[..., None] * problem.b).mean(1)  # (clients,), (clients, d)
    shrink = _shrinking(problem, rates, steps)
    kept = shrink.mean(1)
    pulled = np.einsum("sk,kd->sd", (1 - shrink) / h, c) / len(h)
    return kept, pulled / (1 - kept)[:, None]


def _shrinking(problem: Squares, rates: Array, steps: int) -> Array:
    """(rates, clients): the factor by which local steps shrink a client's distance to its own optimum."""
    found: Array = (1 - rates[:, None] * np.square(problem.a).mean(1)) ** steps
    return found


def with_noise(
    problems: Sequence[Squares], rates: Array, rounds: int, seeds: int, rng: np.random.Generator, *, start: float = 1.0
) -> Errors:
    """(rounds, problems, rates, seeds): both errors after each round; a local step uses one random record."""
    a, b = np.stack([one.a for one in problems]), np.stack([one.b for one in problems])
    here = np.arange(len(a))[:, None, None, None]
    client = np.arange(a.shape[1])
    rate = rates[None, :, None, None, None]
    shape = (len(a), len(rates), seeds)
    w = np.full((*shape, DIMENSIONS), start)
    found = Errors(np.empty((rounds, *shape)), np.empty((rounds, *shape)))
    optimum = np.stack([one.optimum for one in problems])[:, None, None]
    bend = np.array([np.square(one.a).mean() for one in problems])[:, None, None]
    for round in range(rounds):
        local = np.repeat(w[..., None, :], a.shape[1], axis=-2)  # (problems, rates, seeds, clients, d)
        for _ in range(LOCAL_STEPS):
            record = rng.integers(a.shape[2], size=(*shape, a.shape[1]))
            one, target = a[here, client, record][..., None], b[here, client, record]
            local -= rate * one * (one * local - target)
        w = local.mean(-2)
        found.mean[round] = bend / 2 * np.square(w - optimum).sum(-1)
        found.clients[round] = np.square(local - optimum[..., None, :]).sum(-1).mean(-1)
    return found


def rounds_to(excess: Array, goal: float) -> Array:
    """The first round (from 1) at which the excess is at most ``goal``, along the first axis; inf: never."""
    reached = excess <= goal
    return np.where(reached.any(0), reached.argmax(0) + 1.0, np.inf)
