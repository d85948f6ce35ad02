"""Who is judged: members and non-members cannot be told apart by their classes or their clients."""

import numpy as np
import pytest
import torch

from understudy.audits.members import judged
from understudy.data.examples import Examples
from understudy.data.federation import Federation, Holding
from understudy.data.problem import Problem
from understudy.errors import UserError

PROBLEM = Problem((1, 2, 2), 3)


def records(counts: list[int], first: int = 0) -> Examples:
    """So many of each class; every record is its own number, from ``first`` on."""
    y = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    numbers = torch.arange(first, first + len(y))
    x = torch.stack([numbers % 256, numbers // 256, y, torch.zeros_like(y)], 1).to(torch.uint8)
    return Examples(x.view(-1, 1, 2, 2), y)


def numbers(examples: Examples) -> set[int]:
    flat = examples.x.flatten(1).long()
    return set((flat[:, 0] + 256 * flat[:, 1]).tolist())


def federation(test: Examples) -> Federation:
    sites = {"a": records([300, 0, 40]), "b": records([100, 200, 0], 1000), "none": records([0, 0, 0])}
    return Federation(PROBLEM, {name: Holding(own, own.none()) for name, own in sites.items()}, test)


def test_non_members_have_the_classes_and_the_clients_of_the_members() -> None:
    found = judged(federation(records([1000, 1000, 1000], 5000)), seed=0)
    assert set(found.clients) == {"a", "b"}  # who holds nothing is not judged
    counts = {name: one.non_members.label_counts(3).tolist() for name, one in found.clients.items()}
    of_class = [sum(column) for column in zip(*counts.values(), strict=True)]
    assert counts["a"][1] == counts["b"][2] == 0
    # Class 0: three quarters of its members are at a, so are three quarters of its non-members.
    assert abs(counts["a"][0] - 0.75 * of_class[0]) <= 1
    assert min(of_class) > 400  # half of 1000, give or take the draw


def test_nobody_is_in_two_places() -> None:
    test = records([500, 500, 500], 5000)
    found = judged(federation(test), seed=1)
    parts = [numbers(one.non_members) for one in found.clients.values()]
    parts += [numbers(found.reference), numbers(found.foreign)]
    assert sum(map(len, parts)) == len(set().union(*parts)) == 1500
    members = set().union(*(numbers(one.members) for one in found.clients.values()))
    assert not members & set().union(*parts)
    assert len(members) == 640


def test_a_class_without_non_members_is_not_judged() -> None:
    found = judged(federation(records([500, 500, 0], 5000)), seed=0)
    assert found.clients["a"].members.label_counts(3).tolist() == [300, 0, 0]


def test_small_holdings_are_told_by_client_and_class() -> None:
    found = judged(federation(records([300, 300, 300], 5000)), seed=0).clients["a"]
    small = found.small(3)
    assert small[: len(found.members)].sum() == 40  # its 40 records of class 2, not its 300 of class 0
    assert torch.equal(small, found.all.y == 2)


def test_the_choice_depends_on_the_seed_alone() -> None:
    data = federation(records([300, 300, 300], 5000))
    first, again, other = judged(data, 0), judged(data, 0), judged(data, 1)
    assert torch.equal(first.clients["a"].non_members.x, again.clients["a"].non_members.x)
    assert numbers(first.reference) != numbers(other.reference)


def test_records_held_out_at_clients_will_do_and_too_few_are_refused() -> None:
    own, held_out = records([30, 30, 30]), records([40, 40, 40], 3000)
    data = Federation(PROBLEM, {"a": Holding(own, held_out)}, None)
    assert judged(data, 0).non_members == 60
    with pytest.raises(UserError, match=r"at least 50, and there are 9: hold some out"):
        judged(Federation(PROBLEM, {"a": Holding(own, records([3, 3, 3], 3000))}, None), 0)


def test_unused_training_records_come_first_if_there_are_enough() -> None:
    test, unused = records([500, 500, 500], 5000), records([900, 900, 900], 20000)
    for given, from_test in ((unused, False), (records([9, 9, 9], 20000), True), (None, True)):
        found = judged(federation(test), 0, given)
        outside = set().union(*(numbers(one.non_members) for one in found.clients.values()))
        assert (outside <= numbers(test)) == from_test
        assert (outside <= numbers(unused)) == (not from_test)


def test_parts_of_a_class_are_fair_on_average() -> None:
    # 7 non-members of class 0 for holdings of 300 and 100: 5.25 and 1.75 on average, never off by one or more.
    shares = [judged(federation(records([14, 50, 50], 5000)), seed).clients["a"].non_members for seed in range(60)]
    at_a = np.array([int(part.label_counts(3)[0]) for part in shares])
    totals = [judged(federation(records([14, 50, 50], 5000)), seed) for seed in range(60)]
    whole = np.array(
        [sum(int(one.non_members.label_counts(3)[0]) for one in found.clients.values()) for found in totals]
    )
    assert np.all(np.abs(at_a - 0.75 * whole) < 1)
    assert abs(float((at_a - 0.75 * whole).mean())) < 0.2
