"""Tuning on data whose test set disagrees with everything else, so that whoever looked at it would choose otherwise.

There are two classes, and the test set has their labels the wrong way round: the better a model is on its validation
records, the worse it is on the test set. A rate that learns nothing wins on the test set, and so does the first round.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

import understudy as us
from understudy.data.splits.split import Split
from understudy.errors import UserError
from understudy.papers.carrying_out import carry_out, played_lines, tuning_runs
from understudy.papers.comparison import TUNING_SEED, Comparison, Contender
from understudy.papers.fedcog.main_experiment import Setting
from understudy.papers.published import FromRuns, Later
from understudy.papers.reproduce import STUDIES
from understudy.papers.study import StudyLine
from understudy.runs.compare import compare
from understudy.runs.folder import RunFolder
from understudy.runs.run_store import RunStore
from understudy.runs.scores import CHOOSES
from understudy.runs.watching import Observer

LEARNS, IDLES = 0.5, 1e-6
SEEDS = (0, 1)


def words(home: Path) -> dict[str, Any]:
    """One pixel of four says the class, to everyone but the test set."""
    rng = np.random.default_rng(0)
    for name, upside_down in (("train", False), ("test", True)):
        y = np.arange(60) % 2
        x = rng.integers(0, 40, (60, 1, 2, 2)).astype(np.uint8)
        x[:, 0, 0, 0] = 20 + 200 * y
        y[::9] = 1 - y[::9]  # a few are wrong everywhere, so that no share of the records is like another
        np.savez(home / f"{name}.npz", x=x, y=1 - y if upside_down else y)
    return {
        "data": {"name": str(home / "train.npz"), "test": str(home / "test.npz"), "clients": 2, "split": "iid"},
        "model": {"name": "softmax"},
        "method": {"name": "fedavg", "rounds": 3, "local": {"epochs": 4, "batch": 8, "lr": LEARNS}},
        "engine": {"name": "inline"},
    }


def by_hand(folder: Path, file: Path, rows: Sequence[int]) -> float:
    """Accuracy of the softmax regression that was saved, on some records of a file."""
    weights = load_file(folder / "model.safetensors")
    with np.load(file) as saved:
        x, y = saved["x"][rows].reshape(len(rows), -1) / 255, saved["y"][rows]
    logits = x @ weights["head.weight"].numpy().T + weights["head.bias"].numpy()
    return float((logits.argmax(1) == y).mean())


def test_validation_is_scored_on_validation_records_and_the_test_set_on_its_own(tmp_path: Path) -> None:
    result = us.run(words(tmp_path), out=tmp_path / "run", changes={"data.validation": 0.3})
    kept = Split.load(tmp_path / "run/split.json").validation.tolist()
    last = result.metrics[-1]
    assert len(kept) == 18
    assert last["validation_accuracy"] == pytest.approx(by_hand(result.folder, tmp_path / "train.npz", kept))
    assert last["accuracy"] == pytest.approx(by_hand(result.folder, tmp_path / "test.npz", range(60)))
    assert last["validation_accuracy"] > 0.8
    assert last["accuracy"] < 0.2


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> "Tuned":
    out = tmp_path_factory.mktemp("tuned")
    plan = Comparison("upside down", "", words(out), (LEARNS, IDLES), SEEDS, [Contender("fedavg", {})])
    store = RunStore(out / "study")
    carry_out([plan], store, Observer(), workers=1)
    return Tuned(plan, store)


@dataclass(frozen=True)
class Tuned:
    plan: Comparison
    store: RunStore

    @property
    def line(self) -> StudyLine:
        return played_lines([self.plan], self.store)["fedavg"]

    def tried(self) -> dict[float, RunFolder]:
        runs = tuning_runs(self.plan, self.plan.contenders[0], self.store)
        return {one.rate: RunFolder(self.store.folder(one.run)) for one in runs if one.rate is not None}

    def counted(self) -> list[RunFolder]:
        folders = played_lines([self.plan], self.store).folders
        return [RunFolder(folders["fedavg", seed]) for seed in SEEDS]


def test_the_rate_is_chosen_on_validation_records_though_the_test_set_says_otherwise(tuned: Tuned) -> None:
    tried = {rate: run.metrics()[-1] for rate, run in tuned.tried().items()}
    assert tried[LEARNS]["validation_accuracy"] > tried[IDLES]["validation_accuracy"]
    assert tried[LEARNS]["accuracy"] < tried[IDLES]["accuracy"], "the test set would choose the other"
    assert tuned.line.rate == LEARNS
    assert tuned.line.validation == {f"{rate:g}": last["validation_accuracy"] for rate, last in tried.items()}


def test_rates_are_tried_with_a_seed_and_a_split_that_no_run_that_counts_has(tuned: Tuned) -> None:
    tried = tuned.tried()[LEARNS].config()
    counted = [run.config() for run in tuned.counted()]
    assert [config["seed"] for config in counted] == list(SEEDS)
    assert tried["seed"] not in SEEDS
    assert tried["data"]["validation"] > 0
    assert all(config["data"]["validation"] == 0 for config in counted), "they train on all training records"
    assert tried["data_digest"] not in [config["data_digest"] for config in counted]


def test_what_counts_is_the_last_round_on_the_test_set_and_the_best_is_apart(tuned: Tuned) -> None:
    runs, line = tuned.counted(), tuned.line
    curves = [[line["accuracy"] for line in run.metrics()] for run in runs]
    assert all(curve[-1] < max(curve) for curve in curves), "it gets worse on the test set as it learns"
    assert line.accuracies == [curve[-1] for curve in curves]
    assert line.best == [max(curve) for curve in curves]
    for run, curve in zip(runs, curves, strict=True):
        summary = run.summary()
        assert (summary["accuracy"], summary["best_accuracy"]) == (curve[-1], max(curve))
        (row,) = compare([run.path])
        assert (row.accuracy, row.best_accuracy) == (curve[-1], max(curve))


def several_labels(home: Path) -> dict[str, Any]:
    """A lit pixel means its label in 45 of 100 records: to name none is right most often, and useless."""
    rng = np.random.default_rng(0)
    for name in ("train", "test"):
        lit = rng.random((200, 6)) < 0.3
        x = np.where(lit, 230, 20).astype(np.uint8).reshape(200, 1, 3, 2)
        np.savez(home / f"{name}.npz", x=x, y=(lit & (rng.random((200, 6)) < 0.45)).astype(np.uint8))
    return {
        "data": {"name": str(home / "train.npz"), "test": str(home / "test.npz"), "clients": 2, "split": "iid"},
        "model": {"name": "softmax"},
        "method": {"name": "fedavg", "rounds": 2, "local": {"epochs": 2, "batch": 8}},
        "engine": {"name": "inline"},
    }


def test_with_several_labels_f1_chooses_where_accuracy_would_name_none(tmp_path: Path) -> None:
    quiet, loud = 5.0, 0.1  # the large rate soon names no label
    setting = Setting("labels", several_labels(tmp_path), averaged=1, rounds=2, rates=(quiet, loud), measure="macro_f1")
    plan = setting.comparison("several labels", "", [Contender("fedavg", {})])
    store = RunStore(tmp_path / "study")
    carry_out([plan], store, Observer(), workers=1)
    runs = tuning_runs(plan, plan.contenders[0], store)
    tried = {one.rate: RunFolder(store.folder(one.run)).metrics()[-1] for one in runs}
    assert tried[quiet]["validation_accuracy"] > tried[loud]["validation_accuracy"], "accuracy would choose the other"
    assert tried[quiet]["validation_macro_f1"] < 0.1 < tried[loud]["validation_macro_f1"]
    line = played_lines([plan], store)["fedavg"]
    assert line.rate == loud
    assert line.validation == {f"{rate:g}": last["validation_macro_f1"] for rate, last in tried.items()}


def test_every_study_is_tuned_with_another_seed_than_it_counts_and_never_on_the_test_set() -> None:
    checked = set()
    for name, found in STUDIES.items():
        for scale, asked in found.scales.items():
            experiment = asked.make() if isinstance(asked, Later) else asked
            for plan in experiment.comparisons if isinstance(experiment, FromRuns) else ():
                checked.add(name)
                allowed = [*(f"validation_{score}" for score in CHOOSES), "personal_held_out_accuracy"]
                assert plan.tuned_on in allowed, f"{name} at {scale}"
                several = plan.measure == "macro_f1"
                assert several == (plan.tuned_on == "validation_macro_f1"), f"{name}: naming no label is mostly right"
                assert all(TUNING_SEED not in plan.seeds_of(one) for one in plan.contenders)
    assert {"averaging-family", "personal-models", "frontier"} <= checked


def test_a_comparison_that_would_tune_on_what_counts_is_refused() -> None:
    plan: dict[str, Any] = {"name": "n", "about": "", "config": {}, "rates": (1.0,), "contenders": []}
    with pytest.raises(UserError, match="seed 1000 is reserved for tuning rates"):
        Comparison(**plan, seeds=(0, TUNING_SEED))
    with pytest.raises(UserError, match="'accuracy' comes from the test set, which chooses nothing"):
        Comparison(**plan, seeds=(0,), tuned_on="accuracy")
