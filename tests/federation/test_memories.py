"""Memories of a simulation's clients: in RAM up to a limit, in few files, back to where the checkpoint left them."""

from pathlib import Path

import pytest
import torch

import understudy as us
from understudy.federation import memories as module
from understudy.federation.memories import Memories, memory_of

SCAFFOLD = {
    "data": {"name": "digits", "limit": 200, "clients": 10, "split": "iid"},
    "model": {"name": "softmax"},
    "method": {"name": "scaffold", "rounds": 4, "cohort": 5, "local": {"steps": 2, "batch": 4, "lr": 0.1}},
}
FILES = ["memories-1.bin", "memories.jsonl"]


def of(client: int, round: int) -> dict[str, torch.Tensor]:
    return {"large": torch.full((1000,), float(client)), "small": torch.tensor([float(round)])}


def filled(folder: Path, limit: int, rounds: int = 3) -> Memories:
    """Ten clients with a part that stays and one that changes, through some rounds that count."""
    memories = Memories(folder, limit)
    for round in range(1, rounds + 1):
        versions = {}
        for client in range(10):
            before = memories.get(str(client), f"r{round - 1}s1")
            unchanged = [] if before is None else ["large"]
            memories.put(str(client), f"r{round}s1", of(client, round), f"r{round - 1}s1", unchanged)
            versions[str(client)] = f"r{round}s1"
        memories.save(versions)
        memories.settle(versions)
    return memories


@pytest.mark.parametrize("limit", [0, 20_000, 10**9])
def test_whatever_fits_into_ram_everyone_remembers_the_same(limit: int, tmp_path: Path) -> None:
    memories = filled(tmp_path, limit)
    assert memories._in_ram <= limit
    memories.close()
    for again in (memories, Memories(tmp_path)):
        for client in range(10):
            found = again.get(str(client), "r3s1")
            assert found is not None
            assert all(torch.equal(found[name], tensor) for name, tensor in of(client, 3).items())
            assert again.get(str(client), "r2s1") is None or again is not memories, "it no longer counts"
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES


def test_a_part_that_stays_is_written_once(tmp_path: Path) -> None:
    memories = filled(tmp_path, 10**9)
    memories.close()
    assert 10 * 4000 < (tmp_path / "memories-1.bin").stat().st_size < 10 * 4000 * 1.5
    assert len((tmp_path / "memories.jsonl").read_text().splitlines()) == 1 + 3 * 10


def test_what_a_task_writes_into_its_memory_spoils_no_other_version(tmp_path: Path) -> None:
    memories = filled(tmp_path, 10**9)
    found = memories.get("3", "r3s1")
    assert found is not None
    found["large"].zero_()
    again = memories.get("3", "r3s1")
    assert again is not None
    assert float(again["large"][0]) == 3.0
    memories.close()


def test_a_round_that_is_undone_goes_back_and_leaves_nothing(tmp_path: Path) -> None:
    memories = filled(tmp_path, 10**9)
    memories.put("4", "r4s1", of(4, 4))
    memories.save({"4": "r3s1"})
    memories.settle({"4": "r3s1"})
    assert memories.get("4", "r4s1") is None
    found = memories.get("4", "r3s1")
    assert found is not None
    assert float(found["small"]) == 3.0
    memories.close()


def test_dead_space_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEAD_BYTES", 1000)
    memories = Memories(tmp_path)
    for round in range(1, 30):
        memories.put("ash", f"r{round}s1", {"all": torch.full((1000,), float(round))})
        memories.save({"ash": f"r{round}s1"})
        memories.settle({"ash": f"r{round}s1"})
    memories.close()
    (data,) = tmp_path.glob("*.bin")
    assert data.stat().st_size < 4 * 4100
    found = Memories(tmp_path).get("ash", "r29s1")
    assert found is not None
    assert float(found["all"][0]) == 29.0


def test_half_a_line_and_half_a_parcel_of_a_killed_process_do_no_harm(tmp_path: Path) -> None:
    filled(tmp_path, 10**9).close()
    with (tmp_path / "memories-1.bin").open("ab") as data:
        data.write(b"half a parcel")
    with (tmp_path / "memories.jsonl").open("ab") as lines:
        lines.write(b'{"client": "3", "ver')
    memories = Memories(tmp_path)
    memories.put("3", "r4s1", of(3, 4), "r3s1", ["large"])
    memories.save({"3": "r4s1"})
    memories.close()
    found = memory_of(tmp_path, "run", "3", "r4s1")
    assert found is not None
    assert float(found["small"]) == 4.0


def test_a_damaged_list_is_said_in_a_sentence(tmp_path: Path) -> None:
    filled(tmp_path, 10**9).close()
    (tmp_path / "memories.jsonl").write_text('{"client": 5}\n')
    with pytest.raises(us.UserError, match=r"memories.jsonl, line 1, cannot be read; restore it from a copy"):
        Memories(tmp_path)


@pytest.mark.parametrize("engine", [{"name": "inline"}, {"name": "workers", "workers": 2}], ids=["inline", "workers"])
@pytest.mark.parametrize("megabytes", [1024, 0])
def test_a_run_keeps_its_clients_in_two_files_and_resumes_from_them(
    engine: dict[str, object], megabytes: int, tmp_path: Path
) -> None:
    straight = us.run(SCAFFOLD, out=tmp_path / "straight", engine={"name": "inline"})
    out, kept = tmp_path / "run", {**engine, "client_memory": megabytes}
    us.run(SCAFFOLD, out=out, engine=kept, rounds=2)
    assert not (out / "clients").exists()
    assert sorted(path.name for path in out.glob("memories*")) == FILES
    us.run(SCAFFOLD, out=out, engine=kept, resume=True)
    models = [(folder / "model.safetensors").read_bytes() for folder in (straight.folder, out)]
    assert models[0] == models[1]


def test_a_run_writes_a_fixed_number_of_files_however_many_clients_it_asks(tmp_path: Path) -> None:
    def files(clients: int) -> set[str]:
        out = tmp_path / str(clients)
        us.run(SCAFFOLD, out=out, engine={"name": "inline"}, rounds=2, changes={"method.cohort": clients})
        return {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file() and "parts" not in path.parts}

    assert files(2) == files(9)
