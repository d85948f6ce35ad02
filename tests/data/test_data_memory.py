"""Folders of images beyond data.memory: decoded once into files, with the same bits, and never trusted if damaged."""

import os
import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import understudy as us
from understudy.config.resolve import resolve
from understudy.data import images, room
from understudy.data.assemble import build_federation
from understudy.data.federation import Federation
from understudy.data.framing import Framing
from understudy.data.images import read_images
from understudy.data.room import Room, bytes_of
from understudy.data.settings import DataSettings, used
from understudy.errors import UserError

NOTHING = "1B"  # no image fits into it


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(room, "AT_ONCE", 100)  # bytes: copies take several steps
    return tmp_path / "cache" / "understudy" / "images"


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(6):
            pixels = rng.integers(0, 256, (5 + number, 7, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every picture that is decoded."""
    names: list[str] = []
    plain: Callable[..., Any] = images._pixels

    def noting(picture: images.Picture, mode: Any) -> torch.Tensor:
        names.append(picture.name)
        found: torch.Tensor = plain(picture, mode)
        return found

    monkeypatch.setattr(images, "_pixels", noting)
    return names


def read(folder: Path, memory: int = 1, size: int = 4) -> torch.Tensor:
    found = read_images(folder, ("cat", "dog"), Framing(size), Room(memory))
    assert found is not None
    return found.x


def alike(one: Federation, other: Federation) -> bool:
    parts = [
        [part.x for holding in data.sites.values() for part in (holding.own, holding.held_out)] for data in (one, other)
    ]
    return all(torch.equal(a, b) for a, b in zip(*parts, strict=True))


def made(**words: Any) -> Federation:
    return build_federation(DataSettings.model_validate(words), seed=0)


def test_images_have_the_same_bits_in_files_as_in_memory(pictures: Path, cache: Path) -> None:
    assert torch.equal(read(pictures), read(pictures, 10**9))
    assert len([*cache.glob("*.bytes")]) == 1
    how = {"name": str(pictures), "size": 4, "clients": 3, "split": "iid", "held_out": 0.3}
    assert alike(made(**how), made(**how, memory=NOTHING))


def test_a_site_in_grey_beside_one_in_colour(pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "grey" / "cat").mkdir(parents=True)
    Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4)).save(tmp_path / "grey" / "cat" / "a.png")
    how = {"sites": {"a": str(pictures), "b": str(tmp_path / "grey")}, "size": 4}
    assert alike(made(**how), made(**how, memory=NOTHING))


def test_a_run_gives_the_same_model(pictures: Path, tmp_path: Path) -> None:
    data = {"name": str(pictures), "size": 8, "clients": 2, "split": "iid", "held_out": 0.3}
    plain, from_files = (
        us.run(data={**data, **more}, model="mlp", rounds=2, out=tmp_path / name)
        for name, more in (("plain", {}), ("files", {"memory": NOTHING}))
    )
    assert (plain.folder / "model.safetensors").read_bytes() == (from_files.folder / "model.safetensors").read_bytes()


def test_what_clients_hold_is_mapped_and_a_batch_is_not(pictures: Path) -> None:
    how = {"name": str(pictures), "size": 4, "clients": 2, "split": "iid"}
    own = made(**how, memory=NOTHING).sites["client-0"].own
    assert own.x.untyped_storage().filename is not None
    assert own.take([0, 1]).x.untyped_storage().filename is None
    assert made(**how).sites["client-0"].own.x.untyped_storage().filename is None


def test_they_are_decoded_once(pictures: Path, opened: list[str]) -> None:
    first = read(pictures)
    assert len(set(opened)) == 12
    opened.clear()
    assert torch.equal(read(pictures), first)
    assert len(opened) == 1  # to learn their shape


def test_a_folder_that_changed_is_decoded_again_and_the_old_entry_is_gone(
    pictures: Path, cache: Path, opened: list[str]
) -> None:
    read(pictures)
    changed = pictures / "cat" / "0.png"
    Image.fromarray(np.full((5, 7, 3), 9, np.uint8)).save(changed)
    os.utime(changed, ns=(1, 1))
    opened.clear()
    again = read(pictures)
    assert len(set(opened)) == 12
    assert torch.equal(again, read(pictures, 10**9))
    assert len([*cache.glob("*.bytes")]) == len([*cache.glob("*.json")]) == 1


def _flipped(entry: Path) -> None:
    with entry.open("r+b") as file:
        first = file.read(1)
        file.seek(0)
        file.write(bytes([first[0] ^ 1]))


def _cut(entry: Path) -> None:
    entry.write_bytes(entry.read_bytes()[:-1])


def _without_note(entry: Path) -> None:
    entry.with_suffix(".json").unlink()


def _nonsense(entry: Path) -> None:
    entry.with_suffix(".json").write_text("[]")


@pytest.mark.parametrize("damage", [_flipped, _cut, _without_note, _nonsense])
def test_a_damaged_entry_is_made_again(pictures: Path, cache: Path, damage: Callable[[Path], None]) -> None:
    before = read(pictures).clone()
    [entry] = cache.glob("*.bytes")
    damage(entry)
    assert torch.equal(read(pictures), before)
    assert torch.equal(read(pictures, 10**9), before)


def test_writing_to_the_tensor_does_not_change_the_cache(pictures: Path) -> None:
    first = read(pictures)
    before = first.clone()
    first.zero_()
    assert torch.equal(read(pictures), before)


def test_a_broken_file_is_named_and_leaves_nothing_behind(pictures: Path, cache: Path) -> None:
    broken = pictures / "dog" / "3.png"
    broken.write_bytes(broken.read_bytes()[:60])
    with pytest.raises(UserError, match=r"dog/3\.png cannot be read as an image"):
        read(pictures)
    assert [*cache.iterdir()] == []


def test_a_full_disk_is_told_of_before_anything_is_decoded(
    pictures: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(9, 9, 0))
    with pytest.raises(UserError, match=r"more than data\.memory allows, and .* has only 0\.0 GB free"):
        read(pictures)
    assert len(opened) == 1


def test_the_budget_is_for_all_sites_together(pictures: Path, cache: Path) -> None:
    both = Room(2 * 2 * 12 * 3 * 4 * 4 - 1)  # twice each, and one byte short of both
    for _ in range(2):
        read_images(pictures, ("cat", "dog"), Framing(4), both)
    assert len([*cache.glob("*.bytes")]) == 1


def test_amounts_are_written_as_people_do() -> None:
    assert [bytes_of(text) for text in ("2GB", "1.5 mb", "7", "3kB", "9b")] == [2 * 10**9, 1_500_000, 7, 3000, 9]
    with pytest.raises(UserError, match=r"'data\.memory': write an amount such as 2GB or 500MB, not 'much'"):
        resolve({"data": {"name": "a/", "memory": "much"}})


def test_the_setting_is_kept_but_makes_no_difference_to_a_run() -> None:
    words = DataSettings(name="photos/", memory="2GB").words()
    assert words["memory"] == "2GB"
    assert used(words) == DataSettings(name="photos/").words()
