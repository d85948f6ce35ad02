"""A folder of images by class: one folder per class, with image files of any size, grey or in colour."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from understudy import patience
from understudy.data.decoded import decoded
from understudy.data.examples import Examples
from understudy.data.framing import AS_IT_IS, Framing, Mode
from understudy.data.room import Room
from understudy.errors import UserError
from understudy.randomness import numpy_generator

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff"}
GREY = {"1", "L", "LA", "I", "I;16", "F"}
SEE_THROUGH = {"LA", "La", "PA", "RGBA", "RGBa"}
NAMED = 5  # broken files named in one message


def class_names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def image_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())


def read_images(
    folder: Path, classes: Sequence[str], frame: Framing = AS_IT_IS, room: Room | None = None
) -> Examples | None:
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
    room = room or Room()
    x = stack_images([files[at] for at in order], frame, str(folder), room)
    return Examples(x, torch.tensor(labels, dtype=torch.int64)[order], room=room)


@dataclass(frozen=True)
class Picture:
    """An encoded image: a file, or bytes from inside something else."""

    name: str  # for error messages
    source: Path | BytesIO


def stack_images(
    files: Sequence[Path], frame: Framing = AS_IT_IS, source: str = "images", room: Room | None = None
) -> Tensor:
    pictures = [Picture(str(file), file) for file in files]
    return _Pictures(pictures, frame, source).stacked(room or Room(), files)


def stack_pictures(
    pictures: Sequence[Picture], frame: Framing = AS_IT_IS, source: str = "images", room: Room | None = None
) -> Tensor:
    return _Pictures(pictures, frame, source).stacked(room or Room())


class _Pictures:
    """(n, 1 or 3, height, width) uint8 to be; they are decoded into place, one by one, as photographs are large."""

    def __init__(self, pictures: Sequence[Picture], frame: Framing, source: str):
        self._pictures, self._source = pictures, source
        with self._naming_all_broken():
            self._frame = replace(frame, mode=frame.mode or ("rgb" if self._any_in_colour() else "grey"))
            self._first = self._decoded(0)

    def stacked(self, room: Room, files: Sequence[Path] | None = None) -> Tensor:
        """In memory or, where that is too small, in a file; from the cache, if they come from ``files``."""
        shape = (len(self._pictures), *self._first.shape)
        with self._naming_all_broken():
            if room.takes(prod(shape)):
                stack = torch.empty(shape, dtype=torch.uint8)
            elif files is None:
                stack = room.bytes(shape, self._source)
            else:
                return decoded(files, self._frame, shape, room, self._source, self._fill)
            self._fill(stack)
            return stack

    @contextmanager
    def _naming_all_broken(self) -> Iterator[None]:
        """Of a broken picture; the others are tried then too, so that nobody has to mend them one by one."""
        try:
            yield
        except _Broken:
            raise _about_all([*self._broken()]) from None

    def _broken(self) -> "Iterator[_Broken]":
        for done, picture in enumerate(self._pictures):
            patience.doing(f"Looking for more broken files in {self._source}", f"{done:,} of {len(self._pictures):,}")
            try:
                _pixels(picture, "grey")
            except _Broken as broken:
                yield broken

    def _any_in_colour(self) -> bool:
        for done, picture in enumerate(self._pictures):
            patience.doing(f"Looking at {self._source}", f"{done:,} of {len(self._pictures):,} images")
            if _in_colour(picture):
                return True
        return False

    def _decoded(self, at: int) -> Tensor:
        assert self._frame.mode is not None
        return self._frame.fitted(_pixels(self._pictures[at], self._frame.mode))

    def _fill(self, stack: Tensor) -> None:
        pictures, first = self._pictures, self._first

        def put(at: int) -> None:
            image = self._decoded(at)
            if image.shape != first.shape:
                raise UserError(
                    f"{pictures[at].name} is {image.shape[2]} × {image.shape[1]} pixels, {pictures[0].name} is "
                    f"{first.shape[2]} × {first.shape[1]}; bring all images to one size with data.size, such as 32."
                )
            stack[at] = image

        # In a forked process torch makes its thread pool anew, and two threads that ask for it at once find none.
        torch.set_num_threads(torch.get_num_threads())
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # decoding releases the GIL, so threads help
            try:
                for done, _ in enumerate(pool.map(put, range(len(pictures))), start=1):
                    patience.doing(f"Reading {self._source}", f"{done:,} of {len(pictures):,} images")
            except UserError:
                pool.shutdown(cancel_futures=True)
                raise


class _Broken(UserError):
    """A picture that nobody can read, in few words."""

    def __init__(self, picture: Picture, why: str):
        super().__init__(f"{picture.name} cannot be read as an image: {why}; repair or remove it.")
        self.picture, self.why = picture, why


def _about_all(broken: Sequence[_Broken]) -> UserError:
    if len(broken) == 1:
        return broken[0]
    named = "; ".join(f"{one.picture.name} ({one.why})" for one in broken[:NAMED])
    more = f"; and {len(broken) - NAMED} more" if len(broken) > NAMED else ""
    return UserError(f"{len(broken)} files cannot be read as images: {named}{more}; repair or remove them.")


def _in_colour(picture: Picture) -> bool:
    with _opened(picture) as image:
        return image.mode not in GREY


def _pixels(picture: Picture, mode: Mode) -> Tensor:
    """(channels, height, width), turned the way the camera was held; what is transparent is white."""
    with _opened(picture) as image:
        from PIL import Image, ImageOps

        upright = ImageOps.exif_transpose(image)
        if upright.mode.startswith("I;16"):  # Pillow would clip to 255: keep the high byte
            upright = Image.fromarray((np.asarray(upright).astype(np.uint16) >> 8).astype(np.uint8))
        if upright.mode in SEE_THROUGH or "transparency" in upright.info:
            # As viewers show it; otherwise colours would come to light that nobody has ever seen.
            upright = upright.convert("RGBA")
            upright = Image.alpha_composite(Image.new("RGBA", upright.size, "white"), upright)
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
        raise _Broken(picture, "its format is unknown") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as broken:
        raise _Broken(picture, str(broken).rstrip(".")) from None
