"""Messages and tensor stores: what travels, and what is kept."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from understudy.errors import UserError
from understudy.federation import tensor_store
from understudy.federation.message import Message, labels_from_wire, labels_to_wire
from understudy.federation.tensor_store import TensorStore


def test_a_message_comes_back_from_bytes_as_it_was() -> None:
    message = Message(
        w=torch.randn(5, generator=torch.Generator().manual_seed(0)),
        x=torch.zeros(0, 1, 8, 8, dtype=torch.uint8),
        n=torch.tensor(3.0),
        y=torch.tensor([1, 2], dtype=torch.int16),
    )
    again = Message.from_bytes(message.to_bytes())
    assert again.keys() == message.keys()
    assert all(torch.equal(message[name], again[name]) for name in message)
    assert {name: t.dtype for name, t in again.items()} == {name: t.dtype for name, t in message.items()}


def test_its_length_is_that_of_its_bytes_and_little_more_than_its_numbers() -> None:
    message = Message(w=torch.zeros(1000))
    assert message.nbytes == len(message.to_bytes())
    assert 4000 < message.nbytes < 4100


def test_the_bytes_do_not_depend_on_the_order_of_the_parts() -> None:
    a, b = torch.ones(2), torch.zeros(3)
    assert Message(a=a, b=b).to_bytes() == Message(b=b, a=a).to_bytes()


def test_two_parts_may_share_storage() -> None:
    w = torch.arange(4.0)
    again = Message.from_bytes(Message(a=w, b=w, c=w[1:3]).to_bytes())
    assert again["c"].tolist() == [1.0, 2.0]
    assert again["b"].tolist() == again["a"].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_but_leaves_the_original_alone() -> None:
    first = Message(a=torch.zeros(1), b=torch.zeros(1))
    second = first.but(b=torch.ones(1), c=torch.ones(1))
    assert list(first) == ["a", "b"]
    assert float(first["b"]) == 0
    assert [float(t) for t in second.values()] == [0, 1, 1]


@pytest.mark.parametrize("data", [b"", b"abc", b"\xff" * 64, Message(a=torch.ones(9)).to_bytes()[:-5]])
def test_bytes_that_are_no_message_get_a_sentence(data: bytes) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        Message.from_bytes(data)


def test_infinities_and_nans_are_found_by_part() -> None:
    message = Message(a=torch.tensor([1.0, float("nan")]), b=torch.tensor([1]), c=torch.tensor(float("inf")))
    assert message.not_finite() == ["a", "c"]


def test_numbers_whose_sum_overflows_are_finite() -> None:
    assert Message(a=torch.full((4,), 3e38)).not_finite() == []


def test_labels_take_one_byte_up_to_256_classes_and_two_beyond() -> None:
    y = torch.tensor([0, 255])
    assert labels_to_wire(y, 256).dtype == torch.uint8
    assert labels_to_wire(y, 257).dtype == torch.int16
    assert labels_from_wire(labels_to_wire(y, 256)).tolist() == [0, 255]


def test_a_store_gives_back_what_was_put_and_stores_equal_parts_once(tmp_path: Path) -> None:
    store = TensorStore(tmp_path)
    pool = torch.arange(100.0)
    store.put("r1", Message(pool=pool, w=torch.zeros(2)), round=1)
    store.put("r2", Message(pool=pool.clone(), w=torch.ones(2)), round=2)
    assert len(list((tmp_path / "parts").iterdir())) == 3
    parts, notes = store.get("r2")
    assert notes == {"round": 2}
    assert parts["w"].tolist() == [1, 1]
    store.keep_only(["r2"])
    assert store.entries() == ["r2"]
    assert len(list((tmp_path / "parts").iterdir())) == 2


def test_a_part_that_was_written_in_place_after_all_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    store, w = TensorStore(tmp_path), torch.zeros(2)
    store.put("r1", {"w": w})
    w.add_(1)
    store.put("r2", {"w": w})
    assert TensorStore(tmp_path).get("r1")[0]["w"].tolist() == [0, 0]
    assert TensorStore(tmp_path).get("r2")[0]["w"].tolist() == [1, 1]


@pytest.mark.parametrize("harm", ["manifest", "part", "gone", "changed"])
def test_a_store_that_was_cut_in_half_says_so_and_what_to_do(tmp_path: Path, harm: str) -> None:
    store = TensorStore(tmp_path)
    store.put("r1", Message(w=torch.zeros(100)))
    part = next((tmp_path / "parts").iterdir())
    victim = tmp_path / "r1.json" if harm == "manifest" else part
    if harm == "gone":
        part.unlink()
    elif harm == "changed":  # still a message, with another number in it
        part.write_bytes(part.read_bytes()[:-1] + b"?")
    else:
        victim.write_bytes(victim.read_bytes()[: victim.stat().st_size // 2])
    with pytest.raises(UserError, match=r"missing or damaged.*start over"):
        TensorStore(tmp_path).get("r1")


@pytest.mark.parametrize("kind", [torch.complex64, torch.float8_e4m3fn, torch.uint16, torch.uint32])
def test_numbers_of_a_kind_that_nobody_sends_are_refused(kind: torch.dtype) -> None:
    with pytest.raises(UserError, match="holds 'w' in "):
        Message.from_bytes(save({"w": torch.zeros(2).to(kind)}))


def test_numbers_beyond_a_limit_are_found_by_part_whatever_their_kind() -> None:
    kinds = {"a": torch.float16, "b": torch.bfloat16, "c": torch.float64, "d": torch.int64, "e": torch.int8}
    message = Message({part: torch.tensor([100, -100]).to(kind) for part, kind in kinds.items()}, f=torch.zeros(0))
    assert message.beyond(99) == [*kinds]
    assert message.beyond(100) == []


def test_a_durable_entry_syncs_the_parts_that_it_shares_with_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(tensor_store, "sync", lambda path: synced.append(path.name))
    store, pool, w = TensorStore(tmp_path), torch.ones(3), torch.zeros(2)
    store.put("r1", {"pool": pool, "w": w}, durable=False)
    assert synced == []
    store.put("r2", {"pool": pool, "w": w + 1})
    shared = set(json.loads((tmp_path / "r1.json").read_text())["parts"].values())
    shared &= set(json.loads((tmp_path / "r2.json").read_text())["parts"].values())
    assert synced == [*shared, "parts"]
    store.put("r3", {"pool": pool, "w": w + 1})
    assert len(synced) == 2
