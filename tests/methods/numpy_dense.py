"""DENSE in plain numpy and float64, from its description alone: every slope worked out by hand.

Only draws are the library's: first weights of networks and generators, noise, labels, crops, flips, the order of
records and of the pool.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from numpy_generators import ImageGenerator
from numpy_layers import (
    Adam,
    Array,
    BatchNorm,
    Chain,
    Layer,
    Linear,
    Reshape,
    Tanh,
    cross_entropy_slope,
    draws,
    log_softmax,
    softmax,
)
from softmax_by_numpy import Numbers
from stage import SEED

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.learning.local import Local
from understudy.learning.plan import passes
from understudy.methods.dense import DenseSettings
from understudy.randomness import generator
from understudy.synthesis.image_network import new_image_network

WIDTH, BORDER, EDGE = 5, 4, 0.01
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]


def classifier(problem: Problem, normed: bool, flat: Array) -> Chain:
    """A hidden layer over pixels, with BatchNorm or without."""
    inputs, ones = int(np.prod(problem.shape)), np.ones(WIDTH)
    norm: list[Layer] = [BatchNorm(ones, ones, ones, ones)] if normed else []
    body: list[Layer] = [Reshape(inputs), Linear(np.zeros((WIDTH, inputs)), ones), *norm, Tanh()]
    made = Chain(*body, Linear(np.zeros((problem.classes, WIDTH)), np.zeros(problem.classes)))
    made.load(flat)
    return made


def descend(
    model: Chain,
    batches: Sequence[Sequence[int]],
    x: Array,
    wrong: Callable[[Array, Sequence[int]], Array],
    local: Local,
    speed: Array,
) -> None:
    """SGD with momentum; ``wrong`` is the slope of each record's loss by its logits. Writes to model and speed."""
    for rows in batches:
        model.backward(wrong(model.forward(x[rows]), rows) / len(rows))
        speed[:] = local.momentum * speed + model.slope
        flat = model.flat
        flat[: len(speed)] -= local.lr * speed
        model.load(flat)


def cropped_and_flipped(pixels: Array, corners: Indices, mirrored: Flags) -> Array:
    """A window of the picture's own size out of the picture with a border of 0."""
    padded = np.pad(pixels, [(0, 0), (0, 0), (BORDER, BORDER), (BORDER, BORDER)])
    high, wide = pixels.shape[2:]
    windows = [p[:, top : top + high, left : left + wide] for p, top, left in zip(padded, *corners, strict=True)]
    return np.array([w[:, :, ::-1] if turned else w for w, turned in zip(windows, mirrored, strict=True)])


def back_to_the_picture(slope: Array, corners: Indices, mirrored: Flags) -> Array:
    """What a slope by the window is by the picture it was cut from."""
    n, channels, high, wide = slope.shape
    padded = np.zeros((n, channels, high + 2 * BORDER, wide + 2 * BORDER))
    for i, (top, left) in enumerate(zip(*corners, strict=True)):
        padded[i, :, top : top + high, left : left + wide] = slope[i, :, :, ::-1] if mirrored[i] else slope[i]
    return padded[:, :, BORDER:-BORDER, BORDER:-BORDER]


