"""Parts of a directly worked out experiment: done once, done again if damaged, and named after the code that ran."""

import json
from pathlib import Path

import pytest

from understudy.papers import kept_parts
from understudy.papers.fedssyn.shuffled_softmax import APART, SoftmaxPlan, softmax_regression
from understudy.papers.kept_parts import part
from understudy.runs.watching import Observer

PLAN = SoftmaxPlan("digits", 20, 4, (0, 1), {APART: (0.0, 0.5)}, (0.3,))


def test_what_was_done_is_not_done_again(tmp_path: Path) -> None:
    done = []

    def work() -> list[float]:
        done.append(1)
        return [0.1, 1 / 3]

    first, second = (part(tmp_path, {"seed": 0}, work) for _ in range(2))
    assert first == second
    assert first.result == [0.1, 1 / 3]
    assert len(done) == 1
    part(tmp_path, {"seed": 1}, work)
    assert len(done) == 2


@pytest.mark.parametrize("harm", ["0.25", "half", "a list"])
def test_a_damaged_part_is_done_again(tmp_path: Path, harm: str) -> None:
    part(tmp_path, {"seed": 0}, lambda: [0.5])
    (file,) = tmp_path.iterdir()
    text = file.read_text()
    file.write_text({"0.25": text.replace("0.5", "0.25"), "half": text[: len(text) // 2], "a list": "[1]"}[harm])
    assert part(tmp_path, {"seed": 0}, lambda: [0.75]).result == [0.75]
    assert part(tmp_path, {"seed": 0}, lambda: [1.0]).result == [0.75]


def test_it_is_named_after_the_code_that_worked_it_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_parts, "made_by", lambda: "the first")
    part(tmp_path, {"seed": 0}, lambda: 1)
    monkeypatch.setattr(kept_parts, "made_by", lambda: "the second")
    assert part(tmp_path, {"seed": 0}, lambda: 2) == kept_parts.KeptPart(1, "the first")


def test_softmax_regression_that_was_stopped_goes_on_to_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = softmax_regression(PLAN, tmp_path / "straight", Observer())
    monkeypatch.setattr(kept_parts, "made_by", lambda: "before the stop")

    class Stopping(Observer):
        def says(self, sentence: str) -> None:
            if sentence.endswith("p = 0.5, E = 1"):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        softmax_regression(PLAN, tmp_path / "stopped", Stopping())
    kept = sorted((tmp_path / "stopped").iterdir())
    assert len(kept) == 4  # E = 1 and 5, two seeds
    monkeypatch.setattr(kept_parts, "made_by", lambda: "after it")
    later = softmax_regression(PLAN, tmp_path / "stopped", Observer())
    assert later.values == straight.values
    assert json.dumps(later.numbers, default=list) == json.dumps(straight.numbers, default=list)
    assert later.made_by == "before the stop; after it"
    assert len(list((tmp_path / "stopped").iterdir())) == 8
