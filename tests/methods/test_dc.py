"""DC: loops and one image step by hand, and who is asked when."""

from collections.abc import Sequence

import pytest
import torch
from stage import Stage, batchnorm_net, bound, cloud, image_net, pictures, play, records, softmax_net
from torch import Tensor
from torch.nn import functional

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.message import Message
from understudy.learning import pool
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Trained
from understudy.methods import dc
from understudy.methods.dc import DC, DCSettings, halves
from understudy.methods.shared.pooled import first_noise
from understudy.models.network import Network
from understudy.randomness import generator
from understudy.synthesis.gradient_matching import MovingImages

SERVER = Local(epochs=2, batch=8, lr=0.1)
SITES = {"a": cloud("a", 9, classes=2), "b": cloud("b", 7)}


def method(**given: object) -> DC:
    quick: dict[str, object] = {"ipc": 2, "iterations": 2, "outer": 3, "inner": 4, "real_batch": 4, "server": SERVER}
    return DC(DCSettings.model_validate({**quick, **given}))


def staged(chosen: DC, sites: dict[str, Examples] = SITES, cohorts: Sequence[Sequence[str]] = ()) -> Stage:
    return Stage(bound(chosen, softmax_net()), sites, cohorts)


# ---- settings


def test_the_published_numbers_are_the_defaults() -> None:
    chosen = DCSettings()
    assert (chosen.iterations, chosen.real_batch, chosen.image_lr, chosen.image_momentum) == (1000, 256, 0.1, 0.5)
    assert (chosen.net_lr, chosen.init, chosen.dsa) == (0.01, "noise", False)
    server = chosen.server
    assert (server.epochs, server.lr, server.momentum, server.weight_decay) == (300, 0.01, 0.9, 5e-4)


@pytest.mark.parametrize(("ipc", "loops"), [(1, (1, 1)), (10, (10, 50)), (50, (50, 10))])
def test_loops_follow_from_the_images_a_class(ipc: int, loops: tuple[int, int]) -> None:
    assert DCSettings(ipc=ipc).loops == loops
    assert DCSettings(ipc=ipc, outer=3).loops == (3, loops[1])


def test_loops_that_nobody_published_must_be_given() -> None:
    with pytest.raises(UserError, match="give both for ipc 7"):
        DC(DCSettings(ipc=7)).bind(softmax_net(), 1)
    assert DCSettings(ipc=7, outer=2, inner=5).loops == (2, 5)


def test_the_rate_is_a_tenth_in_the_second_half() -> None:
    parts = halves(Local(epochs=5, lr=0.2))
    assert [(part.epochs, rate) for part, rate in parts] == [(3, 0.2), (2, pytest.approx(0.02))]
    parts = halves(Local(steps=4, lr=0.2))
    assert [part.step_count(100) for part, _ in parts] == [2, 2]


# ---- on the client


def test_images_step_at_every_place_and_networks_train_between(monkeypatch: pytest.MonkeyPatch) -> None:
    # 2 networks, 3 places each: 6 image steps, and 2·2 trainings of 4 epochs; one step each, as 4 images fit a batch.
    steps: list[int] = []
    trained: list[int | None] = []
    plain_step, plain_learn = MovingImages.step, pool.learn_from_pool

    def step(self: MovingImages, gradient: Tensor) -> None:
        steps.append(len(gradient))
        plain_step(self, gradient)

    def learn(net: Network, w: Tensor, fed: pool.PoolFeed, descent: Descent) -> Trained:
        trained.append(descent.local.epochs)
        found = plain_learn(net, w, fed, descent)
        assert found.steps == 4
        return found

    monkeypatch.setattr(MovingImages, "step", step)
    monkeypatch.setattr(dc, "learn_from_pool", learn)
    chosen = method()
    stage = staged(chosen, {"a": SITES["a"]})
    chosen.condense(stage.client("a", 1), Message())
    assert steps == [4] * 6
    assert trained == [4] * 4


