"""The frontier at desk scale and as a smoke test.

At the desk: 4000 MNIST images at 14×14 over ten clients, with MNIST's 10 000 test images as non-members where the files
are there, and the 1000 of ``mnist-5k`` where they are not. Rates are tuned once per method, on a validation share with
a seed of its own; three seeds for accuracy, attacks on the first.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from understudy.data.sets import SOURCES
from understudy.papers.frontier.plan import (
    CLOTHES,
    EXTREME,
    MILD,
    MILD_CLOTHES,
    MILD_PHOTOS,
    FrontierPlan,
    Point,
)
from understudy.papers.frontier.points import POINTS
from understudy.papers.frontier.standings import frontier
from understudy.papers.published import FromRuns, Later, Study
from understudy.papers.study import Changes, Shown

ABOUT = "Accuracy against what was given away: every kind of stand-in, attacked"
SPLITS: dict[str, Changes] = {MILD: {"data.split.alpha": 0.1}, EXTREME: {"data.split.alpha": 0.01}}
SPLIT: Changes = {"kind": "dirichlet", "alpha": 0.1}
PAIRS: Changes = {
    "data": {"name": "fashion-mnist", "size": 14, "clients": 5, "split": {"kind": "class-pairs", "pairs": "fedlap"}},
    "model.width": 8,
}
CONFIG: Changes = {
    "model": {"name": "small-convnet", "width": 16, "fast": "eager"},
    "method": {"name": "fedavg", "rounds": 5, "local": {"epochs": 2, "batch": 32}},
    "engine": {"name": "inline"},
}
QUICK: Changes = {"data.limit": 300, "method.rounds": 1}
IN_SMOKE = ("REAL 10", "40 steps", "FedAvg")


def _data() -> Changes:
    name = {"name": "mnist", "limit": 4000} if SOURCES["mnist"].here(None) else {"name": "mnist-5k"}
    return {**name, "size": 14, "clients": 10, "split": SPLIT}


def _like_digits(name: str, size: int) -> Changes:
    return {"data": {"name": name, "limit": 4000, "size": size, "clients": 10, "split": SPLIT}}


def at_desk() -> FrontierPlan:
    """Some points also on Fashion-MNIST and CIFAR-10, if they are there."""
    elsewhere = {
        CLOTHES: PAIRS,
        MILD_CLOTHES: _like_digits("fashion-mnist", 14),
        MILD_PHOTOS: _like_digits("cifar10", 16),
    }
    here = {split: words for split, words in elsewhere.items() if SOURCES[words["data"]["name"]].here(None)}
    splits = {**SPLITS, **here}
    return FrontierPlan("frontier", ABOUT, {"data": _data(), **CONFIG}, splits, POINTS, (0.1, 0.3), (0, 1, 2))


def smoke() -> FrontierPlan:
    data: Changes = {"name": "digits", "clients": 3, "split": {"kind": "dirichlet", "alpha": 0.1}}
    points = [_quick(point) for point in POINTS if point.label in IN_SMOKE]
    return FrontierPlan("frontier", ABOUT, {"data": data, **CONFIG}, {MILD: {}}, points, (0.1,), (0,))


def _quick(point: Point) -> Point:
    matching: Changes = {"method.steps": 1} if point.label == "40 steps" else {}
    server: Changes = {"method.server.epochs": 2} if point.rate.startswith("method.server") else {}
    return replace(point, changes={**point.changes, **QUICK, **matching, **server}, rates=(0.1,), decides=False)


def _told(plan: FrontierPlan) -> FromRuns:
    return FromRuns([plan.comparison()], partial(frontier, plan))


STUDIES: Sequence[Study] = (
    Study(
        "frontier",
        ABOUT,
        {"smoke": Later(lambda: _told(smoke())), "desk": Later(lambda: _told(at_desk()))},
        Shown(
            "4000 MNIST images at 14×14, small ConvNet, 10 clients, {}",
            r"(?P<method>moments|understudy), (?P<more>.*α = .+)",
        ),
    ),
)
