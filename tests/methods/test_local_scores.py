"""How local models do before they are averaged: the seven numbers of a client by hand."""

import pytest
import torch
from stage import batchnorm_net, cloud, coin, records

from understudy.federation.client import Client, Memory
from understudy.methods.shared.local_scores import local_scores, means


def test_the_numbers_of_a_client_by_hand() -> None:
    # The personal model w = 1 takes x = 1 for class 0 and x = −1 for class 1. On the common test set it is right in
    # both records of class 0 and in one of two of class 1: 3 of 4. The client has one record of class 0 and three of
    # class 1, so in its own terms (1·2 + 3·1) / (1·2 + 3·2) = 5/8. Of two held-out records it has one right.
    client = Client(
        "a",
        1,
        own=records([1, 1, 1, 1], [0, 1, 1, 1]),
        held_out=records([1, -1], [0, 0]),
        memory=Memory({}),
        seed=0,
        common=records([1, 1, 1, -1], [0, 0, 1, 1]),
    )
    start, local, personal = (torch.tensor([w]) for w in (0.5, -0.25, 1.0))
    found = local_scores(client, coin(), start, local, personal)
    assert found.tolist() == pytest.approx([1, 0.75, 1, 3 / 4, 5 / 8, 1, 1 / 2])


def test_running_statistics_are_no_part_of_the_distance() -> None:
    net, own = batchnorm_net(), cloud("a", 4)
    client = Client("a", 1, own=own, held_out=own.none(), memory=Memory({}), seed=0)
    local = net.initial()
    local[net.buffers] += 5
    local[0] += 3
    local[1] += 4
    assert local_scores(client, net, net.initial(), local, local).tolist() == pytest.approx([1, 5, 0, 0, 0, 0, 0])


def test_means_are_over_the_clients_that_have_a_score() -> None:
    # Three clients moved 6 in all; two had a test set, one held records back.
    found = means(torch.tensor([3.0, 6.0, 2.0, 1.0, 1.5, 1.0, 0.25]))
    assert found == {
        "local_distance": 2.0,
        "local_accuracy": 0.5,
        "personal_accuracy": 0.75,
        "personal_held_out_accuracy": 0.25,
    }
