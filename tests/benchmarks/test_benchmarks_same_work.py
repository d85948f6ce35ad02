"""The benchmarks compare like with like, and their figures are what they say."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # the benchmarks lie beside the package, not in it

from benchmarks.report import Row, table
from benchmarks.timing import Elsewhere, Pace, Turn, take_turns

from benchmarks import bare, matching, training
from understudy.data.problem import Problem
from understudy.engines.inline import Inline


def test_the_first_quartile_counts_whatever_the_order() -> None:
    # Three turns of ten samples. The slow one takes 5, 20 and 9 seconds of a clock that only work moves: halfway
    # between 5 and 9 is the first quartile, and between 1 and 2 for the fast one.
    now = 0.0
    left = {"fast": [1.0, 3.0, 2.0], "slow": [5.0, 20.0, 9.0]}

    def work(name: str) -> None:
        nonlocal now
        now += left[name].pop(0)

    turns = {name: Turn(lambda name=name: work(name), 10) for name in left}  # type: ignore[misc]
    paces = take_turns(turns, 3, clock=lambda: now)
    assert left == {"fast": [], "slow": []}
    assert paces["slow"].a_second == pytest.approx(10 / 7)
    assert paces["fast"].a_second == pytest.approx(10 / 1.5)


def test_what_other_processes_took_is_a_share_of_the_machine() -> None:
    share = Elsewhere().share()
    assert share is None or share >= 0


def test_the_spread_is_from_quartile_to_quartile() -> None:
    assert Pace((1.0, 2.0, 3.0, 4.0, 9.0)).spread == pytest.approx((4 - 2) / 3)
    assert Pace((2.0,)).spread == 0


def test_a_goal_is_for_the_ratio_or_for_our_own_figure() -> None:
    assert Row("speed", "samples/s", ours=150, theirs=100, goal=1.5).met
    assert not Row("memory", "MB", ours=112, theirs=100, goal=1.1, wanted="at most").met
    assert Row("start", "s", ours=0.3, theirs=None, goal=0.4, wanted="at most").met
    only_shown = Row("eager", "steps/s", ours=1, theirs=2, goal=None)
    assert only_shown.met is None
    assert "NOT" not in table([only_shown])


@pytest.mark.parametrize("chosen", [training.SIMPLE, training.CONVNET], ids=["simple-cnn", "convnet"])
def test_the_bare_loop_and_understudy_do_the_same_work(chosen: training.Case, tmp_path: Path) -> None:
    case = training.Case(chosen.model, chosen.problem, chosen.by_hand, records=7, clients=2, batch=4, a_turn=2)
    ours = training.Ours(case, training.network(case.model, case.problem, "eager"), Inline, tmp_path)
    start = ours.state["model"]
    by_hand = training.bare_round(case, case.by_hand(), start, 1, ["client-0", "client-1"])()
    after = ours.round()
    assert (after - start).abs().max() > 1e-3
    assert torch.allclose(after, by_hand, atol=1e-4)


@pytest.mark.parametrize("classes", [1, 3])
def test_the_plain_matching_loop_and_ours_make_the_same_images(classes: int) -> None:
    problem, how = Problem((1, 8, 8), 10), bare.Matching(radius=1.0, real_batch=4, lr=1.0, momentum=0.5)
    net = training.network("small-convnet", problem, "eager")
    task = matching.Task.of(problem, classes, records=6, ipc=2)
    plain = task.by_hand(matching.SMALL.by_hand(), net.initial(), problem)
    made = task.ours(net, 3, how)
    assert (made - task.images).abs().max() > 1e-3
    assert torch.allclose(made, plain(3, how), atol=1e-4)
