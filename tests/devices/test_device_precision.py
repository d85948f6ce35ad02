"""`model.precision: bfloat16`: products of the network in half the bits, everything else as it was."""

from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
import torch
import yaml
from on_both import DEVICE, run_words
from test_contract import QUICK
from torch import Tensor, nn

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.learning.evaluate import evaluate
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Feed, train
from understudy.learning.plan import passes
from understudy.models.classifier import Classifier
from understudy.models.network import Network, Precision
from understudy.randomness import generator
from understudy.runs.rounds import RunResult
from understudy.synthesis.inversion import Inversion, invert
from understudy.synthesis.matching import ImageSteps, Neighbourhood, RealClasses, match_distributions

PROBLEM = Problem(shape=(1, 8, 8), classes=3)


class Probe(nn.Module):
    """Notes the type of what goes through."""

    seen: ClassVar[set[torch.dtype]] = set()

    def forward(self, x: Tensor) -> Tensor:
        Probe.seen.add(x.dtype)
        return x


def net_of(precision: Precision) -> Network:
    def build() -> nn.Module:
        body = nn.Sequential(nn.Conv2d(1, 4, 3), Probe(), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten())
        return Classifier(body, nn.Linear(144, 3))

    Probe.seen.clear()
    return Network(build, PROBLEM, device=DEVICE, precision=precision)


def records() -> Examples:
    return Examples(torch.randn(12, 1, 8, 8, generator=generator("x")), torch.arange(12) % 3)


PRECISIONS: dict[Precision, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_training_computes_in_it_and_weights_stay_float32(precision: Precision) -> None:
    net = net_of(precision)
    feed = Feed(records(), passes(12, 4, 6, generator("plan")))
    done = train(net, net.initial(), feed, Descent(Local(steps=4, batch=6, lr=0.1)))
    assert Probe.seen == {PRECISIONS[precision]}
    assert net.vector.dtype == net.grad.dtype == done.model.dtype == torch.float32
    moved = done.model - done.start
    rounded = torch.equal(moved.to(torch.bfloat16).float(), moved)
    assert not rounded  # steps are not cut to half the bits
    features, logits = net(records().x)
    assert features.dtype == logits.dtype == net.read(features).dtype == torch.float32


@pytest.mark.parametrize("precision", PRECISIONS)
def test_matching_computes_in_it_and_images_stay_float32(precision: Precision) -> None:
    net = net_of(precision)
    made = match_distributions(
        net,
        torch.zeros(6, 1, 8, 8),
        RealClasses(records(), [0, 1, 2]),
        4,
        Neighbourhood(net.initial(), 1.0, 2, generator("matching")),
        ImageSteps(lr=0.1, momentum=0.5),
    )
    assert Probe.seen == {PRECISIONS[precision]}
    assert made.dtype == torch.float32
    assert float(made.abs().max()) > 0


@pytest.mark.parametrize("precision", PRECISIONS)
def test_inversion_computes_in_it_and_images_stay_float32(precision: Precision) -> None:
    net = net_of(precision)
    net.load(net.initial())
    how = Inversion(steps=2, lr=0.1, disagreement=0.1)
    made = invert(net, torch.tensor([0, 1, 2]), generator("images"), net.twin(net.initial()), how)
    assert Probe.seen == {PRECISIONS[precision]}
    assert made.dtype == torch.float32


@pytest.mark.parametrize("precision", PRECISIONS)
def test_evaluation_computes_in_it(precision: Precision) -> None:
    net = net_of(precision)
    net.load(net.initial())
    assert evaluate(net.logits, records(), PROBLEM).loss is not None
    assert Probe.seen == {PRECISIONS[precision]}
    assert net.twin(net.initial()).precision == precision


def played(words: dict[str, Any], folder: Path, precision: str | None) -> RunResult:
    given = {} if precision is None else {"precision": precision}
    return run_words({**words, "model": {"name": "small-convnet", "width": 8, **given}}, folder, DEVICE)


RUNS: dict[str, dict[str, Any]] = {
    "fedavg": {"method": {"name": "fedavg", "rounds": 2, **QUICK["fedavg"]}},
    "feddm": {"method": {"name": "feddm", "rounds": 2, **QUICK["feddm"]}},
    "fedcog": {
        "method": {"name": "fedavg", "rounds": 2, **QUICK["fedavg"]},
        "with": [{"name": "fedcog", **QUICK["fedcog"]}],
    },
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_ends_near_the_one_in_float32_and_sends_as_much(name: str, tmp_path: Path) -> None:
    full, half = (played(RUNS[name], tmp_path / p, p) for p in PRECISIONS)
    assert [line["failures"] for line in half.metrics] == [[], [], []]
    assert [line["bytes_up"] for line in half.metrics] == [line["bytes_up"] for line in full.metrics]
    assert {weights.dtype for weights in half.weights.values()} == {torch.float32}
    flat = [torch.cat([w.flatten() for w in result.weights.values()]) for result in (half, full)]
    apart = float((flat[0] - flat[1]).norm() / flat[1].norm())
    assert 1e-6 < apart < 0.1


def test_it_is_in_the_config_where_it_is_chosen_and_the_default_leaves_no_trace(tmp_path: Path) -> None:
    results = {p: played(RUNS["fedavg"], tmp_path / str(p), p) for p in (None, "float32", "bfloat16")}
    configs = {p: yaml.safe_load((tmp_path / str(p) / "config.yaml").read_text()) for p in results}
    assert configs["bfloat16"]["model"]["precision"] == "bfloat16"
    assert configs[None] == configs["float32"]
    assert "precision" not in configs[None]["model"]
    files = [(results[p].folder / "model.safetensors").read_bytes() for p in (None, "float32")]
    assert files[0] == files[1]


def test_clients_of_such_a_network_train_one_by_one(tmp_path: Path) -> None:
    words = {**RUNS["fedavg"], "engine": {"name": "inline", "together": 2}}
    alone, asked = played(RUNS["fedavg"], tmp_path / "1", "bfloat16"), played(words, tmp_path / "2", "bfloat16")
    assert (alone.folder / "model.safetensors").read_bytes() == (asked.folder / "model.safetensors").read_bytes()


def test_a_device_without_it_is_refused(tmp_path: Path) -> None:
    lacking = patch("torch.second.get_amp_supported_dtype", list)
    with lacking, pytest.raises(UserError, match="bfloat16, which second:0 does not have"):
        played(RUNS["fedavg"], tmp_path, "bfloat16")
