"""Statistics worked by hand, on releases of two numbers."""

import math

import pytest
import torch
from torch import Tensor

from understudy.audits.claims.experiment import Repetition
from understudy.audits.claims.statistics import ReleaseKind, ReleaseScores, ReplyScores
from understudy.federation.message import Message
from understudy.privacy.mechanism import NoisySum

KIND = ReleaseKind((2,), 0.5)


def outcome(*rounds: list[list[float]], divisor: float = 4.0, reply: list[float] | None = None) -> Repetition:
    """Noised sums by round, at C = 2 and σ = 1/2, so that noise has size 1."""
    releases = tuple([NoisySum(torch.tensor(one), divisor, 2.0, 0.5) for one in some] for some in rounds)
    sent = None if reply is None else Message(x=torch.tensor(reply))
    return Repetition(releases, tuple(sent for _ in rounds), tuple([] for _ in rounds))


def fitted(rate: float, *differences: list[list[float]]) -> ReleaseScores:
    """From pairs of runs of one round: nothing, and these releases."""
    nothing = outcome([[0.0, 0.0]] * len(differences[0]))
    return ReleaseScores.fitted(KIND, rate, nothing, [(nothing, outcome(some)) for some in differences])


def test_the_likelihood_ratio_at_full_rate_is_linear() -> None:
    # μ = 3 along the first axis: 3·p − 9/2, with p = 1 and then p = 2.
    scores = fitted(1.0, [[3.0, 0.0], [3.0, 0.0]])
    assert scores(outcome([[1.0, 5.0], [2.0, -5.0]]))["likelihood ratio"] == pytest.approx(3 - 4.5 + 6 - 4.5)


def test_the_likelihood_ratio_of_a_sampled_record() -> None:
    # log(3/4 + 1/4·exp(3·1 − 9/2)); of two pairs of runs the record was in one.
    scores = fitted(0.25, [[3.0, 0.0]], [[0.0, 0.0]])
    expected = math.log(0.75 + 0.25 * math.exp(-1.5))
    assert scores(outcome([[1.0, 5.0]]))["likelihood ratio"] == pytest.approx(expected)


def test_the_matched_filter_knows_in_which_releases_the_record_is() -> None:
    # Always in the first release and never in the second: only the first counts.
    scores = fitted(0.25, [[3.0, 0.0], [0.0, 0.0]], [[3.0, 0.0], [0.0, 0.0]])
    assert scores(outcome([[1.0, 7.0], [9.0, 7.0]]))["matched filter"] == pytest.approx(3.0)


def test_a_divisor_that_follows_the_records_shows_in_the_log_size() -> None:
    scores = fitted(1.0, [[3.0, 0.0]])
    as_planned = scores(outcome([[3.0, 4.0]]))["log size"]
    halved = scores(outcome([[3.0, 4.0]], divisor=8.0))["log size"]
    assert as_planned == pytest.approx(math.log(5))
    assert as_planned - halved == pytest.approx(math.log(2))


def test_noise_used_again_vanishes_from_differences() -> None:
    scores = ReleaseScores.fitted(KIND, 1.0, outcome([[0.0, 0.0]] * 2, [[0.0, 0.0]] * 2), _nothing(2, 2))
    over_steps = scores(outcome([[1.0, 2.0], [1.0, 2.0]], [[3.0, 1.0], [3.0, 1.0]]))
    over_rounds = scores(outcome([[1.0, 2.0], [4.0, 6.0]], [[1.0, 2.0], [4.0, 6.0]]))
    within, between = "difference of consecutive releases", "difference from the round before"
    assert over_steps[within] < -60 < 0 < over_steps[between]
    assert over_rounds[between] < -60
    assert over_rounds[within] == pytest.approx(math.log(5))


def _nothing(rounds: int, steps: int) -> list[tuple[Repetition, Repetition]]:
    still = outcome(*([[0.0, 0.0]] * steps for _ in range(rounds)))
    return [(still, still)]


def test_the_same_noise_in_two_runs_shows_as_no_distance() -> None:
    scores = fitted(1.0, [[3.0, 0.0]])
    assert scores(outcome([[0.0, 0.0]]))["distance from another run"] < -60
    assert scores(outcome([[0.0, 2.0]]))["distance from another run"] == pytest.approx(math.log(2))


def test_the_reply_along_what_the_record_does_weighs_steady_numbers_more() -> None:
    # The record adds 1 to both numbers; the first varies by ±1 anyway (variance 2), the second not at all.
    # Directions: 1 / (2/2 + 1/2) and 1 / (0 + 1/2), with mean variance 1.
    pairs = [(outcome([], reply=[value, 0.0]), outcome([], reply=[value + 1, 1.0])) for value in (-1.0, 1.0)]
    scores = ReplyScores.fitted(("x",), pairs[0][0], pairs)
    seen = scores(outcome([], reply=[3.0, 5.0]))
    assert scores.direction.tolist() == pytest.approx([2 / 3, 2.0])
    assert seen["along a learnt direction"] == pytest.approx(3 * 2 / 3 + 5 * 2)
    assert seen["numbers sent"] == 2


def test_a_reply_of_another_size_is_a_number_too() -> None:
    pairs = [(outcome([], reply=[1.0]), outcome([], reply=[1.0, 2.0]))] * 2
    scores = ReplyScores.fitted(("x",), pairs[0][0], pairs)
    assert [scores(one)["numbers sent"] for one in pairs[0]] == [1, 2]


def test_releases_of_another_kind_are_not_this_mechanisms() -> None:
    scores = fitted(1.0, [[3.0, 0.0]])
    counts = NoisySum(torch.tensor([9.0, 9.0, 9.0]), 1.0, 1.0, 3.0)
    mixed = Repetition(([counts, _release(torch.tensor([3.0, 4.0]))],), (None,), ([],))
    assert scores(mixed)["log size"] == pytest.approx(math.log(5))


def _release(noised: Tensor) -> NoisySum:
    return NoisySum(noised, 4.0, 2.0, 0.5)
