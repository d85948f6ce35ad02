"""A run writes down how it stands, for whoever looks on, and ends in a word whatever happens to it."""

import itertools
import json
import time
from pathlib import Path

import pytest

import understudy as us
from understudy.config.resolve import resolve
from understudy.errors import UserError
from understudy.federation.running import AT_THE_SERVER
from understudy.runs.folder import Line, RunFolder
from understudy.runs.play import play
from understudy.runs.status import FILE, SCORING, STARTING, WAITING_FOR_SITES, Status, StatusKeeper, read_status
from understudy.runs.watching import AwaitsApproval, Observer

TINY = {
    "data": {"name": "digits", "limit": 60, "clients": 3},
    "model": "softmax",
    "method": {"name": "fedavg", "rounds": 2, "local": {"epochs": 1, "lr": 0.1}},
    "engine": {"name": "inline"},
}
WORDS = {
    "seed": 3,
    "version": "9.9",
    "method": {"name": "feddm", "rounds": 5},
    "with": [{"name": "fedssyn"}],
    "data": {"name": "digits"},
}
NAMES = ["ash", "beech"]


def status_of(folder: Path) -> Status:
    found = read_status(folder)
    assert found is not None
    return found


def test_a_finished_run_says_so_and_where_its_time_went(tmp_path: Path) -> None:
    result = us.run(TINY, out=tmp_path / "run")
    status = status_of(tmp_path / "run")
    assert (status.how, status.why, status.round, status.rounds) == ("finished", "", 2, 2)
    assert (status.label, status.data, status.seed, status.version) == ("fedavg", "digits", 0, us.__version__)
    assert status.clients == ["client-0", "client-1", "client-2"]
    assert status.there is None, "clients of a simulation are neither online nor away"
    assert set(status.seconds) == {STARTING, "Averaging.train", AT_THE_SERVER, SCORING}
    assert set(status.last_round) == set(status.seconds) - {STARTING}
    assert sum(status.seconds.values()) <= status.written - status.began + 0.01
    assert result.accuracy is not None


def test_looking_on_changes_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    us.run(TINY, out=tmp_path / "watched")
    monkeypatch.setattr(
        "understudy.runs.status.write_whole", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "full"))
    )
    us.run(TINY, out=tmp_path / "blind")
    assert not (tmp_path / "blind" / FILE).exists(), "and a run does not end because it cannot be written"
    a, b = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("watched", "blind"))
    assert a == b


class Halts(Observer):
    """Ends a run in its first round, with an error of choice."""

    def __init__(self, error: BaseException):
        self.error = error

    def scored(self, line: Line) -> None:
        if line["round"] == 1:
            raise self.error


@pytest.mark.parametrize(
    ("error", "how", "why"),
    [
        (UserError("The disk is full."), "failed", "The disk is full."),
        (ZeroDivisionError(), "failed", "ZeroDivisionError"),
        (KeyboardInterrupt(), "stopped", ""),
        (AwaitsApproval("A person must look."), "waiting", "A person must look."),
    ],
)
def test_a_run_that_ends_otherwise_says_how_and_why(tmp_path: Path, error: BaseException, how: str, why: str) -> None:
    with pytest.raises(type(error)):
        play(resolve(TINY), tmp_path / "run", observer=Halts(error))
    status = status_of(tmp_path / "run")
    assert (status.how, status.why, status.phase) == (how, why, "")
    us.run(TINY, out=tmp_path / "run", resume=True)
    assert status_of(tmp_path / "run").how == "finished"


def kept(folder: Path, inner: Observer | None = None) -> StatusKeeper:
    return StatusKeeper(folder, inner or Observer(), "understudy server f.yaml --resume")


