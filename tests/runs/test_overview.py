"""All runs under a folder, in words, and without opening what did not change."""

import builtins
import io
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import understudy as us
from understudy.runs.folder import RunFolder
from understudy.runs.overview import Overview
from understudy.runs.standing import Standing, some, standing_of
from understudy.runs.status import FILE, WAITING_FOR_SITES, Status

CONFIG = {
    "version": "0.1.0",
    "seed": 4,
    "data": {"name": "digits"},
    "problem": {"multilabel": False},
    "method": {"name": "fedavg", "rounds": 3},
    "with": [],
}


def line(round: int, **others: Any) -> str:
    usual = {"accuracy": round / 10, "bytes_up": 1, "bytes_down": 1, "epsilon": None, "failed": 0, "seconds": 1.0}
    return json.dumps({"round": round, **usual, "undone": False, **others}) + "\n"


def written(folder: Path, rounds: int = 3, status: Status | None = None, config: Any = CONFIG) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / ".lock").touch()
    (folder / "metrics.jsonl").write_text("".join(line(round) for round in range(rounds + 1)))
    if status is not None:
        (folder / FILE).write_text(status.model_dump_json())
    return folder


def status(**given: Any) -> Status:
    return Status(label="fedavg", data="digits", rounds=3, clients=["ash", "beech"], **given)


def looked(root: Path) -> dict[str, Standing]:
    overview = Overview(root)
    overview.look()
    return {seen.name: seen.standing for seen in overview.now.runs.values()}


# ---- one run in words


def test_a_finished_run(tmp_path: Path) -> None:
    us.run(
        {"data": {"name": "digits", "limit": 60}, "model": "softmax", "method": {"name": "fedavg", "rounds": 1}},
        out=tmp_path / "run",
        engine="inline",
    )
    found = standing_of(tmp_path / "run")
    assert (found.stands, found.detail, found.commands) == ("finished", "after 1 round", ())
    assert (found.label, found.data, found.round, found.planned, found.seed) == ("fedavg", "digits", 1, 1, 0)
    assert found.accuracy == RunFolder(tmp_path / "run").metrics()[-1]["accuracy"]


@pytest.mark.parametrize(
    ("said", "stands", "detail"),
    [
        (None, "stopped", "after round 2 of 3: its process was killed or the machine went down"),
        (status(), "stopped", "after round 2 of 3: its process was killed or the machine went down"),
        (status(how="stopped"), "stopped", "by hand after round 2 of 3"),
        (status(how="failed", why="No space left."), "failed", "after round 2 of 3: No space left."),
        (status(how="ended early", why="All spent."), "ended early", "after round 2 of 3: All spent."),
    ],
)
def test_a_run_that_is_not_going_on(tmp_path: Path, said: Status | None, stands: str, detail: str) -> None:
    folder = written(tmp_path / "a run", 2, said)
    found = standing_of(folder)
    assert (found.stands, found.detail) == (stands, detail)
    assert found.commands == (() if stands == "ended early" else (f"understudy run --resume --out '{folder}'",))
    assert (found.label, found.round, found.planned, found.accuracy) == ("fedavg", 2, 3, 0.2)


