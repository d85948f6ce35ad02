"""Synthetic sets as pictures: clients down, classes across, a few images of each, within a limit of bytes."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.data.tiling import tiles
from understudy.view.html.pictures import data_address

PER_CELL, PER_SMALL_CELL = 10, 4  # images of one class of one client; fewer if there are many
FEW = 800  # images in all, up to which there are not many
ACROSS = 5  # tiles in a row of a block
MOST_CLIENTS = 40
MOST_CLASSES = 40  # of one client
MOST_BYTES = 4_000_000  # of all pictures of a page
TILE = 34  # pixels on the screen, roughly


@dataclass(frozen=True)
class PictureBlock:
    label: str  # the class
    images: int  # that it shows
    of: int  # that the client sent of this class
    address: str
    width: int  # on the screen
    height: int


@dataclass(frozen=True)
class Gallery:
    rows: Sequence[tuple[str, Sequence[PictureBlock]]]  # by client
    left_out: str = ""  # what it does not show, in a sentence

    @property
    def nbytes(self) -> int:
        return sum(len(picture.address) for _, pictures in self.rows for picture in pictures)


def gallery_of(
    sets: Mapping[str, Examples], problem: Problem, names: Sequence[str], room: int = MOST_BYTES
) -> Gallery | None:
    """``names`` of classes; ``room`` in bytes. None: records of this shape are no pictures."""
    if not sets or len(problem.shape) != 3 or problem.shape[0] not in (1, 3):
        return None
    rows: list[tuple[str, list[PictureBlock]]] = []
    total, shown, spent = sum(map(len, sets.values())), 0, 0
    each = PER_CELL if total <= FEW else PER_SMALL_CELL
    for client in list(sets)[:MOST_CLIENTS]:
        pictures = []
        for picture in _pictures(sets[client], problem, names, each):
            spent += len(picture.address)
            if spent > room:
                break
            shown += picture.images
            pictures.append(picture)
        rows.append((client, pictures))
        if spent > room:
            break
    return Gallery(rows, _left_out(shown, total, len(rows), len(sets), each))


def _left_out(shown: int, total: int, clients: int, of_clients: int, each: int) -> str:
    if shown >= total:
        return ""
    some = "" if clients == of_clients else f" and {clients:,} of {of_clients:,} clients"
    return f"Shown are {shown:,} of {total:,} images{some}: up to {each} of each class; `synthetic/` has all."


def _pictures(examples: Examples, problem: Problem, names: Sequence[str], each: int) -> Iterator[PictureBlock]:
    counts: list[int] = examples.label_counts(problem.classes).tolist()
    present = [label for label, count in enumerate(counts) if count]
    for label in present[:MOST_CLASSES]:
        few = tiles(examples, problem, label, each)
        block = _block(few, grey=problem.shape[0] == 1)
        zoom = max(1, round(TILE / max(problem.shape[1:])))
        name = names[label] if label < len(names) else str(label)
        height, width = block.shape[:2]
        yield PictureBlock(name, len(few), counts[label], data_address(block), width * zoom, height * zoom)


def _block(few: Iterable[NDArray[np.uint8]], grey: bool) -> NDArray[np.uint8]:
    """Tiles in rows, with a seam of one pixel that lets the page through."""
    listed = [tile[..., :1] if grey else tile for tile in few]
    across = min(ACROSS if len(listed) > PER_SMALL_CELL else 2, len(listed))
    height, width, channels = listed[0].shape
    down = math.ceil(len(listed) / across)
    block = np.zeros((down * (height + 1) - 1, across * (width + 1) - 1, channels + 1), np.uint8)
    for number, tile in enumerate(listed):
        top, left = (number // across) * (height + 1), (number % across) * (width + 1)
        block[top : top + height, left : left + width, :channels] = tile
        block[top : top + height, left : left + width, channels] = 255
    return block
