"""Numbers of runs beside each other, on metrics written by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from understudy.errors import UserError
from understudy.runs.compare import compare, distinct_labels, rounds_to


def line(round: int, accuracy: float | None, **others: Any) -> dict[str, Any]:
    usual = {"bytes_up": 0, "bytes_down": 0, "epsilon": None, "failed": 0, "seconds": 0.5, "undone": False}
    return {"round": round, "accuracy": accuracy, **usual, **others}


def write_run(
    folder: Path, lines: list[dict[str, Any]], *, method: str = "fedavg", rounds: int = 2, add: tuple[str, ...] = ()
) -> Path:
    folder.mkdir(parents=True)
    words = {
        "data": {"name": "digits"},
        "method": {"name": method, "rounds": rounds},
        "with": [{"name": name} for name in add],
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(words))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    return folder


def test_rounds_to_a_target_is_the_first_round_that_reaches_it() -> None:
    metrics = [line(0, 0.1), line(1, 0.6), line(2, 0.5), line(3, 0.8)]
    assert rounds_to(metrics, 0.6) == 1
    assert rounds_to(metrics, 0.61) == 3
    assert rounds_to(metrics, 0.1) == 0
    assert rounds_to(metrics, 0.81) is None


def test_rounds_without_a_score_reach_nothing() -> None:
    assert rounds_to([line(0, None), line(1, 0.9)], 0.5) == 1
    assert rounds_to([], 0.5) is None


def test_a_row_adds_up_what_the_rounds_say(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "a",
        [
            line(0, 0.1, bytes_up=500_000, seconds=2.0),
            line(1, 0.7, bytes_up=1_000_000, bytes_down=2_000_000, failed=1),
            line(2, 0.6, bytes_up=1_000_000, bytes_down=2_000_000, failed=2, epsilon=3.5),
        ],
    )
    (row,) = compare([folder], target=0.65, after=(1, 3))
    assert (row.accuracy, row.best_accuracy, row.rounds, row.finished) == (0.6, 0.7, 2, True)
    assert (row.mb_up, row.mb_down) == (2.5, 4.0)
    assert (row.seconds, row.failed, row.epsilon) == (3.0, 3, 3.5)
    assert row.accuracy_after == {1: 0.7, 3: None}
    assert (row.target, row.target_given, row.rounds_to_target) == (0.65, True, 1)


def test_without_a_target_it_is_nine_tenths_of_the_best_run(tmp_path: Path) -> None:
    good = write_run(tmp_path / "good", [line(0, 0.2), line(1, 0.72), line(2, 0.8)])
    poor = write_run(tmp_path / "poor", [line(0, 0.2), line(1, 0.3), line(2, 0.71)])
    rows = compare([good, poor])
    assert [row.target for row in rows] == [0.72, 0.72]
    assert not rows[0].target_given
    assert [row.rounds_to_target for row in rows] == [1, None]


def test_an_unfinished_run_counts_as_far_as_it_got(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", [line(0, 0.1), line(1, 0.4)], rounds=10)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"round": 2, "accu')  # cut off by a kill
    (row,) = compare([folder])
    assert (row.rounds, row.planned, row.finished, row.accuracy) == (1, 10, False, 0.4)


def test_a_run_that_has_only_begun_has_an_empty_row(tmp_path: Path) -> None:
    (row,) = compare([write_run(tmp_path / "a", [])])
    assert (row.rounds, row.accuracy, row.target, row.bytes_up, row.finished) == (0, None, None, 0, False)


def test_of_a_private_run_killed_in_its_first_round_time_and_epsilon_are_not_known(tmp_path: Path) -> None:
    lines = [line(0, 0.1, epsilon=0.0, seconds=0.005)]
    (killed,) = compare([write_run(tmp_path / "a", lines, rounds=5)])
    assert (killed.epsilon, killed.seconds, killed.finished) == (None, None, False)
    (whole,) = compare([write_run(tmp_path / "b", lines, rounds=0)])
    assert (whole.epsilon, whole.seconds, whole.finished) == (0.0, 0.005, True)


def test_a_last_round_that_was_undone_is_not_the_end(tmp_path: Path) -> None:
    (row,) = compare([write_run(tmp_path / "a", [line(2, 0.4, undone=True)])])
    assert not row.finished


def test_labels_name_the_method_and_what_was_added(tmp_path: Path) -> None:
    plain = write_run(tmp_path / "a", [], add=("fedssyn",))
    own = write_run(tmp_path / "b", [], method="place/mine.py:Mine")
    live = write_run(tmp_path / "c", [], method="live")
    assert [row.label for row in compare([plain, own, live])] == ["fedavg + fedssyn", "Mine", "own method"]


def test_runs_of_the_same_method_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / place, []) for place in ("x/one", "x/two", "y/two")]
    other = write_run(tmp_path / "z", [], method="feddm")
    assert distinct_labels(compare([*folders, other])) == [
        "fedavg (one)",
        f"fedavg ({tmp_path / 'x/two'})",
        f"fedavg ({tmp_path / 'y/two'})",
        "feddm",
    ]


def test_a_row_as_plain_values_can_be_written_as_json(tmp_path: Path) -> None:
    (row,) = compare([write_run(tmp_path / "a", [line(0, 0.25, bytes_up=1500)], rounds=0)], after=(0,))
    said = json.loads(json.dumps(row.as_dict()))
    assert (said["name"], said["label"], said["folder"]) == ("a", "fedavg", str(tmp_path / "a"))
    assert said["accuracy_after"] == {"0": 0.25}
    assert (said["bytes_up"], said["mb_up"], said["epsilon"]) == (1500, 0.0015, None)


def test_a_folder_that_is_no_run_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere is not a run folder: it does not exist"):
        compare([tmp_path / "nowhere"])
    with pytest.raises(UserError, match=r"is not a run folder: it has no config.yaml"):
        compare([tmp_path])


def test_damaged_files_are_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", [{"round": 0, "accuracy": 0.5}])
    with pytest.raises(UserError, match=r"metrics.jsonl, line 1, has no 'bytes_up'"):
        compare([folder])
    (folder / "config.yaml").write_text("method: fedavg\n")
    with pytest.raises(UserError, match=r"config.yaml has no method.name"):
        compare([folder])


def test_a_target_in_percent_is_refused() -> None:
    with pytest.raises(UserError, match=r"such as 0\.8"):
        compare([], target=80)
