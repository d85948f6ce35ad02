"""Every way to deal records out: what it promises, and that it always ends."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from understudy.data.dataset import Dataset
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.data.splits.dirichlet import Dirichlet
from understudy.data.splits.kind import SplitKind
from understudy.data.splits.make import SplitSettings, make_split
from understudy.data.splits.simple import ClassPairs, Factor, Iid, LabelGroups, Users
from understudy.data.splits.split import Split
from understudy.errors import UserError


def toy(
    labels: list[int],
    classes: int = 10,
    users: list[int] | None = None,
    factors: dict[str, list[int]] | None = None,
) -> Dataset:
    return Dataset(
        "toy",
        Problem((1,), classes),
        Examples(torch.arange(len(labels), dtype=torch.float32).unsqueeze(1), torch.tensor(labels, dtype=torch.int64)),
        test=None,
        users=None if users is None else torch.tensor(users),
        factors={name: torch.tensor(levels) for name, levels in (factors or {}).items()},
    )


def several_labels() -> Dataset:
    y = torch.eye(4).repeat(3, 1)
    return Dataset(
        "several",
        Problem((1,), 4, multilabel=True),
        Examples(torch.zeros(12, 1), y),
        test=None,
        users=torch.arange(12) % 3,
    )


def everything_in(split: Split) -> list[int]:
    parts = [*split.clients.values(), *split.held_out.values(), split.validation]
    return sorted(torch.cat(parts).tolist())


def classes_of(split: Split, dataset: Dataset) -> list[set[int]]:
    return [set(dataset.train.y[indices].tolist()) for indices in split.clients.values()]


@settings(max_examples=40, deadline=None)
@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=60),
    clients=st.integers(1, 30),
    kind=st.sampled_from([Iid(), LabelGroups(labels_per_client=2), ClassPairs(), Users(), Factor(factors=("f",))]),
    validation=st.sampled_from([0.0, 0.1, 0.5]),
)
def test_every_other_split_uses_every_record_once_or_says_why_not(
    labels: list[int], clients: int, kind: SplitKind, validation: float
) -> None:
    numbers = list(range(len(labels)))
    data = toy(labels, 6, users=[n % 7 for n in numbers], factors={"f": [n % 3 for n in numbers]})
    needed = {"label-groups": range(3, 31), "class-pairs": range(1, 7), "factor": range(min(3, len(labels)), 31)}
    if clients not in needed.get(kind.model_dump()["kind"], range(1, 31)):
        with pytest.raises(UserError, match=r"data\.clients"):
            make_split(data, kind, clients=clients, seed=0)
        return
    split = make_split(data, kind, clients=clients, seed=0, validation=validation)
    assert everything_in(split) == numbers
    assert len(split.validation) == int(len(labels) * validation + 0.5)


def test_iid_parts_are_equal_to_within_one() -> None:
    split = make_split(toy([0, 1] * 11), Iid(), clients=4, seed=0)
    assert sorted(len(part) for part in split.clients.values()) == [5, 5, 6, 6]


def test_another_seed_gives_another_split() -> None:
    data = toy([n % 10 for n in range(400)])
    digests = {make_split(data, Dirichlet(), clients=5, seed=seed).digest for seed in range(4)}
    assert len(digests) == 4


def test_label_groups_go_round_and_share_evenly() -> None:
    data = toy([n % 4 for n in range(40)], 4)
    split = make_split(data, LabelGroups(labels_per_client=2), clients=4, seed=0)
    assert classes_of(split, data) == [{0, 1}, {2, 3}, {0, 1}, {2, 3}]
    assert [data.train.y[part].bincount(minlength=4).tolist() for part in split.clients.values()] == [
        [5, 5, 0, 0],
        [0, 0, 5, 5],
        [5, 5, 0, 0],
        [0, 0, 5, 5],
    ]


def test_class_pairs_of_fedlap() -> None:
    data = toy([n % 10 for n in range(100)])
    split = make_split(data, ClassPairs(pairs="fedlap"), clients=5, seed=0)
    assert classes_of(split, data) == [{5, 6}, {1, 2}, {0, 8}, {9, 3}, {4, 7}]


def test_class_pairs_without_a_list_use_every_class_once() -> None:
    data = toy([n % 10 for n in range(100)])
    split = make_split(data, ClassPairs(), clients=4, seed=0)
    assert classes_of(split, data) == [{0, 1, 2}, {3, 4, 5}, {6, 7}, {8, 9}]


def test_classes_in_no_pair_are_left_out_and_mentioned() -> None:
    data = toy([n % 3 for n in range(30)], 3)
    split = make_split(data, ClassPairs(pairs=((0,), (2,))), clients=2, seed=0)
    assert len(everything_in(split)) == 20
    assert split.notes == ("classes [1] are in no pair: 10 records are not used",)


def test_a_factor_split_has_a_client_a_cell() -> None:
    data = toy([0] * 12, factors={"a": [0, 1] * 6, "b": [0, 0, 1, 1, 2, 2] * 2})
    split = make_split(data, Factor(factors=("a", "b")), clients=6, seed=0)
    assert [part.tolist() for part in split.clients.values()] == [
        [0, 6],
        [2, 8],
        [4, 10],
        [1, 7],
        [3, 9],
        [5, 11],
    ]


def test_natural_users_keep_their_names_and_records() -> None:
    split = make_split(toy([0, 1, 2, 3], users=[17, 3, 17, 3]), Users(), clients=99, seed=0)
    assert {name: part.tolist() for name, part in split.clients.items()} == {
        "user-3": [1, 3],
        "user-17": [0, 2],
    }


def test_held_out_records_are_a_share_of_each_class_and_never_all() -> None:
    data = toy([0] * 20 + [1] * 10, users=[1] * 30)
    split = make_split(data, Users(), clients=1, seed=0, held_out=0.1)
    assert data.train.y[split.held_out["user-1"]].tolist() == [0, 0, 1]
    few = make_split(toy([0, 1, 2], users=[1, 2, 2]), Users(), clients=1, seed=0, held_out=0.9)
    assert {name: len(part) for name, part in few.clients.items()} == {"user-1": 1, "user-2": 1}


@pytest.mark.parametrize("kind", [Dirichlet(), LabelGroups(), ClassPairs()])
def test_splits_by_class_refuse_records_with_several_labels(kind: SplitKind) -> None:
    with pytest.raises(UserError, match="use 'iid' or 'users'"):
        make_split(several_labels(), kind, clients=2, seed=0)


@pytest.mark.parametrize("kind", [Iid(), Users()])
def test_splits_by_nothing_but_records_take_several_labels(kind: SplitKind) -> None:
    split = make_split(several_labels(), kind, clients=3, seed=0, held_out=0.25, validation=0.25)
    assert everything_in(split) == list(range(12))


@pytest.mark.parametrize(
    ("kind", "clients", "says"),
    [
        (LabelGroups(labels_per_client=3), 10, "3 does not divide the 10 classes"),
        (LabelGroups(labels_per_client=2), 4, "some classes would be lost"),
        (ClassPairs(pairs=((0, 10),)), 1, "no label 10"),
        (ClassPairs(pairs=((0, 1), (1, 2))), 2, "label 1 is listed twice"),
        (ClassPairs(pairs="fedlap"), 4, "5 pairs for 4 clients"),
        (ClassPairs(), 11, "only 10"),
        (Users(), 3, "does not tell whose record"),
        (Factor(factors=("hue",)), 3, "toy has no factor 'hue', only shade"),
        (Factor(factors=("shade",)), 1, "has 2 cells"),
        (Iid(), 0, "data.clients"),
    ],
)
def test_splits_that_cannot_be_say_why(kind: SplitKind, clients: int, says: str) -> None:
    data = toy([n % 10 for n in range(20)], factors={"shade": [n % 2 for n in range(20)]})
    with pytest.raises(UserError) as wrong:
        make_split(data, kind, clients=clients, seed=0)
    assert says in str(wrong.value)


@pytest.mark.parametrize("share", [1.0, -0.1, float("nan")])
def test_a_share_lies_between_nought_and_one(share: float) -> None:
    with pytest.raises(UserError, match=r"data\.held_out"):
        make_split(toy([0, 1]), Iid(), clients=1, seed=0, held_out=share)


def test_the_kind_in_a_config_chooses_the_settings() -> None:
    adapter: TypeAdapter[SplitKind] = TypeAdapter(SplitSettings)
    assert adapter.validate_python({"kind": "dirichlet", "alpha": 0.5}) == Dirichlet(alpha=0.5)
    assert adapter.validate_python({"kind": "class-pairs", "pairs": [[0, 1]]}) == ClassPairs(pairs=((0, 1),))
    for wrong in ({"kind": "dirichlet", "alpha": 0}, {"kind": "iid", "alpha": 1}, {"kind": "factor", "factors": []}):
        with pytest.raises(ValidationError):
            adapter.validate_python(wrong)
