"""Claims over columns, falls and nearness, by hand."""

from understudy.papers.claims import Evidence, above, drawn_like
from understudy.papers.combined_claims import close_together, falls_less, wherever_run


def evidence(printed: dict[tuple[str, str], float] | None = None, **cells: list[float]) -> Evidence:
    """Named row_column."""
    values = {(name.split("_")[0], name.split("_")[1]): seeds for name, seeds in cells.items()}
    return Evidence(values, printed or {})


def test_columns_that_were_not_run_are_left_out_and_named() -> None:
    test = wherever_run(["x", "y"], lambda column: above(("a", column), ("b", column)))
    found = test(evidence(a_x=[80.0, 81.0], b_x=[70.0, 71.0]))
    assert (found.word, found.because.endswith("not run: y")) == ("holds", True)
    assert test(evidence(a_x=[80.0, 81.0], b_x=[70.0, 71.0], a_y=[1.0, 2.0], b_y=[5.0, 6.0])).word == "does not hold"
    assert test(evidence()).word == "not run"


def test_a_row_that_falls_less() -> None:
    test = falls_less("a", ["b"], "x", "y")
    # a loses 1 and 2, b 10 and 12: 9 and 10 more.
    assert test(evidence(a_x=[90.0, 90.0], a_y=[89.0, 88.0], b_x=[90.0, 90.0], b_y=[80.0, 78.0])).word == "holds"
    # b gains: it does not fall at all.
    assert (
        test(evidence(a_x=[90.0, 90.0], a_y=[89.0, 88.0], b_x=[70.0, 70.0], b_y=[75.0, 75.0])).word == "does not hold"
    )
    assert test(evidence(a_x=[90.0], a_y=[89.0], b_x=[90.0])).word == "not run"


def test_numbers_close_together() -> None:
    cells = [("a", "x"), ("b", "x"), ("c", "x")]
    near = evidence(a_x=[90.0, 90.1], b_x=[90.2, 90.3], c_x=[90.4, 90.5])  # 0.4 apart, in both seeds
    assert close_together(cells, 1.0)(near).word == "holds"
    assert close_together(cells, 0.3)(near).word == "does not hold"
    assert close_together(cells, 1.0)(evidence(a_x=[90.0])).word == "not run"


def test_a_printed_number_that_seeds_could_have_given() -> None:
    cell = ("a", "x")  # mean 10, deviation 2
    assert drawn_like([cell])(evidence({cell: 13.9}, a_x=[8.0, 10.0, 12.0])).word == "holds"
    assert drawn_like([cell])(evidence({cell: 14.1}, a_x=[8.0, 10.0, 12.0])).word == "does not hold"
    assert drawn_like([cell])(evidence({cell: 10.0}, a_x=[10.0])).word == "not run"
