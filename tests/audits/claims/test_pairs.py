"""Neighbours differ in one record, and each pair is what its name says."""

import pytest
import torch

from understudy.audits.claims.pairs import FAR, OUTSIDE, PairMaker
from understudy.data.problem import Problem

PIXELS = Problem((1, 4, 4), 3, mean=(0.5,), std=(0.25,))
ROWS = Problem((5,), 2)
LABELS = Problem((5,), 4, multilabel=True)
MAKERS = {
    "pixels": PairMaker(PIXELS, True),
    "rows": PairMaker(ROWS, False),
    "several labels": PairMaker(LABELS, False),
    "labels public": PairMaker(PIXELS, True, held=1),
    "published": PairMaker(PIXELS, True, held=6, of_one=True),
}


@pytest.mark.parametrize("name", MAKERS)
def test_one_record_more_and_the_others_alike(name: str) -> None:
    maker = MAKERS[name]
    for pair in maker.all():
        assert len(pair.with_record) == len(pair.without) + 1
        assert torch.equal(pair.with_record.x[:-1], pair.without.x)
        assert torch.equal(pair.with_record.y[:-1], pair.without.y)
        maker.problem.check(pair.with_record, pair.name)
    assert [len(pair.without) for pair in MAKERS["pixels"].all()] == [0, 3, 1, 2]


def test_where_labels_are_public_both_sets_hold_the_same_classes() -> None:
    for pair in MAKERS["labels public"].all():
        assert set(pair.without.y.tolist()) == set(pair.with_record.y.tolist()) == {0, 1, 2}


def test_a_published_claim_is_tested_on_one_class_of_the_size_that_it_claims_for() -> None:
    for pair in MAKERS["published"].all():
        assert set(pair.with_record.y.tolist()) == {0}
        assert len(pair.without) == 6
        assert not pair.every_record


def test_only_the_unbounded_record_lies_outside_of_pixels() -> None:
    assert [pair.note for pair in MAKERS["pixels"].all()] == ["", "", "", OUTSIDE]
    assert [pair.note for pair in MAKERS["rows"].all()] == ["", "", "", ""]
    far = MAKERS["pixels"].unbounded().with_record
    assert far.x.dtype == torch.float32
    assert set(far.x[-1].abs().flatten().tolist()) == {FAR}
    assert float(far.x[:-1].abs().max()) == pytest.approx(2.0)  # white is (1 − 0.5) / 0.25


def test_gradients_of_the_cancelling_set_cancel_under_even_outputs() -> None:
    # Softmax regression at zero weights: g = (1/3 − e_y) ⊗ x, and Σ_y (1/3 − e_y) = 0.
    pair = MAKERS["pixels"].cancelling()
    x = PIXELS.scale(pair.without.x).flatten(1)
    outputs = torch.full((len(x), 3), 1 / 3) - torch.nn.functional.one_hot(pair.without.y, 3)
    assert float((outputs.T @ x).norm()) == pytest.approx(0.0, abs=1e-5)
    assert float(x.norm()) > 1
