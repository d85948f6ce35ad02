"""Layers in plain numpy and float64, each with its slope worked out by hand: slow, obvious, and without autograd.

``forward`` remembers what ``backward`` needs. ``backward`` takes the slope by what came out, leaves the slopes by the
layer's own numbers in ``slopes`` and hands back the slope by what went in.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Layer:
    training = True

    def __init__(self, *numbers: Array):
        self.numbers = [n.astype(np.float64) for n in numbers]  # what is learnt
        self.buffers: list[Array] = []  # what is remembered
        self.slopes = [np.zeros_like(n) for n in self.numbers]

    def forward(self, x: Array) -> Array:
        raise NotImplementedError

    def backward(self, slope: Array) -> Array:
        raise NotImplementedError


class Linear(Layer):
    """W (out × in), then b."""

    def forward(self, x: Array) -> Array:
        self.x = x
        return np.asarray(x @ self.numbers[0].T + self.numbers[1])

    def backward(self, slope: Array) -> Array:
        self.slopes = [slope.T @ self.x, slope.sum(0)]
        return np.asarray(slope @ self.numbers[0])


class Tanh(Layer):
    def forward(self, x: Array) -> Array:
        self.y = np.tanh(x)
        return self.y

    def backward(self, slope: Array) -> Array:
        return np.asarray(slope * (1 - self.y**2))


class Sigmoid(Layer):
    def forward(self, x: Array) -> Array:
        self.y = np.asarray(1 / (1 + np.exp(-x)))
        return self.y

    def backward(self, slope: Array) -> Array:
        return np.asarray(slope * self.y * (1 - self.y))


class Leaky(Layer):
    """max(x, leak · x); without a leak it is ReLU."""

    def __init__(self, leak: float = 0.0):
        super().__init__()
        self.leak = leak

    def forward(self, x: Array) -> Array:
        self.factor = np.where(x > 0, 1.0, self.leak)
        return np.asarray(x * self.factor)

    def backward(self, slope: Array) -> Array:
        return np.asarray(slope * self.factor)


class Reshape(Layer):
    def __init__(self, *shape: int):
        super().__init__()
        self.shape = shape

    def forward(self, x: Array) -> Array:
        self.before = x.shape
        return x.reshape(len(x), *self.shape)

    def backward(self, slope: Array) -> Array:
        return slope.reshape(self.before)


class BatchNorm(Layer):
    """γ·(h − m)/√(v + 1e-5) + β over (n, channels, …); in training m and v are the batch's, at rest the remembered.

    ``surprise_weight`` times ‖mean − m̂‖₂ + ‖variance − v̂‖₂ (what is remembered against what is seen) is one more
    loss, whose slope ``backward`` adds.
    """

    surprise_weight = 0.0

    def __init__(self, gamma: Array, beta: Array, mean: Array | None = None, variance: Array | None = None):
        super().__init__(gamma, beta)
        if mean is not None and variance is not None:
            self.buffers = [mean.astype(np.float64), variance.astype(np.float64)]

    def _wide(self, per_channel: Array) -> Array:
        return per_channel.reshape(1, -1, *[1] * len(self.across[1:]))

    def forward(self, x: Array) -> Array:
        self.x, self.across = x, (0, *range(2, x.ndim))
        self.count = x.size // x.shape[1]
        self.seen = [x.mean(self.across), x.var(self.across)]
        mean, variance = self.seen if self.training else self.buffers
        self.deviation = np.sqrt(variance + 1e-5)
        self.standard = (x - self._wide(mean)) / self._wide(self.deviation)
        if self.training and self.buffers:
            unbiased = self.seen[1] * self.count / (self.count - 1)
            self.buffers = [0.9 * self.buffers[0] + 0.1 * self.seen[0], 0.9 * self.buffers[1] + 0.1 * unbiased]
        return np.asarray(self._wide(self.numbers[0]) * self.standard + self._wide(self.numbers[1]))

    def surprise(self) -> float:
        return sum(float(np.sqrt(((a - b) ** 2).sum())) for a, b in zip(self.buffers, self.seen, strict=True))

    def backward(self, slope: Array) -> Array:
        self.slopes = [(slope * self.standard).sum(self.across), slope.sum(self.across)]
        inner = slope * self._wide(self.numbers[0])
        if self.training:
            # m and v move with every h: their shares are taken out.
            along = (inner * self.standard).mean(self.across)
            inner = inner - self._wide(inner.mean(self.across)) - self.standard * self._wide(along)
        found = inner / self._wide(self.deviation)
        return np.asarray(found + self.surprise_weight * self._surprise_slope() if self.surprise_weight else found)

    def _surprise_slope(self) -> Array:
        """∂m̂/∂h = 1/n and ∂v̂/∂h = 2·(h − m̂)/n; the slope of a length is the direction."""
        to_mean, to_variance = (seen - kept for seen, kept in zip(self.seen, self.buffers, strict=True))
        to_mean, to_variance = (a / np.sqrt((a**2).sum()) for a in (to_mean, to_variance))
        middle = self.x - self._wide(self.seen[0])
        return np.asarray((self._wide(to_mean) + 2 * middle * self._wide(to_variance)) / self.count)


class Double(Layer):
    """Every pixel becomes four."""

    def forward(self, x: Array) -> Array:
        return x.repeat(2, axis=2).repeat(2, axis=3)

    def backward(self, slope: Array) -> Array:
        return np.asarray(sum(slope[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)))


class Conv3(Layer):
    """3×3 kernels (out × in × 3 × 3) over an image with a border of 0, and perhaps a bias."""

    def forward(self, x: Array) -> Array:
        self.padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
        self.high, self.wide = x.shape[2:]
        found = sum(
            np.tensordot(self.window(self.padded, i, j), self.numbers[0][:, :, i, j], axes=(1, 1))
            for i in range(3)
            for j in range(3)
        )  # (n, high, wide, out)
        moved = np.moveaxis(np.asarray(found), 3, 1)
        return np.asarray(moved + self.numbers[1].reshape(1, -1, 1, 1) if len(self.numbers) > 1 else moved)

    def window(self, padded: Array, i: int, j: int) -> Array:
        return padded[:, :, i : i + self.high, j : j + self.wide]

    def backward(self, slope: Array) -> Array:
        kernel, back = np.zeros_like(self.numbers[0]), np.zeros_like(self.padded)
        for i in range(3):
            for j in range(3):
                kernel[:, :, i, j] = np.tensordot(slope, self.window(self.padded, i, j), axes=((0, 2, 3), (0, 2, 3)))
                carried = np.tensordot(slope, self.numbers[0][:, :, i, j], axes=(1, 0))
                self.window(back, i, j)[...] += np.moveaxis(carried, 3, 1)
        self.slopes = [kernel, slope.sum((0, 2, 3))][: len(self.numbers)]
        return back[:, :, 1:-1, 1:-1]


class Chain:
    """Layers one after the other; ``flat`` is all that is learnt, layer by layer, then all that is remembered."""

    def __init__(self, *layers: Layer):
        self.layers = layers

    def forward(self, x: Array, *, training: bool = True) -> Array:
        for layer in self.layers:
            layer.training = training
            x = layer.forward(x)
        return x

    def backward(self, slope: Array) -> Array:
        for layer in reversed(self.layers):
            slope = layer.backward(slope)
        return slope

    @property
    def numbers(self) -> list[Array]:
        return [n for layer in self.layers for n in layer.numbers]

    @property
    def slope(self) -> Array:
        return np.concatenate([s.ravel() for layer in self.layers for s in layer.slopes])

    @property
    def flat(self) -> Array:
        kept = [b for layer in self.layers for b in layer.buffers]
        return np.concatenate([n.ravel() for n in (*self.numbers, *kept)])

    def load(self, flat: Array) -> None:
        at = 0
        for of_layer in ([layer.numbers for layer in self.layers], [layer.buffers for layer in self.layers]):
            for kept in of_layer:
                for place, old in enumerate(kept):
                    kept[place] = flat[at : at + old.size].reshape(old.shape).astype(np.float64)
                    at += old.size
        assert at == flat.size


class Adam:
    """m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g², w ← w − rate·m̂/(√v̂ + 1e-8); decay adds decay·w to g."""

    def __init__(self, size: int, first: float = 0.9, second: float = 0.999, decay: float = 0.0):
        self.first, self.second, self.decay, self.steps = first, second, decay, 0
        self.m, self.v = np.zeros(size), np.zeros(size)

    def step(self, w: Array, slope: Array, rate: float) -> Array:
        g = slope + self.decay * w
        self.steps += 1
        self.m = self.first * self.m + (1 - self.first) * g
        self.v = self.second * self.v + (1 - self.second) * g**2
        m, v = self.m / (1 - self.first**self.steps), self.v / (1 - self.second**self.steps)
        return np.asarray(w - rate * m / (np.sqrt(v) + 1e-8))


def log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))


def softmax(logits: Array) -> Array:
    return np.exp(log_softmax(logits))


def cross_entropy_slope(logits: Array, y: Sequence[int] | npt.NDArray[np.int64]) -> Array:
    """By the logits, of each record's cross-entropy (not of the mean)."""
    return np.asarray(softmax(logits) - np.eye(logits.shape[1])[np.asarray(y)])


def draws(tensor: object) -> Array:
    """What the library drew, in float64."""
    return np.asarray(tensor, dtype=np.float64)
