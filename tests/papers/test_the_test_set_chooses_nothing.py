"""Tuning on data whose test set disagrees with everything else, so that whoever looked at it would choose otherwise.

There are two classes, and the test set has their labels the wrong way round: the better a model is on its validation
records, the worse it is on the test set. A rate that learns nothing wins on the test set, and so does the first round.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

import understudy as us
from understudy.data.splits.split import Split
from understudy.errors import UserError
from understudy.papers.reproduce import STUDIES
from understudy.papers.study import StudyLine
from understudy.papers.tuned import TUNING_SEED, Comparison, Contender, compare_tuned, counted_run
from understudy.runs.compare import compare
from understudy.runs.folder import RunFolder
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
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StudyLine]:
    out = tmp_path_factory.mktemp("tuned")
    plan = Comparison("upside down", "", words(out), (LEARNS, IDLES), SEEDS, [Contender("fedavg", {})])
    (line,) = compare_tuned(plan, out / "study", Observer())
    return out / "study", line


def last_line(folder: Path) -> dict[str, Any]:
    return RunFolder(folder).metrics()[-1]


def test_the_rate_is_chosen_on_validation_records_though_the_test_set_says_otherwise(
    tuned: tuple[Path, StudyLine],
) -> None:
    out, line = tuned
    tried = {rate: last_line(out / f"runs/fedavg/rate-{rate:g}") for rate in (LEARNS, IDLES)}
    assert tried[LEARNS]["validation_accuracy"] > tried[IDLES]["validation_accuracy"]
    assert tried[LEARNS]["accuracy"] < tried[IDLES]["accuracy"], "the test set would choose the other"
    assert line.rate == LEARNS
    assert line.validation == {f"{rate:g}": last["validation_accuracy"] for rate, last in tried.items()}


def test_rates_are_tried_with_a_seed_and_a_split_that_no_run_that_counts_has(tuned: tuple[Path, StudyLine]) -> None:
    out, line = tuned
    tried = RunFolder(out / f"runs/fedavg/rate-{LEARNS:g}").config()
    counted = [RunFolder(counted_run(out, line, seed)).config() for seed in SEEDS]
    assert [config["seed"] for config in counted] == list(SEEDS)
    assert tried["seed"] not in SEEDS
    assert tried["data"]["validation"] > 0
    assert all(config["data"]["validation"] == 0 for config in counted), "they train on all training records"
    assert tried["data_digest"] not in [config["data_digest"] for config in counted]


def test_what_counts_is_the_last_round_on_the_test_set_and_the_best_is_apart(tuned: tuple[Path, StudyLine]) -> None:
    out, line = tuned
    runs = [RunFolder(counted_run(out, line, seed)) for seed in SEEDS]
    curves = [[line["accuracy"] for line in run.metrics()] for run in runs]
    assert all(curve[-1] < max(curve) for curve in curves), "it gets worse on the test set as it learns"
    assert line.accuracies == [curve[-1] for curve in curves]
    assert line.best == [max(curve) for curve in curves]
    for run, curve in zip(runs, curves, strict=True):
        summary = run.summary()
        assert (summary["accuracy"], summary["best_accuracy"]) == (curve[-1], max(curve))
        (row,) = compare([run.path])
        assert (row.accuracy, row.best_accuracy) == (curve[-1], max(curve))


def test_every_study_is_tuned_with_another_seed_than_it_counts_and_never_on_the_test_set() -> None:
    checked = set()
    for name, found in STUDIES.items():
        for scale, carry_out in found.scales.items():
            assert isinstance(carry_out, partial)
            plan = carry_out.args[0]
            if isinstance(plan, Comparison):
                checked.add(name)
                assert plan.tuned_on in ("validation_accuracy", "personal_held_out_accuracy"), f"{name} at {scale}"
            assert TUNING_SEED not in getattr(plan, "seeds", ())
    assert {
        "averaging-family",
        "personal-models",
        "feddm-skew",
        "fedlap-pairs",
        "fedlap-options",
        "fedlap-dp",
    } <= checked


def test_a_comparison_that_would_tune_on_what_counts_is_refused() -> None:
    plan: dict[str, Any] = {"name": "n", "about": "", "config": {}, "rates": (1.0,), "contenders": []}
    with pytest.raises(UserError, match="seed 1000 is reserved for tuning rates"):
        Comparison(**plan, seeds=(0, TUNING_SEED))
    with pytest.raises(UserError, match="'accuracy' comes from the test set, which chooses nothing"):
        Comparison(**plan, seeds=(0,), tuned_on="accuracy")
