"""FedDM beyond the paper: images in bytes, a pool kept over rounds, images that start from a generator."""

from collections.abc import Iterator, Mapping

import pytest
import torch
from painted import Painted, painted
from stage import Stage, bound, coin, image_net, pictures, play, records, sigmoid

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.message import Message
from understudy.federation.server import Reply
from understudy.learning.local import Local
from understudy.methods.feddm import FedDM, FedDMSettings
from understudy.methods.real import Real, RealSettings
from understudy.methods.shared.generated_start import LEARNT
from understudy.methods.shared.kept_pool import kept_images, to_keep
from understudy.models.network import Network
from understudy.privacy.promise import PrivacySettings

ONE_STEP = Local(epochs=1, batch=100, lr=0.1)
SITES = {"a": pictures([0] * 12 + [1] * 9 + [2] * 11, name="a"), "b": pictures([1] * 15 + [2], name="b")}


@pytest.fixture(autouse=True)
def _painted() -> Iterator[None]:
    with painted():
        yield


def method(**given: object) -> FedDM:
    quick: dict[str, object] = {"ipc": 2, "steps": 2, "real_batch": 8, "server": ONE_STEP}
    return FedDM(FedDMSettings.model_validate({**quick, **given}))


def reply_of(chosen: FedDM, own: Examples, net: Network) -> Message:
    stage = Stage(bound(chosen, net), {"a": own})
    return chosen.distil(stage.client("a", 1), Message(model=net.initial()))


# ---- images in bytes


def test_in_bytes_a_message_is_a_quarter() -> None:
    # ipc · classes · pixels: 2·2·(3·4·4) = 192 bytes where floats take 768.
    own, net = pictures([0] * 12 + [2] * 11, channels=3), image_net(channels=3)
    reply = reply_of(method(pixels="uint8"), own, net)
    assert reply["x"].dtype == torch.uint8
    assert reply["x"].numel() * reply["x"].element_size() == 192


def test_what_leaves_is_rounded_and_clipped_after_matching_in_floats() -> None:
    # 255·x rounded, below 0 and above 255 cut off: noise has all three.
    own, net = pictures([0] * 12), image_net()
    floats = reply_of(method(init="noise", ipc=20), own, net)["x"]
    found = reply_of(method(init="noise", ipc=20, pixels="uint8"), own, net)["x"]
    wanted = [min(255, max(0, round(255 * value))) for value in floats.flatten().tolist()]
    assert found.flatten().tolist() == wanted
    assert {0, 255} < set(wanted)


def test_the_server_scales_bytes() -> None:
    # Without matching steps, images are records, which both ways of sending give back exactly.
    by_bytes, by_floats = (play(method(steps=0, pixels=kind), image_net(), SITES, 2) for kind in ("uint8", "float32"))
    assert torch.equal(by_bytes["model"], by_floats["model"])


def test_where_bytes_are_planned_floats_are_refused() -> None:
    chosen, why = method(pixels="uint8"), list[str]()
    bound(chosen, image_net())
    y = torch.zeros(2, dtype=torch.uint8)
    for x in (torch.zeros(2, 1, 4, 4), torch.zeros(2, 1, 4, 4, dtype=torch.uint8)):
        why.append(str(chosen.why_refused(Reply("a", Message(x=x, y=y), lambda why: None))))
    assert why == ["its images are not in bytes", "None"]


def test_records_that_are_not_pixels_cannot_travel_as_pixels() -> None:
    with pytest.raises(UserError, match=r"method.pixels: uint8 needs images"):
        method(pixels="uint8").bind(coin(), 1)
    floats = Examples(torch.randn(12, 1, 4, 4), torch.zeros(12, dtype=torch.int64))
    with pytest.raises(UserError, match=r"the records of a are not uint8 pixels; write float32"):
        reply_of(method(pixels="uint8"), floats, image_net())


# ---- a pool kept over rounds

# Without matching, images are records. Client a alone takes part in round 1, b in the others. At w the slope of
# (x=1, class 0) is σ(w) − 1 and that of (x=2, class 1) is 2σ(2w).
COIN_SITES = {"a": records([1, 1, 1], [0, 0, 0]), "b": records([2], [1])}
COIN: Mapping[str, object] = {"steps": 0, "ipc": 1, "min_class_records": 1, "server": ONE_STEP}
IN_TURN = [["a"], ["b"], ["b"]]


