"""What makes a good surrogate gradient, at a single client: the analysis of matching criteria in "FedLAP-DP: Federated
Learning by Sharing Differentially Private Loss Approximations".

Images are matched to the client's records at one model by angles (cosine), by angles and lengths (cosine + MSE), or by
the squared distance alone (MSE). Then the model walks along their gradient, and each step measures how well it agrees
with the real gradient and what happened to the real loss. ``calibrated`` walks with the images of the cosine, each
parameter tensor's gradient rescaled to the real length: a diagnostic, since it needs the real lengths. ``real`` walks
along the real gradient.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from understudy.base_settings import Settings
from understudy.data.examples import Examples
from understudy.data.sets import load
from understudy.learning.dsa import WITHOUT_FLIP, apply, draw
from understudy.learning.evaluate import tally
from understudy.learning.loop import full_gradient
from understudy.models.convnet import SmallConvNetSettings, small_convnet
from understudy.models.network import Network
from understudy.papers.study import Drawing, Findings, Panel, Study, StudyTable, Style, Trace
from understudy.randomness import generator
from understudy.runs.watching import Observer
from understudy.synthesis.gradient_matching import Criterion, MovingImages, Target, calibrated, match_gradient
from understudy.synthesis.matching import real_batch
from understudy.threads import one_thread

CRITERIA = {
    "cosine": Criterion(),
    "cosine + MSE": Criterion(mse=0.1),
    "MSE": Criterion(cosine=False, mse=0.1),
}
ABOUT = "matching criteria (cosine, cosine + MSE, MSE, calibrated) at a single client of FedLAP"
HEADINGS = ("criterion", "first gain", "last loss", "cosine, first", "last", "length, first", "last")
CALIBRATED, REAL = "calibrated", "real"
Direction = Callable[[Tensor, Tensor], Tensor]  # from the model and the real gradient there


class CriteriaPlan(Settings):
    """Fast on digits; otherwise the paper's images and rates."""

    ipc: int = 10
    init: Literal["real", "noise"] = "noise"  # real images have nearly the right lengths before any matching
    real_batches: int = 40
    image_steps: int = 5
    batch: int = 128
    image_lr: float = 100.0
    image_momentum: float = 0.5
    lr: float = 0.1  # of the walk
    steps: int = 30  # of the walk


@dataclass(frozen=True)
class Walk:
    """One number per place; the first is the model at which the images were matched."""

    label: str
    loss: tuple[float, ...]  # mean over the real records
    cosine: tuple[float, ...]  # of the angle between the gradient followed and the real one
    length: tuple[float, ...]  # of the gradient followed, as a share of the real one's

    @property
    def first_gain(self) -> float:
        """How much the first step lowered the real loss."""
        return self.loss[0] - self.loss[1]


def criteria_on_digits(
    classes: Sequence[int] = (5, 6), plan: CriteriaPlan | None = None, *, width: int = 16, seed: int = 0
) -> list[Walk]:
    """With the digits of some classes, like one of FedLAP's clients, and a ConvNet at its initial weights."""
    digits = load("digits")
    own = torch.isin(digits.train.y, torch.tensor(classes))
    with one_thread():
        shape = SmallConvNetSettings(width=width)
        net = Network(lambda: small_convnet(digits.problem, shape), digits.problem, seed=seed)
        real = Examples(digits.train.x[own], digits.train.y[own])
        return compare_criteria(net, net.initial(), real, plan or CriteriaPlan(), seed=seed)


def compare_criteria(net: Network, w: Tensor, real: Examples, plan: CriteriaPlan, *, seed: int = 0) -> list[Walk]:
    """A walk for each criterion, the calibrated gradient and the real one; all images start the same."""

    def along_images(images: Examples) -> Direction:
        return lambda here, _: full_gradient(net, here, images, len(images))

    matched = {label: matched_images(net, w, real, criterion, plan, seed) for label, criterion in CRITERIA.items()}
    directions: dict[str, Direction] = {label: along_images(images) for label, images in matched.items()}
    by_angle = directions["cosine"]
    directions[CALIBRATED] = lambda here, wanted: calibrated(net, by_angle(here, wanted), wanted)
    directions[REAL] = lambda _, wanted: wanted
    return [walk(net, w, real, label, direction, plan) for label, direction in directions.items()]


