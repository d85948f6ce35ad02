"""FedLAP on the client: the path along which images are matched, and what leaves."""

from typing import Any

import pytest
import torch
from fedlap_toys import SITES, method, reply_of, still  # noqa: F401
from stage import Stage, bound, image_net, pictures, play, softmax_net
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.learning.dsa import ALL, WITHOUT_FLIP, Draw, apply
from understudy.learning.loop import full_gradient
from understudy.learning.pool import learn_from_pool
from understudy.methods.fedlap import FedLap, fedlap
from understudy.methods.fedlap.fedlap_dp import PRESETS as DP_PRESETS
from understudy.methods.fedlap.fedlap_dp import FedLapDpSettings
from understudy.methods.fedlap.settings import PRESETS, FedLapSettings
from understudy.models.network import Network
from understudy.randomness import generator
from understudy.synthesis.gradient_matching import Criterion, MovingImages, Target

# ---- settings


def test_the_published_numbers_are_the_defaults() -> None:
    chosen = FedLapSettings()
    counters = (chosen.restarts, chosen.stages, chosen.real_batches, chosen.image_steps, chosen.path_epochs)
    assert (*counters, chosen.server_epochs) == (1, 5, 40, 5, 0, 100)
    # 1·5·40 = 200 batches of 256: about five epochs of CIFAR-10's 10 000 records a client.
    assert (chosen.radius, chosen.mse, chosen.ipc, chosen.image_lr, chosen.image_momentum) == (10, 0.1, 50, 100, 0.5)
    assert (chosen.lr, chosen.schedule, chosen.batch, chosen.pool_batch) == (0.1, "cosine", 256, 512)
    assert (chosen.labels, chosen.init, chosen.radius_rule, chosen.weights) == ("owned", "real", "min", "pool")
    assert FedLapSettings(**PRESETS["paper"]) == chosen
    assert FedLapSettings(**PRESETS["mnist"]).lr == 0.01


def test_flip_is_left_out_where_it_makes_other_digits() -> None:
    assert FedLapSettings().kinds == ALL
    assert FedLapSettings(**PRESETS["mnist"]).kinds == WITHOUT_FLIP
    assert FedLapSettings(dsa=False).kinds == ()


# ---- the path


class Counted:
    """A real gradient that counts how often it was asked for, and where."""

    def __init__(self, net: Network) -> None:
        self.net = net
        self.at: list[Tensor] = []

    def __call__(self, w: Tensor, change: Draw | None) -> Tensor:
        self.at.append(w)
        return torch.ones(self.net.parameters)


def walked(chosen: FedLap, net: Network) -> tuple[Tensor, Counted]:
    stage, counted = Stage(bound(chosen, net), SITES), Counted(net)
    images = MovingImages(
        torch.randn(4, 1, 4, 4, generator=generator("S")), torch.tensor([0, 0, 1, 1]), lr=1, momentum=0
    )
    return chosen.match(stage.client("a", 1), net.initial(), images, counted), counted


def test_without_epochs_on_the_images_the_model_stays_and_the_radius_never_ends_the_loop() -> None:
    net = image_net()
    end, asked = walked(method(radius=1e-9, restarts=2), net)
    assert torch.equal(end, net.initial())
    assert len(asked.at) == 2 * 5 * 2  # restarts · stages · real batches
    assert all(torch.equal(w, net.initial()) for w in asked.at)


def test_a_path_ends_where_the_radius_is_reached() -> None:
    net = image_net()
    _, asked = walked(method(radius=1e-9, restarts=3, path_epochs=1, lr=0.5), net)
    assert len(asked.at) == 3 * 1 * 2  # the first stage of each restart, at w_g
    assert all(torch.equal(w, net.initial()) for w in asked.at)


