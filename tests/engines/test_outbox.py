"""The memory through which a worker hands over the answers of a group."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from contract_checks import Case, model_bytes
from test_contract import QUICK

from understudy.engines import outbox
from understudy.engines.outbox import Outbox

TWO = {"name": "workers", "workers": 2}


def test_parts_come_out_as_they_went_in_and_stay_when_others_follow() -> None:
    box = Outbox()
    assert box.put([b"first", b"", b"reply"])
    taken = box.take([5, 0, 5])
    assert box.put([b"others that follow"])
    assert taken == [b"first", b"", b"reply"]
    box.close()


def test_what_does_not_fit_is_not_written_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "SIZE", 4096)
    box = Outbox()
    assert box.put([bytes(4096)])
    assert not box.put([b"x" * 4096, b"y"])
    assert box.take([4096]) == [bytes(4096)]
    box.close()


def test_a_run_whose_replies_do_not_fit_ends_at_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SCAFFOLD's clients also carry memory to and fro."""
    case = Case("scaffold", QUICK["scaffold"])
    straight = case.play(tmp_path / "inline")
    fits: list[int] = []
    honest = Outbox.take

    def noted(box: Outbox, lengths: Sequence[int]) -> list[bytes]:
        fits.append(sum(lengths))
        return honest(box, lengths)

    monkeypatch.setattr(Outbox, "take", noted)
    through_memory = case.play(tmp_path / "there", engine=TWO)
    assert fits
    fits.clear()
    monkeypatch.setattr(outbox, "SIZE", 100)
    through_the_pipe = case.play(tmp_path / "pipe", engine=TWO)
    assert not fits
    assert model_bytes(through_memory) == model_bytes(through_the_pipe) == model_bytes(straight)
