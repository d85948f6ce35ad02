"""The two generators that a server teaches, in plain numpy: of features (FedGen) and of images (DENSE)."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from numpy_layers import Array, BatchNorm, Chain, Conv3, Double, Leaky, Linear, Reshape, Sigmoid


def feature_generator(classes: int, features: int, noise: int, hidden: int) -> Chain:
    """[ε ‖ one-hot y] → linear, BatchNorm, ReLU → linear; its numbers are still to be loaded."""
    return Chain(
        Linear(np.zeros((hidden, noise + classes)), np.zeros(hidden)),
        BatchNorm(np.zeros(hidden), np.zeros(hidden), np.zeros(hidden), np.zeros(hidden)),
        Leaky(),
        Linear(np.zeros((features, hidden)), np.zeros(features)),
    )


def told(noise: Array, y: NDArray[np.int64], classes: int) -> Array:
    """What goes into it."""
    return np.hstack([noise, np.eye(classes)[y]])


class ImageGenerator:
    """z → linear → maps of a quarter of each side → BN → twice (double, conv 3×3, BN, LeakyReLU 0.2) → conv 3×3 →
    sigmoid, cut to the image's size. How many maps there are is seen from the first numbers."""

    def __init__(self, first: Mapping[str, Array], height: int, width: int):
        self.size = (height, width)
        n = list(first.values())  # in the order of the layers
        self.chain = Chain(
            Linear(n[0], n[1]),
            Reshape(n[2].size, -(-height // 4), -(-width // 4)),
            BatchNorm(n[2], n[3]),
            *(Double(), Conv3(n[4]), BatchNorm(n[5], n[6]), Leaky(0.2)),
            *(Double(), Conv3(n[7]), BatchNorm(n[8], n[9]), Leaky(0.2)),
            *(Conv3(n[10], n[11]), Sigmoid()),
        )
        assert len(n) == 12

    def forward(self, z: Array) -> Array:
        whole = self.chain.forward(z)
        self.whole = whole.shape
        return whole[:, :, : self.size[0], : self.size[1]]

    def backward(self, slope: Array) -> Array:
        """By z; what was cut off has no slope."""
        whole = np.zeros(self.whole)
        whole[:, :, : self.size[0], : self.size[1]] = slope
        return self.chain.backward(whole)
