"""FedDM: what a client sends, and what the server learns from it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stage import Body, Stage, bound, coin, image_net, pictures, play, records, sigmoid
from torch import Tensor, nn

from understudy.api.run import run
from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.message import Message
from understudy.learning import loop, pool
from understudy.learning.ball import into_ball
from understudy.learning.local import Local
from understudy.learning.loop import Feed, Trained
from understudy.learning.plan import EMPTY
from understudy.methods.feddm import FedDM, FedDMSettings
from understudy.methods.shared import pooled
from understudy.models.network import Network
from understudy.randomness import generator

ONE_STEP = Local(epochs=1, batch=100, lr=0.1)
SITES = {"a": pictures([0] * 12 + [1] * 9 + [2] * 11, name="a"), "b": pictures([1] * 15 + [2], name="b")}


def method(**given: object) -> FedDM:
    quick: dict[str, object] = {"ipc": 2, "steps": 2, "real_batch": 8, "server": ONE_STEP}
    return FedDM(FedDMSettings.model_validate({**quick, **given}))


def reply_of(chosen: FedDM, own: Examples, net: Network) -> Message:
    stage = Stage(bound(chosen, net), {"a": own})
    return chosen.distil(stage.client("a", 1), Message(model=net.initial()))


# ---- on the client


def test_the_published_numbers_are_the_defaults() -> None:
    chosen = FedDMSettings()
    numbers = (chosen.ipc, chosen.radius, chosen.steps, chosen.real_batch, chosen.image_lr, chosen.image_momentum)
    assert numbers == (10, 5.0, 1000, 256, 1.0, 0.5)
    assert (chosen.weights, chosen.dsa, chosen.dp) == ("pool", False, "none")
    server = chosen.server
    assert (server.epochs, server.batch, server.lr, server.momentum) == (500, 256, 0.01, 0.9)
    assert (server.weight_decay, server.schedule) == (5e-4, "constant")


def test_a_class_with_too_few_records_is_left_out() -> None:
    # 12, 9 and 11 records of the classes 0, 1 and 2: nine are one too few.
    reply = reply_of(method(), SITES["a"], image_net())
    assert reply["y"].tolist() == [0, 0, 2, 2]
    reply = reply_of(method(min_class_records=9), SITES["a"], image_net())
    assert reply["y"].tolist() == [0, 0, 1, 1, 2, 2]


def test_a_message_is_the_images_in_floats_and_a_byte_a_label() -> None:
    # ipc · classes · pixels · 4 bytes: 2·2·(3·4·4)·4 = 768, and 4 labels; beside them only names and shapes.
    own = pictures([0] * 12 + [2] * 11, channels=3)
    reply = reply_of(method(), own, image_net(channels=3))
    sizes = {part: tensor.numel() * tensor.element_size() for part, tensor in reply.items()}
    assert sizes == {"x": 768, "y": 4}
    assert reply["x"].dtype == torch.float32
    assert reply["y"].dtype == torch.uint8
    assert 772 < reply.nbytes < 772 + 250


def test_more_than_256_classes_take_two_bytes_a_label() -> None:
    own = pictures([299] * 12)
    reply = reply_of(method(), own, image_net(classes=300))
    assert reply["y"].element_size() == 2
    assert reply["y"].tolist() == [299, 299]


def test_the_first_images_are_real_ones_of_their_class_drawn_anew_each_round() -> None:
    chosen, net = method(steps=0, ipc=3), image_net()
    stage = Stage(bound(chosen, net), SITES)
    drawn = [chosen.distil(stage.client("a", round), Message(model=net.initial())) for round in (1, 2)]
    real = net.problem.scale(SITES["a"].x)
    for reply in drawn:
        for image, label in zip(reply["x"], reply["y"], strict=True):
            which = [i for i, other in enumerate(real) if torch.equal(image, other)]
            assert [SITES["a"].y[i].item() for i in which] == [label.item()]
        assert len({tuple(image.flatten().tolist()) for image in reply["x"]}) == 6  # none twice
    assert not torch.equal(drawn[0]["x"], drawn[1]["x"])


def test_the_first_images_can_be_noise() -> None:
    own = pictures([0] * 600, side=8)
    x = reply_of(method(steps=0, ipc=500, init="noise"), own, image_net(side=8))["x"]
    assert x.shape == (500, 1, 8, 8)
    assert abs(x.mean().item()) < 0.03
    assert x.std().item() == pytest.approx(1, abs=0.03)  # 32 000 draws of N(0, 1)


def test_a_client_of_one_class_sends_that_class() -> None:
    assert reply_of(method(), pictures([1] * 10), image_net())["y"].tolist() == [1, 1]


def test_an_empty_client_sends_no_images_and_changes_nothing() -> None:
    with_empty = {"a": SITES["a"], "empty": SITES["a"].none()}
    assert len(reply_of(method(), with_empty["empty"], image_net())["y"]) == 0
    alone = play(method(), image_net(), {"a": SITES["a"]}, 1)
    assert torch.equal(play(method(), image_net(), with_empty, 1)["model"], alone["model"])


def test_where_nobody_owns_a_class_the_model_stays() -> None:
    net = image_net()
    assert torch.equal(play(method(), net, {"a": pictures([0, 1])}, 1)["model"], net.initial())


def test_nothing_is_kept_between_rounds() -> None:
    stage = Stage(bound(method(), image_net()), SITES)
    state = stage.play(2)
    assert set(state) == {"model"}
    assert all(not memory for memory in stage.memories.values())


def test_several_labels_a_record_are_refused() -> None:
    several = Network(lambda: image_net().module, Problem(shape=(1, 4, 4), classes=3, multilabel=True))
    with pytest.raises(UserError, match="one label"):
        method().bind(several, 1)


# ---- on the server

# With no matching steps a client sends its records themselves; at w = 0 the slope of (x=1, class 0) is −½ and
# that of (x=2, class 1) is 1.
COIN_SITES = {"a": records([1, 1, 1], [0, 0, 0]), "b": records([2], [1])}
COIN: Mapping[str, object] = {"steps": 0, "ipc": 1, "min_class_records": 1, "server": ONE_STEP}


def test_in_a_pool_every_image_counts_alike() -> None:
    # −0.1 · (−0.5 + 1) / 2 = −0.025
    state = play(method(**COIN), coin(), COIN_SITES, 1)
    assert state["model"].item() == pytest.approx(-0.025)


def test_by_size_an_image_counts_for_the_records_it_stands_for() -> None:
    # −0.1 · (3·(−0.5) + 1·1) / 4 = 0.0125, and with two images a class each of them stands for half as many.
    for ipc in (1, 2):
        state = play(method(**{**COIN, "ipc": ipc, "weights": "size"}), coin(), COIN_SITES, 1)
        assert state["model"].item() == pytest.approx(0.0125)


def test_by_size_the_counts_are_told_a_part_with_each_image() -> None:
    stage = Stage(bound(method(**{**COIN, "ipc": 2, "weights": "size"}), coin()), COIN_SITES)
    stage.play(1)
    told = {name: reply["weight"].tolist() for _, name, reply in stage.replies}
    assert told == {"a": [1.5, 1.5], "b": [0.5, 0.5]}  # 3 and 1 records


def test_sizes_count_the_same_however_the_pool_is_cut_into_batches() -> None:
    # Σ_i n_i·ℓ_i / Σ n over the pool: in batches of one image, one pass moves w by −η·Σ_i (n_i / mean n)·slope_i
    # = −0.001·(1.5·(−½) + 0.5·1) = 0.00025, up to the curvature over so short a way.
    small = {**COIN, "weights": "size", "server": Local(epochs=1, batch=1, lr=0.001)}
    state = play(method(**small), coin(), COIN_SITES, 1)
    assert state["model"].item() == pytest.approx(0.00025, rel=0.02)


def test_the_server_goes_on_from_the_broadcast_model() -> None:
    state = play(method(**COIN), coin(), COIN_SITES, 2)
    w = -0.025
    assert state["model"].item() == pytest.approx(w - 0.1 * ((sigmoid(w) - 1) + 2 * sigmoid(2 * w)) / 2)


def test_the_servers_rate_follows_its_schedule() -> None:
    # Halved in the second round, which begins at −0.025 and steps by half of what the one above does.
    server = ONE_STEP.model_copy(update={"schedule": "exponential", "decay": 0.5})
    state = play(method(**{**COIN, "server": server}), coin(), COIN_SITES, 2)
    w = -0.025
    assert state["model"].item() == pytest.approx(w - 0.05 * ((sigmoid(w) - 1) + 2 * sigmoid(2 * w)) / 2)


def test_the_servers_iterate_is_never_outside_the_ball(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = [], []

    def watched(w: Tensor, centre: Tensor, radius: float) -> None:
        before.append((w - centre).norm().item())
        into_ball(w, centre, radius)
        after.append((w - centre).norm().item())

    monkeypatch.setattr(pooled, "into_ball", watched)
    server = Local(epochs=20, batch=3, lr=0.5, momentum=0.9)
    net = image_net()
    stage = Stage(bound(method(radius=0.3, server=server), net), SITES)
    state = stage.play(2)
    assert max(before) > 0.31, "the ball was never needed"
    assert max(after) <= 0.3 * (1 + 1e-5)
    assert len(after) == 2 * 20 * 2  # after every step: a pool of 6 in batches of 3, 20 epochs, 2 rounds
    assert (state["model"] - net.initial()).norm() <= 2 * 0.3 * (1 + 1e-5)


def test_the_server_can_leave_out_the_last_part_of_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    # Three classes are owned, so six images; in fours that is one whole batch a pass and two images left out.
    plans: list[Tensor] = []

    def watched(net: Network, w: Tensor, feed: Feed, *rest: Any, **more: Any) -> Trained:
        plans.append(feed.plan)
        return loop.train(net, w, feed, *rest, **more)

    monkeypatch.setattr(pool, "train", watched)
    play(method(server=Local(epochs=3, batch=4, lr=0.1, drop_last=True)), image_net(), SITES, 1)
    assert [plan.shape for plan in plans] == [(3, 4)]
    assert (plans[0] != EMPTY).all()


def test_running_statistics_are_not_put_into_the_ball() -> None:
    class Body4(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(nn.Flatten(), nn.Linear(16, 4), nn.BatchNorm1d(4, momentum=1.0), nn.Tanh())

    def build() -> nn.Module:
        return Body(Body4(), nn.Linear(4, 3))

    net = Network(build, Problem(shape=(1, 4, 4), classes=3))
    chosen = method(radius=1e-6, init="noise", steps=0, server=Local(epochs=1, batch=100, lr=0.1))
    model = play(chosen, net, SITES, 1)["model"]
    assert (model - net.initial())[net.trainable].norm() <= 1.01e-6
    assert (model - net.initial())[net.buffers].norm() > 0.1


def test_dropout_on_the_server_depends_on_nothing_but_the_seed(tmp_path: Path) -> None:
    sites = {name: (own.x.numpy(), own.y.numpy()) for name, own in SITES.items()}
    data = Federation.from_arrays(sites, test=(SITES["a"].x.numpy(), SITES["a"].y.numpy()))
    chosen = {"name": "feddm", "ipc": 2, "steps": 1, "real_batch": 8, "rounds": 1, "server": {"epochs": 3, "batch": 4}}
    models = []
    for i, words in enumerate(("one", "another")):
        with torch.random.fork_rng():
            torch.default_generator.set_state(generator(words).get_state())  # whatever happened before in the process
            result = run(
                data=data,
                model=image_net(dropout=0.5).module,
                method=chosen,
                out=tmp_path / str(i),
                engine={"name": "inline"},
            )
        models.append(np.concatenate([w.numpy().ravel() for w in result.weights.values()]))
    np.testing.assert_array_equal(models[0], models[1])
