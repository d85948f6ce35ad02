"""The model that a run saves is the one whose score stands in its last line, not one on the way to it."""

from pathlib import Path

import pytest
from contract_checks import federation
from safetensors.torch import load_file
from test_contract import CASES

from understudy.config.build import build_network
from understudy.learning.evaluate import evaluate


@pytest.mark.parametrize("name", ["fedavg", "feddyn", "fedexp"])  # the last two train on from another model
def test_the_saved_model_is_the_one_that_was_scored(name: str, tmp_path: Path) -> None:
    data, case = federation(), CASES[name]
    result = case.play(tmp_path / "run", data)
    net = build_network(case.config(data), data.problem, "eager")
    saved = load_file(result.folder / "model.safetensors")
    for part, (where, _) in net.windows.items():
        net.vector[where] = saved[part].reshape(-1)
    assert data.test is not None
    assert evaluate(net.logits, data.test, data.problem).loss == pytest.approx(result.metrics[-1]["loss"], rel=1e-6)