def test_it_tells_who_is_there_and_whose_reply_is_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.runs.status.HEAD_START", 1000.0)  # however slow the disk is
    keeper = kept(tmp_path)
    with keeper.of_run(WORDS, NAMES):
        keeper.phase(-1, WAITING_FOR_SITES)
        keeper.attends({"beech"}, ())
        assert (status_of(tmp_path).phase, status_of(tmp_path).there) == (WAITING_FOR_SITES, ["beech"])
        keeper.begins(5, -1, 2, tmp_path)
        keeper.phase(1, "FedDM.distil", NAMES)
        keeper.attends({"ash", "beech"}, {"ash": 1, "beech": 2})
        keeper.attends({"ash", "beech"}, {"ash": 1})  # beech answered, but waits for its turn
        status = status_of(tmp_path)
        assert (status.round, status.phase, status.asked, status.awaited) == (1, "FedDM.distil", NAMES, ["ash"])
        assert status.there == ["ash", "beech"]
        assert status.label == "feddm + fedssyn"
        assert status.command == "understudy server f.yaml --resume"
        keeper.heard("ash")
        keeper.heard("beech")
        assert status_of(tmp_path).awaited == []
        keeper.ended(finished=False)
    assert status_of(tmp_path).how == "ended early"


def test_seconds_are_counted_by_phase_and_by_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(100)  # every look at it is a second later
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    monkeypatch.setattr(StatusKeeper, "_write", lambda self, **_: None)
    keeper = kept(tmp_path)
    with keeper.of_run(WORDS, NAMES):
        for round in (1, 2):
            keeper.phase(round, "train", NAMES)
            keeper.phase(round, AT_THE_SERVER)
            keeper.phase(round, "train", NAMES)  # twice in a round
            keeper.phase(round, SCORING)
        keeper.phase(3, "train", NAMES)
    assert keeper._status.seconds == {STARTING: 1.0, "train": 4.0, AT_THE_SERVER: 2.0, SCORING: 2.0}
    assert keeper._status.last_round == {"train": 2.0, AT_THE_SERVER: 1.0, SCORING: 1.0}


def test_it_takes_two_hundredths_of_the_time_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, written = 0.0, []
    monkeypatch.setattr(time, "perf_counter", lambda: now)

    def write(_: Path, data: bytes, **__: bool) -> None:
        nonlocal now
        now += 0.01  # a slow disk
        written.append(json.loads(data)["round"])

    monkeypatch.setattr("understudy.runs.status.write_whole", write)
    keeper = kept(tmp_path)
    with keeper.of_run(WORDS, NAMES):
        for round in range(1, 1001):  # of a millisecond each
            now += 0.001
            keeper.phase(round, "train", NAMES)
        keeper.ended(finished=True)
    # 0.1 s at first, then 2 % of a second, and one in the end
    assert len(written) <= 15
    assert written[-1] == 1000


def test_what_a_run_said_is_kept_in_one_line_and_passed_on(tmp_path: Path) -> None:
    class Hears(Observer):
        def __init__(self) -> None:
            self.heard_of: list[object] = []

        def says(self, sentence: str) -> None:
            self.heard_of.append(sentence)

        def phase(self, round: int, name: str, clients: object = ()) -> None:
            self.heard_of.append((round, name))

        def heard(self, client: str) -> None:
            self.heard_of.append(client)

        def scored(self, line: Line) -> None:
            self.heard_of.append(line)

    inner, line = Hears(), {"round": 1, "bytes_up": 0, "bytes_down": 0, "seconds": 0.1}
    keeper = kept(tmp_path, inner)
    with keeper.of_run(WORDS, NAMES):
        keeper.says("one\x1b[2J\ntwo")
        keeper.phase(1, "train")
        keeper.heard("ash")
        keeper.scored(line)
    assert inner.heard_of == ["one\x1b[2J\ntwo", (1, "train"), "ash", line]
    assert status_of(tmp_path).said == ["one [2J two"]
    for number in range(20):
        keeper.says(str(number))
    keeper.ended(finished=True)
    assert status_of(tmp_path).said == [str(number) for number in range(12, 20)]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"round": "x"}', '{"how": "dancing"}', "[" * 100_000])
def test_a_damaged_status_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert read_status(tmp_path) is None


def test_a_glance_at_the_lock_does_not_stop_a_run(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.create()
    assert not run.in_use
    said: list[str] = []
    with run.locked(wait=0, waiting=said.append):
        assert run.in_use
        assert RunFolder(tmp_path / "run").in_use
        with pytest.raises(UserError, match="Another process is working"), run.locked(wait=0, waiting=said.append):
            pass
    assert not run.in_use
    assert said == []
