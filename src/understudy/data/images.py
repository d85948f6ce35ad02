"""A folder of images by class: one folder per class, with PNG or JPEG files that all have one size."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.randomness import numpy_generator

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp"}
GREY = {"1", "L", "LA", "I", "I;16", "F"}


def class_names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def image_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())


def read_images(folder: Path, classes: Sequence[str]) -> Examples | None:
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
    x = stack_images([files[at] for at in order])
    return Examples(x, torch.tensor(labels, dtype=torch.int64)[order])


@dataclass(frozen=True)
class Picture:
    """An encoded image: a file, or bytes from inside something else."""

    name: str  # for error messages
    source: Path | BytesIO


def stack_images(files: Sequence[Path]) -> Tensor:
    return stack_pictures([Picture(str(file), file) for file in files])


def stack_pictures(pictures: Sequence[Picture]) -> Tensor:
    """(n, 1 or 3, height, width) uint8: three channels if any image is in colour."""
    images = [_pixels(picture) for picture in pictures]
    height, width = images[0].shape[:2]
    for image, picture in zip(images, pictures, strict=True):
        if image.shape[:2] != (height, width):
            raise UserError(
                f"{picture.name} is {image.shape[1]} × {image.shape[0]} pixels, "
                f"{pictures[0].name} is {width} × {height}; all images must have one size."
            )
    channels = 3 if any(image.ndim == 3 for image in images) else 1
    same = [image if image.ndim == 3 else np.repeat(image[..., None], channels, axis=2) for image in images]
    return torch.from_numpy(np.stack(same)).permute(0, 3, 1, 2).contiguous()


def _pixels(picture: Picture) -> NDArray[np.uint8]:
    """(height, width) for greyscale, (height, width, 3) for colour."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise UserError(f"Reading {picture.name} needs Pillow; `pip install pillow`.") from None
    try:
        with Image.open(picture.source) as image:
            return np.asarray(image.convert("L" if image.mode in GREY else "RGB"))
    except UnidentifiedImageError:
        raise UserError(f"{picture.name} cannot be read as an image: its format is unknown.") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as broken:
        raise UserError(f"{picture.name} cannot be read as an image: {broken}.") from None
