"""Image files of any size and mode: brought to one shape, turned upright, named where broken."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from understudy import patience
from understudy.data.assemble import at_site, build_federation
from understudy.data.framing import Fit, Framing
from understudy.data.images import read_images, stack_images
from understudy.data.resize import average
from understudy.data.settings import DataSettings
from understudy.errors import UserError
from understudy.runs.resuming import check_same_run, digest_of_run


def saved(path: Path, pixels: Any, **how: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels, how.pop("dtype", np.uint8))).save(path, **how)
    return path


def columns(*shades: int, height: int = 2) -> list[list[int]]:
    return [list(shades)] * height


@pytest.mark.parametrize(
    ("fit", "expected"),
    [
        ("crop", [[25, 55], [25, 55]]),  # the middle 4 × 4: (20 + 30) / 2, (50 + 60) / 2
        ("stretch", [[20, 60], [20, 60]]),  # three columns each
        ("pad", [[13, 40], [13, 40]]),  # 6 × 6: of the three rows that a new pixel covers, one is black
    ],
)
def test_a_picture_that_is_not_square_is_cropped_padded_or_stretched(
    tmp_path: Path, fit: Fit, expected: list[list[int]]
) -> None:
    wide = saved(tmp_path / "wide.png", columns(10, 20, 30, 50, 60, 70, height=4))
    assert stack_images([wide], Framing(2, fit)).tolist() == [[expected]]


def test_a_small_picture_grows_by_interpolation(tmp_path: Path) -> None:
    # New centres lie at −1/4, 1/4, 3/4 and 5/4 of an old pixel: 0, 25, 75, 100.
    small = saved(tmp_path / "small.png", columns(0, 100))
    assert stack_images([small], Framing(4)).tolist() == [[[[0, 25, 75, 100]] * 4]]


def test_a_constant_picture_stays_constant_in_any_size() -> None:
    flat = torch.full((1, 1, 7, 7), 201, dtype=torch.uint8)
    for size in (1, 3, 7, 10, 64):
        assert bool((average(flat, size) == 201).all())


def test_square_pictures_shrink_as_arrays_do(tmp_path: Path) -> None:
    pixels = np.arange(2 * 9 * 9 * 3, dtype=np.uint8).reshape(2, 9, 9, 3)
    files = [saved(tmp_path / f"{at}.png", one) for at, one in enumerate(pixels)]
    assert torch.equal(stack_images(files, Framing(4)), average(torch.from_numpy(pixels).permute(0, 3, 1, 2), 4))


def test_the_orientation_that_a_camera_noted_is_obeyed(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it clockwise by 90° to show it
    file = saved(tmp_path / "turned.png", [[1, 2, 3], [4, 5, 6]], exif=exif)
    assert stack_images([file]).tolist() == [[[[4, 1], [5, 2], [6, 3]]]]


def test_all_eight_orientations_come_to_the_same_pixels(tmp_path: Path) -> None:
    upright = Image.fromarray(np.arange(7 * 4 * 3, dtype=np.uint8).reshape(4, 7, 3))
    turn = Image.Transpose
    held = [None, turn.FLIP_LEFT_RIGHT, turn.ROTATE_180, turn.FLIP_TOP_BOTTOM]  # 1 to 4
    held += [turn.TRANSPOSE, turn.ROTATE_90, turn.TRANSVERSE, turn.ROTATE_270]  # 5 to 8
    exif, files = Image.Exif(), []
    for number, how in enumerate(held, 1):
        exif[0x0112] = number
        files.append(tmp_path / f"{number}.png")
        (upright if how is None else upright.transpose(how)).save(files[-1], exif=exif)
    as_it_was = torch.from_numpy(np.array(upright)).permute(2, 0, 1)
    assert all(torch.equal(one, as_it_was) for one in stack_images(files))
    small = stack_images(files, Framing(3))
    assert all(torch.equal(one, small[0]) for one in small)


def test_mode_makes_all_pictures_grey_or_rgb(tmp_path: Path) -> None:
    grey, red = saved(tmp_path / "a.png", [[80]]), saved(tmp_path / "b.png", [[[255, 0, 0]]])
    assert stack_images([grey, red]).tolist() == [[[[80]]] * 3, [[[255]], [[0]], [[0]]]]
    assert stack_images([grey], Framing(mode="rgb")).tolist() == [[[[80]]] * 3]
    assert stack_images([grey, red], Framing(mode="grey")).tolist() == [[[[80]]], [[[76]]]]  # 0.299 · 255


def test_sixteen_bits_keep_their_high_byte(tmp_path: Path) -> None:
    file = saved(tmp_path / "scan.png", [[0, 256, 40_000, 65_535]], dtype=np.uint16)
    assert stack_images([file]).tolist() == [[[[0, 1, 156, 255]]]]


def test_what_is_transparent_is_white_whatever_colour_hides_there(tmp_path: Path) -> None:
    red, hidden, half = [200, 0, 0, 255], [0, 9, 0, 0], [0, 0, 0, 51]  # a fifth of black leaves 204 of white
    colour = saved(tmp_path / "colour.png", [[red, hidden, half]])
    assert stack_images([colour]).tolist() == [[[[200, 255, 204]], [[0, 255, 204]], [[0, 255, 204]]]]
    grey = saved(tmp_path / "grey.png", [[[7, 255], [7, 0]]])
    assert stack_images([grey]).tolist() == [[[[7, 255]]]]
    palette = Image.fromarray(np.array([[0, 1]], np.uint8), "P")
    palette.putpalette([0, 0, 0, 10, 20, 30])
    for name, clear in {"one.png": 0, "several.png": bytes([0, 255])}.items():
        palette.save(tmp_path / name, transparency=clear)
        assert stack_images([tmp_path / name]).tolist() == [[[[255, 10]], [[255, 20]], [[255, 30]]]]


def mixed(folder: Path) -> Path:
    saved(folder / "cat" / "1.png", columns(1, 2, 3))
    saved(folder / "cat" / "2.JPG", np.zeros((9, 5, 3)))
    saved(folder / "dog" / "3.webp", np.full((4, 4), 9))
    return folder


def test_a_folder_of_different_sizes_needs_data_size_and_then_any_size_will_do(tmp_path: Path) -> None:
    source = mixed(tmp_path / "pets")
    words = {"name": str(source), "clients": 1, "split": "iid"}
    with pytest.raises(UserError, match=r"pixels, .* is .* × .*; bring all images to one size with data\.size"):
        build_federation(DataSettings.model_validate(words), seed=0)
    settings = DataSettings.model_validate({**words, "size": 6})
    assert build_federation(settings, seed=0).problem.shape == (3, 6, 6)
    assert settings.words()["fit"] == "crop"  # the choice is on record
    assert settings.model_copy(update={"mode": "grey"}).reading.frame == Framing(6, "crop", "grey")


def test_a_folder_from_before_the_fit_was_on_record_is_the_same_run() -> None:
    words = {"data": DataSettings.model_validate({"name": "pets/", "size": 6}).words()}
    older = {"data": {key: value for key, value in words["data"].items() if key not in ("fit", "mode")}}
    check_same_run(older, words)
    assert digest_of_run(older) == digest_of_run(words)
    with pytest.raises(UserError, match=r"data\.fit is None there and 'pad' here"):
        check_same_run(older, {"data": {**words["data"], "fit": "pad"}})


def test_one_site_in_colour_makes_all_sites_so(tmp_path: Path) -> None:
    saved(tmp_path / "n" / "cat" / "1.png", [[7]])
    saved(tmp_path / "s" / "dog" / "1.png", [[[1, 2, 3]]])
    words = {"sites": {"north": str(tmp_path / "n"), "south": str(tmp_path / "s")}}
    made = build_federation(DataSettings.model_validate(words), seed=0)
    assert made.sites["north"].own.x.flatten().tolist() == [7, 7, 7]


def test_where_records_stay_at_their_sites_size_and_mode_give_the_shape(tmp_path: Path) -> None:
    settings = DataSettings.model_validate(
        {"sites": {"north": None}, "size": 5, "mode": "rgb", "labels": ["cat", "dog"]}
    )
    problem = build_federation(settings, seed=0).problem
    assert problem.shape == (3, 5, 5)
    assert at_site(settings, "north", mixed(tmp_path), problem, 0).own.x.shape == (3, 3, 5, 5)


def test_mode_is_for_files_not_for_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 4, 4), np.uint8), y=[0, 1])
    words = {"name": str(tmp_path / "a.npz"), "mode": "rgb"}
    with pytest.raises(UserError, match=r"data\.mode: records of .*a\.npz have shape \(1, 4, 4\)"):
        build_federation(DataSettings.model_validate(words), seed=0)


def test_a_broken_file_is_named_whichever_size_is_asked_for(tmp_path: Path) -> None:
    source = mixed(tmp_path)
    broken = source / "cat" / "1.png"
    broken.write_bytes(broken.read_bytes()[:45])
    with pytest.raises(UserError, match=r"1\.png cannot be read as an image"):
        read_images(source, ("cat", "dog"), Framing(3))


def test_all_broken_files_are_named_at_once_and_what_to_do_with_them(tmp_path: Path) -> None:
    source = mixed(tmp_path)
    (source / "cat" / "7.jpg").write_bytes(b"no image at all")  # whatever order files are read in
    (source / "dog" / "8.png").write_bytes((source / "cat" / "1.png").read_bytes()[:45])
    for frame in (Framing(3), Framing(3, mode="rgb")):
        with pytest.raises(UserError) as told:
            read_images(source, ("cat", "dog"), frame)
        said = str(told.value)
        assert said.startswith("2 files cannot be read as images: ")
        assert f"{source}/cat/7.jpg (its format is unknown)" in said
        assert f"{source}/dog/8.png (" in said
        assert said.endswith("; repair or remove them.")
    for number in range(9):
        (source / "dog" / f"more-{number}.png").write_bytes(b"")
    with pytest.raises(UserError, match=r"^11 files .*; and 6 more; repair or remove them\.$"):
        read_images(source, ("cat", "dog"), Framing(3))


def test_reading_shows_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, str]] = []
    monkeypatch.setattr(patience, "doing", lambda what, so_far: said.append((what, so_far)))
    read_images(mixed(tmp_path), ("cat", "dog"), Framing(3))
    assert said[-1] == (f"Reading {tmp_path}", "3 of 3 images")
