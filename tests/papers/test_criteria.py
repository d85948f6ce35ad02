"""Matching criteria at a single client: where a walk along each gradient leads."""

from pathlib import Path

import pytest

from understudy.data.sets import load
from understudy.models.convnet import SmallConvNetSettings, small_convnet
from understudy.models.network import Network
from understudy.papers.fedlap.criteria import CRITERIA, CriteriaPlan, Walk, criteria_on_digits, walk
from understudy.papers.reproduce import study
from understudy.runs.watching import Observer

PLAN = CriteriaPlan(ipc=3, real_batches=12, image_steps=3, batch=64, steps=3)


@pytest.fixture(scope="module")
def walks() -> dict[str, Walk]:
    return {one.label: one for one in criteria_on_digits(plan=PLAN, width=8)}


def test_every_criterion_the_calibrated_and_the_real_gradient_are_walked(walks: dict[str, Walk]) -> None:
    assert list(walks) == [*CRITERIA, "calibrated", "real"]
    assert all(len(one.loss) == len(one.cosine) == len(one.length) == 4 for one in walks.values())
    assert len({one.loss[0] for one in walks.values()}) == 1, "all walks begin at one model"


def test_the_real_walk_agrees_with_itself(walks: dict[str, Walk]) -> None:
    assert walks["real"].cosine == pytest.approx([1] * 4)
    assert walks["real"].length == pytest.approx([1] * 4)
    assert walks["real"].first_gain == walks["real"].loss[0] - walks["real"].loss[1] > 0


def test_calibration_gives_the_real_length_and_leaves_what_cosine_matched(walks: dict[str, Walk]) -> None:
    # Every parameter tensor has the real length, so the whole has; angles within a tensor are those of the cosine.
    assert walks["calibrated"].length == pytest.approx([1] * 4, abs=1e-3)
    assert walks["calibrated"].cosine[0] == pytest.approx(walks["cosine"].cosine[0], abs=0.1)


def test_matching_makes_noise_point_the_real_way(walks: dict[str, Walk]) -> None:
    unmatched = {
        one.label: one for one in criteria_on_digits(plan=PLAN.model_copy(update={"real_batches": 0}), width=8)
    }
    for label in CRITERIA:
        assert walks[label].cosine[0] > unmatched[label].cosine[0]
        assert walks[label].first_gain > 0.5 * walks["real"].first_gain


def test_a_step_goes_down_the_direction_it_is_given() -> None:
    digits = load("digits")
    net = Network(lambda: small_convnet(digits.problem, SmallConvNetSettings(width=4)), digits.problem)
    real = digits.train.take(range(40))
    uphill = walk(net, net.initial(), real, "up", lambda _, wanted: -2 * wanted, PLAN)
    assert uphill.loss[1] > uphill.loss[0]
    assert uphill.cosine[0] == pytest.approx(-1)
    assert uphill.length[0] == pytest.approx(2)


def test_the_study_of_criteria_has_a_row_and_a_line_for_each(tmp_path: Path) -> None:
    found = study("matching-criteria", "smoke")(tmp_path, Observer())
    wanted = ["cosine", "cosine + MSE", "MSE", "calibrated", "real"]
    assert [row[0] for row in found.tables["table"][0].rows] == wanted
    panels = found.pictures["table"].panels
    assert [[trace.label for trace in panel.traces] for panel in panels] == [wanted] * 3
    assert all(len(trace.y) == 3 for panel in panels for trace in panel.traces)  # two steps, three places
