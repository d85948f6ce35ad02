"""The model that a run saves is the one whose score stands in its last line, not one on the way to it."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from contract_checks import Case, federation
from safetensors.torch import load_file
from test_broken_methods import Sound
from test_contract import CASES
from torch import Tensor

from understudy.config.build import build_method
from understudy.config.schema import Config
from understudy.federation.method import State
from understudy.learning.evaluate import evaluate
from understudy.models.network import Network
from understudy.runs.rounds import RunResult


def with_saved_weights(config: Config, result: RunResult) -> Network:
    data = federation()
    net = build_method(config, data, "eager").net
    saved = load_file(result.folder / "model.safetensors")
    for part, (where, _) in net.windows.items():
        net.vector[where] = saved[part].reshape(-1)
    return net


@pytest.mark.parametrize("name", ["fedavg", "feddyn", "fedexp"])  # the last two train on from another model
def test_the_saved_model_is_the_one_that_was_scored(name: str, tmp_path: Path) -> None:
    data, case = federation(), CASES[name]
    result = case.play(tmp_path / "run", data)
    net = with_saved_weights(case.config(data), result)
    assert data.test is not None
    assert evaluate(net.logits, data.test, data.problem).loss == pytest.approx(result.metrics[-1]["loss"], rel=1e-6)


class TwoModels(Sound):
    """A second model is worth a score: the first one with all its signs turned round."""

    def further_models(self, state: State) -> Mapping[str, Tensor]:
        return {"turned": -state["model"]}


def test_further_models_have_scores_of_their_own(tmp_path: Path) -> None:
    data, case = federation(), Case(TwoModels)
    result = case.play(tmp_path / "run", data)
    net, last = with_saved_weights(case.config(data), result), result.metrics[-1]
    assert data.test is not None
    assert last["accuracy"] == evaluate(net.logits, data.test, data.problem).accuracy
    net.vector.neg_()
    assert last["turned_accuracy"] == evaluate(net.logits, data.test, data.problem).accuracy
    assert last["turned_accuracy"] != last["accuracy"]
