"""Tables of numbers inside installed packages, read without importing the package.

Importing scikit-learn's data sets takes two seconds; reading its file takes a few hundredths of one.
"""

import gzip
import importlib.util
import warnings
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from understudy.errors import UserError


def packaged_file(package: str, inside: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / inside
    return path if path.is_file() else None


def read_table(path: Path, rows: int, columns: int) -> NDArray[np.int64]:
    """A gzipped, comma-separated table of whole numbers, of exactly this size."""
    try:
        text = gzip.decompress(path.read_bytes())
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy only warns if it cannot read a number
            numbers = np.fromstring(text.replace(b"\n", b",").rstrip(b","), dtype=np.int64, sep=",")
    except (OSError, EOFError, zlib.error, ValueError, DeprecationWarning) as broken:
        raise UserError(f"{path} cannot be read: {broken}; install its package again.") from None
    if numbers.size != rows * columns:
        raise UserError(
            f"{path} holds {numbers.size} numbers instead of {rows} × {columns}; install its package again."
        )
    return numbers.reshape(rows, columns)


def need_packaged_file(package: str, pip_name: str, inside: str) -> Path:
    path = packaged_file(package, inside)
    if path is None:
        raise UserError(f"The file {inside} of the package {pip_name} is missing; `pip install {pip_name}`.")
    return path


def packaged_table(package: str, pip_name: str, inside: str, rows: int, columns: int) -> NDArray[np.int64]:
    return read_table(need_packaged_file(package, pip_name, inside), rows, columns)
