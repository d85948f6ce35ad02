"""Every method and every add-on on every kind of record: it finishes a round, or said that it does not take that kind
and is refused before there is a run folder, with what to do instead."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_contract import HELD_OUT, ONE_EXCHANGE, PRIVACY, QUICK, quick_add_on

import understudy as us
from understudy.config.describe import describe_methods
from understudy.config.read import pairs
from understudy.config.resolve import resolve
from understudy.config.schema import Live
from understudy.data.federation import Federation
from understudy.data.kinds import KINDS, PLURAL, RecordKind
from understudy.errors import UserError
from understudy.runs.play import play

GENTLER: dict[str, dict[str, Any]] = {  # than for pictures
    "dc": {"image_lr": 0.1},
    "psg": {"image_lr": 0.1},
    # Only images can be warped, and made by diffusion.
    "understudy": {**ONE_EXCHANGE, "server": {"epochs": 7, "lr": 0.05, "augment": []}},
}
OTHERS: tuple[RecordKind, ...] = tuple(kind for kind in KINDS if kind != "image")  # images: test_contract.py
ABOUT = {(one["role"], one["name"]): one for one in describe_methods()}


def federation(kind: RecordKind, held_out: float = 0.0) -> Federation:
    """Three sites; the classes are told apart by their mean, or by their words."""
    rng, sites = np.random.default_rng(7), {}
    for name, labels in {"ash": [0] * 9 + [1] * 5, "beech": [0, 1, 2] * 5, "cedar": [2] * 12}.items():
        y = np.array(labels)
        if kind == "tokens":
            x = 1 + 4 * y[:, None] + rng.integers(0, 4, (len(y), 5))
            x[:, 4] = 0  # padding
        else:
            shape = {"image": (1, 8, 8), "vector": (6,), "sequence": (2, 17)}[kind]
            x = rng.normal(size=(len(y), *shape)) + y.reshape(-1, *[1] * len(shape)) - 1
        sites[name] = (x, y)
    every = tuple(np.concatenate(parts) for parts in zip(*sites.values(), strict=True))
    made = Federation.from_arrays(sites, test=(every[0], every[1]), classes=3, held_out=held_out)
    assert made.problem.kind == kind
    return made


def outcome(kind: RecordKind, out: Path, method: str, add_on: dict[str, Any] | None, setting: str) -> str | None:
    """Plays a round; the sentence, if it was refused."""
    data = federation(kind, HELD_OUT.get(method, 0.0))
    privacy = PRIVACY.get(method)
    words: dict[str, Any] = {
        "method": {"name": method, "rounds": 1, **QUICK.get(method, {}), **GENTLER.get(method, {})},
        "with": [] if add_on is None else [add_on],
        "privacy": None if privacy is None else dict(privacy),
        "engine": {"name": "inline"},
    }
    chosen = words["method"] if add_on is None else add_on
    chosen.update(pairs(setting.split()))
    try:
        result = play(resolve(words, None, Live(data=data)), out)
    except UserError as refused:
        return str(refused)
    assert result.metrics[-1]["failed"] == 0, result.metrics[-1]["failures"]
    assert result.metrics[-1]["round"] == 1
    assert np.isfinite(result.metrics[-1]["loss"])
    return None


def check(about: dict[str, Any], kind: RecordKind, out: Path, method: str, add_on: dict[str, Any] | None) -> None:
    takes = about["takes"]
    said = outcome(kind, out, method, add_on, takes.get(kind, ""))
    if kind in takes:
        assert said is None
        if takes[kind] and add_on is None:  # the setting is really needed
            assert "write" in (outcome(kind, out / "without", method, None, "") or "")
    else:
        assert said is not None
        assert said.startswith(f"{about['name']} takes image")
        assert PLURAL[kind] in said
        assert ("leave it out" if add_on else "choose another method, such as fedavg") in said
        assert not out.exists()


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("name", [name for role, name in ABOUT if role == "method"])
def test_a_method_takes_the_kinds_that_it_says(name: str, kind: RecordKind, tmp_path: Path) -> None:
    check(ABOUT["method", name], kind, tmp_path / "run", name, None)


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("name", [name for role, name in ABOUT if role == "add-on"])
def test_an_add_on_takes_the_kinds_that_it_says(name: str, kind: RecordKind, tmp_path: Path) -> None:
    check(ABOUT["add-on", name], kind, tmp_path / "run", "fedavg", quick_add_on(name))


def test_an_add_on_does_not_widen_what_its_method_takes(tmp_path: Path) -> None:
    words = {"method": {"name": "feddm"}, "with": [{"name": "fedssyn", "source": "real"}]}
    with pytest.raises(UserError, match=r"^feddm takes images, vectors and sequences, but the records are tokens"):
        us.run({**words, "data": None}, data=federation("tokens"), out=tmp_path / "run")