def test_one_image_step_is_that_of_the_summed_distance() -> None:
    # One network, one place; the slow way: torch differentiates Σ_c Σ_rows (1 − cos) of the weight through both.
    chosen = method(iterations=1, outer=1, inner=0, real_batch=100, image_lr=0.3)
    stage = staged(chosen, {"a": SITES["a"]})
    client = stage.client("a", 1)
    reply = chosen.condense(client, Message())
    again = stage.client("a", 1)
    first = first_noise(again, 4, chosen.net)
    w = chosen.net.redrawn(int(torch.randint(2**62, (), generator=again.rng("networks"))))
    x, y = first.clone().requires_grad_(), torch.tensor([0, 0, 1, 1])
    own, total = SITES["a"], torch.zeros(())
    for c in (0, 1):
        real = weight_slope(w, own.x[own.y == c], own.y[own.y == c])
        made = weight_slope(w, x[y == c], y[y == c])
        total = total + (1 - (real * made).sum(1) / (real.norm(dim=1) * made.norm(dim=1) + 1e-6)).sum()
    (slope,) = torch.autograd.grad(total, x)
    assert slope.abs().max() > 1e-3
    assert torch.allclose(reply["x"], first - 0.3 * slope, atol=1e-5)


def weight_slope(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """(classes, features): of the mean loss of softmax regression, by hand (p − onehot)ᵀx / n."""
    p = torch.softmax(x @ w[:9].view(3, 3).T + w[9:], 1)
    return (p - functional.one_hot(y, 3)).T @ x / len(y)


def test_only_classes_that_it_holds_are_condensed() -> None:
    stage = staged(method(), {"a": records([[1, 2, 3], [3, 2, 1]], [2, 2]), "b": SITES["a"].none()})
    stage.play(1)
    assert [reply["y"].tolist() for _, _, reply in stage.replies] == [[2, 2], []]


def test_images_can_begin_as_records() -> None:
    chosen = method(init="real", iterations=0)
    stage = staged(chosen, {"a": SITES["a"]})
    x = chosen.condense(stage.client("a", 1), Message())["x"]
    assert all(any(torch.equal(image, own) for own in SITES["a"].x) for image in x)


def test_with_augmentation_images_move_otherwise() -> None:
    made = []
    for switch in (False, True):
        chosen = method(dsa=switch, ipc=1)
        stage = Stage(bound(chosen, image_net()), {"a": pictures([0] * 5 + [1] * 5)})
        stage.play(1)
        made.append(stage.replies[0][2]["x"])
    assert made[1].isfinite().all()
    assert not torch.equal(made[0], made[1])


def test_batchnorm_is_refused() -> None:
    with pytest.raises(UserError, match="BatchNorm is refused"):
        method().bind(batchnorm_net(), 1)


# ---- on the server


def test_everybody_is_asked_once_and_gets_nothing() -> None:
    stage = staged(method())
    state = stage.play(3)
    assert [(round, name) for round, name, _ in stage.briefs] == [(1, "a"), (1, "b")]
    assert all(len(brief) == 0 for _, _, brief in stage.briefs)
    assert torch.equal(state["model"], play(method(), softmax_net(), SITES, 1)["model"]), "later rounds change nothing"


def test_the_server_trains_a_fresh_network_on_all_images() -> None:
    stage = staged(method())
    net = stage.method.net
    state = stage.play(1)
    x = torch.cat([reply["x"] for _, _, reply in stage.replies])
    y = torch.cat([reply["y"].long() for _, _, reply in stage.replies])
    w = net.redrawn(int(torch.randint(2**62, (), generator=_server_stream("fresh network"))))
    order = _server_stream("pool")
    for rate in (0.1, 0.01):
        for rows in torch.split(torch.randperm(len(y), generator=order), 8):
            p = torch.softmax(x[rows] @ w[:9].view(3, 3).T + w[9:], 1) - functional.one_hot(y[rows], 3)
            w = w - rate * torch.cat([(p.T @ x[rows]).flatten(), p.sum(0)]) / len(rows)
    assert torch.allclose(state["model"], w, atol=1e-5)


def _server_stream(purpose: str) -> torch.Generator:
    return generator(0, 1, "server", purpose)


def test_whoever_comes_late_is_asked_then_and_the_server_begins_anew() -> None:
    stage = staged(method(), cohorts=[["a"], ["a", "b"], ["b"]])
    early = stage.play(1)
    stage.begin(2)
    late = stage.method.round(stage, early)
    stage.begin(3)
    assert torch.equal(stage.method.round(stage, late)["model"], late["model"])
    assert [(round, name) for round, name, _ in stage.briefs] == [(1, "a"), (2, "b")]
    assert not torch.equal(early["model"], late["model"])
    assert {part for part in late if part.startswith("pool.")} == {"pool.a.x", "pool.a.y", "pool.b.x", "pool.b.y"}
