"""The noise of FedDM's figure 4 on averaging methods: a step by hand, and no promise."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from understudy.config.build import build_data, build_method
from understudy.config.resolve import resolve
from understudy.errors import UserError
from understudy.learning.loop import Step, plain
from understudy.methods.published_noise import PublishedNoiseSettings, noised, standard_noises
from understudy.models.network import Network
from understudy.randomness import generator
from understudy.runs.folder import RunFolder
from understudy.runs.play import play

SMALL: dict[str, Any] = {
    "data": {"name": "digits", "clients": 2, "limit": 60},
    "model": {"name": "softmax"},
    "method": {"name": "fedavg", "rounds": 1, "local": {"epochs": 1, "batch": 16, "lr": 0.1}},
    "engine": {"name": "inline"},
}


def some_step(records: int) -> tuple[Network, Step]:
    config = resolve(SMALL)
    data = build_data(config)
    net = build_method(config, data).net
    own = next(iter(data.sites.values())).own.take(range(records))
    net.load(net.initial())
    return net, Step(net, own.x, own.y, 0, None, torch.arange(records))


def noises(net: Network, planned: int = 1) -> Iterator[Tensor]:
    return standard_noises(net.grad, planned, generator("a"))


def test_noise_that_was_planned_and_noise_that_was_not_come_from_one_stream() -> None:
    net, _ = some_step(2)
    rng = generator("a")
    expected = [torch.randn(net.grad.shape, generator=rng) for _ in range(4)]
    for planned in (0, 2, 4, 9):
        assert all(map(torch.equal, expected, noises(net, planned)))


def test_the_gradient_of_a_batch_is_clipped_as_a_whole_and_noised_by_sigma_c_over_b() -> None:
    net, step = some_step(8)
    plain(net, step, ())
    gradient = net.grad.clone()
    clip = float(gradient.norm()) / 4
    noised(plain, PublishedNoiseSettings(noise=0, clip=clip), noises(net))(net, step, ())
    assert net.grad == pytest.approx(gradient / 4, abs=1e-6)
    noised(plain, PublishedNoiseSettings(noise=3, clip=clip), noises(net))(net, step, ())
    # σC/|B| = 3·C/8, drawn once per number.
    drawn = torch.randn(net.grad.shape, generator=generator("a"))
    assert net.grad == pytest.approx(gradient / 4 + drawn * (3 * clip / 8), abs=1e-5)
    noised(plain, PublishedNoiseSettings(noise=0, clip=1e6), noises(net))(net, step, ())
    assert net.grad == pytest.approx(gradient, abs=1e-6)


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "scaffold", "fednova"])
def test_every_baseline_of_the_figure_takes_it_and_promises_nothing(name: str, tmp_path: Path) -> None:
    ends = {}
    for noise in (0.0, 5.0):
        add_on = {"name": "published-noise", "noise": noise}
        folder = tmp_path / str(noise)
        play(resolve(SMALL, {"method.name": name, "with": [add_on]}), folder)
        ends[noise] = (folder / "model.safetensors").read_bytes()
        assert RunFolder(folder).ledger()["epsilon"] is None
    assert ends[0.0] != ends[5.0]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"method": {"name": "feddm", "rounds": 1}}, "for feddm write method.dp=paper"),
        (
            {"method": {"name": "dp-fedavg", "rounds": 1}, "privacy": {"delta": 1e-5}},
            "this method has noise that keeps a promise",
        ),
    ],
)
def test_it_joins_neither_images_nor_a_method_that_keeps_a_promise(changes: dict[str, Any], why: str) -> None:
    config = resolve(SMALL, {**changes, "with": [{"name": "published-noise"}]})
    data = build_data(config)
    with pytest.raises(UserError, match=re.escape(why)):
        build_method(config, data)
