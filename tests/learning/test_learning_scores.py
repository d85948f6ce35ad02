"""Scores worked by hand, and beside scikit-learn."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.learning.evaluate import Tally, evaluate, tally
from understudy.learning.losses import per_record_loss
from understudy.learning.scores import Scores, area_under_roc, expected_calibration_error, score
from understudy.randomness import generator

THREE = Problem(shape=(3,), classes=3)
LABELS = Problem(shape=(3,), classes=3, multilabel=True)


def identity(x: Tensor) -> Tensor:
    return x


def test_the_loss_of_a_record_by_hand() -> None:
    logits = torch.tensor([[math.log(2), 0.0, 0.0], [0.0, 0.0, 0.0]])
    one = per_record_loss(THREE, logits, torch.tensor([0, 2]))
    torch.testing.assert_close(one, torch.tensor([math.log(2), math.log(3)]))
    # sigmoid(ln 2) = 2/3 and sigmoid(0) = 1/2; the mean over three labels.
    several = per_record_loss(LABELS, logits, torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]))
    expected = [(math.log(1.5) + 2 * math.log(2)) / 3, math.log(2)]
    torch.testing.assert_close(several, torch.tensor(expected))


def test_one_label_by_hand() -> None:
    # Likeliest: 0, 1, 1, 0; class 2 has no record.
    logits = torch.tensor([[2.0, 1, 0], [0, 3, 0], [0, 1, 0], [2, 0, 1]])
    found = score(THREE, logits, torch.tensor([0, 1, 0, 1]))
    assert found.count == 4
    assert found.accuracy == 0.5
    assert found.recall == (0.5, 0.5, None)
    assert found.balanced_accuracy == 0.5
    assert (found.precision, found.f1, found.sample_f1) == ((), (), None)


def test_balanced_accuracy_gives_a_rare_class_its_full_weight() -> None:
    logits = torch.tensor([[1.0, 0, 0]] * 4)
    found = score(THREE, logits, torch.tensor([0, 0, 0, 1]))
    assert found.accuracy == 0.75
    assert found.recall == (1.0, 0.0, None)
    assert found.balanced_accuracy == 0.5


def test_several_labels_by_hand() -> None:
    truth = torch.tensor([[1.0, 0, 0], [1, 1, 0], [0, 0, 0]])
    logits = torch.tensor([[1.0, 1, -1], [1, -1, -1], [-1, -1, -1]])  # says {0, 1}, {0}, {}
    found = score(LABELS, logits, truth)
    assert found.accuracy == pytest.approx(7 / 9)  # two of nine decisions are wrong
    assert found.recall == (1.0, 0.0, None)
    assert found.precision == (1.0, 0.0, None)
    assert found.f1 == (1.0, 0.0, None)
    assert found.sample_f1 == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)
    assert found.balanced_accuracy == pytest.approx((1 + (0 + 1 / 2) / 2) / 2)  # label 2 has no positive


def test_four_labels_by_hand_of_which_two_are_borne_by_nobody() -> None:
    four = Problem(shape=(4,), classes=4, multilabel=True)
    truth = torch.tensor([[1.0, 1, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    # Says {0, 1}, {1}, {0, 2}, {2}; 3 is never said.
    logits = torch.tensor([[1.0, 1, -1, -1], [-1, 1, -1, -1], [1, -1, 1, -1], [-1, -1, 1, -1]])
    found = score(four, logits, truth)
    # Label 0: borne 3 times, said 2 times, both right. Label 1: borne 2, said 2, 1 right. Label 2: said 2, wrongly.
    assert found.recall == (2 / 3, 1 / 2, None, None)
    assert found.precision == (1.0, 1 / 2, 0.0, None)
    # 2·2/(3 + 2), 2·1/(2 + 2), 0/(0 + 2); of label 3 nothing can be said.
    assert found.f1 == (4 / 5, 1 / 2, 0.0, None)
    assert found.macro_f1 == pytest.approx((4 / 5 + 1 / 2 + 0) / 3)
    # Records: 2·2/(2 + 2), 2·0/(1 + 1), 2·1/(2 + 2), 0/(0 + 1).
    assert found.sample_f1 == pytest.approx((1 + 0 + 1 / 2 + 0) / 4)
    assert found.accuracy == pytest.approx(11 / 16)  # wrong: record 1 twice, record 2 twice, record 3 once
    assert tally(identity, Examples(logits, truth), four).as_dict() == {
        "accuracy": pytest.approx(11 / 16),
        "loss": pytest.approx(found.loss),
        "recall": [2 / 3, 1 / 2, None, None],
        "precision": [1.0, 1 / 2, 0.0, None],
        "f1": [4 / 5, 1 / 2, 0.0, None],
        "macro_f1": pytest.approx(13 / 30),
        "sample_f1": pytest.approx(3 / 8),
    }


def test_saying_no_to_everything_is_right_mostly_and_worth_nothing() -> None:
    truth = torch.tensor([[1.0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    found = score(LABELS, -torch.ones(4, 3), truth)
    assert found.accuracy == pytest.approx(11 / 12)
    assert found.macro_f1 == 0.0  # of label 0, the only one that there is
    assert found.sample_f1 == pytest.approx(3 / 4)  # to say nothing of a record without a label is right
    assert score(LABELS, -torch.ones(2, 3), torch.zeros(2, 3)).macro_f1 is None


def test_saying_yes_to_everything_is_not_balanced() -> None:
    truth = torch.tensor([[1.0, 0, 0], [0, 1, 0]])
    found = score(LABELS, torch.ones(2, 3), truth)
    assert found.recall[:2] == (1.0, 1.0)
    assert found.balanced_accuracy == 0.5


def test_the_area_under_the_curve_counts_pairs_and_halves_ties() -> None:
    scores = torch.tensor([0.1, 0.4, 0.4, 0.8])
    # Pairs of a positive over a negative: 0.4 ties 0.4 (½) and beats 0.1 (1); 0.8 beats both (2): 3.5 of 4.
    assert area_under_roc(scores, torch.tensor([False, True, False, True])) == 3.5 / 4
    assert area_under_roc(scores, torch.tensor([True, True, True, True])) is None
    assert area_under_roc(scores, torch.zeros(4, dtype=torch.bool)) is None


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30))
def test_the_rank_formula_is_the_share_of_pairs(pairs: list[tuple[int, bool]]) -> None:
    up = [s for s, positive in pairs if positive]
    down = [s for s, positive in pairs if not positive]
    wins = sum((a > b) + (a == b) / 2 for a in up for b in down)
    found = area_under_roc(torch.tensor([float(s) for s, _ in pairs]), torch.tensor([p for _, p in pairs]))
    if up and down:
        assert found == pytest.approx(wins / (len(up) * len(down)))
    else:
        assert found is None


def test_calibration_error_by_hand() -> None:
    # 0.95 and 0.97 share the last of 15 bins: mean confidence 0.96, half right. 0.5 has its own: all right.
    confidence = torch.tensor([0.95, 0.97, 0.5], dtype=torch.float64)
    right = torch.tensor([True, False, True])
    assert expected_calibration_error(confidence, right) == pytest.approx(2 / 3 * 0.46 + 1 / 3 * 0.5)


def test_certainty_that_is_right_and_zero_confidence_that_is_wrong_cost_nothing() -> None:
    assert expected_calibration_error(torch.tensor([1.0, 0.0]), torch.tensor([True, False])) == 0


def test_scores_agree_with_scikit_learn_for_one_label() -> None:
    from sklearn import metrics

    rng = generator("sklearn")
    logits = torch.randn(300, 3, generator=rng, dtype=torch.float64)
    y = torch.randint(0, 3, (300,), generator=rng)
    found = score(THREE, logits, y)
    guess, chances = logits.argmax(1).numpy(), logits.softmax(1).numpy()
    assert found.accuracy == pytest.approx(metrics.accuracy_score(y, guess))
    assert found.loss == pytest.approx(metrics.log_loss(y, chances))
    assert found.balanced_accuracy == pytest.approx(metrics.balanced_accuracy_score(y, guess))
    assert found.recall == pytest.approx(metrics.recall_score(y, guess, average=None))
    assert found.auroc == pytest.approx(metrics.roc_auc_score(y, chances, multi_class="ovr", average="macro"))


def test_scores_agree_with_scikit_learn_for_several_labels() -> None:
    from sklearn import metrics

    rng = generator("sklearn", "several")
    logits = torch.randn(300, 3, generator=rng, dtype=torch.float64)
    y = (torch.rand(300, 3, generator=rng) < 0.4).to(torch.float32)
    found = score(LABELS, logits, y)
    guess, truth = (logits > 0).numpy().astype(int), y.numpy().astype(int)
    assert found.accuracy == pytest.approx(1 - metrics.hamming_loss(truth, guess))
    assert found.recall == pytest.approx(metrics.recall_score(truth, guess, average=None))
    assert found.precision == pytest.approx(metrics.precision_score(truth, guess, average=None))
    assert found.f1 == pytest.approx(metrics.f1_score(truth, guess, average=None))
    assert found.macro_f1 == pytest.approx(metrics.f1_score(truth, guess, average="macro", zero_division=np.nan))
    assert found.sample_f1 == pytest.approx(metrics.f1_score(truth, guess, average="samples", zero_division=1.0))
    assert found.auroc == pytest.approx(metrics.roc_auc_score(truth, logits.numpy(), average="macro"))
    halves = [metrics.balanced_accuracy_score(truth[:, c], guess[:, c]) for c in range(3)]
    assert found.balanced_accuracy == pytest.approx(np.mean(halves))


def test_no_record_gives_no_score_and_asks_nothing_of_the_network() -> None:
    def refuse(_: Tensor) -> Tensor:
        raise AssertionError("asked")

    none = Examples(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))
    found = evaluate(refuse, none, THREE)
    assert found == Scores(0)
    assert found.accuracy is None
    assert score(THREE, torch.zeros(0, 3), none.y) == Scores(0)
    assert tally(refuse, none, THREE) == Tally(0, 0.0, 0.0)
    assert Tally().accuracy is None
    assert Tally().loss is None


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("problem", [THREE, LABELS])
def test_logits_that_are_not_finite_give_no_number_that_is_not(bad: float, problem: Problem) -> None:
    y = torch.zeros(2, 3) if problem.multilabel else torch.tensor([0, 1])
    found = score(problem, torch.tensor([[bad, 0, 0], [0, 0, 0]]), y)
    assert found.loss is None
    assert "NaN" not in json.dumps(found.as_dict())
    assert "Infinity" not in json.dumps(found.as_dict())


def test_scores_are_plain_data() -> None:
    found = score(THREE, torch.eye(3), torch.tensor([0, 1, 2])).as_dict()
    assert json.loads(json.dumps(found)) == found
    assert found["recall"] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("batch", [1, 3, 4, 100])
def test_batches_change_no_score(batch: int) -> None:
    rng = generator("batches")
    examples = Examples(torch.randn(7, 3, generator=rng), torch.randint(0, 3, (7,), generator=rng))
    assert evaluate(identity, examples, THREE, batch=batch) == score(THREE, examples.x, examples.y)


@pytest.mark.parametrize("problem", [THREE, LABELS])
def test_tallies_of_parts_add_up_to_the_scores_of_the_whole(problem: Problem) -> None:
    rng = generator("tally")
    y = torch.randint(0, 2, (10, 3), generator=rng)
    examples = Examples(torch.randn(10, 3, generator=rng), y.float() if problem.multilabel else y[:, 0])
    first, second = examples.take(range(4)), examples.take(range(4, 10))
    total = tally(identity, first, problem, batch=3) + tally(identity, second, problem)
    whole = evaluate(identity, examples, problem)
    assert total.count == 10
    assert total.accuracy == pytest.approx(whole.accuracy)
    assert total.loss == pytest.approx(whole.loss)


def test_tallies_of_several_labels_add_up_to_the_same_scores_and_travel_whole() -> None:
    rng = generator("tally", "labels")
    y = (torch.rand(20, 3, generator=rng) < 0.4).float()
    y[:, 2] = 0  # borne by nobody
    examples = Examples(torch.randn(20, 3, generator=rng), y)
    parts = [tally(identity, examples.take(range(at, at + 5)), LABELS, batch=2) for at in range(0, 20, 5)]
    total = Tally()  # as a round begins: nobody has answered yet
    for part in parts:
        sent = part.to_tensor()
        assert sent.shape == (4 + 3 * 3,)
        assert Tally.from_tensor(sent, LABELS, 5) == part
        total += part
    whole = evaluate(identity, examples, LABELS).as_dict()
    for key, value in total.as_dict().items():
        assert value == pytest.approx(whole[key]), key
    assert set(total.as_dict()) == {"accuracy", "loss", "recall", "precision", "f1", "macro_f1", "sample_f1"}


def test_a_tally_of_one_label_says_nothing_of_f1() -> None:
    examples = Examples(torch.eye(3), torch.tensor([0, 1, 1]))
    assert set(tally(identity, examples, THREE).as_dict()) == {"accuracy", "loss"}
    assert Tally().as_dict() == {"accuracy": None, "loss": None}


def test_a_tally_by_hand_travels_as_three_numbers() -> None:
    examples = Examples(torch.zeros(2, 3), torch.tensor([0, 1]))  # a tie goes to class 0: one is right
    found = tally(identity, examples, THREE)
    assert found.count == 2
    assert found.correct == 1.0
    assert found.loss_sum == pytest.approx(2 * math.log(3))
    assert Tally.from_tensor(found.to_tensor(), THREE, 2) == found


def test_a_tally_of_raw_pixels_is_scored_as_the_predictor_sees_them() -> None:
    examples = Examples(torch.tensor([[255, 0, 0], [0, 255, 0]], dtype=torch.uint8), torch.tensor([0, 1]))
    seen: list[torch.dtype] = []

    def predict(x: Tensor) -> Tensor:
        seen.append(x.dtype)
        return x.float()

    assert evaluate(predict, examples, THREE).accuracy == 1.0
    assert seen == [torch.uint8]


@pytest.mark.parametrize(
    "numbers",
    [
        torch.zeros(()),
        torch.zeros(2),
        torch.zeros(3, 1),
        torch.zeros(5),
        torch.tensor([3.0, 4.0, 0.0]),
        torch.tensor([torch.nan, 0.0, 0.0]),
        torch.tensor([-1.0, -2.0, 0.0]),
        torch.tensor([1.5, 1.0, 0.0]),
        torch.tensor([2.0, 1.0, -1e300], dtype=torch.float64),
        torch.tensor([11.0, 1.0, 0.0]),
        torch.tensor([1e300, 1e300, 0.0], dtype=torch.float64),
        torch.tensor([torch.inf, 1.0, 0.0]),
    ],
)
def test_scores_that_cannot_be_are_refused(numbers: Tensor) -> None:
    with pytest.raises(UserError, match="its scores"):
        Tally.from_tensor(numbers, THREE, 10)


@pytest.mark.parametrize("place", range(13))
@pytest.mark.parametrize("value", [-1.0, 0.5, 11.0, 1e300, math.inf, math.nan])
def test_scores_of_several_labels_are_counts_of_what_was_there(place: int, value: float) -> None:
    # Ten records, nine right decisions, F1 summed to 8; each label found 2 times, predicted 3 times, borne by 4.
    sound = torch.tensor([10, 9, 0.7, 8, *(2, 3, 4) * 3], dtype=torch.float64)
    assert Tally.from_tensor(sound, LABELS, 10).labels == (2, 3, 4) * 3
    sound[place] = value
    if (place in (1, 3) and value == 0.5) or (place == 2 and not value < 0):
        return  # halves of a decision are possible, and so is the loss of a diverged model
    with pytest.raises(UserError, match="its scores"):
        Tally.from_tensor(sound, LABELS, 10)
