"""A word before a run that takes minutes, because its method has its paper's sizes."""

from typing import Any

import numpy as np
import pytest

from understudy.config.first_look import cost_of_a_first_run
from understudy.config.resolve import resolve
from understudy.data.federation import Federation


def said(*, add: tuple[str, ...] = (), privacy: Any = None, at: str = "", **method: Any) -> str:
    x, y = np.zeros((400, 12), np.float32), np.arange(400) % 2
    data = Federation.from_arrays([(x[:200], y[:200]), (x[200:], y[200:])])
    added = [{"name": name, **({"preset": at} if at else {})} for name in add]
    words = {"method": method, "with": added, "privacy": privacy}
    return cost_of_a_first_run(resolve(words), data)


def test_feddm_at_its_papers_sizes_names_what_it_costs_and_its_preset() -> None:
    # 1000 steps, 2 classes, 256 records and 10 made ones of each: 532,000; the preset: 100 steps, 64 and 10: 14,800.
    sentence = said(name="feddm")
    assert "about 530,000 samples" in sentence
    assert "for a first look write method.preset: desk, which takes 3 % of that" in sentence


def test_an_add_on_names_its_own_section() -> None:
    assert "write with.fedcog.preset: desk" in said(name="fedavg", add=("fedcog",))


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "fedavg"},
        {"name": "feddm", "preset": "desk"},
        {"name": "feddm", "steps": 20},
        {"name": "fedavg", "add": ("fedcog",), "at": "desk"},
    ],
)
def test_what_is_quick_needs_no_word(settings: dict[str, Any]) -> None:
    assert said(**settings) == ""


def test_under_a_privacy_budget_it_goes_by_the_planned_number_alone() -> None:
    promise = {"epsilon": 8, "delta": 1e-3}
    assert said(name="feddm", dp="stat", privacy=promise) == ""
    assert "samples" in said(name="feddm", dp="stat", privacy={**promise, "records": 200})
