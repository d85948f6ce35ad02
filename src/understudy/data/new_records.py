"""New records, without labels, from a file or folder: read as training read its own, in the order they have there."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from understudy.data.examples import read_npz
from understudy.data.framing import CHANNELS
from understudy.data.images import SUFFIXES, stack_images
from understudy.data.own import Reading
from understudy.data.table_files import holds_table
from understudy.data.tables import read_unlabelled
from understudy.errors import UserError

PLACES = "a table (.csv, .parquet), an .npz with 'x', an image or a folder of images"


def read_new(path: Path, reading: Reading, shape: Sequence[int], columns: Sequence[str] = ()) -> Tensor | NDArray[Any]:
    """(n, …) records; ``shape`` is that of one record in training, ``columns`` are a table's, if they are known."""
    if not path.exists():
        raise UserError(f"records: there is no file or folder {path}.")
    if holds_table(path):
        return read_unlabelled(path, shape, reading.frame, reading.rules, columns)
    if path.suffix == ".npz":
        return _of_arrays(path)
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    files = [file for file in files if file.suffix.lower() in SUFFIXES]
    if not files:
        raise UserError(f"records: {path} holds nothing to predict; pass {PLACES}.")
    modes = {channels: mode for mode, channels in CHANNELS.items()}
    return stack_images(files, replace(reading.frame, mode=modes.get(shape[0], reading.frame.mode)), str(path))


def _of_arrays(path: Path) -> NDArray[np.generic]:
    arrays = read_npz(path)
    if "x" not in arrays:
        raise UserError(f"records: {path} has no array 'x'; it has {', '.join(arrays)}.")
    return arrays["x"]
