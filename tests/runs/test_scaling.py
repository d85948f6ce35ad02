"""Scales of tables: declared ranges, what a run's folder says of its scale, and sites that keep their records."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import understudy as us
from understudy.config.resolve import resolve
from understudy.data.assemble import build_federation
from understudy.data.settings import DataSettings
from understudy.data.spread import Spread
from understudy.data.tables import feature_ranges
from understudy.errors import UserError
from understudy.runs.remote import build_site
from understudy.runs.resuming import digest_of_config
from understudy.runs.scaling import data_of_run, note_own, scaling_of

ROWS = ["age,sex,f10,f2,y", "30,m,1,200,0", "50,f,3,400,1", "40,f,2,900,0", "60,m,4,100,1"]
RANGES = {"age": [0, 100], "f2": [0, 1000], "f10": [0, 10]}


@pytest.fixture
def table(tmp_path: Path) -> str:
    (tmp_path / "a.csv").write_text("\n".join(ROWS) + "\n")
    return str(tmp_path / "a.csv")


def made(**words: Any) -> us.Federation:
    return build_federation(DataSettings.model_validate(words), seed=0)


def test_ranges_follow_the_order_of_features_and_a_word_is_there_or_not() -> None:
    found = feature_ranges({"f10": (0, 10), "f2": (0, 1000), "age": (0, 100)}, {"sex": ["f", "m"]})
    assert found == ((0, 100), (0, 1000), (0, 10), (0, 1), (0, 1))  # age, f2, f10, sex


def test_a_server_without_records_knows_the_same_ranges(table: str) -> None:
    here = made(sites={"a": table}, scale="federated", ranges=RANGES)
    words = {"sites": {"a": None}, "shape": [5], "classes": 2, "vocabulary": {"sex": ["f", "m"]}}
    there = made(**words, scale="federated", ranges=RANGES)
    assert here.scale == there.scale
    assert here.scale is not None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"ranges": {**RANGES, "agee": [0, 1]}}, "There is no column of numbers 'agee'. Did you mean 'age'?"),
        ({"ranges": {"age": [0, 100]}}, "column 'f2': it has no range in data.ranges"),
        ({"ranges": [[0, 1], [0, 1]]}, "2 ranges for 5 features"),
        ({"ranges": RANGES, "scale": "site"}, "data.ranges: it belongs to data.scale: federated"),
        ({"scale_noise": 1.0, "scale": "none"}, "data.scale_noise: it belongs to data.scale: federated"),
    ],
)
def test_ranges_that_do_not_fit_are_refused(table: str, words: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as wrong:
        made(**{"sites": {"a": table}, "scale": "federated", **words})
    assert says in str(wrong.value)


def test_a_range_the_wrong_way_round_is_refused() -> None:
    with pytest.raises(UserError, match=r"'data\.ranges': the range of age is \[9, 1\]; write the lower value first"):
        resolve({"data": {"name": "a.csv", "ranges": {"age": [9, 1]}}})


def test_parties_that_scale_differently_do_not_work_together(table: str, tmp_path: Path) -> None:
    def digest(**more: Any) -> str:
        words = {"data": {"sites": {"a": table}, **more}, "model": "mlp"}
        return build_site(resolve(words), "a", source=None, folder=tmp_path, policy=None)[0].config

    assert len({digest(), digest(scale="federated"), digest(scale="federated", ranges=RANGES)}) == 3
    assert digest() == digest(scale="none")


def test_a_run_without_a_scale_has_the_digest_it_always_had() -> None:
    words = {"seed": 0, "problem": {}, "model": {}, "method": {"rounds": 1}, "with": [], "privacy": None}
    assert digest_of_config(words) != digest_of_config({**words, "scaling": {"ranges": [], "noise": None}})


def test_every_way_to_scale_can_be_repeated_on_new_records(table: str, tmp_path: Path) -> None:
    data = made(sites={"a": table})
    own = data.sites["a"].own
    expected = Spread.of(own.x).sparing(data.problem.categories)  # words of a category stay 0 or 1

    def ran(name: str, **more: Any) -> Path:
        return us.run(data={"sites": {"a": table}, **more}, model="mlp", rounds=0, out=tmp_path / name).folder

    assert scaling_of(ran("none")) is None
    given = scaling_of(ran("given", mean=[1] * 5, std=[2] * 5))
    assert given is not None
    assert given.applied(own).x[0].tolist() == [*((own.x[0, :3] - 1) / 2).tolist(), *own.x[0, 3:].tolist()]
    site = ran("site", scale="site")
    at_home = scaling_of(site, "a")
    assert at_home is not None
    assert torch.equal(at_home.mean, expected.mean)
    with pytest.raises(UserError, match="Each site of this run has a scale of its own; name one of a"):
        scaling_of(site)
    with pytest.raises(UserError, match=r"There is no site 'aa'\. Did you mean 'a'"):
        scaling_of(site, "aa")
    federated = ran("federated", scale="federated")
    agreed = scaling_of(federated)
    assert agreed is not None
    assert agreed.std.tolist() == pytest.approx(expected.std.tolist())
    (federated / "scale.json").unlink()  # State has it too
    from_state = scaling_of(federated)
    assert from_state is not None
    assert torch.equal(from_state.std, agreed.std)
    words = {"data": {"sites": {"a": table}, "scale": "federated"}, "model": "mlp"}
    assert torch.equal(data_of_run(resolve(words), federated).sites["a"].own.x, agreed.applied(own).x)


def test_a_damaged_file_is_not_read_as_a_scale(table: str, tmp_path: Path) -> None:
    folder = us.run(data={"sites": {"a": table}, "scale": "site"}, model="mlp", rounds=0, out=tmp_path / "r").folder
    (folder / "scale.json").write_text(json.dumps({"by": "site", "sites": {"a": {"mean": [1], "std": []}}}))
    with pytest.raises(UserError, match=r"scale\.json is damaged"):
        scaling_of(folder, "a")


def test_a_site_notes_its_own_scale_in_its_folder(table: str, tmp_path: Path) -> None:
    words = {"sites": {"a": None}, "shape": [5], "classes": 2, "vocabulary": {"sex": ["f", "m"]}, "scale": "site"}
    config = resolve({"data": words, "model": "mlp"})
    site, _ = build_site(config, "a", source=Path(table), folder=tmp_path / "site", policy=None)
    (tmp_path / "site").mkdir(exist_ok=True)
    note_own(tmp_path / "site", "a", site.holding.spread)
    found = scaling_of(tmp_path / "site", "a")
    assert found is not None
    assert found.mean.tolist() == pytest.approx([45, 400, 2.5, 0.5, 0.5])


def test_measuring_and_auditing_see_records_as_the_model_learnt_from_them(table: str, tmp_path: Path) -> None:
    from understudy.runs.measure import measure

    data = {"sites": {"a": table, "b": table}, "scale": "federated"}
    folder = us.run(data=data, model="mlp", rounds=1, out=tmp_path / "run").folder
    spread = scaling_of(folder)
    assert spread is not None
    constants = {"mean": spread.mean.tolist(), "std": spread.std.tolist()}
    by_hand = us.run(data={"sites": data["sites"], **constants}, model="mlp", rounds=1, out=tmp_path / "hand").folder
    assert measure(str(folder)).zeta2 == measure(str(by_hand)).zeta2
    unplayed = tmp_path / "c.yaml"
    unplayed.write_text(json.dumps({"data": data, "model": "mlp"}))
    assert np.isfinite(measure(str(unplayed)).zeta2)
