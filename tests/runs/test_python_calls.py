"""Calls from Python that cannot be meant: one sentence each, before a folder is made."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch import nn

import understudy as us
from understudy.errors import UserError, speaking_to_a_command_line

PLAN = {"method": {"name": "fedavg", "rounds": 1, "local": {"epochs": 1}}, "model": "softmax", "engine": "inline"}


def arrays(first_label: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    y = np.arange(40) % 10 + first_label
    return {"north": (rng.integers(0, 255, (40, 4, 4), dtype=np.uint8), y)}


class Net(nn.Module):
    def __init__(self, outputs: int = 10, inputs: int = 16):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(inputs), nn.Dropout()
        self.head = nn.Linear(inputs, outputs)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.drop(self.norm(x.flatten(1)))
        return found


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"model": Net}, r"model: Net is a class; pass a network, such as Net\(\)"),
    ({"model": Net(5)}, r"model: the head of Net gives \(2, 5\) for two records; it must give \(2, 10\)"),
    ({"model": Net(12)}, r"it must give \(2, 10\), one number per class"),
    ({"model": Net(inputs=9)}, r"model: Net cannot take records of shape \(1, 4, 4\)"),
    ({"model": nn.Linear(2, 2)}, r"model: Linear cannot take records of shape \(1, 4, 4\): mat1"),
    ({"model": 5}, "model: pass a name, settings or a torch.nn.Module, not int"),
    ({"method": Net()}, "method: pass a name, settings or a Method or its class, not Net"),
    (
        {"data": np.zeros(3)},
        r"data: pass a name, settings or a Federation \(arrays go into Federation.from_arrays\), not ndarray",
    ),
    ({"changes": ["rounds=3"]}, "changes: pass a mapping from dotted names to values, not list"),
    ({"changes": {5: 1}}, "The config has the key 5"),
    ({"config": 5}, "config: pass a name, a file or a mapping, not int"),
    ({"observer": object()}, "observer: pass an Observer, not object"),
    ({"add": 5}, "add: pass a list of add-ons, not int"),
    ({"method": us.Method}, "The method Method has no round; write it"),
    ({"model": Net().to("meta")}, "model: Net has weights without numbers"),
    ({"rounds": True}, "rounds must be a number"),
    ({"add": "nothing"}, "There is no add-on 'nothing'"),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=[sentence[:40] for _, sentence in WRONG])
def test_an_argument_of_the_wrong_kind(words: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    data = {"data": us.Federation.from_arrays(arrays(), held_out=0.2)}
    with pytest.raises(UserError, match=sentence):
        us.run(**{"config": PLAN, **data, **words, "out": tmp_path / "run"})
    assert not (tmp_path / "run").exists()


def test_a_network_that_is_tried_on_blank_records_is_left_as_it_was() -> None:
    from understudy.models.fitness import check_outputs

    net, stream = Net(), torch.get_rng_state()
    check_outputs(net, us.Federation.from_arrays(arrays()).problem)
    assert net.training
    assert net.norm.num_batches_tracked == 0
    assert torch.equal(torch.get_rng_state(), stream)


def test_numbers_of_numpy_and_torch_scale_pixels(tmp_path: Path) -> None:
    mean, std = np.array([0.5], dtype=np.float32), torch.tensor([0.25])
    data = us.Federation.from_arrays(arrays(), mean=mean, std=std, classes=np.int64(10), held_out=0.2)  # type: ignore[arg-type]
    us.run(PLAN, data=data, out=tmp_path / "run")
    assert yaml.safe_load((tmp_path / "run/config.yaml").read_text())["problem"]["mean"] == [0.5]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"mean": 0.5}, "mean: give one number per channel"),
        ({"mean": ("a",), "std": (1,)}, "mean: give one number per channel"),
        ({"mean": (float("nan"),), "std": (1,)}, "mean: .* must be finite"),
        ({"classes": 1}, "classes: give a whole number, at least 2, not 1"),
        ({"test": (np.zeros((0, 4, 4), np.uint8), [])}, "The test set holds no record"),
        ({"classes": 2.5}, "classes: give a whole number, at least 2"),
        ({"held_out": "some"}, "held_out: some is not a share"),
    ],
)
def test_options_of_own_arrays_that_cannot_be(words: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        us.Federation.from_arrays(arrays(), **words)


@pytest.mark.parametrize("sites", [5, None, "north"])
def test_sites_that_are_none(sites: Any) -> None:
    with pytest.raises(UserError, match="sites: give a mapping"):
        us.Federation.from_arrays(sites)


def test_labels_that_begin_at_1_are_refused_unless_the_classes_are_counted() -> None:
    with pytest.raises(UserError, match="labels run from 1 to 10, but classes are numbered from 0: subtract 1"):
        us.Federation.from_arrays(arrays(first_label=1))
    assert us.Federation.from_arrays(arrays(first_label=1), classes=11).problem.classes == 11


def test_a_run_with_nothing_to_score_on_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    us.run(PLAN, data=us.Federation.from_arrays(arrays()), out=tmp_path / "run")
    assert "There is nothing to score on" in capfd.readouterr().err


def test_errors_speak_python_here_and_name_options_on_a_command_line(tmp_path: Path) -> None:
    us.run(PLAN, data=us.Federation.from_arrays(arrays()), out=tmp_path / "run")
    with pytest.raises(UserError, match=r"add resume=True to continue it, or choose another out\.$"):
        us.run(PLAN, data=us.Federation.from_arrays(arrays()), out=tmp_path / "run")
    with (
        speaking_to_a_command_line(),
        pytest.raises(UserError, match=r"add --resume to continue it, or choose another --out\.$"),
    ):
        us.run(PLAN, data=us.Federation.from_arrays(arrays()), out=tmp_path / "run")


def test_a_run_is_loaded_again_as_it_was_returned(tmp_path: Path) -> None:
    before = us.run(PLAN, data=us.Federation.from_arrays(arrays(), held_out=0.5), out=tmp_path / "run")
    again = us.load(tmp_path / "run")
    assert (again.folder, again.summary, again.metrics) == (before.folder, before.summary, before.metrics)
    assert again.weights.keys() == before.weights.keys()
    assert all(torch.equal(again.weights[name], before.weights[name]) for name in before.weights)
    (tmp_path / "run/model.safetensors").write_bytes(b"cut off")
    with pytest.raises(UserError, match="is damaged"):
        us.load(tmp_path / "run")
    with pytest.raises(UserError, match=r"has no summary\.json; is it a run folder"):
        us.load(tmp_path)


def test_resuming_a_folder_without_a_run_does_not_begin_another_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run to resume"):
        us.run(out=tmp_path / "typo", resume=True)
    assert not (tmp_path / "typo").exists()
