"""A person's records are on one side of every split, and with one client."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from understudy.data.assemble import at_site, build_federation, load_dataset, unused_records
from understudy.data.federation import Federation, Holding, persons_at
from understudy.data.inspection import inspect
from understudy.data.persons import codes, most_of_one, people_in
from understudy.data.settings import DataSettings
from understudy.errors import UserError
from understudy.runs.holdings import read_holdings

WHO = ["ada", "ben", "ada", "cleo", "ben", "dan", "ada", "eve", "finn", "eve"]


def table(path: Path, who: list[Any]) -> str:
    rows = [f"{name},{at},{at % 2}" for at, name in enumerate(who)]
    path.write_text("\n".join(["patient,f,y", *rows]) + "\n")
    return str(path)


def made(**words: Any) -> Federation:
    return build_federation(DataSettings.model_validate(words), seed=0)


def sides(data: Federation) -> list[set[int]]:
    """Everybody, on each side of any split."""
    found = []
    for holding in data.sites.values():
        found += [set(part.person.tolist()) for part in (holding.own, holding.held_out) if part.person is not None]
    parts = [part for part in (data.validation, data.test) if part is not None]
    return [*found, *(set(part.person.tolist()) for part in parts if part.person is not None)]


def nobody_twice(data: Federation) -> bool:
    everyone = [one for side in sides(data) for one in side]
    return len(everyone) == len(set(everyone))


def test_persons_stand_in_the_order_in_which_they_first_appear() -> None:
    part = us.Federation.from_arrays({"a": (np.zeros((5, 1)), [1, 0, 1, 1, 0])}, person={"a": [7, 3, 7, 7, 3]})
    people = people_in(part.sites["a"].own, np.arange(5))
    assert [members.tolist() for members in people.members] == [[0, 2, 3], [1, 4]]
    assert people.records(np.array([1])).tolist() == [1, 4]
    assert most_of_one(part.sites["a"].own) == 3


def test_a_person_counts_for_the_class_of_most_of_their_records() -> None:
    part = us.Federation.from_arrays({"a": (np.zeros((3, 1)), [0, 1, 1])}, person=[["x", "x", "x"]])
    assert people_in(part.sites["a"].own, np.arange(3)).first.tolist() == [1]


def test_a_person_is_the_same_however_the_name_is_written() -> None:
    assert len(set(codes([7, "7", 7.0, np.int64(7)], "a").tolist())) == 1
    assert len(set(codes([7, 8, "7a"], "a").tolist())) == 3
    with pytest.raises(UserError, match="a: it is not told whose record some are"):
        codes([1, None], "a")


@settings(deadline=None, max_examples=30)
@given(
    who=st.lists(st.integers(0, 12), min_size=30, max_size=60),
    split=st.sampled_from([{"kind": "iid"}, {"kind": "dirichlet", "alpha": 0.5}, {"kind": "label-groups"}]),
    seed=st.integers(0, 99),
)
def test_nobody_is_on_two_sides_whatever_the_split(who: list[int], split: dict[str, Any], seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.npz"
        y = [at % 4 for at in who]
        np.savez(path, x=np.arange(2.0 * len(who)).reshape(-1, 2), y=y, person=who)
        words = {"name": str(path), "clients": 2, "split": split, "classes": 4, "held_out": 0.3, "validation": 0.2}
        data = build_federation(DataSettings.model_validate(words), seed=seed)
    assert nobody_twice(data)
    held = sum(len(one.own) + len(one.held_out) for one in data.sites.values())
    assert held + (0 if data.validation is None else len(data.validation)) == len(who)


def test_if_everybody_has_one_record_the_split_is_the_same_as_without_persons(tmp_path: Path) -> None:
    x, y = np.arange(80.0).reshape(40, 2), np.arange(40) % 2
    np.savez(tmp_path / "plain.npz", x=x, y=y)
    np.savez(tmp_path / "persons.npz", x=x, y=y, person=np.arange(40)[::-1])
    how = {"clients": 3, "split": {"alpha": 0.5}, "held_out": 0.2, "validation": 0.1, "limit": 35}
    plain, persons = (made(name=str(tmp_path / name), **how) for name in ("plain.npz", "persons.npz"))
    assert plain.split is not None
    assert persons.split is not None
    assert plain.split.digest == persons.split.digest


def test_a_table_names_the_column_which_is_then_no_feature(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", WHO)
    data = made(sites={"a": source}, person="patient", held_out=0.4)
    assert data.problem.shape == (1,)
    assert nobody_twice(data)
    assert most_of_one(data.sites["a"].own.and_also(data.sites["a"].held_out)) == 3
    with pytest.raises(UserError, match=r"data\.person: .*Did you mean 'patient'"):
        made(sites={"a": source}, person="patent")


def test_a_site_that_reads_its_own_table_holds_out_whole_persons(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", WHO)
    words = {"sites": {"a": None}, "shape": [1], "classes": 2, "person": "patient", "held_out": 0.4}
    chosen = DataSettings.model_validate(words)
    held = at_site(chosen, "a", Path(source), build_federation(chosen, seed=0).problem, 0)
    together = made(sites={"a": source}, person="patient", held_out=0.4).sites["a"]
    assert isinstance(held, Holding)
    assert held.own.x.tolist() == together.own.x.tolist()
    assert held.own.person is not None
    assert held.held_out.person is not None
    assert not set(held.own.person.tolist()) & set(held.held_out.person.tolist())


def test_a_limit_keeps_or_leaves_whole_persons(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", WHO)
    chosen = DataSettings.model_validate(
        {"name": source, "person": "patient", "limit": 6, "clients": 1, "split": "iid"}
    )
    kept, left = load_dataset(chosen, 0).train, unused_records(chosen, 0)
    assert left is not None
    assert 1 <= len(kept) <= 6
    assert len(kept) + len(left) == len(WHO)
    assert kept.person is not None
    assert left.person is not None
    assert not set(kept.person.tolist()) & set(left.person.tolist())


def test_rows_without_a_person_are_refused_or_dropped(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", ["p1", "", "p2", "p2"])
    with pytest.raises(UserError, match="it is not told whose record some are"):
        made(sites={"a": source}, person="patient")
    data = made(sites={"a": source}, person="patient", missing="drop")
    assert len(data.sites["a"].own) == 3


def test_persons_in_the_test_set_and_at_several_sites_are_told_of(tmp_path: Path) -> None:
    sites = {name: table(tmp_path / f"{name}.csv", who) for name, who in (("a", [1, 1, 2]), ("b", [2, 3]))}
    data = made(sites=sites, test=table(tmp_path / "t.csv", [3, 9]), person="patient")
    found = inspect(data)
    assert found.persons is not None
    assert (found.persons.number, found.persons.most_records) == (3, 2)
    said = " ".join(found.warnings)
    assert "1 persons have records at more than one site" in said
    assert "1 persons are both in the test set and at a site" in said
    with pytest.raises(UserError, match=r"data\.person: 1 persons are both in the test set and at a site"):
        us.run(data=data, model="mlp", rounds=0, out=tmp_path / "run")


def test_persons_come_from_python_too_and_the_run_notes_how_many_records_they_have(tmp_path: Path) -> None:
    x = np.arange(12.0).reshape(6, 2)
    sites = {"a": (x[:4], [0, 1, 0, 1]), "b": (x[4:], [0, 1])}
    person = {"a": ["p", "q", "p", "p"], "b": ["r", "s"]}
    data = us.Federation.from_arrays(sites, test=(x[:1], [0]), person=person, test_person=["z"])
    us.run(data=data, model="mlp", rounds=0, out=tmp_path / "run")
    held = read_holdings(tmp_path / "run")
    assert held is not None
    assert held.most_of_one == {"a": 3, "b": 1}
    assert len(persons_at(data.sites["a"])) == 2
    with pytest.raises(UserError, match=r"person of b: 2 records need as many persons"):
        us.Federation.from_arrays(sites, person={"a": [1] * 4, "b": [1]})
    with pytest.raises(UserError, match="give the persons of every site"):
        us.Federation.from_arrays(sites, person={"a": [1] * 4})


def test_taking_records_takes_their_persons() -> None:
    part = us.Federation.from_arrays({"a": (np.zeros((3, 1)), [0, 1, 0])}, person=[[5, 6, 7]]).sites["a"].own
    assert part.person is not None
    some = part.take([2, 0])
    assert some.person is not None
    assert torch.equal(some.person, part.person[[2, 0]])