def matched_images(
    net: Network, w: Tensor, real: Examples, criterion: Criterion, plan: CriteriaPlan, seed: int
) -> Examples:
    """As a FedLAP client makes them with R_l = 0: all real batches at one model."""
    first, rows, change = (generator(seed, "criteria", purpose) for purpose in ("first images", "batches", "dsa"))
    classes = torch.nonzero(real.label_counts(net.problem.classes)).flatten().tolist()
    chosen = torch.cat([real_batch(torch.nonzero(real.y == c).flatten(), plan.ipc, first) for c in classes])
    start = real.take(chosen)
    x = net.problem.scale(start.x) if plan.init == "real" else torch.randn(start.x.shape, generator=first)
    images = MovingImages(x, start.y, lr=plan.image_lr, momentum=plan.image_momentum)
    for _ in range(plan.real_batches):
        batch = real.take(torch.randperm(len(real), generator=rows)[: plan.batch])
        same = draw(WITHOUT_FLIP, change)
        seen = Examples(apply(same, net.problem.scale(batch.x)), batch.y)
        wanted = full_gradient(net, w, seen, len(seen))
        match_gradient(net, images, Target(net, wanted, criterion), steps=plan.image_steps, draw=same)
    return Examples(images.x, images.y)


def walk(net: Network, w: Tensor, real: Examples, label: str, direction: Direction, plan: CriteriaPlan) -> Walk:
    loss, cosine, length, here = [], [], [], w.clone()
    for _ in range(plan.steps + 1):
        wanted = full_gradient(net, here, real, len(real))
        followed = direction(here, wanted)
        net.load(here)
        loss.append(tally(net.logits, real, net.problem).loss or 0.0)
        cosine.append(float(functional.cosine_similarity(followed, wanted, dim=0)))
        length.append(float(followed.norm() / wanted.norm()))
        here[net.trainable] -= plan.lr * followed
    return Walk(label, tuple(loss), tuple(cosine), tuple(length))


# ---- as a study


def criteria_study(seeds: Sequence[int], plan: CriteriaPlan, _: Path, observer: Observer) -> Findings:
    walks: dict[str, list[Walk]] = {}
    for seed in seeds:
        observer.says(f"seed {seed}")
        for one in criteria_on_digits(plan=plan, seed=seed):
            walks.setdefault(one.label, []).append(one)
    return _findings(walks)


def _findings(walks: Mapping[str, Sequence[Walk]]) -> Findings:
    rows = [[label, *(f"{value:.3f}" for value in _summary(some))] for label, some in walks.items()]
    headings = {"loss": "mean loss on the records", "cosine": "cosine with the real gradient", "length": "its length"}
    panels = [Panel(said, "step", said, [_trace(walks, at, part) for at in walks]) for part, said in headings.items()]
    numbers = {label: [asdict(one) for one in some] for label, some in walks.items()}
    tables = {"table": [StudyTable(HEADINGS, rows)]}
    return Findings(ABOUT, (), tables, {"table": Drawing(ABOUT, panels)}, numbers={"walks": numbers})


def _summary(some: Sequence[Walk]) -> tuple[float, ...]:
    ends = ((w.first_gain, w.loss[-1], w.cosine[0], w.cosine[-1], w.length[0], w.length[-1]) for w in some)
    return tuple(fmean(values) for values in zip(*ends, strict=True))


def _trace(walks: Mapping[str, Sequence[Walk]], label: str, part: str) -> Trace:
    mean = [fmean(values) for values in zip(*(getattr(one, part) for one in walks[label]), strict=True)]
    style: Style = "dashed" if label == REAL else "line"
    return Trace(label, range(len(mean)), mean, look=list(walks).index(label), style=style)


MATCHING_CRITERIA = Study(
    "matching-criteria",
    ABOUT,
    {
        "smoke": partial(criteria_study, (0,), CriteriaPlan(real_batches=1, steps=2)),
        "desk": partial(criteria_study, (0, 1, 2), CriteriaPlan()),
    },
)