def moved(w: float, *weighted: tuple[str, float]) -> float:
    """One step at 0.1 on the weighted mean of these images' losses."""
    slopes = {"a": sigmoid(w) - 1, "b": 2 * sigmoid(2 * w)}
    return w - 0.1 * sum(slopes[who] * weight for who, weight in weighted) / sum(weight for _, weight in weighted)


def after(rounds: int, **given: object) -> dict[str, torch.Tensor]:
    return dict(play(method(**{**COIN, **given}), coin(), COIN_SITES, rounds, IN_TURN))


def test_images_of_the_round_before_count_as_those_of_this_round() -> None:
    first = moved(0.0, ("a", 1))
    assert first == pytest.approx(0.05)
    assert after(2)["model"].item() == pytest.approx(moved(first, ("b", 1)))
    assert after(2, keep_pool=1)["model"].item() == pytest.approx(moved(first, ("b", 1), ("a", 1)))


def test_only_as_many_rounds_are_kept_as_set() -> None:
    second = moved(moved(0.0, ("a", 1)), ("b", 1), ("a", 1))
    for keep, images in ((1, [("b", 2.0)]), (2, [("b", 2.0), ("a", 1.0)])):
        state = after(3, keep_pool=keep)
        assert state["model"].item() == pytest.approx(moved(second, *images))
        assert {part for part in state if part.endswith(".x")} == {f"pool.{3 - age}.x" for age in range(keep)}


def test_age_is_counted_in_rounds_even_if_one_of_them_brought_nothing() -> None:
    chosen = method(**COIN, keep_pool=1)
    state = play(chosen, coin(), COIN_SITES, 3, [["a"], [], ["b"]])
    assert state["model"].item() == pytest.approx(moved(moved(0.0, ("a", 1)), ("b", 1)))
    assert set(state) == {"model", "pool.3.x", "pool.3.y"}


def test_with_age_images_can_count_for_less() -> None:
    # In round 3 those of round 2 count half and those of round 1 a quarter.
    first = moved(0.0, ("a", 1))
    second = moved(first, ("b", 1), ("a", 0.5))
    third = moved(second, ("b", 1), ("b", 0.5), ("a", 0.25))
    found = [after(rounds, keep_pool=5, keep_weight=0.5)["model"].item() for rounds in (2, 3)]
    assert found == pytest.approx([second, third])


def test_sizes_are_kept_with_the_images() -> None:
    # a's image stands for three records, b's for one.
    wanted = moved(moved(0.0, ("a", 1)), ("b", 1), ("a", 3 * 0.5))
    state = after(2, keep_pool=1, keep_weight=0.5, weights="size")
    assert state["model"].item() == pytest.approx(wanted)
    assert state["pool.2.weight"].tolist() == [1]


def test_where_sizes_do_not_count_a_weight_that_came_is_not_kept() -> None:
    sent = Message(x=torch.ones(1, 1), y=torch.zeros(1, dtype=torch.uint8), weight=torch.ones(1))
    kept = to_keep([Reply("a", sent, lambda why: None)], 4, coin().problem, weighted=False)
    assert set(kept) == {"pool.4.x", "pool.4.y"}


def test_images_stay_in_bytes_unless_some_came_as_floats() -> None:
    labels = torch.zeros(1, dtype=torch.uint8)
    images = (torch.full((1, 1), 51, dtype=torch.uint8), torch.ones(1, 1))
    replies = [Reply("a", Message(x=x, y=labels), lambda why: None) for x in images]
    assert to_keep(replies[:1], 1, coin().problem, weighted=False)["pool.1.x"].dtype == torch.uint8
    mixed = to_keep(replies, 1, coin().problem, weighted=False)["pool.1.x"]
    assert mixed.flatten().tolist() == pytest.approx([0.2, 1])  # 51/255, and as it is


def test_an_image_of_an_earlier_round_that_makes_training_diverge_is_forgotten() -> None:
    chosen = method(**{**COIN, "keep_pool": 3, "server": Local(epochs=3, batch=100, lr=0.1)})
    stage = Stage(bound(chosen, coin()), COIN_SITES)
    poison = {"pool.1.x": torch.full((1, 1), 1e38), "pool.1.y": torch.zeros(1, dtype=torch.uint8)}
    stage.begin(2)
    begun = chosen.start(stage).but(poison)
    honest = Reply("a", Message(x=torch.ones(1, 1), y=torch.zeros(1, dtype=torch.uint8)), lambda why: None)
    assert chosen._learn(stage, begun["model"], [honest], kept_images(begun, 2, 3)).isnan().all()
    spoilt = chosen.round(stage, begun)
    assert torch.isfinite(spoilt["model"]).all()
    assert set(spoilt) == {"model", "pool.2.x", "pool.2.y"}


