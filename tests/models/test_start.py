"""Weights to start from: what is read, what is refused, and that a run begins there."""

from pathlib import Path
from typing import Any

import pytest
import torch
from own_networks import ResNetStyle, Tutorial
from safetensors.torch import save_file
from torch import nn

import understudy as us
from understudy.config.build import build_method
from understudy.config.resolve import resolve
from understudy.config.schema import Config, Live
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.models.fitness import fitted
from understudy.models.start import begin_at
from understudy.randomness import generator
from understudy.runs.folder import RunFolder
from understudy.runs.resuming import digest_of_config

X = torch.randn(9, 1, 8, 8, generator=generator("x"))
Y = torch.tensor([0, 1, 2] * 3)
PLAN = {"rounds": 1, "engine": "inline", "method.local": {"steps": 0}}  # clients that do not train: what began, ends


def data() -> Federation:
    return us.Federation.from_arrays({"a": (X, Y), "b": (X, Y)}, test=(X, Y))


def saved(module: nn.Module, path: Path) -> Path:
    save_file({name: t.contiguous() for name, t in module.state_dict().items()}, path)
    return path


def played(out: Path, model: nn.Module | str, **changes: Any) -> us.Result:
    return us.run(data=data(), model=model, out=out, changes={**PLAN, **changes})


def test_a_run_begins_with_the_weights_of_the_file_and_notes_its_digest(tmp_path: Path) -> None:
    trained = ResNetStyle()
    file = saved(trained, tmp_path / "pre.safetensors")
    result = played(tmp_path / "run", ResNetStyle(), **{"model.start": str(file)})
    for name, value in trained.state_dict().items():
        assert torch.equal(result.weights[name], value), name
    words = RunFolder(tmp_path / "run").config()["model"]
    assert words["start"] == str(file)
    assert len(words["start_digest"]) == 64


def test_a_run_starts_from_the_folder_of_an_earlier_one(tmp_path: Path) -> None:
    first = played(tmp_path / "first", "small-convnet", seed=1)
    again = played(tmp_path / "again", "small-convnet", seed=2, **{"model.start": str(tmp_path / "first")})
    assert all(torch.equal(again.weights[name], value) for name, value in first.weights.items())


def test_a_head_for_other_classes_is_left_out_on_request(tmp_path: Path) -> None:
    file = saved(ResNetStyle(classes=7), tmp_path / "pre.safetensors")
    with pytest.raises(UserError, match=r"'fc.weight' has shape \[7, 16\] .* \[3, 16\] .*model.start_head: false"):
        played(tmp_path / "run", ResNetStyle(), **{"model.start": str(file)})
    own = ResNetStyle()
    result = played(tmp_path / "run", own, **{"model.start": str(file), "model.start_head": False})
    assert torch.equal(result.weights["fc.weight"], own.fc.weight)
    assert not torch.equal(result.weights["conv1.weight"], own.conv1.weight)


def test_missing_and_unexpected_names_are_named() -> None:
    module = fitted(Tutorial(), data().problem)
    weights = dict(module.state_dict())
    weights["extra.weight"] = weights.pop("fc1.bias")
    sentence = "the file lacks 'fc1.bias' and has 'extra.weight' which the network does not have"
    with pytest.raises(UserError, match=sentence):
        begin_at(module, weights, head=True)
    del weights["extra.weight"], weights["fc2.weight"], weights["fc3.weight"], weights["conv1.bias"]
    with pytest.raises(UserError, match=r"lacks 'conv1.bias', 'fc1.bias', 'fc2.weight' and 1 more; choose the network"):
        begin_at(module, weights, head=True)


def test_a_file_of_another_kind_or_none_at_all(tmp_path: Path) -> None:
    (tmp_path / "pre.pt").write_bytes(b"PK")
    for file, sentence in (("pre.pt", "is not a safetensors file"), ("none.safetensors", "cannot be read")):
        with pytest.raises(UserError, match=rf"model.start: \S*{file} {sentence}"):
            played(tmp_path / "run", "softmax", **{"model.start": str(tmp_path / file)})


def test_a_file_that_changed_stops_a_resumed_run(tmp_path: Path) -> None:
    file = saved(Tutorial(), tmp_path / "pre.safetensors")
    played(tmp_path / "run", Tutorial(), **{"model.start": str(file)})
    again: dict[str, Any] = {"data": data(), "model": Tutorial(), "out": tmp_path / "run", "resume": True}
    us.run(**again, rounds=2)
    saved(Tutorial(), file)
    with pytest.raises(UserError, match="is not the file that this run began with"):
        us.run(**again, rounds=3)


def config(file: Path, **model: Any) -> Config:
    words = {"model": {"name": "softmax", "start": str(file), **model}, "method": {"name": "fedavg"}}
    return resolve(words, {}, Live(data=data()))


def test_a_site_does_without_the_file_until_something_begins_there(tmp_path: Path) -> None:
    missing = config(tmp_path / "away.safetensors")
    net = build_method(missing, data(), at_site=True).net
    net.load(torch.zeros(net.size))
    with pytest.raises(UserError, match=r"this site needs \S+away.safetensors as well; copy it there"):
        net.initial()
    with pytest.raises(UserError, match="cannot be read"):
        build_method(missing, data())
    with pytest.raises(UserError, match=r"this site needs .*: what is frozen does not travel"):
        build_method(config(tmp_path / "away.safetensors", frozen=["head.bias"]), data(), at_site=True)


def test_server_and_sites_agree_wherever_they_keep_the_file(tmp_path: Path) -> None:
    known = []
    for place in ("server", "site"):
        (tmp_path / place).mkdir()
        file = tmp_path / place / "pre.safetensors"
        if place == "server":
            save_file({"head.weight": torch.zeros(3, 64), "head.bias": torch.ones(3)}, file)
        chosen = config(file)
        known.append(digest_of_config(chosen.words("", data().problem, "eager", "cpu", "")))
    assert known[0] == known[1]
