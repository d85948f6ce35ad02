"""The plain double-backward loop and ours do the same work."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # the benchmarks lie beside the package, not in it

from benchmarks.training import network

from benchmarks import gradient_matching
from understudy.synthesis.gradient_matching import Criterion


def test_both_make_the_same_images() -> None:
    # Without biases in the angles: theirs are rounding errors here, which only ours leaves out.
    criterion, case = Criterion(rows="sum", mse=0.1), gradient_matching.SMALL
    net = network(case.model, case.problem, "eager")
    task = gradient_matching.Task.of(net, images=4)
    made = task.ours(net, criterion, lr=0.1)
    assert (made - task.x).abs().max() > 1e-3
    assert torch.allclose(made, task.plain(gradient_matching.by_hand(case, net), criterion, lr=0.1), atol=1e-4)
