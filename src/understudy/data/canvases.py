"""`canvases`: several handwritten digits on one canvas, drawn by code; each record has a label for every digit on it.

The digits are those of `mnist-5k`, shrunk to half the canvas's side and placed in its quarters, a little off
centre. Training canvases use that set's training images and test canvases its test images, so no digit is in both.

Every record has a natural user (``split: users``). A user has habits: which digits it likes, drawn from Dir(alpha),
how many it puts on a canvas, drawn from Dir(1), and how many canvases it has. It may put the same digit twice on one
canvas; the label is still 1. Test canvases follow the habits of all users in turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from understudy.base_settings import Settings
from understudy.data.dataset import Dataset
from understudy.data.digits import NAMES, read_mnist_5k
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.data.resize import average
from understudy.data.strata import Indices, largest_remainder
from understudy.randomness import numpy_generator

QUARTERS = np.array([(0, 0), (0, 1), (1, 0), (1, 1)])  # (down, across)
# A digit moves towards its neighbour by at most the blank margin of an MNIST image, 4 pixels in 28.
MARGIN = 7
LEAST, MOST = 0.5, 1.5  # range of a user's canvases, relative to the mean
MEAN, STD = (0.086,), (0.235,)  # of the default canvases

Pixels = NDArray[np.uint8]


class CanvasesSettings(Settings):
    users: int = Field(default=20, ge=1, le=10_000)  # natural users
    records: int = Field(default=100, ge=3, le=10_000)  # training canvases per user, on average
    test: int = Field(default=500, ge=1, le=100_000)  # test canvases in total
    digits: int = Field(default=4, ge=1, le=len(QUARTERS))  # most digits on a canvas
    alpha: float = Field(default=0.5, gt=0)  # the smaller, the fewer different digits a user writes
    size: int = Field(default=28, ge=16, le=56)  # side of a canvas, in pixels


@dataclass(frozen=True)
class Habits:
    """One user's habits, as probabilities."""

    digits: NDArray[np.float64]  # (10,): which
    number: NDArray[np.float64]  # (most,): how many, starting at 1


@dataclass(frozen=True)
class Stock:
    """Digit images to draw from, shrunk to fit into a quarter."""

    images: Pixels  # (n, side, side)
    of_digit: Sequence[Indices]

    @classmethod
    def of(cls, examples: Examples, side: int) -> "Stock":
        labels = examples.y.numpy()
        of_digit = [np.flatnonzero(labels == digit) for digit in range(len(NAMES))]
        return cls(average(examples.x, side)[:, 0].numpy(), of_digit)


def habits_of(user: int, settings: CanvasesSettings) -> Habits:
    """A user's habits do not depend on how many other users there are."""
    rng = numpy_generator("canvases", "habits", user)
    return Habits(_dirichlet(settings.alpha, len(NAMES), rng), _dirichlet(1.0, settings.digits, rng))


def _dirichlet(alpha: float, entries: int, rng: np.random.Generator) -> NDArray[np.float64]:
    # Gamma(α) = Gamma(α + 1)·U^(1/α), in logarithms: for a small α every number itself may be 0.
    logs = np.log(rng.standard_gamma(alpha + 1, entries)) + np.log1p(-rng.random(entries)) / alpha
    shares: NDArray[np.float64] = np.exp(logs - logs.max())
    shares /= shares.sum()
    return shares


def sizes(settings: CanvasesSettings) -> Indices:
    """(users,): how many training canvases each has, ``records`` on average."""
    rng = numpy_generator("canvases", "sizes")
    weights = rng.uniform(LEAST, MOST, settings.users)
    total = settings.users * settings.records
    return largest_remainder(weights / weights.sum() * total, total)


def draw(habits: Habits, number: int, stock: Stock, size: int, rng: np.random.Generator) -> tuple[Pixels, Pixels]:
    """(number, size, size) canvases of one user, and (number, 10) zeros and ones: the digits on each."""
    on_canvas = 1 + rng.choice(len(habits.number), number, p=habits.number)
    chosen = rng.choice(len(NAMES), (number, len(QUARTERS)), p=habits.digits)  # only the first few are used
    quarter = rng.permuted(np.tile(np.arange(len(QUARTERS)), (number, 1)), axis=1)
    canvases = np.zeros((number, size, size), np.uint8)
    labels = np.zeros((number, len(NAMES)), np.uint8)
    for place in range(len(QUARTERS)):
        at = np.flatnonzero(on_canvas > place)
        digits = chosen[at, place]
        which = np.array([rng.choice(stock.of_digit[digit]) for digit in digits], np.int64)
        _put(canvases, at, stock.images[which], QUARTERS[quarter[at, place]], rng)
        labels[at, digits] = 1
    return canvases, labels


def _put(canvases: Pixels, at: Indices, images: Pixels, quarters: Indices, rng: np.random.Generator) -> None:
    """One image on each of the canvases ``at``; where two overlap, the brighter pixel wins."""
    side = images.shape[1]
    inwards = rng.integers(0, side // MARGIN + 1, quarters.shape)
    corner = np.where(quarters == 0, inwards, canvases.shape[1] - side - inwards)
    rows = (corner[:, :1] + np.arange(side))[:, :, None]
    columns = (corner[:, 1:] + np.arange(side))[:, None, :]
    where = (at[:, None, None], rows, columns)
    canvases[where] = np.maximum(canvases[where], images)


def _examples(parts: Sequence[tuple[Pixels, Pixels]]) -> Examples:
    canvases, labels = (np.concatenate([part[which] for part in parts]) for which in (0, 1))
    return Examples(torch.from_numpy(canvases).unsqueeze(1), torch.from_numpy(labels).to(torch.float32))


def read_canvases(settings: CanvasesSettings | None = None) -> Dataset:
    """Drawn anew at each call, always the same; a user's records are adjacent."""
    settings = settings or CanvasesSettings()
    digits = read_mnist_5k()
    assert digits.test is not None
    known, unknown = (Stock.of(part, settings.size // 2) for part in (digits.train, digits.test))
    habits = [habits_of(user, settings) for user in range(settings.users)]
    own = sizes(settings)
    in_test = np.bincount(np.arange(settings.test) % settings.users, minlength=settings.users)

    def drawn(numbers: Indices, stock: Stock, part: str) -> Examples:
        rngs = [numpy_generator("canvases", part, user) for user in range(settings.users)]
        users = zip(habits, numbers.tolist(), rngs, strict=True)
        return _examples([draw(habit, number, stock, settings.size, rng) for habit, number, rng in users])

    return Dataset(
        "canvases",
        Problem((1, settings.size, settings.size), len(NAMES), multilabel=True, mean=MEAN, std=STD),
        train=drawn(own, known, "train"),
        test=drawn(in_test, unknown, "test"),
        users=torch.from_numpy(np.repeat(np.arange(settings.users), own)),
        label_names=NAMES,
    )