def test_the_model_moves_between_stages_and_not_after_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    def counted(*given: Any, **more: Any) -> Any:
        steps.append(given[3].local.epochs)
        return learn_from_pool(*given, **more)

    monkeypatch.setattr(fedlap, "learn_from_pool", counted)
    net = image_net()
    end, asked = walked(method(path_epochs=2, stages=3, restarts=2), net)
    assert steps == [2] * (2 * (3 - 1))
    assert len({tuple(w.tolist()) for w in asked.at[:6]}) == 3  # each restart's stages at three models
    assert not torch.equal(end, net.initial())
    assert torch.equal(asked.at[6], net.initial())  # the second restart


def test_both_sides_see_one_augmentation(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []
    draws: list[Draw] = []

    def gradient(net: Network, _w: Tensor, examples: Examples, _batch: int) -> Tensor:
        seen.append(examples.x)
        return torch.ones(net.parameters)

    def step(*_: object, draw: Draw, **__: object) -> None:
        draws.append(draw)

    monkeypatch.setattr(fedlap, "full_gradient", gradient)
    monkeypatch.setattr(fedlap, "match_gradient", step)
    net = image_net()
    own = pictures([0] * 5)
    reply_of(method(batch=5, radius_rule="fixed"), own, net)  # a rate of 1: every batch is all records
    assert len(draws) == len(seen) == 10
    for draw, x in zip(draws, seen, strict=True):
        assert torch.equal(x, apply(draw, net.problem.scale(own.x)))


@pytest.mark.usefixtures("still")
def test_real_batches_are_poisson_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def gradient(net: Network, _w: Tensor, examples: Examples, _batch: int) -> Tensor:
        sizes.append(len(examples))
        return torch.ones(net.parameters)

    monkeypatch.setattr(fedlap, "full_gradient", gradient)
    reply_of(method(batch=10, real_batches=80, radius_rule="fixed"), pictures([0] * 100), image_net())
    # 400 draws of Binomial(100, 0.1): mean 10, deviation 3, so their mean is within 0.6 of 10 (four deviations).
    assert len(sizes) == 400
    assert sum(sizes) / 400 == pytest.approx(10, abs=0.6)
    assert len(set(sizes)) > 8


def test_a_batch_without_a_record_moves_nothing() -> None:
    # With one record in a batch on average, e⁻¹ of them are empty.
    reply = reply_of(method(batch=1, real_batches=20), SITES["a"], image_net())
    assert torch.isfinite(reply["x"]).all()


def test_only_some_of_many_images_are_compared_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[Tensor] = []

    def step(*_: object, rows: Tensor, **__: object) -> None:
        chosen.append(rows)

    monkeypatch.setattr(fedlap, "match_gradient", step)
    reply_of(method(ipc=4, pool_batch=5, radius_rule="fixed"), SITES["a"], image_net())  # two classes: eight images
    assert all(len(set(rows.tolist())) == 5 and int(rows.max()) < 8 for rows in chosen)
    assert len({tuple(rows.tolist()) for rows in chosen}) > 1


def test_matched_images_have_a_gradient_nearer_to_the_real_one() -> None:
    net, own = image_net(), pictures([0] * 40 + [1] * 40, name="many")
    given = {"ipc": 1, "batch": 80, "real_batches": 20, "image_steps": 5, "image_lr": 0.3, "mse": 0, "dsa": False}
    chosen = method(**given, radius_rule="fixed", init="noise")
    client = Stage(bound(chosen, net), {"a": own}).client("a", 1)
    before = torch.randn(2, 1, 4, 4, generator=client.rng("fedlap first images"))
    after = reply_of(chosen, own, net)
    target = Target(net, full_gradient(net, net.initial(), own, 100), Criterion())
    far, near = (
        float(target.distance(full_gradient(net, net.initial(), Examples(x, torch.tensor([0, 1])), 100)))
        for x in (before, after["x"])
    )
    assert near < far / 3


# ---- what a client sends


def test_the_message_of_cifar_10_is_307200_floats() -> None:
    # 50 images for each of two classes of 3·32·32 = 3072 numbers: 307 200 = 0.96 · P of the ConvNet, P = 320 010.
    own = pictures([0] * 60 + [1] * 55, channels=3, side=32)
    chosen = method(ipc=50, stages=1, real_batches=1, server_epochs=1)
    reply = reply_of(chosen, own, image_net(channels=3, side=32))
    assert reply["x"].numel() == 307_200
    assert round(reply["x"].numel() / 320_010, 2) == 0.96
    sizes = {part: tensor.numel() * tensor.element_size() for part, tensor in reply.items()}
    assert sizes == {"x": 4 * 307_200, "y": 100, "radius": 4}
    assert reply["x"].dtype == torch.float32


def test_parts_beside_the_images_leave_only_where_they_are_used() -> None:
    assert set(reply_of(method(), SITES["a"], image_net())) == {"x", "y", "radius"}
    assert set(reply_of(method(radius_rule="constant"), SITES["a"], image_net())) == {"x", "y"}
    with_size = reply_of(method(radius_rule="fixed", weights="size"), SITES["a"], image_net())
    assert set(with_size) == {"x", "y", "records"}
    assert with_size["records"].item() == 11


@pytest.mark.usefixtures("still")
def test_images_start_as_real_ones_of_owned_classes() -> None:
    net = image_net()
    reply = reply_of(method(radius_rule="fixed"), SITES["a"], net)
    assert reply["y"].tolist() == [0, 0, 2, 2]
    real = net.problem.scale(SITES["a"].x)
    for image, label in zip(reply["x"], reply["y"], strict=True):
        assert [SITES["a"].y[i].item() for i in range(11) if torch.equal(image, real[i])] == [label.item()]


@pytest.mark.usefixtures("still")
def test_they_are_drawn_anew_each_round_and_nothing_is_kept() -> None:
    stage = Stage(bound(method(radius_rule="fixed"), image_net()), SITES)
    stage.play(2)
    first, second = (reply for round, name, reply in stage.replies if name == "a")
    assert not torch.equal(first["x"], second["x"])
    assert all(not memory for memory in stage.memories.values())


@pytest.mark.usefixtures("still")
def test_with_all_labels_a_class_without_records_starts_as_noise() -> None:
    net = image_net(side=20)
    own = pictures([0] * 6, side=20)
    reply = reply_of(method(labels="all", radius_rule="fixed", ipc=3), own, net)
    assert reply["y"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert reply["x"][:3].min() >= 0  # pixels divided by 255
    noise = reply["x"][3:]  # 2400 draws of N(0, 1)
    assert abs(noise.mean().item()) < 0.1
    assert noise.std().item() == pytest.approx(1, abs=0.07)


def test_a_client_without_records_sends_no_images_and_changes_nothing() -> None:
    with_empty = {**SITES, "empty": SITES["a"].none()}
    reply = reply_of(method(), with_empty["empty"], image_net())
    assert (reply["x"].shape, set(reply)) == ((0, 1, 4, 4), {"x", "y"})
    alone = play(method(), image_net(), SITES, 1)["model"]
    assert torch.equal(play(method(), image_net(), with_empty, 1)["model"], alone)
    nobody = {"empty": with_empty["empty"]}
    assert torch.equal(play(method(), image_net(), nobody, 1)["model"], image_net().initial())


# ---- what is refused


def test_several_labels_a_record_are_refused() -> None:
    several = Network(lambda: image_net().module, Problem(shape=(1, 4, 4), classes=3, multilabel=True))
    with pytest.raises(UserError, match="fedlap makes images class by class"):
        method().bind(several, 1)


def test_records_that_are_no_images_cannot_be_augmented() -> None:
    with pytest.raises(UserError, match=r"method\.dsa needs images"):
        method().bind(softmax_net(), 1)
    method(dsa=False).bind(softmax_net(), 1)


@pytest.mark.parametrize("settings", [FedLapSettings(**PRESETS["desk"]), FedLapDpSettings(**DP_PRESETS["desk"])])
def test_with_few_rounds_the_last_moves_the_model_as_much_as_the_first(settings: FedLapSettings) -> None:
    images = settings.on_images(1)
    assert images.rate(3, 3) == images.rate(1, 3) == settings.lr
