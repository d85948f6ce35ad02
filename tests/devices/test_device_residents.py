"""Records stay on the device from round to round, as many as there is room for."""

import gc
from pathlib import Path
from typing import Any

import pytest
import torch
from on_both import DEVICE, pictures, run_words
from test_contract import PRIVATE, QUICK

from second_device import uploads
from understudy.models.residents import Residents


def sent_per_round(words: dict[str, Any], folder: Path, room: int) -> tuple[int, bytes]:
    """Tensors sent in each round after the first two, and the model in the end."""
    engine = {"name": "inline", **words.get("engine", {}), "device_memory": room}
    sent = []
    for rounds in (2, 4):
        before = uploads()
        given = {**words, "method": {**words["method"], "rounds": rounds}, "engine": engine}
        result = run_words(given, folder / f"{room}-{rounds}", DEVICE, pictures())
        assert result.metrics[-1]["failures"] == []
        sent.append(uploads() - before)
    return (sent[1] - sent[0]) // 2, (result.folder / "model.safetensors").read_bytes()


LOCAL = {"epochs": 1, "batch": 8, "lr": 0.1}
# What is not sent again: records and labels of two sites, which a group sends stacked, and the test set. FedDM looks at
# labels on the processor.
SAVED: dict[str, tuple[dict[str, Any], int]] = {
    "fedavg": ({"method": {"name": "fedavg", "local": LOCAL}}, 2 * 2 + 1),
    "together": ({"method": {"name": "fedavg", "local": LOCAL}, "engine": {"together": 2}}, 2 + 1),
    "feddm": ({"method": {"name": "feddm", **QUICK["feddm"]}}, 2 + 1),
    "private": (
        {"method": {"name": "feddm", **QUICK["feddm"], "min_class_records": None, "dp": "stat", "noise": 0.2}},
        2 + 1,
    ),
    "fedlap-dp": ({"method": {"name": "fedlap-dp", **QUICK["fedlap-dp"], "radius_rule": "fixed"}}, 2 * 2 + 1),
}


@pytest.mark.parametrize("name", SAVED)
def test_a_clients_records_are_not_sent_in_every_round_and_the_bits_are_the_same(name: str, tmp_path: Path) -> None:
    words, saved = SAVED[name]
    words = {**words, "privacy": PRIVATE if name in ("private", "fedlap-dp") else None}
    kept, model = sent_per_round(words, tmp_path, 1024)
    not_kept, same_model = sent_per_round(words, tmp_path, 0)
    assert not_kept - kept == saved
    assert model == same_model


def test_records_held_out_for_scores_stay_too(tmp_path: Path) -> None:
    words = {"method": {"name": "fedrep", **QUICK["fedrep"]}}
    kept, model = sent_per_round(words, tmp_path, 1024)
    not_kept, same_model = sent_per_round(words, tmp_path, 0)
    assert not_kept - kept >= 3 * 2
    assert model == same_model


def tensors(count: int) -> list[torch.Tensor]:
    return [torch.full((4,), float(i)) for i in range(count)]  # 16 bytes each


def test_first_come_first_kept_within_the_room() -> None:
    residents, some = Residents(torch.device(DEVICE), 40), tensors(4)
    for _ in range(3):
        before = uploads()
        assert [residents.there(x)[0].item() for x in some] == [0, 1, 2, 3]
    assert uploads() - before == 2
    assert [residents.holds(x) for x in some] == [True, True, False, False]
    assert residents.room == 8


def test_a_place_is_free_again_when_its_records_are_gone() -> None:
    residents, some = Residents(torch.device(DEVICE), 32), tensors(2)
    for x in some:
        residents.there(x)
    assert residents.room == 0
    del x, some[0]
    gc.collect()
    assert residents.room == 16
    late = torch.ones(4)
    residents.there(late)
    assert residents.holds(late)


def test_what_is_kept_goes_with_the_network_though_the_records_stay() -> None:
    (records,) = tensors(1)
    residents = Residents(torch.device(DEVICE), 32)
    there = residents.there(records)
    assert residents.holds(records)
    del residents
    gc.collect()
    assert len(gc.get_referrers(there)) <= 1  # this frame at most
    del records


def test_what_was_written_to_is_sent_again() -> None:
    residents, (x,) = Residents(torch.device(DEVICE), 32), tensors(1)
    assert residents.there(x)[0].item() == 0
    x.fill_(7)
    assert residents.there(x)[0].item() == 7


def test_a_group_is_sent_as_one_and_kept_one_by_one() -> None:
    residents, some = Residents(torch.device(DEVICE), 48), tensors(4)
    expected = torch.cat(some)
    sent = []
    for order in ([0, 1], [0, 1], [1, 2], [3, 0, 1, 2]):
        before = uploads()
        assert torch.equal(residents.stacked([some[i] for i in order]).cpu(), torch.cat([some[i] for i in order]))
        sent.append(uploads() - before)
    assert sent == [1, 0, 1, 1]
    assert [residents.holds(x) for x in some] == [True, True, True, False]
    assert torch.equal(residents.stacked(some).cpu(), expected)


def test_on_the_processor_nothing_is_kept() -> None:
    residents, (x,) = Residents(torch.device("cpu"), 100), tensors(1)
    assert residents.there(x) is x
    assert not residents.holds(x)
    assert residents.room == 0