def test_a_run_that_waits_for_approval_says_how_to_look(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", 1, status(how="waiting", why="A person must look."))
    found = standing_of(folder)
    assert (found.stands, found.detail) == (
        "waiting for approval",
        "after round 1 of 3: A person must look.",
    )
    assert found.commands == (f"understudy review {folder}", f"understudy run --resume --out {folder}")


def test_a_federation_is_continued_with_its_own_command(tmp_path: Path) -> None:
    command = "understudy server f.yaml --out run --resume"
    found = standing_of(written(tmp_path / "run", 1, status(how="waiting", why="Look.", command=command)))
    assert found.commands == ("understudy review FOLDER", command)
    remote = {**CONFIG, "data": {"sites": {"north": None, "south": None}}}
    old = standing_of(written(tmp_path / "old", 1, config=remote))
    assert old.commands == (f"understudy server CONFIG --resume --out {tmp_path / 'old'}",)
    assert old.data == "own sites north, south"


@contextmanager
def held(folder: Path) -> Iterator[None]:
    with RunFolder(folder).locked(wait=0, waiting=lambda _: None):
        yield


def test_a_run_whose_folder_is_in_use_is_going_on(tmp_path: Path) -> None:
    plain = written(tmp_path / "plain", 2)
    at_work = written(tmp_path / "at work", 2, status(round=3, phase="Averaging.train"))
    federation = status(round=3, phase="Averaging.train", there=["ash"], asked=["ash", "beech"], awaited=["beech"])
    scoring = written(tmp_path / "scoring", 2, status(round=4, phase="score"))
    quick = written(tmp_path / "quick", 2, status(round=1, phase="train"))
    waits = status(phase=WAITING_FOR_SITES, there=["ash"])
    on_machines, early = written(tmp_path / "far", 2, federation), written(tmp_path / "early", 0, waits)
    with held(plain), held(at_work), held(on_machines), held(early), held(scoring), held(quick):
        found = looked(tmp_path)
    assert {name: (one.stands, one.detail) for name, one in found.items()} == {
        "plain": ("going on", "after round 2 of 3"),
        "at work": ("going on", "in round 3 of 3: Averaging.train"),
        "quick": ("going on", "in round 3 of 3"),
        "scoring": ("going on", "in round 3 of 3: score"),
        "far": ("going on", "in round 3 of 3: Averaging.train, waiting for beech"),
        "early": ("waiting for sites", "to come online: beech"),
    }
    assert all(one.commands == () for one in found.values())


def test_a_run_killed_in_its_very_end_is_not_finished(tmp_path: Path) -> None:
    assert standing_of(written(tmp_path / "run", 3, status(round=3))).stands == "stopped"
    assert standing_of(written(tmp_path / "old", 3)).stands == "finished", "older versions have no status"


def test_a_half_written_line_is_not_there_yet(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", 2)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"round": 3, "accur')
    assert standing_of(folder).round == 2


def test_an_undone_round_does_not_count_and_a_score_may_come_later(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", 1)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(line(2, accuracy=None) + line(3, accuracy=None, undone=True, epsilon=2.5, failed=4))
    found = standing_of(folder)
    assert (found.stands, found.round, found.accuracy, found.epsilon, found.failed) == ("stopped", 2, 0.1, 2.5, 4)


def test_lines_of_a_thousand_clients_are_read_from_their_end(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", 1)
    sent = {f"client-{number}": [10**6, 10**6] for number in range(1000)}
    (folder / "metrics.jsonl").write_text("".join(line(round, bytes_by_client=sent) for round in range(4)))
    assert (folder / "metrics.jsonl").stat().st_size > 100_000
    assert standing_of(folder).round == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "- 1",
        "method: 3",
        "method: {name: fedavg, rounds: many}\ndata: {name: digits}",
        "method: {name: fedavg, rounds: 3}\ndata: {sites: 7}",
        "method: {name: fedavg, rounds: 3}\ndata: {name: digits}\nwith: [1]",
        "a: " + "[" * 1000,
        "a" * (1 << 21),
        "\udcff",
    ],
)
def test_a_config_of_another_version_or_of_something_else_is_named(tmp_path: Path, text: str) -> None:
    folder = written(tmp_path / "run", 1)
    (folder / "config.yaml").write_bytes(text.encode(errors="surrogateescape"))
    found = standing_of(folder)
    assert found.stands == "unreadable"
    assert "config.yaml" in found.detail


def test_numbers_that_no_page_can_show_are_left_out(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", 1)
    (folder / "metrics.jsonl").write_text('{"round": 1, "accuracy": NaN, "epsilon": Infinity, "failed": "<b>"}\n')
    found = standing_of(folder)
    assert (found.round, found.accuracy, found.epsilon, found.failed) == (1, None, None, 0)


def test_words_from_a_folder_cannot_mislead(tmp_path: Path) -> None:
    hostile = status(how="failed", why="\x1b[2Jgone\u202eevil\n")
    hostile.label = "a\nb\u202e"
    found = standing_of(written(tmp_path / "run", 1, hostile))
    assert found.detail == "after round 1 of 3:  [2Jgone evil "
    assert found.label == "a b "


def test_names_in_a_detail_are_few() -> None:
    assert [some(list("abcdefgh"[:count])) for count in (0, 1, 2, 3, 8)] == [
        "",
        "a",
        "a and b",
        "a, b and c",
        "a, b, c, d, e and 3 more",
    ]


# ---- all runs


def test_runs_are_found_at_any_depth_newest_first_and_nothing_else_is(tmp_path: Path) -> None:
    for age, where in enumerate(("study/seed-0/fedavg", "one", "study/seed-1/fedavg")):
        folder = written(tmp_path / where)
        for file in folder.iterdir():
            os.utime(file, (1e9 - age, 1e9 - age))
    written(tmp_path / "one/clients/inside-a-run")
    written(tmp_path / ".hidden/run")
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/config.yaml").write_text("my: own")
    (tmp_path / "link").symlink_to(tmp_path / "study")
    assert list(looked(tmp_path)) == ["study/seed-0/fedavg", "one", "study/seed-1/fedavg"]
    assert list(looked(tmp_path / "one")) == ["one"], "a run's own folder shows that run"


def test_an_empty_folder_and_none_at_all(tmp_path: Path) -> None:
    overview = Overview(tmp_path)
    assert not overview.now.complete
    overview.look()
    assert (overview.now.runs, overview.now.complete, overview.now.remark) == ({}, True, "")
    gone = Overview(tmp_path / "gone")
    gone.look()
    assert gone.now.remark == f"There is no folder {tmp_path / 'gone'} yet."


class Opened:
    """Counts the files that are opened under a folder."""

    def __init__(self, under: Path, monkeypatch: pytest.MonkeyPatch):
        self.files: list[str] = []
        real = io.open

        def counting(file: Any, *given: Any, **named: Any) -> Any:
            if str(file).startswith(str(under)):
                self.files.append(os.path.relpath(str(file), under))
            return real(file, *given, **named)

        for module in (io, builtins):
            monkeypatch.setattr(module, "open", counting)


def test_500_runs_of_200_rounds_open_two_files_each_and_none_when_nothing_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(line(round, bytes_by_client={f"client-{n}": [1, 2] for n in range(10)}) for round in range(201))
    said = Status(label="fedavg", data="digits", rounds=200, how="finished").model_dump_json()
    for number in range(500):
        folder = tmp_path / f"run-{number}"
        folder.mkdir()
        (folder / "config.yaml").write_text("method: {name: fedavg, rounds: 200}\ndata: {name: digits}\n")
        (folder / "metrics.jsonl").write_text(lines)
        (folder / FILE).write_text(said)
    overview, opened = Overview(tmp_path), Opened(tmp_path, monkeypatch)
    overview.look()
    assert len(overview.now.runs) == 500
    assert {seen.standing.detail for seen in overview.now.runs.values()} == {"after 200 rounds"}
    assert sorted(opened.files) == sorted(
        f"run-{number}/{name}" for number in range(500) for name in ("metrics.jsonl", FILE)
    )
    opened.files.clear()
    known = overview.now.runs
    overview.look()
    assert opened.files == []
    assert overview.now.runs == known
    with (tmp_path / "run-7/metrics.jsonl").open("a") as file:
        file.write(line(201))
    opened.files.clear()
    overview.look()
    assert sorted(opened.files) == ["run-7/metrics.jsonl", f"run-7/{FILE}"]


def test_a_run_that_dies_and_is_resumed_is_seen_through(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", 2, status(round=3, phase="train"))
    overview = Overview(tmp_path)

    def stands() -> str:
        overview.look()
        return next(iter(overview.now.runs.values())).standing.stands

    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with held(folder):
            os.write(writing, b"x")
            time.sleep(60)
    os.read(reading, 1)
    assert stands() == "going on"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert stands() == "stopped", "though no file changed"
    with held(folder):
        RunFolder(folder).write_config(CONFIG)
        (folder / FILE).write_text(status(round=3, phase="train").model_dump_json())
        assert stands() == "going on"


def test_what_is_known_is_shown_while_a_slow_disk_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        written(tmp_path / f"run-{number}")
    overview = Overview(tmp_path)
    known: list[tuple[int, bool]] = []

    def slow(folder: Path) -> Standing:
        known.append((len(overview.now.runs), overview.now.complete))
        return standing_of(folder)

    monkeypatch.setattr("understudy.runs.overview.PUBLISHED", -1.0)
    monkeypatch.setattr("understudy.runs.overview.standing_of", slow)
    overview.look()
    assert known == [(0, False), (1, False), (2, False)]
    assert overview.now.complete


def test_a_huge_tree_is_looked_at_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.runs.overview.MOST_FOLDERS", 2)
    for number in range(4):
        written(tmp_path / f"run-{number}")
    overview = Overview(tmp_path)
    overview.look()
    assert len(overview.now.runs) == 1
    assert overview.now.remark == "Only the first 2 folders were looked into; name a folder further down."


def test_names_that_are_no_text_are_shown_all_the_same(tmp_path: Path) -> None:
    for name in (b"\xff\xfe", b"a\nb", "\u202egnp".encode(), b"<img src=x onerror=alert(1)>"):
        written(Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)))
    found = looked(tmp_path)
    assert set(found) == {"  ", "a b", " gnp", "<img src=x onerror=alert(1)>"}
    json.dumps(list(found)).encode()