@dataclass
class SlowDense:
    chosen: DenseSettings
    problem: Problem
    normed: bool
    w: Array
    fresh: Callable[[int], Array]  # the weights that a seed gives
    theirs: list[Array]  # images of each epoch as the library rounded them
    members: dict[str, Array] = field(default_factory=dict)
    levels: list[Array] = field(default_factory=list)  # images of each epoch in 255ths, before they are rounded

    def network(self, flat: Array) -> Chain:
        return classifier(self.problem, self.normed, flat)

    def scaled(self, pixels: Array) -> Array:
        """Pixels between 0 and 1, as the network wants them."""
        return (pixels - self.shift) / self.unit

    @property
    def shift(self) -> Array:
        return np.reshape(self.problem.mean or (0.0,), (-1, 1, 1))

    @property
    def unit(self) -> Array:
        return np.reshape(self.problem.std or (1.0,), (-1, 1, 1))

    # ---- clients

    def trained(self, name: str, own: Examples, round: int, local: Local) -> Array:
        x, y, model = self.scaled(draws(own.x) / 255), own.y.numpy(), self.network(self.w)
        batches = Numbers(x, y, self.problem.classes).batches(name, round, local.epochs or 0, local.batch)
        speed = np.zeros(model.slope.size)
        descend(model, batches, x, lambda logits, rows: cross_entropy_slope(logits, y[rows]), local, speed)
        return model.flat

    def average(self, sites: dict[str, Examples], cohort: Sequence[str], round: int) -> None:
        models = [self.trained(name, sites[name], round, self.chosen.local) for name in cohort]
        self.w = np.average(models, axis=0, weights=[len(sites[name]) for name in cohort])

    def gather(self, sites: dict[str, Examples], cohort: Sequence[str], round: int) -> None:
        """Each client's whole training, once; then the student starts."""
        self.members = {name: self.trained(name, sites[name], round, self.chosen.alone) for name in cohort}
        if self.chosen.student_init == "fresh":
            word = torch.randint(2**62, (), generator=generator(SEED, round, "server", "student"))
            self.w = self.fresh(int(word))
        self.speed = np.zeros(self.network(self.w).slope.size)

    # ---- images

    def imagine(self, rng: torch.Generator) -> Array:
        """Generator and z are fresh; the pixels of the step with the least loss."""
        chosen, (_, high, wide) = self.chosen, self.problem.shape
        first = new_image_network(self.problem, rng).named_parameters()
        made_by = ImageGenerator({name: draws(n.detach()) for name, n in first}, high, wide)
        z = draws(torch.randn(chosen.images, 256, generator=rng))
        y = torch.randint(self.problem.classes, (chosen.images,), generator=rng).numpy()
        adam = Adam(z.size + made_by.chain.flat.size, 0.5, 0.999)
        best, least = z, np.inf
        for _ in range(chosen.generator_steps):
            pixels = made_by.forward(z)
            corners = torch.randint(0, 2 * BORDER + 1, (2, len(z)), generator=rng).numpy()
            mirrored = torch.rand(len(z), generator=rng).numpy() < 0.5
            loss, slope = self.wish(self.scaled(cropped_and_flipped(pixels, corners, mirrored)), y)
            if loss < least:
                best, least = pixels, loss
            by_z = made_by.backward(back_to_the_picture(slope / self.unit, corners, mirrored))
            both = np.append(z.ravel(), made_by.chain.flat)
            both = adam.step(both, np.append(by_z.ravel(), made_by.chain.slope), chosen.generator_lr)
            z = both[: z.size].reshape(z.shape)
            made_by.chain.load(both[z.size :])
        return best

    def wish(self, x: Array, y: Indices) -> tuple[float, Array]:
        """CE(ens, y) + a·Σ_BN(‖μ−μ̂‖ + ‖v−v̂‖) − b·mean(1[argmax differs]·KL(ens ‖ student)), and its slope by x."""
        members, student = [self.network(flat) for flat in self.members.values()], self.network(self.w)
        sure = np.mean([member.forward(x, training=False) for member in members], axis=0)
        said = student.forward(x, training=False)
        differs = (sure.argmax(1) != said.argmax(1)).astype(np.float64)[:, None]
        p, q, ratio = softmax(sure), softmax(said), log_softmax(sure) - log_softmax(said)
        apart = (p * ratio).sum(1, keepdims=True)
        weight, norms = self.chosen.adversarial_weight, self.norms(members)
        by_sure = cross_entropy_slope(sure, y) - weight * differs * p * (ratio - apart)
        slope = student.backward(-weight * differs * (q - p) / len(y))
        for member in members:
            slope = slope + member.backward(by_sure / len(y) / len(members))  # with the share of its norms
        surprise = sum(self.chosen.statistics_weight * norm.surprise() for norm in norms)
        entropy = -log_softmax(sure)[np.arange(len(y)), y].mean()
        return float(entropy + surprise - weight * (differs * apart).mean()), slope

    def norms(self, members: Sequence[Chain]) -> list[BatchNorm]:
        found = [layer for member in members for layer in member.layers if isinstance(layer, BatchNorm)]
        for norm in found:
            norm.surprise_weight = self.chosen.statistics_weight
        return found

    # ---- distillation

    def pool(self) -> list[Array]:
        """Images in 8 bits. Only where a pixel is on the edge between two levels does the library say which."""
        edges = [np.abs(levels % 1 - 0.5) < EDGE for levels in self.levels]
        return [np.where(*three) for three in zip(edges, self.theirs, map(np.round, self.levels), strict=False)]

    def distil(self, round: int, epochs: int) -> None:
        images, order = (generator(SEED, round, "server", purpose) for purpose in ("images", "pool"))
        temperature, local = self.chosen.temperature, self.chosen.student
        for _ in range(epochs):
            self.levels.append(255 * self.imagine(images))
            x = self.scaled(np.concatenate(self.pool()) / 255)
            members = [self.network(flat).forward(x, training=False) for flat in self.members.values()]
            goal = softmax(np.mean(members, axis=0) / temperature)
            plan = passes(len(x), -(-len(x) // local.batch), local.batch, order).tolist()

            def wrong(logits: Array, rows: Sequence[int], goal: Array = goal) -> Array:
                """T²·KL(p_T ‖ q_T) has the slope T·(q_T − p_T)."""
                return np.asarray(temperature * (softmax(logits / temperature) - goal[rows]))

            student = self.network(self.w)
            descend(student, [[i for i in row if i >= 0] for row in plan], x, wrong, local, self.speed)
            self.w = student.flat
