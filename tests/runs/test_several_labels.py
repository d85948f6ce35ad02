"""Records with several labels, from drawn canvases to the table of runs."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

import understudy as us
from understudy.data.canvases import CanvasesSettings, read_canvases
from understudy.data.dataset import Dataset
from understudy.data.examples import Examples
from understudy.data.splits.split import Split
from understudy.runs.compare import compare, rounds_to
from understudy.runs.folder import RunFolder
from understudy.view.tables import print_comparison, print_summary

CANVASES = {"users": 3, "records": 30, "test": 40, "size": 16}
TINY: dict[str, Any] = {
    "data": {"name": "canvases", "canvases": CANVASES},
    "model": {"name": "mlp", "hidden": [32]},
    "method": {"name": "fedavg", "rounds": 2, "local": {"epochs": 2, "lr": 1.0, "batch": 10}},
    "engine": "inline",
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> us.Result:
    return us.run(TINY, out=tmp_path_factory.mktemp("several") / "run")


@pytest.fixture(scope="module")
def canvases() -> Dataset:
    return read_canvases(CanvasesSettings(**CANVASES))


Said = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def predicted(weights: dict[str, torch.Tensor], data: Dataset, records: Examples) -> Said:
    """The network in plain numpy: one hidden layer with ReLU; a label is said where its logit is above 0."""
    (mean,), (std,) = data.problem.mean, data.problem.std
    x = (records.x.numpy().reshape(len(records), -1) / 255 - mean) / std
    first, bias, second, last = (weight.double().numpy() for weight in weights.values())
    said: Said = np.maximum(x @ first.T + bias, 0) @ second.T + last > 0
    return said


def test_every_round_has_scores_of_each_class_in_its_line(ran: us.Result) -> None:
    lines = [json.loads(line) for line in (ran.folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [0, 1, 2]
    for line in lines:
        assert line["count"] == 40
        for scores in (line["recall"], line["precision"], line["f1"]):
            assert len(scores) == 10
        assert 0 <= line["macro_f1"] <= 1
        assert 0 <= line["sample_f1"] <= 1
    assert lines[2]["clients"] == 3
    assert lines[2]["loss"] < lines[0]["loss"]


def test_the_last_line_is_what_the_saved_model_scores(ran: us.Result, canvases: Dataset) -> None:
    assert canvases.test is not None
    said, truth = predicted(ran.weights, canvases, canvases.test), canvases.test.y.numpy() > 0
    last = ran.metrics[-1]
    assert said.any()  # otherwise there would be little to see
    f1: list[float] = []
    for label in range(10):
        hits = int((said & truth)[:, label].sum())
        wrong, missed = int((said & ~truth)[:, label].sum()), int((~said & truth)[:, label].sum())
        assert last["recall"][label] == (hits / (hits + missed) if hits + missed else None)
        assert last["precision"][label] == (hits / (hits + wrong) if hits + wrong else None)
        assert last["f1"][label] == (2 * hits / (2 * hits + wrong + missed) if hits + wrong + missed else None)
        f1 += [last["f1"][label]] if hits + wrong + missed else []
    assert last["macro_f1"] == pytest.approx(np.mean(f1))
    assert last["sample_f1"] == pytest.approx(np.mean(2 * (said & truth).sum(1) / (said.sum(1) + truth.sum(1))))
    assert last["accuracy"] == pytest.approx((said == truth).mean())


def test_validation_records_have_an_f1_of_their_own(tmp_path: Path, canvases: Dataset) -> None:
    # Accuracy over labels is high for "no" everywhere, so it cannot choose a learning rate.
    result = us.run(TINY, out=tmp_path / "run", changes={"data.validation": 0.3})
    kept = canvases.train.take(Split.load(tmp_path / "run/split.json").validation)
    said, truth = predicted(result.weights, canvases, kept), kept.y.numpy() > 0
    hits, either = (said & truth).sum(0), said.sum(0) + truth.sum(0)
    assert said.any()
    last = result.metrics[-1]
    assert last["validation_macro_f1"] == pytest.approx((2 * hits[either > 0] / either[either > 0]).mean())
    assert last["validation_accuracy"] == pytest.approx((said == truth).mean())


def test_each_user_is_a_client_and_the_config_says_so(ran: us.Result) -> None:
    config = RunFolder(ran.folder).config()
    assert config["data"]["split"] == {"kind": "users"}
    assert config["problem"]["multilabel"] is True
    assert set(ran.metrics[-1]["bytes_by_client"]) == {"user-0", "user-1", "user-2"}


def test_a_summary_has_both_kinds_of_f1(ran: us.Result) -> None:
    last = ran.metrics[-1]
    assert (ran.summary["macro_f1"], ran.summary["sample_f1"]) == (last["macro_f1"], last["sample_f1"])
    shown = StringIO()
    print_summary(ran.folder, ran.summary, Console(file=shown, width=100))
    assert f"{100 * last['macro_f1']:.1f} % over classes" in shown.getvalue()


def test_without_a_test_set_clients_count_labels_and_the_sum_is_scored(canvases: Dataset, tmp_path: Path) -> None:
    assert canvases.users is not None
    sites = {f"u{user}": canvases.train.take(torch.nonzero(canvases.users == user)[:, 0]) for user in range(3)}
    data = us.Federation.from_arrays(sites, held_out=0.3, mean=(0.086,), std=(0.235,))
    here = {key: value for key, value in TINY.items() if key != "data"}
    ran = us.run(here, data=data, out=tmp_path / "run")
    kept = [holding.held_out for holding in data.sites.values()]
    together = Dataset("kept", data.problem, kept[0], kept[0].and_also(kept[1]).and_also(kept[2]))
    assert together.test is not None
    said, truth = predicted(ran.weights, together, together.test), together.test.y.numpy() > 0
    last = ran.metrics[-1]
    assert last["scored_at"] == "clients"
    assert last["sample_f1"] == pytest.approx(np.mean(2 * (said & truth).sum(1) / (said.sum(1) + truth.sum(1))))
    whole = said.sum(0) + truth.sum(0)
    expected = [2 * both / every for both, every in zip((said & truth).sum(0), whole, strict=True) if every]
    assert last["macro_f1"] == pytest.approx(np.mean(expected))


def test_runs_about_several_labels_are_compared_by_f1(ran: us.Result) -> None:
    (row,) = compare([ran.folder])
    f1 = [line["macro_f1"] for line in ran.metrics]
    assert (row.measure, row.macro_f1, row.best_macro_f1) == ("macro_f1", f1[-1], max(f1))
    assert row.sample_f1 == ran.metrics[-1]["sample_f1"]
    assert row.target == round(0.9 * max(f1), 3)
    assert row.rounds_to_target == next(at for at, value in enumerate(f1) if value >= (row.target or 1))
    assert row.as_dict()["macro_f1"] == f1[-1]
    shown = StringIO()
    print_comparison([row], Console(file=shown, width=80))
    assert f"{100 * max(f1):.1f}" in shown.getvalue()
    assert "rounds until the class F1 first reaches" in shown.getvalue()


def test_beside_a_run_about_one_label_accuracy_is_what_both_have(ran: us.Result, tmp_path: Path) -> None:
    one = {**TINY, "data": {"name": "digits", "limit": 60, "clients": 2, "split": "iid"}}
    other = us.run(one, changes={"method.rounds": 1}, out=tmp_path / "one")
    rows = compare([ran.folder, other.folder])
    assert [row.measure for row in rows] == ["accuracy", "accuracy"]
    assert rows[0].macro_f1 is not None
    assert rows[1].macro_f1 is None
    assert "macro_f1" not in other.summary


def test_rounds_to_a_target_of_f1() -> None:
    metrics = [{"round": at, "accuracy": 0.9, "macro_f1": f1} for at, f1 in enumerate((None, 0.2, 0.5))]
    assert rounds_to(metrics, 0.4, "macro_f1") == 2
    assert rounds_to(metrics, 0.4) == 0
