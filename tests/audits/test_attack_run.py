"""The audit of a run: real records in place of a stand-in are found, what no client sent is not."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from understudy.audits import likelihood_ratios
from understudy.audits.attack_run import audit_run
from understudy.audits.nearest_pairs import nearest_pairs
from understudy.audits.result import read_audit
from understudy.audits.scene import scene_of
from understudy.audits.shadows import SHADOWS, shadow
from understudy.config.resolve import resolve
from understudy.errors import UserError
from understudy.runs.compare import compare
from understudy.runs.play import play
from understudy.runs.watching import Observer

DIGITS: dict[str, Any] = {
    "data": {"name": "digits", "limit": 300, "clients": 3, "split": {"kind": "dirichlet", "alpha": 1.0}},
    "model": "softmax",
    "method": {"name": "real", "rounds": 2, "ipc": 5, "server": {"epochs": 2}},
    "engine": "inline",
    "transcript": True,
}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose clients send their own records."""
    folder = tmp_path_factory.mktemp("runs") / "real"
    play(resolve(DIGITS), folder)
    return folder


def test_records_that_were_sent_are_found_and_foreign_ones_are_not(real: Path) -> None:
    found = audit_run(real)
    rows = {row.name: row for row in found.rows}
    assert set(rows) == {"distance", "density", "embedding", "mixture"}
    distance = rows["distance"]
    assert distance.clients == 3
    assert distance.pooled.members == found.members == 300
    sent = found.images / 300  # each round draws anew, so a little less than this share of the records left
    assert 0.6 * sent < distance.pooled.caught.value <= sent
    assert distance.null.caught.value < 0.05
    assert distance.null.auc.low < 0.55
    assert found.copies is not None
    assert found.copies.share == 1.0
    assert found.leak is not None
    assert found.leak.caught == max(row.pooled.caught.value for row in found.rows)
    assert found.leak.null == max(row.null.caught.value for row in found.rows)
    assert any("non-members" in note for note in found.notes)  # 150 cannot resolve 1 %


def test_what_was_found_is_read_back_and_stands_in_a_comparison(real: Path) -> None:
    found = audit_run(real)
    assert read_audit(real) == replace(found, rows=list(found.rows), notes=list(found.notes))
    (row,) = compare([real])
    assert row.leak == found.leak
    assert row.share_sent == pytest.approx(found.images / 300)


def test_the_same_numbers_for_any_number_of_processes(real: Path) -> None:
    alone, spread = audit_run(real, workers=1), audit_run(real, workers=2)
    assert replace(alone, seconds=0) == replace(spread, seconds=0)


def test_the_nearest_pairs_are_the_records_that_were_sent(real: Path) -> None:
    pairs = nearest_pairs(scene_of(real), most=7)
    assert len(pairs) == 7
    assert all(pair.copy and pair.image.equal(pair.record) for pair in pairs)
    assert len({pair.record.numpy().tobytes() for pair in pairs}) == 7  # each record once


def test_without_a_transcript_the_newest_images_and_the_final_model_are_attacked(tmp_path: Path) -> None:
    play(resolve({**DIGITS, "transcript": False}), tmp_path)
    found = audit_run(tmp_path)
    assert not found.whole
    assert {row.name for row in found.rows} == {"distance", "density", "mixture", "loss"}  # no broadcast model is kept
    assert any("transcript=true" in note for note in found.notes)
    heard = Listening()
    with pytest.raises(UserError, match=r"kept no transcript.*transcript=true"):
        audit_run(tmp_path, thorough=True, observer=heard)
    assert not heard.said  # it is refused before minutes of attacks


def test_weights_are_attacked_by_their_loss(tmp_path: Path) -> None:
    method = {"name": "fedavg", "rounds": 1, "local": {"epochs": 40, "batch": 8, "lr": 0.3}}
    play(resolve({**DIGITS, "model": {"name": "mlp"}, "method": method}), tmp_path)
    (row,) = audit_run(tmp_path).rows
    assert row.name == "loss"
    assert row.pooled.auc.low > row.null.auc.high  # forty epochs on a hundred records are remembered


