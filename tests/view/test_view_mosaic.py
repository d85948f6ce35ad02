"""A study's images in rows: the names of the rows fit beside them."""

import pytest
import torch

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.papers.study import Mosaic
from understudy.view.mosaic import mosaic_figure


@pytest.mark.parametrize("name", ["late", "N=40 (C=20%), middle", "FedDM from a generator: VAE, 100 steps"])
def test_the_names_of_sets_are_not_cut_off(name: str) -> None:
    some = Examples(torch.zeros(3, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1, 2]))
    figure = mosaic_figure(Mosaic("What was made", {name: some}, Problem((1, 2, 2), 3), ["a", "b", "c"]))
    figure.canvas.draw()
    (label,) = figure.axes[0].get_yticklabels()
    assert label.get_text() == name
    assert label.get_window_extent().x0 >= 0
