"""FedRep and Ditto in plain numpy and float64, on networks with a body and a head: slow, and written from the papers.

Only the order of the records is the library's: a plan is an input to training, not a part of it.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from softmax_by_numpy import Vector
from stage import SEED, Body
from torch import nn

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.learning.local import Local
from understudy.learning.plan import passes
from understudy.models.network import Network
from understudy.randomness import generator

FEATURES, HIDDEN, CLASSES = 3, 4, 3
BODY = HIDDEN * FEATURES + HIDDEN  # W₁ row by row, then b₁; after them W₂ and b₂


def layered_net() -> Network:
    """tanh(W₁x + b₁), then W₂h + b₂."""
    return Network(
        lambda: Body(nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.Tanh()), nn.Linear(HIDDEN, CLASSES)),
        Problem(shape=(FEATURES,), classes=CLASSES),
    )


def is_matrix() -> Vector:
    """1 where a number belongs to W₁ or W₂."""
    sizes = (HIDDEN * FEATURES, HIDDEN, CLASSES * HIDDEN, CLASSES)
    return np.concatenate([np.full(n, float(at % 2 == 0)) for at, n in enumerate(sizes)])


def gradient(w: Vector, x: Vector, y: npt.NDArray[np.int64]) -> Vector:
    """Of the mean cross-entropy, by the chain rule."""
    w1, b1 = w[: HIDDEN * FEATURES].reshape(HIDDEN, FEATURES), w[HIDDEN * FEATURES : BODY]
    w2, b2 = w[BODY : BODY + CLASSES * HIDDEN].reshape(CLASSES, HIDDEN), w[BODY + CLASSES * HIDDEN :]
    h = np.tanh(x @ w1.T + b1)
    logits = h @ w2.T + b2
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    p /= len(y)
    before = (p @ w2) * (1 - h**2)
    return np.concatenate([(before.T @ x).ravel(), before.sum(0), (p.T @ h).ravel(), p.sum(0)])


def rows_of(name: str, round: int, records: int, local: Local) -> list[list[int]]:
    steps = local.step_count(records)
    plan = passes(records, steps, local.batch, generator(SEED, round, name, "batches"))
    return [[i for i in row if i >= 0] for row in plan.tolist()]


def sgd(
    w: Vector,
    own: Examples,
    batches: Sequence[Sequence[int]],
    local: Local,
    moves: Vector,
    decays: Vector,
    pull: Callable[[Vector], Vector] = lambda w: np.zeros_like(w),
) -> Vector:
    """v ← βv + (g + pull + decay·w), w ← w − ηv; only where ``moves`` is 1."""
    x, y = own.x.numpy().astype(np.float64), own.y.numpy()
    v = np.zeros_like(w)
    for rows in batches:
        g = gradient(w, x[list(rows)], y[list(rows)]) + pull(w) + local.weight_decay * decays * w
        v = local.momentum * v + g * moves
        w = w - local.lr * v
    return w


def slow_fedrep(
    sites: dict[str, Examples], w: Vector, cohorts: list[list[str]], local: Local, head_parts: int, body_parts: int
) -> tuple[Vector, dict[str, Vector]]:
    """The body, and the head of everybody who took part; the last row of ``local`` belongs to the body."""
    in_body = (np.arange(len(w)) < BODY).astype(np.float64)
    body, first_head, heads = w[:BODY], w[BODY:], dict[str, Vector]()
    for round, cohort in enumerate(cohorts, start=1):
        bodies, sizes = [], []
        for name in cohort:
            own = sites[name]
            batches = rows_of(name, round, len(own), local)
            cut = round_half_up(len(batches) * head_parts / (head_parts + body_parts))
            here = np.concatenate([body, heads.get(name, first_head)])
            here = sgd(here, own, batches[:cut], local, 1 - in_body, is_matrix())
            here = sgd(here, own, batches[cut:], local, in_body, is_matrix())
            heads[name] = here[BODY:]
            bodies.append(here[:BODY])
            sizes.append(len(own))
        body = np.average(bodies, axis=0, weights=sizes)
    return body, heads


def round_half_up(value: float) -> int:
    return int(np.floor(value + 0.5))


def towards(w_t: Vector, strength: float) -> Callable[[Vector], Vector]:
    return lambda v: strength * (v - w_t)


def slow_ditto(
    sites: dict[str, Examples], w: Vector, cohorts: list[list[str]], local: Local, strength: float
) -> tuple[Vector, dict[str, Vector]]:
    """The global model, and v_k of everybody who took part."""
    first, own_models, everything = w, dict[str, Vector](), np.ones_like(w)
    for round, cohort in enumerate(cohorts, start=1):
        sent, models, sizes = w, [], []
        for name in cohort:
            own = sites[name]
            batches = rows_of(name, round, len(own), local)
            models.append(sgd(sent, own, batches, local, everything, everything))
            sizes.append(len(own))
            v = own_models.get(name, first)
            own_models[name] = sgd(v, own, batches, local, everything, everything, towards(sent, strength))
        w = np.average(models, axis=0, weights=sizes)
    return w, own_models