def test_shadows_find_what_was_sent_and_an_interrupted_audit_goes_on(
    real: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(likelihood_ratios, "SHADOWS", 6)
    made: list[int] = []
    honest = shadow

    def interrupted(method: Any, candidates: Any, exchanges: Any, client: str, seed: int, number: int) -> Any:
        if len(made) == 4:
            raise KeyboardInterrupt
        made.append(number)
        return honest(method, candidates, exchanges, client, seed, number)

    monkeypatch.setattr(likelihood_ratios, "shadow", interrupted)
    with pytest.raises(KeyboardInterrupt):
        audit_run(real, thorough=True, only=("distance",))
    made.clear()

    def counted(*given: Any) -> Any:
        made.append(given[-1])
        return honest(*given)

    monkeypatch.setattr(likelihood_ratios, "shadow", counted)
    found = audit_run(real, thorough=True, only=("distance",))
    assert len(made) == 3 * 6 - 4  # the four that were done are not done again
    row = {row.name: row for row in found.rows}["distance, with shadows"]
    assert row.clients == 3
    assert row.pooled.caught.value > 0.1 > row.null.caught.value


class Listening(Observer):
    def __init__(self) -> None:
        self.said: list[str] = []

    def says(self, sentence: str) -> None:
        self.said.append(sentence)


@pytest.mark.parametrize("workers", [1, 3])
def test_it_says_what_it_begins_before_the_first_result(
    workers: int, real: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first shadow may take as long as the run did."""

    def nothing_comes(*_: Any) -> Any:
        raise KeyboardInterrupt

    listening = Listening()
    monkeypatch.setattr(likelihood_ratios, "spread", nothing_comes)
    with pytest.raises(KeyboardInterrupt):
        audit_run(real, thorough=True, workers=workers, only=("distance",), observer=listening)
    at_once = "" if workers == 1 else ", 3 at a time"
    assert listening.said[0] == f"Attacking 3 clients{at_once}"
    assert listening.said[-1].endswith(f": training {SHADOWS} shadows{at_once}")


def test_clients_are_taken_while_time_allows_but_at_least_one(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def quick(*_: Any) -> Any:
        return {}, {}

    monkeypatch.setattr(likelihood_ratios, "_ratios", quick)
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    scene = scene_of(real)
    observer: Any = None
    assert len(list(likelihood_ratios.with_shadows(scene, 1, 0.0, observer))) == 1
    assert len(list(likelihood_ratios.with_shadows(scene, 1, 1e9, observer))) == 3


def test_a_damaged_audit_is_told(tmp_path: Path) -> None:
    play(resolve(DIGITS, {"rounds": 1}), tmp_path / "run")
    for text in ("[]", json.dumps({"schema": 1}), json.dumps({"schema": 99})):
        (tmp_path / "run" / "audit.json").write_text(text)
        with pytest.raises(UserError, match=r"audit\.json is damaged"):
            read_audit(tmp_path / "run")
        with pytest.raises(UserError, match=r"audit\.json is damaged"):
            compare([tmp_path / "run"])


def test_rows_of_a_table_that_left_are_found_as_images_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, 400)
    rows = ["age,height,sex,y", *(f"{a:.4f},{b:.4f},{'fm'[s]},{i % 2}" for i, (a, b, s) in enumerate(
        zip(rng.normal(50, 10, 400), rng.normal(170, 9, 400), sex, strict=True)
    ))]  # fmt: skip
    (tmp_path / "table.csv").write_text("\n".join(rows) + "\n")
    scale = {"mean": [50, 170, 0, 0], "std": [10, 9, 1, 1]}
    data = {"name": str(tmp_path / "table.csv"), "limit": 300, "clients": 3, "split": "iid", "held_out": 0.2, **scale}
    methods: dict[str, dict[str, Any]] = {"real": {"rounds": 2, "ipc": 20}, "feddm": {"rounds": 1, "steps": 5}}
    for name, given in methods.items():
        method = {"name": name, **given, "server": {"epochs": 2}}
        play(resolve({**DIGITS, "data": data, "model": "mlp", "method": method}), tmp_path / name)
    sent = audit_run(tmp_path / "real")
    distance = next(row for row in sent.rows if row.name == "distance")
    assert distance.pooled.caught.value > 0.3  # 2 · 2 · 20 of 80 records of each client, some twice
    assert distance.null.caught.value < 0.1
    assert sent.copies is not None
    assert sent.copies.share == 1.0
    made = audit_run(tmp_path / "feddm")
    assert {row.name for row in made.rows} == {"distance", "density", "embedding", "mixture"}
    assert made.copies is not None
    assert made.copies.share < 1.0
