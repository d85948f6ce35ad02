"""Who took part, from lines written by hand."""

from typing import Any

from understudy.runs.attendance import attendance_of


def line(round: int, asked: dict[str, Any], failed: dict[str, str] | None = None, **others: Any) -> dict[str, Any]:
    failures = [{"client": client, "why": why} for client, why in (failed or {}).items()]
    return {"round": round, "bytes_by_client": asked, "failures": failures, **others}


def test_each_round_says_who_answered_and_who_failed() -> None:
    lines = [
        line(1, {"b": [10, 5], "a": [20, 5]}),
        line(2, {"a": [0, 5], "b": [10, 5]}, {"a": "it was offline"}),
        line(3, {"b": [10, 5]}, {"b": "no budget left"}),
    ]
    found = attendance_of(lines, ["c"], spent=["b"])
    assert list(found.clients) == ["a", "b", "c"]
    assert found.clients["a"].rounds == {1: "answered", 2: "failed"}
    assert found.clients["b"].rounds == {1: "answered", 2: "answered", 3: "spent"}
    assert found.clients["b"].spent
    assert not found.clients["a"].spent
    assert (found.clients["a"].bytes_up, found.clients["a"].bytes_down) == (20, 10)
    assert found.clients["c"].rounds == {}
    assert found.reasons == [("it was offline", 1, ["a"]), ("no budget left", 1, ["b"])]


def test_a_client_is_slow_if_it_takes_over_twice_the_median() -> None:
    times = {"a": 1.0, "b": 1.2, "c": 1.1, "d": 2.5}
    found = attendance_of([line(1, {name: [0, 0] for name in times}, seconds_by_client=times)], [])
    assert found.usual_seconds == 1.15
    assert [client for client in times if found.slow(client)] == ["d"]


def test_lines_of_another_version_or_of_somebody_else_do_no_harm() -> None:
    lines = [
        {"round": 0},
        line(1, {"a": "<b>", "²": [True, "x"]}),
        {"round": 2, "failures": "all", "bytes_by_client": 7},
    ]
    found = attendance_of(lines, [], spent={"a"}, left_out=["²"])
    assert found.clients["a"].rounds == {1: "answered"}
    assert found.clients["²"].left_out
    assert found.usual_seconds is None
