"""Claims as tests on numbers: verdicts worked by hand, where a wrong rule would give another word."""

import pytest

from understudy.papers.claims import (
    Evidence,
    PaperClaim,
    above,
    all_of,
    as_printed,
    at_least,
    at_most,
    below,
    best_of,
    falling,
    in_print,
    rising,
    row_above,
    times,
)

A, B, C = ("a", "x"), ("b", "x"), ("c", "x")


def evidence(*, printed: dict[tuple[str, str], float] | None = None, **cells: list[float]) -> Evidence:
    return Evidence({(name, "x"): values for name, values in cells.items()}, printed or {})


@pytest.mark.parametrize(
    ("a", "b", "word"),
    [
        # Paired differences 1, 3, 2: mean 2, spread 1.
        ([71.0, 83.0, 92.0], [70.0, 80.0, 90.0], "holds"),
        # The same means over seeds in another order: differences −9, 3, 12, mean 2, spread 10.5.
        ([71.0, 83.0, 92.0], [80.0, 80.0, 80.0], "not settled"),
        ([70.0, 80.0, 90.0], [71.0, 83.0, 92.0], "does not hold"),
        # Differences 0, 0, 3: mean 1, spread 1.7.
        ([70.0, 80.0, 93.0], [70.0, 80.0, 90.0], "not settled"),
        # One seed each: a point is the spread.
        ([70.9], [70.0], "not settled"),
        ([71.1], [70.0], "holds"),
        ([70.0], [71.1], "does not hold"),
        ([], [70.0], "not run"),
    ],
)
def test_one_number_above_another_by_more_than_the_spread_over_seeds(a: list[float], b: list[float], word: str) -> None:
    assert above(A, B)(evidence(a=a, b=b)).word == word


def test_what_has_one_seed_is_held_against_that_seed_alone() -> None:
    # A seed is also a split: the first one is easy here, and the mean of three would be below by two points.
    three = [74.4, 71.3, 70.4]
    assert above(A, B)(evidence(a=three, b=[74.3])).word == "not settled"
    assert above(A, B)(evidence(a=three, b=[73.3])).word == "holds"
    assert above(A, B)(evidence(a=three, b=[75.5])).word == "does not hold"
    assert "74.4 against" in above(A, B)(evidence(a=three, b=[74.3])).because


def test_by_how_much_counts() -> None:
    found = evidence(a=[75.0, 76.0], b=[70.0, 71.0])
    assert above(A, B, by=4.0)(found).word == "holds"
    assert above(A, B, by=6.0)(found).word == "does not hold"
    assert below(B, A)(found).word == "holds"


def test_the_worst_comparison_decides_and_is_named() -> None:
    values = evidence(a=[80.0], b=[70.0], c=[90.0])
    verdict = row_above("a", ["a", "b", "c"], ["x"])(values)
    assert verdict.word == "does not hold"
    assert verdict.because == "2 comparisons: 1 holds, 1 does not; a, x 80 against c, x 90"
    assert row_above("a", ["b", "d"], ["x"])(values).word == "not run"
    assert all_of([above(A, B)])(values).word == "holds"
    assert row_above("a", ["c", "d"], ["x"])(values).word == "does not hold", "a contradiction needs no further run"


def test_rising_wants_the_ends_apart_and_no_clear_step_down() -> None:
    assert rising([A, B, C])(evidence(a=[60.0], b=[60.5], c=[63.0])).word == "holds"
    assert rising([A, B, C])(evidence(a=[60.0], b=[66.0], c=[63.0])).word == "does not hold"
    assert rising([A, B, C])(evidence(a=[60.0], b=[60.3], c=[60.6])).word == "not settled"
    assert rising([A, B, C])(evidence(a=[60.0], c=[63.0])).word == "not run"
    assert falling([A, B, C])(evidence(a=[63.0], b=[60.5], c=[60.0])).word == "holds"


def test_best_is_what_nothing_is_clearly_above() -> None:
    assert best_of(A, [B, C])(evidence(a=[80.0], b=[80.5], c=[70.0])).word == "holds"
    assert best_of(A, [B, C])(evidence(a=[80.0], b=[81.5], c=[70.0])).word == "does not hold"


def test_limits_and_factors() -> None:
    assert at_least(A, 70.0)(evidence(a=[72.0, 73.0])).word == "holds"
    assert at_most(A, 70.0)(evidence(a=[72.0, 73.0])).word == "does not hold"
    assert at_least(A, 70.0)(evidence(a=[69.0, 72.0])).word == "not settled"
    assert times(A, B, 3.0)(evidence(a=[9.0, 12.0], b=[3.0, 3.0])).word == "holds"
    assert times(A, B, 3.5)(evidence(a=[9.0, 12.0], b=[3.0, 3.0])).word == "not settled"
    assert times(A, B, 5.0)(evidence(a=[9.0, 12.0], b=[3.0, 3.0])).word == "does not hold"


def test_a_printed_number_that_is_changed_turns_its_verdict() -> None:
    claim = PaperClaim("As printed.", as_printed([A, B], within=0.5))
    printed = {A: 635_040.0, B: 97.2}
    assert claim.test(evidence(printed=printed, a=[635_040.0], b=[96.9])).word == "holds"
    one_off = claim.test(evidence(printed={**printed, A: 635_040_001.0}, a=[635_040_000.0], b=[96.9]))
    assert one_off.because == "furthest off: a, x, 635040000 here and 635040001 printed"
    wrong = claim.test(evidence(printed={**printed, B: 92.7}, a=[635_040.0], b=[96.9]))
    assert wrong.word == "does not hold"
    assert wrong.because == "furthest off: b, x, 96.9 here and 92.7 printed"


def test_the_papers_own_numbers_are_judged_without_a_grain() -> None:
    claim = PaperClaim("a is above b.", above(A, B))
    assert in_print(claim, {A: 64.83, B: 64.82}).word == "holds"
    assert in_print(claim, {A: 64.82, B: 64.82}).word == "does not hold"
    assert in_print(claim, {A: 64.83}).word == "not run"
