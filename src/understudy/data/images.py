"""A folder of images by class: one folder per class, with image files of any size, grey or in colour."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from understudy import patience
from understudy.data.examples import Examples
from understudy.data.framing import AS_IT_IS, Framing, Mode
from understudy.errors import UserError
from understudy.heap import memory_of_machine
from understudy.randomness import numpy_generator

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff"}
GREY = {"1", "L", "LA", "I", "I;16", "F"}


def class_names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def image_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())


def read_images(folder: Path, classes: Sequence[str], frame: Framing = AS_IT_IS) -> Examples | None:
    """The images of one folder, shuffled once because they are stored class by class; None if there are none."""
    files, labels = [], []
    for number, name in enumerate(classes):
        if (folder / name).is_dir():
            found = image_files(folder / name)
            files += found
            labels += [number] * len(found)
    if not files:
        return None
    order = numpy_generator("images by class").permutation(len(files)).tolist()
    x = stack_images([files[at] for at in order], frame, str(folder))
    return Examples(x, torch.tensor(labels, dtype=torch.int64)[order])


@dataclass(frozen=True)
class Picture:
    """An encoded image: a file, or bytes from inside something else."""

    name: str  # for error messages
    source: Path | BytesIO


def stack_images(files: Sequence[Path], frame: Framing = AS_IT_IS, source: str = "images") -> Tensor:
    return stack_pictures([Picture(str(file), file) for file in files], frame, source)


def stack_pictures(pictures: Sequence[Picture], frame: Framing = AS_IT_IS, source: str = "images") -> Tensor:
    """(n, 1 or 3, height, width) uint8; they are decoded into place, one by one, as photographs are large."""
    mode = frame.mode or ("rgb" if any(map(_in_colour, pictures)) else "grey")
    first = frame.fitted(_pixels(pictures[0], mode))
    _check_memory(len(pictures) * first.numel(), len(pictures), source)
    stack = torch.empty(len(pictures), *first.shape, dtype=torch.uint8)

    def put(at: int) -> None:
        image = frame.fitted(_pixels(pictures[at], mode))
        if image.shape != first.shape:
            raise UserError(
                f"{pictures[at].name} is {image.shape[2]} × {image.shape[1]} pixels, {pictures[0].name} is "
                f"{first.shape[2]} × {first.shape[1]}; bring all images to one size with data.size, such as 32."
            )
        stack[at] = image

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # decoding releases the GIL, so threads help
        try:
            for done, _ in enumerate(pool.map(put, range(len(pictures))), start=1):
                patience.doing(f"Reading {source}", f"{done:,} of {len(pictures):,} images")
        except UserError:
            pool.shutdown(cancel_futures=True)
            raise
    return stack


def _check_memory(needed: int, number: int, source: str) -> None:
    """Clients get copies of their own, so all images are in memory twice for a moment."""
    here = memory_of_machine()
    if 2 * needed > here:
        raise UserError(
            f"{source}: {number:,} images take {needed / 1e9:,.1f} GB, twice that while they are dealt out, but this "
            f"machine has {here / 1e9:,.1f} GB; choose a smaller data.size."
        )


def _in_colour(picture: Picture) -> bool:
    with _opened(picture) as image:
        return image.mode not in GREY


def _pixels(picture: Picture, mode: Mode) -> Tensor:
    """(channels, height, width), turned the way the camera was held."""
    with _opened(picture) as image:
        from PIL import Image, ImageOps

        upright = ImageOps.exif_transpose(image)
        if upright.mode.startswith("I;16"):  # Pillow would clip to 255: keep the high byte
            upright = Image.fromarray((np.asarray(upright).astype(np.uint16) >> 8).astype(np.uint8))
        array = np.array(upright.convert("L" if mode == "grey" else "RGB"))
    return torch.from_numpy(array.reshape(*array.shape[:2], -1)).permute(2, 0, 1)


@contextmanager
def _opened(picture: Picture) -> "Iterator[ImageFile]":
    """Whatever goes wrong while it is open is an error about that picture."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise UserError(f"Reading {picture.name} needs Pillow; `pip install pillow`.") from None
    try:
        with Image.open(picture.source) as image:
            yield image
    except UnidentifiedImageError:
        raise UserError(f"{picture.name} cannot be read as an image: its format is unknown.") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as broken:
        raise UserError(f"{picture.name} cannot be read as an image: {broken}.") from None
