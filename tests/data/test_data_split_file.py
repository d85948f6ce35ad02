"""A split is a value: saved, loaded, and refused where somebody changed it."""

import json
from pathlib import Path

import pytest
import torch

from understudy.data.splits.split import Split
from understudy.errors import UserError


def a_split() -> Split:
    return Split(
        {"client-0": torch.tensor([0, 2]), "client-1": torch.tensor([], dtype=torch.int64)},
        {"client-0": torch.tensor([5])},
        torch.tensor([1]),
        ("a note",),
    )


def test_a_saved_split_comes_back_the_same(tmp_path: Path) -> None:
    a_split().save(tmp_path / "split.json")
    back = Split.load(tmp_path / "split.json")
    assert back.digest == a_split().digest
    assert back.notes == ("a note",)
    assert back.clients["client-0"].tolist() == [0, 2]
    assert back.held_out["client-1"].tolist() == []
    assert [path.name for path in tmp_path.iterdir()] == ["split.json"]


def test_the_digest_sees_who_holds_what() -> None:
    one = Split({"a": torch.tensor([0]), "b": torch.tensor([1])})
    other = Split({"a": torch.tensor([1]), "b": torch.tensor([0])})
    held = Split({"a": torch.tensor([0]), "b": torch.tensor([])}, {"b": torch.tensor([1])})
    assert len({one.digest, other.digest, held.digest}) == 3


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is damaged; restore it from a copy"),
        ("[1]", "not a saved split"),
        ('{"clients": {"a": [0]}}', "'held_out' is missing"),
        ('{"clients": 3, "held_out": {}, "validation": [], "digest": ""}', "not a saved split"),
        ('{"clients": {"a": [0.5]}, "held_out": {}, "validation": [], "digest": ""}', "whole numbers"),
        ('{"clients": {"a": ["x"]}, "held_out": {}, "validation": [], "digest": ""}', "whole numbers"),
        ('{"clients": {"a": [-1]}, "held_out": {}, "validation": [], "digest": ""}', "numbered from 0"),
        ('{"clients": {"a": [1]}, "held_out": {}, "validation": [1], "digest": ""}', "record 1 twice"),
        ('{"clients": {"a": [1]}, "held_out": {"b": []}, "validation": [], "digest": ""}', "not one of its clients"),
        ('{"clients": {}, "held_out": {}, "validation": [], "digest": ""}', "no client"),
        ('{"clients": {"a": [1]}, "held_out": {}, "validation": [], "digest": "0"}', "has changed"),
    ],
)
def test_a_broken_file_is_refused_with_its_name(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "split.json"
    path.write_text(content)
    with pytest.raises(UserError) as wrong:
        Split.load(path)
    assert says in str(wrong.value)
    assert "split.json" in str(wrong.value)


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "split.json"
    a_split().save(path)
    stored = json.loads(path.read_text())
    stored["clients"]["client-0"] = [0, 3]
    path.write_text(json.dumps(stored))
    with pytest.raises(UserError, match="digest does not match"):
        Split.load(path)


def test_a_missing_file_and_one_for_more_records(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.json cannot be read \(No such file"):
        Split.load(tmp_path / "none.json")
    a_split().save(tmp_path / "split.json")
    with pytest.raises(UserError, match="names record 5, but the data set has only 5"):
        Split.load(tmp_path / "split.json").check_fits(5, "the data set")


def test_a_split_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        a_split().save(tmp_path / "file" / "split.json")
