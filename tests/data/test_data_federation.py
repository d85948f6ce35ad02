"""From arrays or a config to sites; and how skewed they are."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from understudy.data.assemble import build_federation, load_dataset
from understudy.data.examples import Examples
from understudy.data.federation import Arrays, Federation
from understudy.data.settings import DataSettings
from understudy.data.skew import entropy, measure_skew, total_variation
from understudy.data.splits.simple import ClassPairs
from understudy.data.splits.split import Split
from understudy.errors import UserError
from understudy.view.split import draw_split, split_figure


def pair(n: int, label: int = 0, width: int = 3) -> tuple[object, object]:
    return np.zeros((n, width), np.float32), np.full(n, label)


def test_a_list_of_arrays_becomes_numbered_clients() -> None:
    made = Federation.from_arrays([pair(2), pair(3, 1)], test=pair(1, 2))
    assert list(made.sites) == ["client-0", "client-1"]
    assert made.problem.classes == 3
    assert made.test is not None
    assert len(made.sites["client-1"].own) == 3
    assert len(made.sites["client-1"].held_out) == 0


def test_an_empty_site_is_allowed() -> None:
    made = Federation.from_arrays({"a": ([], []), "b": pair(2)})
    assert made.sites["a"].own.x.shape == (0, 3)
    assert made.sites["a"].own.y.dtype == torch.int64


def test_numpy_and_torch_agree() -> None:
    x, y = np.arange(32, dtype=np.uint8).reshape(2, 4, 4), [0, 1]
    one = Federation.from_arrays([(x, y)])
    other = Federation.from_arrays([(torch.from_numpy(x), torch.tensor(y))])
    assert torch.equal(one.sites["client-0"].own.x, other.sites["client-0"].own.x)
    assert one.problem == other.problem


def test_held_out_records_are_apart_and_the_same_for_a_seed() -> None:
    x = np.arange(20, dtype=np.float32).reshape(10, 2)
    made = [Federation.from_arrays([(x, [0, 1] * 5)], held_out=0.4, seed=3).sites["client-0"] for _ in "ab"]
    assert torch.equal(made[0].held_out.x, made[1].held_out.x)
    assert made[0].held_out.y.bincount().tolist() == [2, 2]
    assert sorted(torch.cat([made[0].own.x, made[0].held_out.x])[:, 0].tolist()) == x[:, 0].tolist()


@pytest.mark.parametrize(
    ("sites", "says"),
    [
        ({}, "no record"),
        ({"a": ([], [])}, "no record"),
        ({"a": pair(2), "b": pair(2, width=4)}, "b: records have shape (4,)"),
        ({"a": pair(2), "b": pair(1, -1)}, "b: labels run from -1"),
        ({"a": pair(2), "b": (np.zeros((2, 3)), [0])}, "b: 2 records came with 1 labels"),
        ({"a": (np.zeros((2, 3)), ["no", "yes"])}, "return_inverse=True)[1] numbers them from 0"),
        (
            {"a": pair(2), "b": (np.full((1, 3), np.inf), [0])},
            "b: some records hold values that are missing (NaN)",
        ),
        ({"a": pair(2), "b": (np.zeros((2, 3), np.uint8), [0, 1])}, "b: records are torch.uint8"),
        ({"a": pair(2), "b": (np.zeros((2, 3)), np.eye(2))}, "b: labels have shape (2, 2)"),
        ({"a/b": pair(2)}, "'a/b' cannot name a site"),
        ({"a": (np.zeros((2, 3)),)}, "a: give a pair"),
    ],
)
def test_a_site_that_does_not_fit_is_named(sites: dict[str, Arrays], says: str) -> None:
    with pytest.raises(UserError) as wrong:
        Federation.from_arrays(sites)
    assert says in str(wrong.value)


def test_scaling_must_fit_the_channels() -> None:
    images = (np.zeros((1, 3, 4, 4), np.uint8), [0])
    with pytest.raises(UserError, match="'mean' has 1 numbers for 3 channels"):
        Federation.from_arrays([images], mean=(0.5,), std=(0.5,) * 3)
    with pytest.raises(UserError, match="both 'mean' and 'std'"):
        Federation.from_arrays([images], mean=(0.5,) * 3)
    with pytest.raises(UserError, match="every std above 0"):
        Federation.from_arrays([images], mean=(0.5,) * 3, std=(0.5, 0.0, 0.5))


def test_a_split_must_fit_the_data_set() -> None:
    data = load_dataset(DataSettings(), seed=0)
    with pytest.raises(UserError, match="names record 99999"):
        Federation.from_split(data, Split({"a": torch.tensor([99999])}))


def test_the_default_config_is_ten_skewed_clients_of_digits() -> None:
    made = build_federation(DataSettings(held_out=0.1, validation=0.1), seed=0)
    assert len(made.sites) == 10
    assert made.split is not None
    assert made.validation is not None
    total = sum(len(site.own) + len(site.held_out) for site in made.sites.values()) + len(made.validation)
    assert total == 1437
    again = build_federation(DataSettings(held_out=0.1, validation=0.1), seed=0)
    assert again.split is not None
    assert again.split.digest == made.split.digest


def test_a_config_survives_being_written_out_with_every_default() -> None:
    settings = DataSettings.model_validate({"name": "shapes", "shapes": {"positions": 2}, "size": 12})
    again = DataSettings.model_validate(json.loads(settings.model_dump_json()))
    assert again == settings
    assert load_dataset(again, 0).problem.shape == (1, 12, 12)


def test_size_and_limit() -> None:
    data = load_dataset(DataSettings(name="mnist-5k", size=14, limit=205), seed=1)
    assert data.train.x.shape == (205, 1, 14, 14)
    assert data.test is not None
    assert data.test.x.shape == (1000, 1, 14, 14)
    assert sorted(data.train.y.bincount().tolist()) == [20] * 5 + [21] * 5
    whole = load_dataset(DataSettings(name="mnist-5k"), seed=1)
    assert len(whole.train) == 4000
    assert not torch.equal(
        data.train.x, load_dataset(DataSettings(name="mnist-5k", size=14, limit=205), seed=2).train.x
    )


def test_a_limit_takes_factors_and_users_along() -> None:
    data = load_dataset(DataSettings(name="shapes", limit=30), seed=0)
    assert (data.factors["shape"] == data.train.y).all()
    assert len(data.factors["quadrant"]) == 30


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"size": 9}, "only shrink"),
        ({"name": "shapes", "size": 2}, "data.size"),
        ({"shapes": {}}, "data.shapes"),
        ({"classes": 3}, "data.classes"),
        ({"name": "digitz"}, "Did you mean 'digits'"),
        ({"sites": {"a": "x.npz"}, "limit": 3}, "data.limit"),
        ({"sites": {"a": "x.npz"}, "validation": 0.1}, "data.validation"),
        ({"sites": {}}, "no record"),
    ],
)
def test_configs_that_cannot_be_say_which_word(words: dict[str, object], says: str) -> None:
    with pytest.raises(UserError) as wrong:
        build_federation(DataSettings.model_validate(words), seed=0)
    assert says in str(wrong.value)


def test_ill_typed_words_are_refused_at_once() -> None:
    wrong: list[dict[str, object]] = [{"clients": 0}, {"held_out": 1.0}, {"splitt": {}}, {"split": {"kind": "x"}}]
    for words in wrong:
        with pytest.raises(ValidationError):
            DataSettings.model_validate(words)


def test_own_sites_from_a_config(tmp_path: Path) -> None:
    for name, n in (("a", 4), ("b", 6), ("test", 2)):
        np.savez(tmp_path / f"{name}.npz", x=np.full((n, 4, 4), n, np.uint8), y=np.arange(n) % 3)
    sites: dict[str, str | None] = {name: str(tmp_path / f"{name}.npz") for name in "ab"}
    words = {"sites": sites, "test": str(tmp_path / "test.npz"), "size": 2, "held_out": 0.5, "classes": 5}
    made = build_federation(DataSettings.model_validate(words), seed=0)
    assert made.problem.shape == (1, 2, 2)
    assert made.problem.classes == 5
    assert {name: len(site.own) for name, site in made.sites.items()} == {"a": 2, "b": 3}
    with pytest.raises(UserError, match="no single data set"):
        load_dataset(DataSettings(sites=sites), 0)


def test_own_npz_from_a_config_is_split(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", x=np.zeros((40, 2), np.float32), y=np.arange(40) % 4)
    settings = DataSettings(name=str(tmp_path / "mine.npz"), clients=2, split=ClassPairs())
    made = build_federation(settings, seed=0)
    assert [len(site.own) for site in made.sites.values()] == [20, 20]
    with pytest.raises(UserError, match="only square images"):
        load_dataset(settings.model_copy(update={"size": 1}), 0)


def test_entropy_and_distance_by_hand() -> None:
    assert entropy([1, 1, 1, 1]) == pytest.approx(math.log(4))
    assert entropy([3, 1]) == pytest.approx(0.75 * math.log(4 / 3) + 0.25 * math.log(4))
    assert entropy([]) == entropy([0, 5]) == 0
    assert total_variation([1, 0], [0, 7]) == 1
    assert total_variation([3, 1], [2, 2]) == pytest.approx(0.25)
    assert total_variation([0, 0], [1, 1]) == 0


def test_skew_by_hand() -> None:
    x = np.zeros((4, 1), np.float32)
    skew = measure_skew(Federation.from_arrays([(x, [0, 0, 0, 0]), (x, [0, 1, 1, 1]), ([], [])]))
    first, second, empty = skew.clients
    # All together: 5 zeros and 3 ones, that is 0.625 and 0.375.
    assert first.distance == pytest.approx(0.375)
    assert second.distance == pytest.approx(0.375)
    assert (first.classes, second.classes, empty.classes) == (1, 2, 0)
    assert first.effective_classes == pytest.approx(1)
    assert (empty.distance, empty.entropy, empty.effective_classes) == (0, 0, 0)
    assert skew.effective_clients == pytest.approx(2)
    assert (skew.empty_clients, skew.smallest, skew.largest, skew.records) == (1, 0, 4, 8)
    assert skew.mean_classes == 1.5
    assert json.loads(json.dumps(skew.as_dict()))["label_counts"] == [[4, 0], [1, 3], [0, 0]]


def test_several_labels_count_once_for_each() -> None:
    sites: dict[str, Arrays] = {
        "a": (np.zeros((2, 1)), [[1, 1, 0], [0, 1, 0]]),
        "b": Examples(torch.zeros(1, 1), torch.tensor([[0.0, 0, 1]])),
    }
    skew = measure_skew(Federation.from_arrays(sites))
    assert skew.label_counts == ((1, 2, 0), (0, 0, 1))
    assert skew.clients[0].records == 2
    assert skew.clients[1].distance == pytest.approx(0.75)


def texts_overlap(skew_federation: Federation) -> bool:
    figure = split_figure(measure_skew(skew_federation), "A title")
    figure.draw_without_rendering()
    axes = figure.axes[0]
    texts = [*axes.get_yticklabels(), *axes.texts, *figure.texts]
    if all(label.get_rotation() == 0 for label in axes.get_xticklabels()):
        texts += axes.get_xticklabels()
    boxes = [text.get_window_extent() for text in texts if text.get_text().strip()]
    return any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_no_text_lies_on_another_in_the_picture() -> None:
    x = np.zeros((3, 1), np.float32)
    for clients, classes in ((1, 2), (5, 10), (30, 20), (120, 100)):
        sites: list[Arrays] = [(x, [k % classes, (k + 1) % classes, (3 * k) % classes]) for k in range(clients)]
        assert not texts_overlap(Federation.from_arrays(sites, classes=classes))


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture_is_written(tmp_path: Path, ending: str) -> None:
    made = build_federation(DataSettings(), seed=0)
    path = draw_split(made, tmp_path / "new" / f"split.{ending}", "Digits")
    assert path.stat().st_size > 5000


def test_a_picture_that_cannot_be_written_says_why(tmp_path: Path) -> None:
    made = Federation.from_arrays([([], []), pair(1)])
    with pytest.raises(UserError, match="no picture can be written with that extension"):
        draw_split(made, tmp_path / "split.docx")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        draw_split(made, tmp_path / "file" / "split.png")
