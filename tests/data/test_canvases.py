"""`canvases`: what is on them, whose they are, and that every draw is the same."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.data import sets
from understudy.data.assemble import build_federation, load_dataset
from understudy.data.canvases import CanvasesSettings, Habits, Stock, draw, habits_of, read_canvases, sizes
from understudy.data.dataset import Dataset
from understudy.data.digits import read_mnist_5k
from understudy.data.settings import DataSettings
from understudy.data.skew import measure_skew
from understudy.data.splits.make import make_split
from understudy.data.splits.simple import Iid, Users
from understudy.errors import UserError
from understudy.randomness import numpy_generator
from understudy.view.split import split_figure

SMALL = CanvasesSettings(users=4, records=30, test=40)


@pytest.fixture(scope="module")
def small() -> Dataset:
    return read_canvases(SMALL)


def flat_stock(side: int) -> Stock:
    """Two images of every digit, plain squares: digit d has the shades 20 + 2d and 21 + 2d."""
    shades = np.arange(20, 40, dtype=np.uint8)
    images = np.broadcast_to(shades[:, None, None], (20, side, side)).copy()
    return Stock(images, [np.array([2 * digit, 2 * digit + 1]) for digit in range(10)])


ANY = Habits(np.full(10, 0.1), np.full(4, 0.25))


def test_labels_are_exactly_the_digits_whose_images_are_on_the_canvas() -> None:
    canvases, labels = draw(ANY, 200, flat_stock(14), 28, numpy_generator("plain"))
    for canvas, label in zip(canvases, labels, strict=True):
        seen = {(shade - 20) // 2 for shade in np.unique(canvas).tolist() if shade}
        # Neighbours move towards each other by at most 2 pixels each, so none of them is covered whole.
        assert seen == set(np.flatnonzero(label).tolist())


def test_one_digit_a_canvas_lies_whole_in_its_quarter_up_to_two_pixels_inwards() -> None:
    one = Habits(np.eye(10)[3], np.array([1.0]))
    canvases, labels = draw(one, 400, flat_stock(14), 28, numpy_generator("one"))
    assert labels.sum(1).tolist() == [1] * 400 == labels[:, 3].tolist()
    corners = set()
    for canvas in canvases:
        rows, columns = np.nonzero(canvas)
        assert len(rows) == 14 * 14
        corners.add((int(rows.min()), int(columns.min())))
    # A seventh of 14 pixels is 2: upper or left corners at 0, 1, 2, lower or right ones at 14, 13, 12.
    assert corners == {(top, left) for top in (0, 1, 2, 12, 13, 14) for left in (0, 1, 2, 12, 13, 14)}


def test_an_odd_canvas_takes_digits_of_half_its_side_rounded_down() -> None:
    canvases, _ = draw(Habits(np.eye(10)[0], np.eye(4)[3]), 50, flat_stock(10), 21, numpy_generator("odd"))
    assert canvases.shape == (50, 21, 21)
    # Four squares of 10 × 10, each moved by at most 10 // 7 = 1: at most two lines between two of them are shared.
    assert all(400 - 2 * 2 * 21 <= np.count_nonzero(canvas) <= 400 for canvas in canvases)


def test_a_digit_that_stands_twice_is_one_label() -> None:
    canvases, labels = draw(Habits(np.eye(10)[7], np.eye(4)[3]), 20, flat_stock(14), 28, numpy_generator("twice"))
    assert labels.sum(1).tolist() == [1] * 20
    assert all(np.count_nonzero(canvas) > 3 * 14 * 14 for canvas in canvases)


def test_no_digit_image_is_in_training_and_test() -> None:
    digits = read_mnist_5k()
    assert digits.test is not None
    known, unknown = (Stock.of(part, 28) for part in (digits.train, digits.test))
    assert not {image.tobytes() for image in known.images} & {image.tobytes() for image in unknown.images}
    for stock, part in ((known, digits.train), (unknown, digits.test)):
        assert sum(len(at) for at in stock.of_digit) == len(part)


def test_canvases_are_made_of_the_images_of_their_own_part() -> None:
    # One digit of full contrast a canvas: cut out, it must be one of the shrunk images of its part.
    data = read_canvases(CanvasesSettings(users=2, records=10, test=10, digits=1))
    digits = read_mnist_5k()
    assert data.test is not None
    assert digits.test is not None
    for drawn, source in ((data.train, digits.train), (data.test, digits.test)):
        stock = {_cropped(image) for image in Stock.of(source, 14).images}
        assert all(_cropped(canvas[0].numpy()) in stock for canvas in drawn.x)


def _cropped(image: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    rows, columns = np.nonzero(image)
    ink = image[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    return bytes(ink.shape) + ink.tobytes()


def test_users_differ_in_digits_numbers_and_records(small: Dataset) -> None:
    assert small.users is not None
    habits = [habits_of(user, SMALL) for user in range(4)]
    assert len({tuple(one.digits) for one in habits}) == len({tuple(one.number) for one in habits}) == 4
    counts = torch.bincount(small.users)
    assert counts.tolist() == sizes(SMALL).tolist()
    assert int(counts.sum()) == len(small.train) == 4 * 30
    assert len(set(counts.tolist())) > 1


@settings(max_examples=30, deadline=None)
@given(users=st.integers(1, 60), records=st.integers(3, 40))
def test_every_user_has_records_and_they_add_up(users: int, records: int) -> None:
    found = sizes(CanvasesSettings(users=users, records=records))
    assert len(found) == users
    assert found.sum() == users * records
    # A weight lies between 0.5 and 1.5, so a share is at least a third of the mean, and rounding takes less than 1.
    assert found.min() > records / 3 - 1
    assert found.max() < 3 * records + 1


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 1.0, 50.0])
def test_habits_are_probabilities_and_sharper_for_a_small_alpha(alpha: float) -> None:
    for user in range(5):
        one = habits_of(user, CanvasesSettings(alpha=alpha))
        assert one.digits.sum() == pytest.approx(1)
        assert one.number.sum() == pytest.approx(1)
        assert (one.digits >= 0).all()
        assert (one.digits.max() > 0.99) == (alpha == 1e-3)


def test_the_mean_habit_over_many_users_is_even() -> None:
    # Dir(α) has mean 1/10 and variance 0.09/(10α + 1) an entry: 0.015 at α = 0.5; over 2000 users 4σ is 0.011.
    mean = np.mean([habits_of(user, CanvasesSettings()).digits for user in range(2000)], axis=0)
    assert mean == pytest.approx(np.full(10, 0.1), abs=0.011)


def test_drawn_again_it_is_the_same_and_a_user_does_not_hang_on_the_others(small: Dataset) -> None:
    again = read_canvases(SMALL)
    assert torch.equal(small.train.x, again.train.x)
    assert torch.equal(small.train.y, again.train.y)
    more = CanvasesSettings(users=9, records=30, test=40)
    for user in range(4):
        assert np.array_equal(habits_of(user, SMALL).digits, habits_of(user, more).digits)


def test_test_canvases_follow_all_users_in_turn() -> None:
    # With so small an alpha a user draws one digit only; 42 canvases are 11, 11, 10 and 10 of four users.
    sharp = CanvasesSettings(users=4, records=3, test=42, digits=1, alpha=1e-3)
    data = read_canvases(sharp)
    assert data.test is not None
    likes = [int(habits_of(user, sharp).digits.argmax()) for user in range(4)]
    expected = np.bincount(likes, weights=[11, 11, 10, 10], minlength=10)
    assert data.test.label_counts(10).tolist() == expected.tolist()


def test_a_canvas_has_one_to_four_labels(small: Dataset) -> None:
    borne = small.train.y.sum(1)
    assert (float(borne.min()), float(borne.max())) == (1, 4)


def test_the_default_canvases_are_as_listed_and_scaled_about_zero() -> None:
    data, listed = sets.load("canvases"), {one.name: one for one in sets.names()}["canvases"]
    assert data.test is not None
    assert (len(data.train), len(data.test)) == listed.records
    assert (data.problem.shape, data.problem.classes) == (listed.shape, listed.classes)
    assert data.problem.multilabel
    scaled = data.problem.scale(data.train.x)
    assert float(scaled.mean()) == pytest.approx(0, abs=0.01)
    assert float(scaled.std()) == pytest.approx(1, abs=0.01)


def test_a_client_for_each_user_with_that_users_records(small: Dataset) -> None:
    assert small.users is not None
    split = make_split(small, Users(), clients=99, seed=3)
    assert list(split.clients) == ["user-0", "user-1", "user-2", "user-3"]
    for user, own in enumerate(split.clients.values()):
        assert set(small.users[own].tolist()) == {user}


def words(**more: object) -> DataSettings:
    small = {"users": 3, "records": 10, "test": 6}
    return DataSettings.model_validate({"name": "canvases", "canvases": small, **more})


def test_a_config_deals_canvases_out_by_user_unless_it_says_otherwise() -> None:
    assert list(build_federation(words(), seed=0).sites) == ["user-0", "user-1", "user-2"]
    assert len(build_federation(words(split="iid", clients=5), seed=0).sites) == 5
    with pytest.raises(UserError, match="use 'iid' or 'users'"):
        build_federation(words(split={"alpha": 0.1}), seed=0)


def test_they_are_drawn_at_the_size_of_the_config_and_scaled_as_it_says() -> None:
    data = load_dataset(words(size=20, mean=(0.5,), std=(0.25,)), seed=0)
    drawn = read_canvases(CanvasesSettings(users=3, records=10, test=6, size=20))
    assert torch.equal(data.train.x, drawn.train.x)
    assert (data.problem.mean, data.problem.std) == ((0.5,), (0.25,))


def test_words_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UserError, match=r"data\.size: .* for 'canvases', not 15"):
        load_dataset(words(size=15), seed=0)
    with pytest.raises(UserError, match=r"data\.canvases: these settings belong to the data set 'canvases'"):
        load_dataset(DataSettings(canvases=CanvasesSettings()), seed=0)
    with pytest.raises(UserError, match=r"'canvases\.digits': input should be"):
        sets.load("canvases", digits=5)
    with pytest.raises(UserError, match="nothing to fetch"):
        sets.get("canvases")


def test_a_picture_of_the_split_says_how_many_labels_a_record_bears() -> None:
    data = build_federation(words(), seed=0)
    skew = measure_skew(data)
    every = [holding.own for holding in data.sites.values()]
    borne = sum(int(own.y.sum()) for own in every) / sum(map(len, every))
    assert skew.labels_per_record == pytest.approx(borne)
    assert skew.as_dict()["labels_per_record"] == skew.labels_per_record
    caption = split_figure(skew).get_supxlabel()
    assert f"{borne:.1f} labels per record" in caption


def test_a_picture_of_records_with_one_label_each_says_nothing_of_it() -> None:
    one = build_federation(DataSettings(limit=50, clients=2, split=Iid()), seed=0)
    assert "labels per record" not in split_figure(measure_skew(one)).get_supxlabel()