def test_real_images_can_be_kept_too_if_they_are_drawn_anew() -> None:
    words = {"ipc": 1, "min_class_records": 1, "server": ONE_STEP, "keep_pool": 1}
    state = play(Real(RealSettings.model_validate(words)), coin(), COIN_SITES, 2, IN_TURN)
    assert state["model"].item() == pytest.approx(moved(0.05, ("b", 1), ("a", 1)))
    with pytest.raises(UserError, match=r"method.keep_pool: with redraw: false every round brings the same"):
        Real(RealSettings.model_validate({**words, "redraw": False})).bind(coin(), 1)


# ---- images that start from a generator


def test_a_client_trains_its_generator_once_and_samples_anew_each_round() -> None:
    # Class 1 has nine records, one too few: its images are not made, and its generator does not see them.
    chosen = method(init="generator", generator="painted", steps=0, ipc=3, pixels="uint8")
    stage = Stage(bound(chosen, image_net()), SITES, [["a"], ["a"]])
    stage.play(2)
    (seen,) = Painted.seen
    assert seen.label_counts(3).tolist() == [12, 0, 11]
    first, second = (reply["x"] for _, _, reply in stage.replies)
    assert first[:, 0, 0, 0].tolist() == second[:, 0, 0, 0].tolist() == [0, 0, 0, 2, 2, 2]  # painted, with its label
    assert not torch.equal(first, second)


def test_the_generator_stays_in_memory_and_never_leaves() -> None:
    stage = Stage(bound(method(init="generator", generator="painted"), image_net()), SITES)
    stage.play(1)
    assert set(stage.memories["a"]) == {f"{LEARNT}{part}" for part in ("epoch", "some", "weight")}
    assert all(set(reply) == {"x", "y"} for _, _, reply in stage.replies)


def test_matching_moves_generated_images() -> None:
    net = image_net()
    still, matched = (
        reply_of(method(init="generator", generator="painted", steps=steps), SITES["a"], net)["x"] for steps in (0, 5)
    )
    assert still.dtype == torch.float32
    assert (matched - still).abs().max() > 0


def test_with_too_few_records_for_a_generator_images_start_as_noise() -> None:
    few, net = {"min_class_records": 1, "steps": 0}, image_net()
    for many in (2, 3):  # the painted one needs three
        own = pictures([0] * many)
        by_noise = reply_of(method(init="noise", **few), own, net)["x"]
        found = reply_of(method(init="generator", generator="painted", **few), own, net)["x"]
        assert torch.equal(found, by_noise) == (many == 2)


def test_the_default_generator_is_spelled_out() -> None:
    chosen = FedDMSettings.model_validate({"init": "generator"}).generator
    assert chosen is not None
    assert (chosen["name"], chosen["epochs"]) == ("vae", 360)
    assert FedDMSettings().generator is None


@pytest.mark.parametrize("dp", ["stat", "paper"])
def test_a_generator_that_learns_without_noise_is_refused_under_privacy(dp: str) -> None:
    chosen = method(init="generator", generator="painted", dp=dp, noise=1.0)
    chosen.privacy = PrivacySettings(records=30)
    with pytest.raises(UserError, match=r"method.init: this generator learns without noise.*write init: noise"):
        chosen.bind(image_net(), 1)


def test_a_generator_for_images_that_start_otherwise_is_refused() -> None:
    with pytest.raises(ValueError, match="generator is only used with init: generator"):
        FedDMSettings.model_validate({"init": "noise", "generator": "vae"})


# ---- classes with few records


@pytest.mark.parametrize("init", ["real", "noise", "generator"])
def test_classes_of_fewer_records_than_set_are_left_out_however_images_start(init: str) -> None:
    own = pictures([0] * 50 + [1] * 49 + [2] * 60)
    words: dict[str, object] = {"init": init, **({"generator": "painted"} if init == "generator" else {})}
    chosen = method(**words, min_class_records=50, pixels="uint8", keep_pool=2)
    assert reply_of(chosen, own, image_net())["y"].tolist() == [0, 0, 2, 2]
    real = Real(RealSettings(ipc=2, min_class_records=50, keep_pool=2))
    bound(real, image_net())
    assert real.pick(Stage(real, {"a": own}).client("a", 1), Message())["y"].tolist() == [0, 0, 2, 2]
