"""The ledger's lines in a run folder: added, summed up now and then, read again as they were counted."""

from pathlib import Path

import pytest

import understudy as us
from understudy.privacy.ledger import Ledger, Release
from understudy.runs import releases as on_disk
from understudy.runs.folder import RunFolder

DIGITS = {"name": "digits", "limit": 200, "clients": 20, "split": "iid"}
QUICK = {"name": "fedavg", "rounds": 4, "cohort": 4, "local": {"steps": 1, "batch": 8, "lr": 0.1}}
WORDS = {"data": DIGITS, "model": {"name": "softmax"}, "method": QUICK, "engine": {"name": "inline"}}


def sent(client: str, round: int, size: int = 8) -> Release:
    return Release(client, round, 1, "train", {"change": ("weights", size)}, sha256=f"{client} {round}", heard=round)


def test_a_round_adds_one_line_per_reply_and_rewrites_none(tmp_path: Path) -> None:
    us.run(WORDS, out=tmp_path / "run")
    lines = (tmp_path / "run/releases.jsonl").read_bytes().splitlines()
    assert len(lines) == 4 * 4
    assert max(map(len, lines)) < 240
    assert "ledger" not in RunFolder(tmp_path / "run").checkpoints.newest_notes()


def test_lines_that_were_summed_up_count_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    us.run(WORDS, out=tmp_path / "single")
    monkeypatch.setattr(on_disk, "AT_LEAST", 300)
    us.run(WORDS, out=tmp_path / "summed")
    lines = (tmp_path / "summed/releases.jsonl").read_bytes().splitlines()
    assert len(lines) < 4 * 4
    assert lines[0].startswith(b'{"ledger"')
    single, summed = ((tmp_path / name / "ledger.json").read_bytes() for name in ("single", "summed"))
    assert single == summed


def test_the_file_stays_in_proportion_to_its_ledger_and_is_rarely_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two clients, a thousand rounds: the ledger has two lines throughout."""
    monkeypatch.setattr(on_disk, "AT_LEAST", 2000)
    folder, ledger = RunFolder(tmp_path), Ledger()
    sums, whole = [0], folder.releases._sum_up

    def summed_up(given: Ledger) -> None:
        sums.append(1)
        whole(given)

    monkeypatch.setattr(folder.releases, "_sum_up", summed_up)
    for round in range(1000):
        for client in ("ash", "beech"):
            folder.releases.add(sent(client, round))
            ledger.record(sent(client, round))
        folder.releases.settle(ledger)
    folder.releases.close()
    assert (tmp_path / "releases.jsonl").stat().st_size < 4000
    assert 20 < sum(sums) < 200
    assert folder.ledger() == ledger.to_json()
    assert folder.ledger()["clients"]["ash"][0]["releases"] == 1000
