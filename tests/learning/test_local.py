"""Settings of local training: epochs or steps, and the rate of a round."""

import math

import pytest
from pydantic import ValidationError

from understudy.learning.local import Local


def test_five_epochs_unless_something_is_said() -> None:
    assert (Local().epochs, Local().steps) == (5, None)
    assert (Local(steps=7).epochs, Local(steps=7).steps) == (None, 7)
    assert Local(epochs=2).epochs == 2


def test_epochs_and_steps_together_are_refused() -> None:
    with pytest.raises(ValidationError, match="either epochs or steps"):
        Local(epochs=1, steps=1)


def test_the_words_of_a_resolved_config_give_the_same_settings() -> None:
    for local in (Local(), Local(steps=3), Local(epochs=0, schedule="cosine")):
        assert Local.model_validate(local.model_dump(mode="json")) == local


def test_epochs_grow_with_the_records_and_steps_do_not() -> None:
    # 10 records in fours: 3 batches; dropped: 2.
    assert Local(epochs=3, batch=4).step_count(10) == 9
    assert Local(epochs=3, batch=4, drop_last=True).step_count(10) == 6
    assert Local(steps=400, batch=4).step_count(10) == Local(steps=400, batch=4).step_count(1) == 400


def test_who_has_no_records_does_not_train() -> None:
    assert Local(epochs=3).step_count(0) == Local(steps=400).step_count(0) == 0


def test_the_rate_is_constant_by_default() -> None:
    assert [Local(lr=0.1).rate(round, 5) for round in (1, 3, 5)] == [0.1] * 3


def test_cosine_goes_from_the_full_rate_to_the_floor() -> None:
    # ½·(1 + cos(π·(m−1)/4)): 1, 0.8536, ½, 0.1464, 0, of which the last is raised to 1e-6.
    local = Local(lr=0.1, schedule="cosine")
    quarter = math.sqrt(0.5) / 2
    expected = [0.1, 0.1 * (0.5 + quarter), 0.05, 0.1 * (0.5 - quarter), 1e-6]
    assert [local.rate(round, 5) for round in range(1, 6)] == pytest.approx(expected)
    assert local.rate(1, 1) == pytest.approx(0.1)


def test_exponential_decays_once_a_round() -> None:
    local = Local(lr=0.1, schedule="exponential", decay=0.5)
    assert [local.rate(round, 9) for round in (1, 2, 3)] == pytest.approx([0.1, 0.05, 0.025])


@pytest.mark.parametrize("wrong", [{"lr": 0}, {"batch": 0}, {"momentum": 1}, {"epochs": -1}, {"clip": 0}, {"rate": 1}])
def test_what_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Local.model_validate(wrong)
