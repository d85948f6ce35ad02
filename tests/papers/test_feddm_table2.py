"""FedDM's table 2: floats uploaded, as counted and as they travel."""

from pathlib import Path
from typing import Any

import pytest

from understudy.config.build import build_data, build_method
from understudy.config.resolve import resolve
from understudy.methods.shared.averaging import Averaging
from understudy.methods.shared.pooled import Pooled
from understudy.papers.feddm.message_sizes import (
    MNIST_CLASSES,
    PRESETS,
    PRINTED,
    images_up,
    uploads,
    weights_up,
    without_images,
)
from understudy.runs.folder import RunFolder
from understudy.runs.play import play

SMALL: dict[str, Any] = {
    "data": {"name": "digits", "clients": 3, "limit": 200, "split": {"kind": "dirichlet", "alpha": 0.1}},
    "model": {"name": "small-convnet", "width": 2, "fast": "eager"},
    "engine": {"name": "inline"},
}


@pytest.mark.parametrize("column", PRESETS)
def test_baselines_upload_what_the_paper_prints(column: str) -> None:
    assert (
        uploads(PRESETS[column], {"method": {"name": "fedavg", "rounds": 20}}).floats(0) == PRINTED["Baseline", column]
    )


def test_printed_sizes_are_whole_numbers_of_images() -> None:
    images = {"MNIST": 10 * 784, "CIFAR10": 10 * 3072, "CIFAR100": 5 * 3072}
    pairs = {cell: size / images[cell[1]] for cell, size in PRINTED.items() if cell[0].startswith("Dir₁₀")}
    assert list(pairs.values()) == [81, 87, 654, 47, 44, 310, 14, 15, 139]


QUICK: dict[str, dict[str, Any]] = {"feddm": {"steps": 1, "server": {"epochs": 1}}, "real": {"server": {"epochs": 1}}}


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "fednova", "feddm", "real"])
def test_what_is_counted_is_what_travels(name: str, tmp_path: Path) -> None:
    config = resolve(SMALL, {"method": {"name": name, "rounds": 1, **QUICK.get(name, {})}, "transcript": True})
    data = build_data(config)
    method = build_method(config, data)
    play(config, tmp_path / "run")
    said = RunFolder(tmp_path / "run").transcript
    for client in data.sites:
        reply = next(one.reply for one in said.of(client) if one.round == 1)
        if isinstance(method, Averaging):
            assert sum(part.numel() for part in reply.without("weight").values()) == weights_up(method)
        else:
            assert isinstance(method, Pooled)
            assert reply["x"].numel() == images_up(method, data.sites[client].own.y)


def test_labels_without_images_cost_no_memory() -> None:
    made = uploads("feddm-mnist", {})
    labels = without_images("mnist", made.method.net.problem)
    assert labels.train.label_counts(10).tolist() == list(MNIST_CLASSES)
    assert labels.train.x.untyped_storage().nbytes() == 1
