import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from understudy import patience, under_way
from understudy.runs.watching import Observer
from understudy.view import progress as progress_view
from understudy.view.progress import HowFar, RichProgress
from written_runs import line, write_run


def watcher(*, terminal: bool = False) -> tuple[RichProgress, io.StringIO]:
    file = io.StringIO()
    console = Console(file=file, width=80, force_terminal=terminal, legacy_windows=False)
    return RichProgress(console), file


def said(file: io.StringIO) -> list[str]:
    return file.getvalue().splitlines()


def test_it_is_an_observer_and_writes_to_stderr() -> None:
    observer: Observer = RichProgress()
    assert isinstance(observer, RichProgress)
    assert observer.console.stderr


def test_without_a_terminal_there_is_one_plain_line_a_round(tmp_path: Path) -> None:
    progress, file = watcher()
    with progress:
        progress.begins(2, -1, 10, tmp_path)
        progress.scored(line(0, 0.1, clients=0, seconds=0.0))
        progress.heard("client-0")
        progress.scored(line(1, 0.5, bytes_up=1000, bytes_down=2000, clients=10))
        progress.scored(line(2, None, bytes_up=1000, bytes_down=2000, clients=9, seconds=3.0))
    assert "\x1b" not in file.getvalue()
    assert said(file) == [
        "opening: accuracy 10.0 %, 0 B up, 0 B down, no client was asked, 0.0 s",
        "round 1/2: accuracy 50.0 %, 1.0 kB up, 2.0 kB down, 10 clients answered, 2.0 s, about 0:02 left",
        "round 2/2: accuracy –, 2.0 kB up, 4.0 kB down, 9 clients answered, 3.0 s",
    ]


def test_a_resumed_run_counts_what_was_before_but_does_not_say_it_again(tmp_path: Path) -> None:
    progress, file = watcher()
    progress.begins(3, 1, 10, tmp_path)
    old = {"client": "client-0", "why": "it was away"}
    progress.scored(line(0, 0.1))
    progress.scored(line(1, 0.5, bytes_up=1000, failures=[old]))
    progress.scored(line(2, 0.6, bytes_up=1000, failures=[old]))
    assert said(file)[0] == "Continuing after round 1 of 3."
    assert said(file)[1] == "client-0 did not count in round 2: it was away"
    assert said(file)[2].startswith("round 2/3: accuracy 60.0 %, 2.0 kB up")
    assert len(said(file)) == 3


def test_a_run_that_has_all_its_rounds_does_not_continue_after_round_5_of_3(tmp_path: Path) -> None:
    progress, file = watcher()
    progress.begins(3, 5, 10, tmp_path)
    assert said(file) == ["Round 5 is done already; no round is left."]


def test_what_a_method_remarks_is_said_before_the_line(tmp_path: Path) -> None:
    progress, file = watcher()
    progress.begins(1, -1, 10, tmp_path)
    progress.scored(line(0, 0.1, remarks=["client-3: 4 of 250 images were near-copies of its records, dropped."]))
    assert said(file)[0] == "client-3: 4 of 250 images were near-copies of its records, dropped."
    assert said(file)[1].startswith("opening: ")


def test_a_failure_is_said_once_for_each_client_and_reason(tmp_path: Path) -> None:
    progress, file = watcher()
    progress.begins(3, -1, 10, tmp_path)
    away = {"client": "client-0", "why": "it was away"}
    broken = {"client": "client-0", "why": "its reply is not finite in change"}
    progress.scored(line(1, 0.1, failures=[away, {**away, "client": "client-1"}]))
    progress.scored(line(2, 0.1, failures=[away, broken], undone=True))
    failures = [sentence for sentence in said(file) if sentence.startswith("client")]
    assert failures == [
        "client-0 did not count in round 1: it was away",
        "client-1 did not count in round 1: it was away",
        "client-0 did not count in round 2: its reply is not finite in change",
    ]
    assert "Round 2 was undone: too few clients answered." in said(file)


def test_in_a_terminal_one_line_lives_and_the_last_one_stays(tmp_path: Path) -> None:
    progress, file = watcher(terminal=True)
    with progress:
        progress.begins(1, -1, 10, tmp_path)
        progress.heard("client-0")
        progress.says("A sentence.")
        progress.scored(line(0, 0.1))
        progress.scored(line(1, 0.5, bytes_up=5000))
    assert "A sentence." in file.getvalue()
    last = said(file)[-1] if "\x1b[?25h" not in said(file)[-1] else said(file)[-2]
    assert "round 1/1" in last
    assert "50.0 %  ↑5.0 kB ↓0 B" in last


def test_within_a_round_it_counts_who_answered_of_those_asked(tmp_path: Path) -> None:
    progress, _ = watcher()
    progress.begins(4, -1, 10, write_run(tmp_path / "a", cohort=0.5))
    assert progress.standing.wanted == 10  # the opening asks everybody
    progress.scored(line(0, 0.1))
    progress.heard("client-3")
    progress.heard("client-4")
    assert progress.standing.words() == "10.0 %  ↑0 B ↓0 B  2/5 clients"
    assert progress.standing.part_done == pytest.approx(0.4)


def test_a_long_silence_is_broken_by_what_the_tasks_are_doing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "NEXT", 0.05)
    monkeypatch.setattr(progress_view, "OFTEN", 0.01)
    progress, file = watcher()
    with progress:
        progress.begins(2, -1, 10, tmp_path)
        progress.scored(line(0, 0.1, clients=0, seconds=0.0))
        for _ in under_way.counted("moving records", [0], 1000):
            until = time.monotonic() + 20
            while len(said(file)) < 2 and time.monotonic() < until:
                time.sleep(0.01)
    silent = said(file)[1]
    assert silent.startswith("round 1/2: 0 of 10 clients so far, after 0:0")
    assert silent.endswith("; moving records, step 0 of 1,000")


def test_in_a_terminal_what_the_tasks_are_doing_shows_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    standing = HowFar(rounds=2, done=0, clients=4, asked=4)
    for _ in under_way.counted("training", [0], 300):
        assert "step" not in standing.words()  # what is over in a moment would only flicker
        monkeypatch.setattr(progress_view, "LOOKED_AT", 0.0)
        assert "0/4 clients  training, step 0 of 300" in standing.words()


def test_who_answers_again_begins_the_next_exchange() -> None:
    standing = HowFar(1, 0, 2, 2)
    for client in ("a", "b", "a"):
        standing.hear(client)
    assert standing.heard == {"a"}


def test_the_time_left_is_that_of_the_mean_round_and_the_opening_has_its_own() -> None:
    standing = HowFar(5, -1, 2, 2)
    standing.score(line(0, 0.1, seconds=100.0))
    assert standing.seconds_left() is None
    standing.score(line(1, 0.1, seconds=10.0))
    standing.score(line(2, 0.1, seconds=20.0))
    assert standing.seconds_left() == pytest.approx(45.0, abs=0.5)  # three rounds of 15 s
    assert standing.heading == "round 3/5"


def test_the_terminal_is_tidy_after_an_error(tmp_path: Path) -> None:
    progress, file = watcher(terminal=True)

    def fail() -> None:
        with progress:
            progress.begins(1, -1, 10, tmp_path)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert file.getvalue().rstrip("\n").endswith("\x1b[?25h")  # the cursor is shown again
