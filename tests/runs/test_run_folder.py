"""The lines of a run in its folder, also where a kill cut one of them off."""

import json
from pathlib import Path

from understudy.runs.folder import RunFolder


def written(folder: Path, *lines: str) -> RunFolder:
    (folder / "metrics.jsonl").write_text("\n".join(lines))
    return RunFolder(folder)


ROUNDS = [json.dumps({"round": number}) for number in range(4)]


def rounds(run: RunFolder) -> list[int]:
    return [line["round"] for line in run.metrics()]


def test_what_stands_behind_a_line_that_was_cut_off_does_not_count(tmp_path: Path) -> None:
    assert rounds(written(tmp_path, *ROUNDS)) == [0, 1, 2, 3]
    assert rounds(written(tmp_path, *ROUNDS[:3], ROUNDS[3][:5])) == [0, 1, 2]
    assert rounds(written(tmp_path, *ROUNDS[:2], ROUNDS[2][:5], ROUNDS[3])) == [0, 1]


def test_lines_up_to_the_last_round_that_counts_are_kept(tmp_path: Path) -> None:
    run = written(tmp_path, *ROUNDS)
    assert [line["round"] for line in run.cut_metrics(2)] == [0, 1, 2]
    assert rounds(run) == [0, 1, 2]
