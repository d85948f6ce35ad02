"""What tables and JSON show of real runs is what these were given, took and spent."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import understudy as us
from understudy.config.resolve import resolve
from understudy.data.settings import DataSettings
from understudy.errors import UserError
from understudy.studies.compare import compare
from understudy.studies.folder import RunFolder

QUICK: dict[str, Any] = {"model": "softmax", "method": {"name": "fedavg", "rounds": 1, "local": {"epochs": 1}}}


def arrays(seed: int, n: int = 8) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 255, (n, 4, 4)).astype(np.uint8), np.arange(n) % 2


@pytest.fixture
def sites(tmp_path: Path) -> dict[str, str]:
    for number, name in enumerate(("north", "south")):
        x, y = arrays(number)
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    return {name: str(tmp_path / f"{name}.npz") for name in ("north", "south")}


# ---- the data that a run was on


def test_beside_own_sites_nothing_of_a_named_data_set_is_written(sites: dict[str, str], tmp_path: Path) -> None:
    folder = us.run({**QUICK, "data": {"sites": sites, "held_out": 0.25}}, out=tmp_path / "run").folder
    data = RunFolder(folder).config()["data"]
    assert data["sites"] == sites
    assert data["held_out"] == 0.25
    assert (
        not {"name", "clients", "split", "validation", "limit", "folder", "shapes", "canvases", "flair"} & data.keys()
    )
    assert compare([folder])[0].data == "own sites north, south"


def test_own_sites_that_take_a_presets_place_are_not_called_by_its_name(sites: dict[str, str], tmp_path: Path) -> None:
    folder = us.run("digits-skewed", out=tmp_path / "run", changes={**QUICK, "data.sites": sites}).folder
    assert compare([folder])[0].data == "own sites north, south"


def test_a_folder_that_still_has_the_unused_words_is_named_rightly_and_resumed(
    sites: dict[str, str], tmp_path: Path
) -> None:
    folder = us.run({**QUICK, "data": {"sites": sites}}, out=tmp_path / "run").folder
    words = RunFolder(folder).config()
    before = DataSettings(sites=dict(sites)).model_dump(mode="json")
    assert before["name"] == "digits"
    (folder / "config.yaml").write_text(yaml.safe_dump({**words, "data": before}))
    assert compare([folder])[0].data == "own sites north, south"
    assert us.run(out=folder, resume=True, rounds=2).summary["rounds"] == 2
    with pytest.raises(UserError, match=r"another config: data\.held_out is 0\.0 there and 0\.5 here"):
        us.run({**QUICK, "data": {"sites": sites, "held_out": 0.5}}, out=folder, resume=True)


@pytest.mark.parametrize(
    ("given", "unused"),
    [
        ({}, {"sites", "test", "classes", "labels", "shape", "pixels", "multilabel"}),
        ({"name": "all.npz"}, {"sites", "folder", "shapes", "canvases", "flair"}),
        ({"name": "canvases"}, {"sites", "test", "classes", "labels", "shape", "pixels", "multilabel", "clients"}),
    ],
)
def test_of_other_data_only_what_counts_is_written_and_read_back_it_is_the_same(
    given: dict[str, Any], unused: set[str]
) -> None:
    settings = DataSettings.model_validate(given)
    assert set(DataSettings.model_fields) - set(settings.words()) == unused
    assert resolve({"data": settings.words()}).data == settings


def test_many_sites_are_named_by_the_first_and_data_from_python_is_called_so(tmp_path: Path) -> None:
    federation = us.Federation.from_arrays({f"site-{n}": arrays(n) for n in range(2)}, test=arrays(9))
    live = us.run(QUICK, data=federation, out=tmp_path / "live").folder
    assert compare([live])[0].data == "data passed in Python"
    words = RunFolder(live).config() | {"data": {"sites": dict.fromkeys("abcd")}}
    (live / "config.yaml").write_text(yaml.safe_dump(words))
    assert compare([live])[0].data == "own sites a, b, c, …"
