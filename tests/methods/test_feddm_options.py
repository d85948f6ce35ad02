"""FedDM: sizes of messages, augmentation, larger networks, and how much work a round is."""

import pytest
import torch
from stage import Body, Stage, bound, image_net, pictures, play
from torch import Tensor, nn

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.message import Message
from understudy.learning import dsa
from understudy.learning.local import Local
from understudy.methods.feddm import FedDM, FedDMSettings
from understudy.models.network import Network
from understudy.models.zoo import entry
from understudy.randomness import generator
from understudy.synthesis.matching import embedding, matching_gradient

ONE_STEP = Local(epochs=1, batch=100, lr=0.1)
SITES = {"a": pictures([0] * 12 + [1] * 9 + [2] * 11, name="a"), "b": pictures([1] * 15 + [2], name="b")}


def method(**given: object) -> FedDM:
    quick: dict[str, object] = {"ipc": 2, "steps": 2, "real_batch": 8, "server": ONE_STEP}
    return FedDM(FedDMSettings.model_validate({**quick, **given}))


def test_the_published_message_of_ten_clients_is_2_76_million_floats() -> None:
    # Nine classes of ten records or more at each of ten clients, ten images a class of 3·32·32 = 3072 numbers:
    # 10·10·9·3072 = 2 764 800, less than ten ConvNets of 320 010.
    labels = [c for c in range(9) for _ in range(10)] + [9] * 5
    net = Network(lambda: Body(nn.Flatten(), nn.Linear(3072, 10)), Problem(shape=(3, 32, 32), classes=10))
    sites = {f"client-{i}": pictures(labels, channels=3, side=32) for i in range(10)}
    stage = Stage(bound(method(ipc=10, steps=0, server=Local(steps=0)), net), sites)
    stage.play(1)
    assert sum(reply["x"].numel() for _, _, reply in stage.replies) == 10 * 10 * 9 * 3072 == 2_764_800
    assert all(reply["x"].dtype == torch.float32 for _, _, reply in stage.replies)
    assert 2_764_800 < 10 * 320_010


def test_a_reply_that_does_not_fit_is_refused_and_the_rest_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = play(method(), image_net(), {"a": SITES["a"]}, 1)
    chosen = method()
    honest = chosen.reply

    def spoilt(x: Tensor, y: Tensor, real: Examples) -> Message:
        good = honest(x, y, real)
        return good if len(real) == len(SITES["a"]) else good.but(x=x[:, :, :2])

    monkeypatch.setattr(chosen, "reply", spoilt)
    assert torch.equal(play(chosen, image_net(), SITES, 1)["model"], alone["model"])


# ---- augmentation


def test_under_one_draw_a_class_the_gradient_is_that_of_the_changed_images() -> None:
    net, ipc = image_net(), 2
    x = torch.randn(4, 1, 4, 4, generator=generator("x"))
    wanted = torch.randn(2, 9, generator=generator("wanted"))
    draws = [dsa.Draw("crop", torch.rand(1, 3, generator=generator(i))) for i in range(2)]
    with net.frozen():
        found = matching_gradient(net, x, wanted, ipc, draws)
        leaf = x.clone().requires_grad_()
        losses = []
        for c in range(2):
            seen = dsa.apply(draws[c], leaf[2 * c : 2 * c + 2])
            losses.append((embedding(net, seen).mean(0) - wanted[c]).square().sum())
        (by_hand,) = torch.autograd.grad(torch.stack(losses).sum(), leaf)
    assert torch.allclose(found, by_hand, atol=1e-6)


def test_real_and_made_images_of_a_class_are_changed_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    # Images that are the records stay where they are, whatever the augmentation: both means move together.
    own = pictures([0] * 12)
    net = image_net(classes=1)
    chosen = method(ipc=12, real_batch=12, steps=3, dsa=True)
    stage = Stage(bound(chosen, net), {"a": own})
    seen: list[str] = []
    plain = dsa.apply

    def watched(draw: dsa.Draw, x: Tensor) -> Tensor:
        seen.append(draw.kind)
        return plain(draw, x)

    monkeypatch.setattr(dsa, "apply", watched)
    x = chosen.distil(stage.client("a", 1), Message(model=net.initial()))["x"]
    assert len(seen) == 6, "three steps, each for the real and for the made images"
    assert seen[::2] == seen[1::2]
    real = net.problem.scale(own.x)
    rows = {tuple(image.flatten().tolist()) for image in real}
    moved = torch.stack([min((image - other).norm() for other in real) for image in x])
    assert len(rows) == 12
    assert moved.max() < 1e-5


def test_the_server_augments_only_where_the_switch_says_so() -> None:
    plain = play(method(), image_net(), SITES, 1)["model"]
    changed = play(method(dsa=True, steps=0), image_net(), SITES, 1)["model"]
    unmoved = play(method(steps=0), image_net(), SITES, 1)["model"]
    assert not torch.equal(changed, unmoved)
    assert torch.equal(play(method(dsa=False), image_net(), SITES, 1)["model"], plain)


def test_records_that_are_no_images_are_not_augmented() -> None:
    flat = Network(lambda: Body(nn.Identity(), nn.Linear(3, 2)), Problem(shape=(3,), classes=2))
    with pytest.raises(UserError, match=r"method.dsa needs images"):
        method(dsa=True).bind(flat, 1)


# ---- networks


def test_resnet18_is_matched_and_trained_within_its_ball() -> None:
    problem, chosen = Problem(shape=(3, 16, 16), classes=2), entry("resnet18")
    net = Network(lambda: chosen.build(problem, chosen.settings()), problem)
    sites = {"a": pictures([0] * 3 + [1] * 3, channels=3, side=16)}
    stage = Stage(
        bound(method(ipc=1, steps=1, real_batch=2, min_class_records=1, radius=0.5, init="noise"), net), sites
    )
    model = stage.play(1)["model"]
    assert stage.replies[0][2]["x"].isfinite().all()
    assert 0 < (model - net.initial()).double().norm() <= 0.5 * (1 + 1e-4)


# ---- effort


def test_every_class_counts_in_the_work_of_a_round() -> None:
    # 1000 steps · classes · (256 real + 10 made): with 10 classes and enough records 2.66 million, with 30 records,
    # which are at least 10 each of at most 3 classes, 798 000.
    chosen = FedDM(FedDMSettings())
    assert chosen.effort(5000, 10) == 1000 * 10 * 266 == 2_660_000
    assert chosen.effort(30, 10) == 798_000
