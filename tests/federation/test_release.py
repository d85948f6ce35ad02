"""A policy follows what a task declares of its parts, whatever the parts are called."""

import pytest
import torch

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.federation.message import Kind, Message
from understudy.federation.release import Forbidden, check_against_policy, labelled, rows_of
from understudy.privacy.policy import Policy

KINDS: dict[str, Kind] = {"images": "examples", "more": "examples", "labels": "labels", "soft": "labels"}
OWN = Examples(torch.zeros(7, 1, 2, 2), torch.tensor([0, 0, 0, 0, 1, 1, 3]))  # 4 records of class 0, 2 of 1, 1 of 3
PROBLEM = Problem((1, 2, 2), 4)
PICTURE = torch.zeros(1, 2, 2)


def images(number: int) -> torch.Tensor:
    return PICTURE.expand(number, -1, -1, -1).contiguous()


def check(policy: Policy, /, own: Examples = OWN, problem: Problem = PROBLEM, **parts: torch.Tensor) -> None:
    check_against_policy(policy, Message(parts), KINDS, own, problem, 0)


@pytest.mark.parametrize(
    ("labels", "smallest"),
    [
        (torch.tensor([0, 1, 1]), 2),
        (torch.tensor([0, 0], dtype=torch.uint8), 4),
        (torch.tensor([[0.9, 0.1, 0.0, 0.0]]), 4),  # an even share of four classes is a quarter
        (torch.tensor([[0.5, 0.26, 0.12, 0.12]]), 2),
    ],
)
def test_examples_leave_where_enough_records_stand_behind_their_classes(labels: torch.Tensor, smallest: int) -> None:
    check(Policy(smallest_class=smallest), images=images(len(labels)), labels=labels)


@pytest.mark.parametrize(
    "labels",
    [
        torch.tensor([0, 1, 1]),  # two records of class 1
        torch.tensor([0, 2]),  # none of class 2
        torch.tensor([-1]),
        torch.tensor([250], dtype=torch.uint8),
        torch.tensor([[0.5, 0.26, 0.12, 0.12]]),  # soft: class 1 has more than an even share
        torch.tensor([[1, 1, 0, 0]], dtype=torch.uint8),  # several labels
        torch.tensor([[0, 0, 0, 1]], dtype=torch.uint16),
        torch.tensor([[0.0, 0.0, 0.0, 9.0]]).log_softmax(1),  # logits: all of them negative
        torch.tensor([[0.1, 0.1, 0.1, 0.2]]) / 100,  # another scale
    ],
)
def test_a_class_with_few_records_holds_its_examples_back(labels: torch.Tensor) -> None:
    with pytest.raises(Forbidden, match="requires 3 records behind every class whose examples leave, but some class"):
        check(Policy(smallest_class=3), images=images(len(labels)), labels=labels)


def test_several_labels_per_record_are_counted_per_label() -> None:
    own = Examples(torch.zeros(3, 1, 2, 2), torch.tensor([[1.0, 0, 1], [1, 0, 0], [1, 1, 0]]))
    several, policy = Problem((1, 2, 2), 3, multilabel=True), Policy(smallest_class=3)
    check(policy, own, several, images=images(1), labels=torch.tensor([[1, 0, 0]], dtype=torch.uint8))
    check(policy, own, several, images=images(1), labels=torch.tensor([[0, 0, 0]], dtype=torch.uint8))
    with pytest.raises(Forbidden, match="some class has fewer"):
        check(policy, own, several, images=images(1), labels=torch.tensor([[1, 0, 1]], dtype=torch.uint8))


def test_one_label_of_256_is_told_however_few_bits_it_has() -> None:
    labels = torch.zeros(1, 256, dtype=torch.uint8)
    labels[0, 3] = 1
    with pytest.raises(Forbidden, match="some class has fewer"):
        check(Policy(smallest_class=3), problem=Problem((1, 2, 2), 256), images=images(1), labels=labels)


@pytest.mark.parametrize(
    "labels",
    [
        torch.tensor([[3], [3]]),  # class numbers in a column
        torch.tensor([[3, 0, 0, 0, 0]] * 2),  # class numbers of five images each
        torch.zeros(2, 1, 4),
        torch.tensor([0.97, 0.02]),  # how probable the second class is
    ],
)
def test_labels_of_another_make_cannot_be_checked_and_stay(labels: torch.Tensor) -> None:
    with pytest.raises(Forbidden, match="some labels are neither class numbers nor rows of one number per class"):
        check(Policy(smallest_class=3), images=images(2), labels=labels)
    assert labelled(Message(images=images(2), labels=labels), KINDS, PROBLEM) is None


@pytest.mark.parametrize("shape", [(1, 5, 1, 2, 2), (5, 4), (1, 17), (20,)])
def test_examples_are_counted_however_they_are_packed(shape: tuple[int, ...]) -> None:
    packed = torch.zeros(shape)
    with pytest.raises(Forbidden, match="lets 4 examples leave per round"):
        check(Policy(examples_a_round=4), images=packed)
    with pytest.raises(Forbidden, match="some would leave without a label"):
        check(Policy(smallest_class=3), images=packed, labels=torch.zeros(1, dtype=torch.uint8))
    assert labelled(Message(images=packed, labels=torch.zeros(len(packed))), KINDS, PROBLEM) is None


def test_examples_without_labels_cannot_be_checked_and_stay() -> None:
    with pytest.raises(Forbidden, match="some would leave without a label"):
        check(Policy(smallest_class=1), images=images(2))
    with pytest.raises(Forbidden, match="some would leave without a label"):
        check(Policy(smallest_class=1), images=images(2), more=images(1), labels=torch.tensor([0, 0]))


def test_every_part_of_examples_counts_towards_the_round() -> None:
    parts = {"images": images(2), "more": images(3), "labels": torch.zeros(5, dtype=torch.uint8)}
    check_against_policy(Policy(examples_a_round=6), Message(parts), KINDS, OWN, PROBLEM, 1)
    with pytest.raises(Forbidden, match="lets 6 examples leave per round, and this would make 7"):
        check_against_policy(Policy(examples_a_round=6), Message(parts), KINDS, OWN, PROBLEM, 2)
    assert rows_of("examples", Message(parts), KINDS, PROBLEM) == 5
    assert rows_of("labels", Message(parts), KINDS, PROBLEM) == 5


def test_labelled_records_are_found_by_kind() -> None:
    found = labelled(Message(images=images(2), labels=torch.tensor([1, 0], dtype=torch.uint8)), KINDS, PROBLEM)
    assert found is not None
    assert found.y.tolist() == [1, 0]
    soft = labelled(Message(images=images(1), soft=torch.tensor([[0.3, 0.7, 0.0, 0.0]])), KINDS, PROBLEM)
    assert soft is not None
    assert soft.y.flatten().tolist() == pytest.approx([0.3, 0.7, 0.0, 0.0])


@pytest.mark.parametrize(
    "parts",
    [
        {"images": images(2)},
        {"images": images(2), "labels": torch.tensor([1])},
        {"images": images(2), "labels": torch.tensor([1, 0]), "soft": torch.tensor([[0.5, 0.5, 0.0, 0.0]] * 2)},
        {"images": torch.tensor(1.0), "labels": torch.tensor(1)},
        {"images": images(2), "labels": torch.tensor([1, -1])},
        {"images": images(2), "labels": torch.tensor([1, 2**40])},
    ],
)
def test_what_is_not_one_label_per_record_is_shown_to_nobody_as_such(parts: dict[str, torch.Tensor]) -> None:
    assert labelled(Message(parts), KINDS, PROBLEM) is None
