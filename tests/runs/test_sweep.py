"""A sweep: validation chooses and the test set is only reported; runs are kept, failures are written down."""

import csv
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import understudy as us
from in_a_fork import understudy
from understudy.config.read import choices
from understudy.data.federation import Federation, Holding
from understudy.errors import UserError
from understudy.runs import run_store
from understudy.runs.folder import Line, RunFolder
from understudy.runs.play import play
from understudy.runs.swept import Swept, SweptRun, SweptSettings
from understudy.runs.watching import Observer, RunDiverged

SMALL: dict[str, Any] = {
    "data": {"name": "digits", "limit": 150, "clients": 2, "split": "iid"},
    "model": "softmax",
    "method": {"name": "fedavg", "rounds": 1, "local": {"epochs": 1}},
}
LEARNS, IDLES = 0.5, 1e-6


class Heard(Observer):
    def __init__(self) -> None:
        self.sentences: list[str] = []

    def says(self, sentence: str) -> None:
        self.sentences.append(sentence)


def opposed() -> Federation:
    """Records whose validation labels follow the first pixel, as in training, and whose test labels contradict it: what
    is best on one is worst on the other."""
    x = np.zeros((60, 2, 2), np.uint8)
    y = np.arange(60) % 2
    x[y == 1, 0, 0] = 255
    made = us.Federation.from_arrays({"a": (x, y)}, test=(x, 1 - y))
    right = us.Examples.from_arrays(x, y)
    return Federation(made.problem, {"a": Holding(right, right.none())}, made.test, validation=right)


def test_validation_chooses_even_where_the_test_set_would_choose_the_opposite(tmp_path: Path) -> None:
    local = {"epochs": 20, "batch": 10}
    plan = {"model": "softmax", "method": {"name": "fedavg", "rounds": 1, "local": local}}
    found = us.sweep(plan, {"lr": [IDLES, LEARNS]}, data=opposed(), out=tmp_path, workers=1)
    idle, learnt = found.lines
    assert (learnt.validation, learnt.test) == (1.0, 0.0)
    assert idle.test is not None
    assert idle.test > 0.0, "by the test set alone, it would win"
    assert found.best == {"lr": LEARNS}
    assert (found.validation_accuracy, found.accuracy) == (1.0, 0.0)


def test_where_a_record_may_have_several_labels_f1_chooses_and_not_saying_no_to_all(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 255, (200, 2, 2), dtype=np.uint8), (rng.random((200, 3)) < 0.2).astype(np.uint8)
    data = us.Federation.from_arrays({"a": (x[:150], y[:150])}, test=(x[150:], y[150:]))
    plan = {"model": "softmax", "method": {"name": "fedavg", "rounds": 1, "local": {"epochs": 20}}}
    found = us.sweep(plan, {"lr": [IDLES, LEARNS]}, data=data, out=tmp_path, workers=1)
    assert found.measure == "macro_f1"
    idle, learnt = (
        json.loads((run.folder / "metrics.jsonl").read_text().splitlines()[-1]) for run in found.runs if run.folder
    )
    assert learnt["validation_accuracy"] > idle["validation_accuracy"], "by accuracy, who learnt to say no would win"
    assert learnt["validation_macro_f1"] < idle["validation_macro_f1"]
    assert found.best == {"lr": IDLES}
    assert found.validation_accuracy == idle["validation_macro_f1"]
    assert found.accuracy == idle["macro_f1"]
    assert found.rows()[0]["test_macro_f1"] == idle["macro_f1"]
    assert "F1 over classes" in found._repr_html_()


def line(name: str, validation: list[float | None], test: list[float | None]) -> SweptSettings:
    runs = [SweptRun({"x": name}, at, None, *pair) for at, pair in enumerate(zip(validation, test, strict=True))]
    return SweptSettings({"x": name}, runs)


