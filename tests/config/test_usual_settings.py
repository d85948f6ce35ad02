"""Defaults that depend on the kind of the records: pictures have the published ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import understudy as us
from understudy.config.build import completed
from understudy.config.resolve import resolve
from understudy.data.kinds import RecordKind
from understudy.data.problem import Problem

SHAPES: dict[RecordKind, tuple[int, ...]] = {"image": (1, 8, 8), "vector": (4,), "sequence": (3, 20)}


def settings_for(kind: RecordKind, **method: Any) -> dict[str, Any]:
    config = completed(resolve({"method": method}), Problem(SHAPES[kind], 2, floats=kind != "image"))
    return config.method.words()


@pytest.mark.parametrize(("kind", "rate"), [("image", 1.0), ("vector", 0.1), ("sequence", 0.1)])
def test_feddm_moves_numbers_more_gently_than_pictures(kind: RecordKind, rate: float) -> None:
    assert settings_for(kind, name="feddm")["image_lr"] == rate
    assert settings_for(kind, name="feddm", preset="paper")["image_lr"] == rate
    assert settings_for(kind, name="feddm", image_lr=1.0)["image_lr"] == 1.0  # as written, even if it is the default


@pytest.mark.parametrize("name", ["fedlap", "fedlap-dp"])
def test_fedlap_augments_pictures_only_and_moves_numbers_more_gently(name: str) -> None:
    for kind, expected in {"image": (100.0, True), "vector": (1.0, False), "sequence": (1.0, False)}.items():
        words = settings_for(kind, name=name)  # type: ignore[arg-type]
        assert (words["image_lr"], words["dsa"]) == expected
    assert settings_for("vector", name=name, image_lr=3.0)["dsa"] is False


def test_what_was_filled_in_is_in_the_config_and_stays_when_that_is_read_again() -> None:
    x, y = np.random.default_rng(0).normal(size=(40, 4)), np.arange(40) % 2
    data = us.Federation.from_arrays({"a": (x, y)}, test=(x, y))
    method = {"name": "feddm", "rounds": 1, "steps": 1, "server": {"epochs": 1}}
    result = us.run(data=data, model="softmax", method=method, engine="inline")
    assert result.config["method"]["image_lr"] == 0.1
    assert (result.folder / "log.txt").read_text().count("For vectors, method.image_lr is 0.1 unless") == 1
    assert us.load(result.folder, data=data).resume(rounds=2).config["method"]["image_lr"] == 0.1
    again = completed(resolve({"method": result.config["method"]}), Problem((1, 8, 8), 2))
    assert again.method.words()["image_lr"] == 0.1


@pytest.mark.parametrize(
    ("rate", "said"), [(1e30, "its reply is not finite in x"), (1e12, "its reply goes beyond ±1e+15")]
)
def test_records_that_diverged_name_the_rate_to_lower(rate: float, said: str) -> None:
    x, y = 1000 * np.random.default_rng(0).normal(size=(40, 4)), np.arange(40) % 2
    data = us.Federation.from_arrays({"a": (x, y)}, test=(x, y), scale="none")
    method = {"name": "feddm", "rounds": 1, "steps": 2, "ipc": 1, "image_lr": rate}
    result = us.run(data=data, model="softmax", method=method, engine="inline")
    (failure,) = result.metrics[-1]["failures"]
    assert failure["why"].startswith(said)
    assert "a smaller learning rate, such as method.image_lr, may help" in failure["why"]


@pytest.mark.parametrize("kind", ["image", "vector"])
def test_one_word_brings_sizes_for_a_desk(kind: RecordKind) -> None:
    words = settings_for(kind, name="feddm", preset="desk")
    assert (words["steps"], words["server"]["epochs"], words["server"]["lr"]) == (100, 100, 0.01)
    assert words["image_lr"] == {"image": 1.0, "vector": 0.1}[kind]
    config = resolve({"with": [{"name": "fedcog", "preset": "desk"}]})
    assert (config.add_ons[0].words()["images"], config.add_ons[0].words()["kd_weighting"]) == (64, "balanced")


def test_a_method_that_cannot_take_the_records_is_refused_before_what_privacy_wants(tmp_path: Path) -> None:
    np.savez(tmp_path / "texts.npz", x=np.arange(40).reshape(10, 4), y=np.arange(10) % 2)
    words = {"data": {"name": str(tmp_path / "texts.npz")}, "method": "fedlap-dp", "privacy": {"delta": 1e-3}}
    with pytest.raises(us.UserError, match="fedlap-dp takes images, vectors and sequences, but the records are tokens"):
        us.run(words)
