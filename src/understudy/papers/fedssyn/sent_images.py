"""What left the clients of some runs, for pictures and for a number that says how good it is."""

from collections.abc import Mapping
from pathlib import Path

import torch

from understudy.config.resolve import resolve
from understudy.data.assemble import load_dataset
from understudy.data.dataset import Dataset
from understudy.data.examples import Examples
from understudy.papers.study import Mosaic
from understudy.runs.compare import read_config
from understudy.runs.folder import RunFolder
from understudy.synthesis.neighbours import nearest


def sent(run: Path) -> Examples | None:
    """All clients' images together; None: generators had too few records, and nothing was sent."""
    sets = list(RunFolder(run).synthetic().values())
    if not sets:
        return None
    return Examples(torch.cat([one.x for one in sets]), torch.cat([one.y for one in sets]))


def data_of(run: Path) -> Dataset:
    config = resolve(read_config(run))
    assert config.data is not None
    return load_dataset(config.data, config.top.seed)


def sent_mosaic(title: str, runs: Mapping[str, Path]) -> Mosaic:
    """A row of images by class for each run, and one of records."""
    dataset = data_of(next(iter(runs.values())))
    sets = {heading: images for heading, run in runs.items() if (images := sent(run)) is not None}
    return Mosaic(title, {**sets, "real records": dataset.train}, dataset.problem, dataset.label_names)


def recognised(run: Path) -> float | None:
    """The share of a run's images, in percent, whose nearest test image (in pixels) is of their class."""
    images, test = sent(run), data_of(run).test
    if images is None or test is None:
        return None
    _, place = nearest(images.x.float(), test.x.float())
    return 100 * float((test.y[place] == images.y).double().mean())