def test_the_mean_over_seeds_chooses_and_a_failed_seed_disqualifies() -> None:
    lines = [line("a", [0.5, 0.7], [0.9, 0.9]), line("b", [0.9, None], [0.9, 0.9]), line("c", [0.4, 0.9], [0.1, 0.1])]
    swept = Swept("s", ["x"], [0, 1], lines)
    assert [one.validation for one in lines] == [pytest.approx(0.6), None, pytest.approx(0.65)]
    assert swept.chosen == 2
    assert Swept("s", ["x"], [0], [line("a", [0.5], [0.1]), line("b", [0.5], [0.9])]).chosen == 0, "the first of equals"
    assert Swept("s", ["x"], [0], [line("a", [None], [0.1])]).chosen is None


def test_a_share_is_kept_back_where_there_is_none_with_a_note(tmp_path: Path) -> None:
    found = us.sweep(SMALL, {"lr": [0.1]}, out=tmp_path, workers=1)
    assert found.notes == ["data.validation is 0: here 20 % of the training records are kept back to choose on."]
    (run,) = found.runs
    assert run.folder is not None
    assert RunFolder(run.folder).config()["data"]["validation"] == 0.2
    own = us.sweep(SMALL, {"lr": [0.1]}, out=tmp_path, workers=1, validation=0.3)
    assert own.notes == []
    (run,) = own.runs
    assert run.folder is not None
    assert RunFolder(run.folder).config()["data"]["validation"] == 0.3


def test_validation_records_of_own_arrays_come_from_the_sites_and_from_no_test_set() -> None:
    x, y = np.arange(40, dtype=np.uint8).reshape(10, 2, 2), np.arange(10) % 2
    data = us.Federation.from_arrays({"a": (x, y)}, test=(x[:2] + 100, y[:2]))
    kept = data.with_validation(0.2, seed=0)
    assert kept.validation is not None
    assert (len(kept.sites["a"].own), len(kept.validation)) == (8, 2)
    both = {*kept.sites["a"].own.x.flatten().tolist(), *kept.validation.x.flatten().tolist()}
    assert both == set(range(40))


def test_where_clients_score_their_held_out_records_choose_and_no_test_is_claimed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sites = {name: (rng.integers(0, 255, (40, 2, 2), dtype=np.uint8), np.arange(40) % 2) for name in "ab"}
    data = us.Federation.from_arrays(sites, held_out=0.25)
    plan = {"model": "softmax", "method": SMALL["method"]}
    found = us.sweep(plan, {"lr": [0.1, 0.2]}, data=data, out=tmp_path, workers=1)
    assert found.chosen_on == "held-out"
    assert found.chosen is not None
    assert found.accuracy is None
    assert "no test set to report on" in found._repr_html_()


def test_own_sites_with_a_test_set_are_told_what_to_do(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 2), np.float32), y=[0, 1, 0, 1])
    source = str(tmp_path / "a.npz")
    words = {**SMALL, "data": {"sites": {"a": source}, "test": source}}
    with pytest.raises(UserError, match=r"chooses on validation records.* leave data\.test out"):
        us.sweep(words, {"lr": [0.1]}, out=tmp_path / "sweeps")


def test_what_was_run_before_is_found_again_and_only_new_values_are_run(tmp_path: Path) -> None:
    first, second = Heard(), Heard()
    us.sweep(SMALL, {"lr": [0.1, 0.2]}, [0, 1], out=tmp_path, workers=1, observer=first)
    wider = us.sweep(SMALL, {"method.local.lr": [0.1, 0.2, 0.3]}, [0, 1], out=tmp_path, workers=1, observer=second)
    assert first.sentences[0] == "4 runs; 4 to do, on 1 process."
    assert second.sentences[0] == "6 runs, 4 of them done earlier; 2 to do, on 1 process."
    assert len(wider.rows()) == 6


