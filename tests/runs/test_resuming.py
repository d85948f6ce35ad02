"""Which changes a run may go on with, and what tells its records from others."""

from typing import Any

import pytest
import torch

from understudy.data.examples import Examples
from understudy.data.federation import Federation, Holding
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.runs.resuming import check_same_run, digest_of_config, digest_of_data, digest_of_run

WORDS: dict[str, Any] = {
    "seed": 0,
    "model": {"name": "mlp"},
    "method": {"name": "fedavg", "rounds": 3, "local": {"lr": 0.1, "schedule": "constant"}},
    "engine": {"name": "inline"},
    "version": "1",
    "measure": 0,
}


@pytest.mark.parametrize(
    "changed", [{"engine": {"name": "workers"}}, {"version": "2"}, {"measure": 5}, {"method": {"rounds": 9}}]
)
def test_what_changes_no_number_may_differ(changed: dict[str, Any]) -> None:
    check_same_run(WORDS, {**WORDS, **changed, "method": {**WORDS["method"], **changed.get("method", {})}})


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"seed": 1}, "seed is 0 there and 1 here"),
        ({"model": {"name": "softmax"}}, r"model\.name is 'mlp' there"),
        ({"method": {**WORDS["method"], "local": {"lr": 0.2}}}, r"method\.local\.lr is 0\.1 there and 0\.2 here"),
        ({"privacy": {"delta": 1e-5}}, "privacy is None there"),
    ],
)
def test_anything_else_is_another_run(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(UserError, match=why):
        check_same_run(WORDS, {**WORDS, **changed})


@pytest.mark.parametrize("where", ["local", "server"])
def test_a_curve_over_the_rounds_holds_their_number_wherever_it_is_written(where: str) -> None:
    # Beside it stand plain settings and another group without a curve.
    groups = {"local": {"lr": 0.1}, "server": {"lr": 0.1}, where: {"lr": 0.1, "schedule": "cosine"}}
    words = {**WORDS, "method": {"name": "own", "rounds": 3, **groups}}
    check_same_run(words, words)
    with pytest.raises(UserError, match="cannot be changed from 3 to 4 half-way"):
        check_same_run(words, {**words, "method": {**words["method"], "rounds": 4}})


def test_noise_that_is_solved_for_all_rounds_holds_their_number() -> None:
    words = {**WORDS, "privacy": {"delta": 1e-5}, "method": {"name": "dp-fedavg", "rounds": 3, "noise": None}}
    more = {**words, "method": {**words["method"], "rounds": 4}}
    check_same_run(words, words)
    with pytest.raises(UserError, match=r"noise is solved for all rounds together .* cannot be changed from 3 to 4"):
        check_same_run(words, more)
    assert digest_of_run(words) != digest_of_run(more)


def test_without_privacy_no_noise_is_solved_and_sites_agree_whatever_the_rounds() -> None:
    words = {**WORDS, "problem": {}, "with": [], "privacy": None}
    three, four = ({**words, "method": {"name": "feddm", "rounds": rounds, "noise": None}} for rounds in (3, 4))
    check_same_run(three, four)
    assert digest_of_config(three) == digest_of_config(four)


def held(x: float = 1.0, y: int = 0) -> Examples:
    return Examples(torch.full((2, 3), x), torch.full((2,), y))


def test_other_pixels_other_labels_and_other_held_out_records_are_other_data() -> None:
    def digest(name: str, own: Examples, held_out: Examples) -> str:
        return digest_of_data(Federation(Problem((3,), 2), {name: Holding(own, held_out)}, None))

    usual = digest("ash", held(), held())
    assert usual == digest("ash", held(), held())
    others = [("beech", held(), held()), ("ash", held(x=2), held()), ("ash", held(y=1), held())]
    others += [("ash", held(), held(x=2)), ("ash", held(), held(y=1)), ("ash", held().take([0]), held())]
    assert len({usual, *(digest(*other) for other in others)}) == 1 + len(others)
