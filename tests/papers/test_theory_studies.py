"""FedDM's surrogate of a loss with one weight, by hand."""

import pytest
import torch

from understudy.papers.theory.surrogate import Records, best_within, losses, surrogate
from understudy.randomness import generator


def test_a_surrogate_of_as_many_records_as_there_are_is_the_loss_itself() -> None:
    client = Records(torch.tensor([-1.0, -0.8, 0.9, 1.1]).double(), torch.tensor([0.0, 0, 1, 1]).double())
    made = surrogate(client, 0.5, 0.2, generator("test"), steps=3, lr=0.1)
    w = torch.linspace(-1, 2, 7).double()
    assert torch.allclose(losses(made, w), losses(client, w))
    # Class 1 lies right of nought, so larger weights are better as long as they stay within the ball.
    assert best_within([client], 0.5, 0.2) == pytest.approx(0.7)
