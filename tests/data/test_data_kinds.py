"""What a record is taken for, from the shape and type of the numbers alone, and how to say otherwise."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import understudy as us
from in_a_fork import understudy
from understudy.data.assemble import build_federation
from understudy.data.examples import Examples
from understudy.data.inspection import inspect
from understudy.data.kinds import RecordKind, records_as
from understudy.data.problem import Problem
from understudy.data.settings import DataSettings
from understudy.errors import UserError
from understudy.federation.message import Message
from understudy.runs.resuming import check_same_run

GUESSES: list[tuple[tuple[int, ...], str, RecordKind, tuple[int, ...]]] = [
    ((6, 3, 50), "f8", "sequence", (3, 50)),  # no picture
    ((6, 9, 128), "f4", "sequence", (9, 128)),
    ((6, 28, 28), "f4", "image", (1, 28, 28)),
    ((6, 20, 10), "i8", "image", (1, 20, 10)),
    ((6, 21, 10), "i8", "sequence", (21, 10)),
    ((6, 3, 50), "u1", "image", (1, 3, 50)),  # pixels
    ((6, 3, 8, 8), "f4", "image", (3, 8, 8)),
    ((6, 5), "f4", "vector", (5,)),
    ((6, 5), "u1", "vector", (5,)),
    ((6, 5), "?", "vector", (5,)),
    ((6, 5), "i8", "tokens", (5,)),
    ((6, 5), "i2", "tokens", (5,)),
    ((6, 1), "i8", "vector", (1,)),
]


@pytest.mark.parametrize(("shape", "type_", "kind", "record"), GUESSES)
def test_the_kind_is_guessed_from_shape_and_type(
    shape: tuple[int, ...], type_: str, kind: RecordKind, record: tuple[int, ...]
) -> None:
    data = us.Federation.from_arrays({"a": (np.ones(shape, type_), [0, 1] * 3)})
    assert data.problem.kind == kind
    assert data.problem.shape == record
    wanted = torch.int32 if kind == "tokens" else torch.uint8 if type_ == "u1" else torch.float32
    assert data.sites["a"].own.x.dtype == data.problem.dtype == wanted


OVERRIDES: list[tuple[tuple[int, ...], str, RecordKind, tuple[int, ...]]] = [
    ((4, 3, 50), "f4", "image", (1, 3, 50)),
    ((4, 3, 50), "f4", "vector", (150,)),
    ((4, 12), "f4", "sequence", (1, 12)),
    ((4, 12), "i8", "vector", (12,)),
    ((4, 12), "f4", "tokens", (12,)),
    ((4, 12), "u1", "tokens", (12,)),
    ((4, 28, 28), "f4", "sequence", (28, 28)),
    ((4, 1, 4, 4), "f4", "vector", (16,)),
]


@pytest.mark.parametrize(("shape", "type_", "kind", "record"), OVERRIDES)
def test_a_kind_that_is_named_is_obeyed(
    shape: tuple[int, ...], type_: str, kind: RecordKind, record: tuple[int, ...]
) -> None:
    x = np.arange(np.prod(shape)).reshape(shape).astype(type_)
    data = us.Federation.from_arrays({"a": (x, [0, 1, 0, 1])}, kind=kind)
    assert (data.problem.kind, data.problem.shape) == (kind, record)
    assert data.sites["a"].own.x.flatten(1).tolist() == x.reshape(4, -1).tolist()  # the same numbers, in order


@pytest.mark.parametrize(
    ("x", "kind", "sentence"),
    [
        ([[1.5, 2]], "tokens", "some are not whole numbers; if they are not ids but numbers, write data.kind: vector"),
        ([[1, -1]], None, "run from -1 to 1; ids are counted from 0, which is padding, so add 1 where -1 is"),
        ([[[1, 2]]], "tokens", r"tokens are \(n, length\)"),
        ([[1.0, 2]], "image", r"images are \(n, channels, height, width\); .*data.kind: vector"),
        (np.zeros((1, 2, 2, 2)), "sequence", r"sequences are \(n, channels, steps\); .*data.kind: image"),
        ([[1.0, 2]], "picture", "kind: write image, vector, sequence, tokens or None"),
    ],
)
def test_what_cannot_be_that_kind_is_told_by_site(x: Any, kind: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        us.Federation.from_arrays({"north": (x, [0])}, kind=kind)


def test_tokens_stay_whole_numbers_from_file_to_message(tmp_path: Path) -> None:
    ids = np.array([[7, 2**24 + 1, 0], [3, 0, 0]])  # 2²⁴ + 1 is no float32
    np.savez(tmp_path / "a.npz", x=ids, y=[0, 1])
    data = build_federation(said(name=str(tmp_path / "a.npz"), clients=1, split="iid"), seed=0)
    own = data.sites["client-0"].own
    assert sorted(own.x.tolist()) == sorted(ids.tolist())
    assert data.problem.tokens == 2**24 + 2
    assert torch.equal(data.problem.scale(own.x), own.x)
    there = Message.from_bytes(Message(x=own.x).to_bytes())["x"]
    assert there.dtype == torch.int32
    assert torch.equal(there, own.x)
    own.save(tmp_path / "kept.npz")
    assert torch.equal(Examples.load(tmp_path / "kept.npz").x, own.x)


def test_saved_records_are_read_back_as_they_were_whatever_one_would_guess(tmp_path: Path) -> None:
    made = Examples(torch.zeros(2, 28, 28), torch.tensor([0, 1]))  # sequences, though they look like pictures
    made.save(tmp_path / "a.npz")
    assert Examples.load(tmp_path / "a.npz").x.shape == (2, 28, 28)


def test_the_number_of_ids_is_the_largest_and_one_or_as_given() -> None:
    sites = {"a": ([[1, 5], [2, 0]], [0, 1])}
    assert us.Federation.from_arrays(sites, test=([[9, 1]], [0])).problem.tokens == 10
    assert us.Federation.from_arrays(sites, tokens=50).problem.tokens == 50
    with pytest.raises(
        UserError, match=r"a: token ids run up to 5, but there are only 5, with 0; write data.tokens: 6"
    ):
        us.Federation.from_arrays(sites, tokens=5)
    with pytest.raises(UserError, match="token ids are not scaled"):
        us.Federation.from_arrays(sites, mean=(0, 0), std=(1, 1))
    with pytest.raises(UserError, match=r"data.tokens counts token ids, but the records are numbers"):
        us.Federation.from_arrays({"a": (np.ones((2, 2)), [0, 1])}, tokens=5)


def test_sites_that_hold_different_kinds_are_refused() -> None:
    with pytest.raises(UserError, match=r"b: records are torch.float32, but another site has torch.int32"):
        us.Federation.from_arrays({"a": ([[1, 2]], [0]), "b": ([[1.0, 2.0]], [1])})


def said(**data: Any) -> DataSettings:
    return DataSettings.model_validate(data)


def test_a_table_says_its_kind_by_setting(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t1,t2,t3,t4,y\n5,1,0,0,0\n2,3,4,0,1\n")
    plain = build_federation(said(sites={"a": str(tmp_path / "a.csv")}), seed=0)
    assert plain.problem == Problem((4,), 2, floats=True)
    assert plain.found == {"kind": "vector"}
    tokens = build_federation(said(sites={"a": str(tmp_path / "a.csv")}, kind="tokens"), seed=0)
    assert tokens.problem == Problem((4,), 2, tokens=6)
    assert tokens.found == {"tokens": 6}
    series = build_federation(said(sites={"a": str(tmp_path / "a.csv")}, shape=[2, 2]), seed=0)
    assert series.problem == Problem((2, 2), 2, floats=True)
    assert series.sites["a"].own.x.tolist() == [[[5, 1], [0, 0]], [[2, 3], [4, 0]]]


def test_lists_of_whole_numbers_in_parquet_are_tokens_and_pixels_are_not(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for column, kind in (("x", "tokens"), ("pixels", "vector")):
        parquet.write_table(pa.table({column: [[1, 2, 3], [4, 5, 0]], "y": [0, 1]}), tmp_path / f"{column}.parquet")
        data = build_federation(said(sites={"a": str(tmp_path / f"{column}.parquet")}), seed=0)
        assert data.problem.kind == kind


def test_categories_are_found_where_a_table_has_words_and_stay_0_and_1_when_scaled(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,colour,size,y\n10,red,1,0\n30,blue,2,1\n20,red,3,0\n")
    sites = {"a": str(tmp_path / "a.csv")}
    plain = build_federation(said(sites=sites), seed=0)
    assert plain.problem.categories == ((1, 2),)  # age, blue, red, size
    by_site = build_federation(said(sites=sites, scale="site"), seed=0).sites["a"].own.x
    assert by_site[:, 1:3].tolist() == [[0, 1], [1, 0], [0, 1]]
    assert by_site[:, [0, 3]].mean(0).tolist() == pytest.approx([0, 0], abs=1e-6)
    given = build_federation(said(sites=sites, mean=[20, 9, 9, 2], std=[10, 9, 9, 1]), seed=0).sites["a"].own.x
    assert given.tolist() == [[-1, 0, 1, -1], [1, 1, 0, 0], [0, 0, 1, 1]]


def test_categories_can_be_told_for_arrays_and_must_fit() -> None:
    sites = {"a": (np.ones((2, 4)), [0, 1])}
    assert us.Federation.from_arrays(sites, categories=[(1, 2)]).problem.categories == ((1, 2),)
    for wrong in ([(3, 2)], [(0, 2), (1, 2)], [(0, 0)]):
        with pytest.raises(UserError, match=r"data.categories gives"):
            us.Federation.from_arrays(sites, categories=wrong)


def test_where_records_stay_at_sites_the_config_says_what_they_are() -> None:
    tokens = said(sites={"a": None}, shape=[6], classes=2, kind="tokens", tokens=30)
    remote = build_federation(tokens, seed=0)
    assert remote.problem == Problem((6,), 2, tokens=30)
    assert remote.sites["a"].own.x.dtype == torch.int32
    assert build_federation(said(sites={"a": None}, shape=[6], classes=2, kind="sequence"), seed=0).problem.shape == (
        1,
        6,
    )
    assert build_federation(said(sites={"a": None}, shape=[3, 50], classes=2), seed=0).problem.kind == "sequence"
    with pytest.raises(UserError, match=r"data.kind: tokens and data.tokens go together"):
        build_federation(said(sites={"a": None}, shape=[6], classes=2, kind="tokens"), seed=0)


def test_under_a_privacy_budget_the_number_of_ids_does_not_come_from_the_records(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=[[1, 2], [3, 4]] * 10, y=[0, 1] * 10)
    words = {
        "data": {"name": str(tmp_path / "a.npz"), "clients": 1, "split": "iid", "held_out": 0.2, "classes": 2},
        "method": {"name": "dp-fedavg", "rounds": 1, "noise": 1.0, "local": {"steps": 1, "batch": 4}},
        "privacy": {"delta": 1e-3, "records": 16},
        "engine": "inline",
    }
    with pytest.raises(UserError, match=r"data.tokens: under a privacy budget the number of token ids"):
        us.run(words, out=tmp_path / "run")
    us.run(words, out=tmp_path / "run", changes={"data.tokens": 5})


def test_the_run_says_the_kind_and_the_network_and_writes_both_down(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(20, 3, 50))
    np.savez(tmp_path / "a.npz", x=x, y=[0, 1] * 10, x_test=x, y_test=[0, 1] * 10)
    (tmp_path / "c.yaml").write_text(
        "data: {name: a.npz, clients: 2, split: iid}\nmethod: {rounds: 1}\nengine: inline\n"
    )
    first_run = understudy("run", "c.yaml", "--out", "run", cwd=tmp_path)
    shown = " ".join((first_run.stdout + first_run.stderr).split())
    assert "Records: floats, sequences of 3 × 50 (channels × steps); if that is wrong, write data.kind." in shown
    assert "No network is named: convnet-1d, the usual one for sequences." in shown
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert config["data"]["kind"] == "sequence"
    assert config["model"]["name"] == "convnet-1d"
    again = understudy("run", "run/config.yaml", "--out", "again", cwd=tmp_path)
    assert "Records:" not in again.stdout + again.stderr  # it is written now
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "again"))
    assert first == second


def test_a_folder_from_before_there_were_kinds_can_be_resumed() -> None:
    shape = {"shape": [3], "classes": 2, "multilabel": False, "mean": [], "std": []}
    before = {"data": {"name": "a.npz"}, "problem": shape, "method": {"rounds": 1}}
    now = {"kind": "vector", "categories": [[0, 2]]}
    after = {**before, "data": {"name": "a.npz", **now}, "problem": {**shape, "floats": True, "categories": [[0, 2]]}}
    check_same_run(before, after)
    check_same_run(after, after)
    with pytest.raises(UserError, match=r"data.kind is 'vector' there and 'tokens' here"):
        check_same_run(after, {**after, "data": {**now, "name": "a.npz", "kind": "tokens"}})


def test_the_checks_and_the_split_tell_the_kind(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(60).reshape(10, 6), y=[0, 1] * 5)
    assert (
        "tokens, 6 per record, of 60 ids; ids from 0 to 59."
        in understudy("data", "check", "a.npz", cwd=tmp_path).stdout
    )
    described = understudy("data", "describe", "./a.npz", "clients=2", "--json", cwd=tmp_path).stdout
    assert json.loads(described)["kind"] == "tokens, 6 per record, of 60 ids"


def test_steps_where_channels_should_be_are_warned_of() -> None:
    found = inspect(us.Federation.from_arrays({"a": (np.random.default_rng(0).random((4, 50, 3)), [0, 1, 0, 1])}))
    assert found.kind == "floats, sequences of 50 × 3 (channels × steps)"
    assert any("Sequences of 50 channels and only 3 steps?" in warning for warning in found.warnings)


def test_a_problem_is_read_back_from_its_words() -> None:
    for problem in (
        Problem((4,), 2, floats=True, categories=((1, 2),)),
        Problem((6,), 3, tokens=40),
        Problem((1, 8, 8), 10, mean=(0.5,), std=(0.2,)),
    ):
        words = json.loads(json.dumps(problem.words()))
        assert Problem.from_words(words) == problem
    old = {"shape": [5], "classes": 2, "multilabel": False, "mean": [], "std": []}
    assert Problem.from_words(old) == Problem((5,), 2)
    assert Problem((5,), 2).words() == old


def test_blank_records_are_what_a_network_takes() -> None:
    assert Problem((5,), 2, tokens=9).blank(3).dtype == torch.int32
    assert Problem((1, 2, 2), 2).blank(3).shape == (3, 1, 2, 2)
    assert records_as(torch.zeros(2, 3, dtype=torch.float64), "vector").dtype == torch.float32