def test_processes_change_no_bit(tmp_path: Path) -> None:
    alone = us.sweep(SMALL, {"lr": [0.1, 0.2]}, out=tmp_path / "one", workers=1)
    beside = us.sweep(SMALL, {"lr": [0.1, 0.2]}, out=tmp_path / "two", workers=2)
    for a, b in zip(alone.runs, beside.runs, strict=True):
        assert a.folder is not None
        assert b.folder is not None
        assert (a.folder / "model.safetensors").read_bytes() == (b.folder / "model.safetensors").read_bytes()


class Stops(Observer):
    def scored(self, line: Line) -> None:
        if line["round"] == 2:
            raise KeyboardInterrupt


def test_after_a_stop_a_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    grid, plan = {"lr": [0.1]}, {**SMALL, "method": {**SMALL["method"], "rounds": 3}}
    with pytest.raises(KeyboardInterrupt):
        us.sweep(plan, grid, out=tmp_path, workers=1, observer=Stops())
    (folder,) = (tmp_path / "runs").iterdir()
    before = RunFolder(folder).id, RunFolder(folder).metrics()
    assert [one["round"] for one in before[1]] == [0, 1, 2]
    found = us.sweep(plan, grid, out=tmp_path, workers=1)
    assert RunFolder(folder).id == before[0]
    assert RunFolder(folder).metrics()[:3] == before[1], "not a second was spent on them again"
    assert found.chosen == 0


def test_a_combination_that_is_refused_fails_or_diverges_does_not_end_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = play

    def broken(config: Any, *given: Any, **named: Any) -> Any:
        if config.method.settings.local.lr == 0.2:
            raise ZeroDivisionError("a bug in own code")
        if config.method.settings.local.lr == 0.3:
            given[0].mkdir(parents=True)
            raise RunDiverged("After round 1 the server's model is not finite")
        return really(config, *given, **named)

    monkeypatch.setattr(run_store, "play", broken)
    found = us.sweep(SMALL, {"lr": [0.1, 0.2, -1, 0.3]}, out=tmp_path, workers=2)
    why = [one.why_failed for one in found.lines]
    assert why[0] == ""
    assert why[1] == "ZeroDivisionError: a bug in own code"
    assert why[2].startswith("'method.local.lr': input should be greater than 0")
    assert why[3] == "After round 1 the server's model is not finite"
    assert found.best == {"lr": 0.1}
    saved = json.loads((found.folder / "sweep.json").read_text())
    assert [one["failed"] for one in saved["runs"]] == [None, *why[1:]]


def test_a_process_that_is_killed_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really = play

    def deadly(config: Any, *given: Any, **named: Any) -> Any:
        if config.method.settings.local.lr == 0.2:
            os.kill(os.getpid(), signal.SIGKILL)
        return really(config, *given, **named)

    monkeypatch.setattr(run_store, "play", deadly)
    found = us.sweep(SMALL, {"lr": [0.2, 0.1, 0.3]}, out=tmp_path, workers=2)
    assert [bool(one.why_failed) for one in found.lines] == [True, False, False]
    assert "its process died, twice" in found.lines[0].why_failed


def test_a_sweep_of_which_nothing_can_run_says_why_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"There is no setting 'lrr'\. Did you mean 'method\.local\.lr'\?"):
        us.sweep(SMALL, {"lrr": [0.1, 0.2]}, out=tmp_path / "sweeps")
    assert not (tmp_path / "sweeps").exists()


