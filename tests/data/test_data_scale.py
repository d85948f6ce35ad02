"""Floats on one scale: by constants, or each site by its own statistics; and the warning where they are not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import understudy as us
from understudy.config.build import build_data
from understudy.config.resolve import resolve
from understudy.data.assemble import at_site, build_federation
from understudy.data.federation import Federation
from understudy.data.settings import DataSettings
from understudy.data.spread import Spread
from understudy.data.standardise import times_apart
from understudy.errors import UserError
from understudy.runs.watching import Observer


def npz(path: Path, x: Any, **more: Any) -> str:
    np.savez(path, allow_pickle=False, x=x, y=np.arange(len(x)) % 2, **more)
    return str(path)


def made(**words: Any) -> Federation:
    return build_federation(DataSettings.model_validate(words), seed=0)


ROWS = np.array([[0.0, 100], [2, 300], [4, 500]])


def test_mean_and_std_apply_to_floats_passed_in_python() -> None:
    data = us.Federation.from_arrays({"a": (ROWS, [0, 1, 0])}, test=(ROWS[:1], [0]), mean=(2, 300), std=(2, 100))
    assert data.sites["a"].own.x.tolist() == [[-1, -2], [0, 0], [1, 2]]
    assert data.test is not None
    assert data.test.x.tolist() == [[-1, -2]]
    series = us.Federation.from_arrays({"a": (np.full((2, 1, 1, 3), 5.0), [0, 1])}, mean=(1,), std=(2,))
    assert series.sites["a"].own.x.flatten().tolist() == [2] * 6  # per channel


def test_pixels_stay_pixels() -> None:
    pixels = np.full((2, 1, 2, 2), 7, np.uint8)
    data = us.Federation.from_arrays({"a": (pixels, [0, 1])}, mean=(0.5,), std=(0.5,))
    assert data.sites["a"].own.x.dtype == torch.uint8
    assert bool((data.sites["a"].own.x == 7).all())


def test_the_constants_of_a_config_apply_wherever_floats_come_in(tmp_path: Path) -> None:
    source = npz(tmp_path / "a.npz", ROWS, x_test=ROWS, y_test=[0, 1, 0])
    constants = {"mean": [2, 300], "std": [2, 100]}
    whole = made(name=source, clients=1, split="iid", **constants)
    by_site = made(sites={"client-0": source}, test=source, **constants)
    for data in (whole, by_site):
        assert sorted(data.sites["client-0"].own.x.tolist()) == [[-1, -2], [0, 0], [1, 2]]
        assert data.test is not None
        assert data.test.x.tolist() == [[-1, -2], [0, 0], [1, 2]]
    settings = DataSettings.model_validate({"sites": {"a": None}, "shape": [2], "classes": 2, **constants})
    problem = build_federation(settings, seed=0).problem
    assert sorted(at_site(settings, "a", Path(source), problem, 0).own.x.tolist()) == [[-1, -2], [0, 0], [1, 2]]


def test_each_site_is_scaled_by_its_own_records_to_learn_from(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sites = {name: npz(tmp_path / f"{name}.npz", rng.normal(at, at, (40, 2))) for name, at in (("a", 3), ("b", 700))}
    data = made(sites=sites, scale="site", held_out=0.25)
    raw = made(sites=sites, held_out=0.25)
    for name, holding in data.sites.items():
        assert holding.own.x.mean(0).abs().max() < 1e-5
        assert (holding.own.x.std(0, correction=0) - 1).abs().max() < 1e-5
        expected = Spread.of(raw.sites[name].own.x).applied(raw.sites[name].held_out)
        assert torch.equal(holding.held_out.x, expected.x)
    settings = DataSettings.model_validate(
        {"sites": {"a": None, "b": None}, "shape": [2], "classes": 2, "scale": "site", "held_out": 0.25}
    )
    alone = at_site(settings, "b", Path(sites["b"]), build_federation(settings, seed=0).problem, 0)
    assert torch.equal(alone.own.x, data.sites["b"].own.x)


def test_a_feature_that_never_changes_is_only_shifted() -> None:
    same = Spread.of(torch.full((3, 1), 5.0))
    part = us.Federation.from_arrays({"a": (np.full((2, 1), 6.0), [0, 1])}).sites["a"].own
    assert same.applied(part).x.tolist() == [[1], [1]]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"scale": "site", "test": True}, "leave those out and score at home, with data.held_out: 0.2"),
        ({"scale": "site", "mean": [1, 1], "std": [1, 1]}, "'site' makes no use of data.mean and data.std"),
        ({"scale": "none", "mean": [1, 1], "std": [1, 1]}, "'none' makes no use of data.mean and data.std"),
        ({"scale": "given"}, "'given' needs data.mean and data.std"),
        ({"scale": "site", "pixels": True}, "data.scale: pixels are scaled by constants"),
    ],
)
def test_a_scale_that_makes_no_sense_is_refused(tmp_path: Path, words: dict[str, Any], says: str) -> None:
    source = npz(tmp_path / "a.npz", ROWS.astype(np.uint8) if words.get("pixels") else ROWS)
    with pytest.raises(UserError) as wrong:
        made(**{**words, "sites": {"a": source}, **({"test": source} if "test" in words else {})})
    assert says in str(wrong.value)


def test_a_scale_from_the_records_is_refused_under_a_privacy_budget(tmp_path: Path) -> None:
    words = {
        "data": {"sites": {"a": npz(tmp_path / "a.npz", ROWS)}, "scale": "site"},
        "privacy": {"epsilon": 8, "delta": 1e-4, "records": 3},
    }
    with pytest.raises(UserError, match=r"data\.scale: with 'site', one record changes how others are scaled"):
        build_data(resolve(words))


class Heard(Observer):
    def __init__(self) -> None:
        self.said: list[str] = []

    def says(self, text: str) -> None:
        self.said.append(text)


@pytest.mark.parametrize(("scale", "warned"), [(None, True), ("none", False), ("site", False)])
def test_features_of_very_different_size_are_told_of_unless_a_scale_was_chosen(
    tmp_path: Path, scale: str | None, warned: bool
) -> None:
    heard = Heard()
    source = npz(tmp_path / "a.npz", ROWS * [1, 2])
    data = {"sites": {"a": source}, **({} if scale is None else {"scale": scale})}
    us.run(data=data, model="mlp", rounds=0, out=tmp_path / "run", observer=heard)
    said = [text for text in heard.said if "200 times as much" in text]
    assert bool(said) == warned
    assert not said or "data.scale: site" in said[0]


def test_the_warning_speaks_python_to_python_and_says_nothing_about_alike_features(tmp_path: Path) -> None:
    heard = Heard()
    data = us.Federation.from_arrays({"a": (ROWS * [1, 2], [0, 1, 0])})
    us.run(data=data, model="mlp", rounds=0, out=tmp_path / "run", observer=heard)
    assert any("pass scale='federated', or mean= and std=" in text for text in heard.said)
    assert times_apart(us.Federation.from_arrays({"a": (ROWS, [0, 1, 0])})) == pytest.approx(100)
    assert times_apart(us.Federation.from_arrays({"a": (np.zeros((2, 4), np.uint8), [0, 1])})) == 1