def test_objects_are_told_apart_by_what_they_hold(tmp_path: Path) -> None:
    x, y = np.arange(80, dtype=np.uint8).reshape(20, 2, 2), np.arange(20) % 2
    plan = {"model": "softmax", "method": SMALL["method"]}

    def folder(shift: int) -> Path | None:
        data = us.Federation.from_arrays({"a": (x + np.uint8(shift), y)}, held_out=0.5)
        (run,) = us.sweep(plan, {"lr": [0.1]}, data=data, out=tmp_path, workers=1).runs
        return run.folder

    assert folder(0) == folder(0)
    assert folder(0) != folder(1)


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_the_command_prints_a_table_and_writes_csv_json_and_a_picture(tmp_path: Path) -> None:
    words = ["lr=0.01,0.5", "seed=0,1", "rounds=1", "model=softmax", "limit=150", "clients=2", "--csv", "all.csv"]
    done = understudy("sweep", "digits-skewed", *words, "--plot", "all.png", cwd=tmp_path)
    assert "◀ chosen" in done.stdout
    assert "Chosen by validation accuracy; the test set chose nothing." in done.stdout
    assert "4 runs; 4 to do" in done.stderr
    rows = read_csv(tmp_path / "all.csv")
    assert [(row["lr"], row["seed"]) for row in rows] == [("0.01", "0"), ("0.01", "1"), ("0.5", "0"), ("0.5", "1")]
    assert (tmp_path / "all.png").read_bytes().startswith(b"\x89PNG")
    again = json.loads(understudy("sweep", "digits-skewed", *words[:-2], "--json", cwd=tmp_path).stdout)
    assert [row["validation_accuracy"] for row in again["runs"]] == [float(row["validation_accuracy"]) for row in rows]
    folders = [row["folder"] for row in rows]
    understudy("compare", *folders, "--csv", "compared.csv", cwd=tmp_path)
    compared = read_csv(tmp_path / "compared.csv")
    assert [row["accuracy"] for row in compared] == [row["test_accuracy"] for row in rows]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("lr=0.01,0.1", [0.01, 0.1]),
        ("hidden=[64],[64, 32]", [[64], [64, 32]]),
        ("with=[{name: fedssyn, images: 3}],[]", [[{"name": "fedssyn", "images": 3}], []]),
        ("model='a,b',c", ["a,b", "c"]),
        ("rounds=3", [3]),
        ("size=null,8", [None, 8]),
    ],
)
def test_commas_separate_values_outside_brackets_and_quotes(text: str, values: list[Any]) -> None:
    assert list(choices([text]).values()) == [values]


@pytest.mark.parametrize("text", ["lr=0.1,", "lr=,1", "lr"])
def test_values_that_are_missing(text: str) -> None:
    with pytest.raises(UserError, match=r"empty value between its commas|is not KEY=VALUE"):
        choices([text])


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"grid": ["lr"]}, "grid: pass a mapping from settings to lists of values, not list"),
    ({"grid": {"lr": 0.1}}, r"grid: give a list of values for 'lr', such as \[0\.1\]"),
    ({"grid": {"method": "fedavg"}}, r"grid: give a list of values for 'method', such as \['fedavg'\]"),
    ({"grid": {"lr": []}}, "grid: 'lr' has no value to try"),
    ({"grid": {"seed": [1]}}, "seeds have an argument of their own"),
    ({"seed": 3}, "seed: a sweep takes seeds"),
    ({"seeds": []}, "seeds: give whole numbers from 0, each once"),
    ({"seeds": [1, 1]}, "seeds: give whole numbers from 0, each once"),
    ({"seeds": "all"}, "seeds: give whole numbers from 0, each once"),
    ({"workers": 0}, "workers: give a whole number, at least 1, not 0"),
    ({"config": 5}, "config: pass a name, a file or a mapping, not int"),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=[sentence[:40] for _, sentence in WRONG])
def test_a_sweep_that_cannot_be_meant(words: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        us.sweep(**{"config": SMALL, "grid": {"lr": [0.1]}, **words, "out": tmp_path / "sweeps"})
    assert not (tmp_path / "sweeps").exists()


def test_runs_whose_clients_train_together_are_found_again_after_several_processes(tmp_path: Path) -> None:
    config = {**SMALL, "engine": {"name": "inline", "together": 2}}
    swept = us.sweep(config, {"method.local.lr": [0.1, LEARNS]}, seeds=[0], out=tmp_path, workers=2)
    assert all(run.why_failed == "" for line in swept.lines for run in line.runs)
