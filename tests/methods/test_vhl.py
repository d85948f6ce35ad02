"""VHL: each loss term by hand, the wider head, and what a round sends."""

import math
from typing import Any

import pytest
import torch
from stage import Body, Stage, bound, pictures, play, settings_of, softmax_net
from torch import nn

from understudy.config.resolve import resolve
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.message import Message
from understudy.learning.local import Local
from understudy.learning.loop import Batch
from understudy.methods.fedavg import fedavg
from understudy.methods.shared.averaging import AveragingSettings
from understudy.methods.vhl import VHLSettings, VirtualHomogeneity, supervised_contrast, vhl
from understudy.models.network import Network

LOCAL = Local(epochs=2, batch=4, lr=0.1)


def settings(**more: object) -> Any:
    return settings_of("vhl", **{"local": LOCAL, "noise_images": 5, "noise_batch": 6, **more})


def dressed(chosen: Any, classes: int = 3) -> Network:
    """A hidden layer over 4×4 pictures, with twice as many outputs."""
    problem = Problem(shape=(1, 4, 4), classes=classes)
    method = vhl(chosen)

    def build() -> nn.Module:
        return method.adapt_network(Body(nn.Sequential(nn.Flatten(), nn.Linear(16, 6)), nn.Linear(6, classes)), problem)

    return Network(build, problem)


# ---- the contrast


def test_the_contrast_of_three_by_hand() -> None:
    # Directions (1,0), (0,1), (1,0) of the classes 0, 0, 1, temperature 1; the third has no partner.
    # Anchor 1: its partner has likeness 0, the third 1: −log(e⁰/(e⁰ + e¹)) = log(1 + e).
    # Anchor 2: likeness 0 to both: −log(½) = log 2.
    found = supervised_contrast(torch.tensor([[2.0, 0], [0, 3], [5, 0]]), torch.tensor([0, 0, 1]), 1.0)
    assert found.item() == pytest.approx((math.log(1 + math.e) + math.log(2)) / 2)


def test_the_temperature_divides_likeness() -> None:
    # As above at τ = ½: log(1 + e²) and log 2.
    found = supervised_contrast(torch.tensor([[2.0, 0], [0, 3], [5, 0]]), torch.tensor([0, 0, 1]), 0.5)
    assert found.item() == pytest.approx((math.log(1 + math.e**2) + math.log(2)) / 2)


def test_several_partners_are_averaged() -> None:
    # Three of one class, directions (1,0), (1,0), (0,1): for the first −½·(log(e/(e+1)) + log(1/(e+1))), for the
    # second the same, for the third likeness 0 to both: log 2.
    one = -0.5 * (1 - 2 * math.log(math.e + 1))
    found = supervised_contrast(torch.tensor([[1.0, 0], [1, 0], [0, 1]]), torch.tensor([4, 4, 4]), 1.0)
    assert found.item() == pytest.approx((2 * one + math.log(2)) / 3)


def test_without_any_partner_there_is_nothing_to_lose() -> None:
    features = torch.randn(3, 2, requires_grad=True)
    lost = supervised_contrast(features, torch.tensor([0, 1, 2]), 0.07)
    lost.backward()  # type: ignore[no-untyped-call]
    assert lost.item() == 0
    assert features.grad is not None
    assert not features.grad.any()


# ---- the term


def test_the_loss_is_the_sum_of_its_terms() -> None:
    chosen = settings(noise_weight=0.7, alignment=0.3, noise_alignment=0.2, temperature=0.5)
    net = dressed(chosen)
    term = VirtualHomogeneity(chosen, chosen.local)
    own = pictures([0, 1, 2, 0])
    stage = Stage(bound(vhl(chosen), net), {"a": own})
    kit = term.begin(stage.client("a", round=1), Message(model=net.initial()), net)
    assert kit is not None
    features, logits = net(own.x)
    batch = Batch(own.x, own.y, 0, None, features, logits)
    x, y = kit["x"][:6], kit["y"][:6]
    noise_features, noise_logits = net(x)
    # Noise of class c has the label C + c among the 2C.
    ce = -noise_logits.log_softmax(1)[torch.arange(6), 3 + y].mean()
    both = supervised_contrast(torch.cat([features, noise_features.detach()]), torch.cat([own.y, y]), 0.5)
    expected = 0.7 * ce + 0.3 * both + 0.2 * supervised_contrast(noise_features, y, 0.5)
    found = term.loss(kit, net, net.vector, batch)
    assert found.item() == pytest.approx(expected.item())
    wanted = torch.autograd.grad(expected, list(net.module.parameters()), retain_graph=True)
    given = torch.autograd.grad(found, list(net.module.parameters()))
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(wanted, given, strict=True))


def test_noise_is_walked_through_and_alignment_ends_after_its_epochs() -> None:
    # 7 records in batches of 4 are 2 steps an epoch; one epoch of alignment ends before step 2. The noise is 15 in
    # batches of 6: step 2 takes the places 12, 13, 14, 0, 1, 2.
    chosen = settings(align_epochs=1)
    net, own = dressed(chosen), pictures([0, 1, 2, 0, 1, 2, 0])
    stage = Stage(bound(vhl(chosen), net), {"a": own})
    term = VirtualHomogeneity(chosen, chosen.local)
    kit = term.begin(stage.client("a", round=1), Message(model=net.initial()), net)
    assert kit is not None
    assert int(kit["align_steps"]) == 2
    features, logits = net(own.x[:4])
    at = [12, 13, 14, 0, 1, 2]
    ce = -net(kit["x"][at])[1].log_softmax(1)[torch.arange(6), 3 + kit["y"][at]].mean()
    late = term.loss(kit, net, net.vector, Batch(own.x[:4], own.y[:4], 2, None, features, logits))
    assert late.item() == pytest.approx(ce.item())
    early = term.loss(kit, net, net.vector, Batch(own.x[:4], own.y[:4], 1, None, features, logits))
    assert early.item() > late.item()


def test_steps_instead_of_epochs_are_converted_by_the_records() -> None:
    # τ = 400 steps of 4: 5 epochs of 7 records are 10 of them.
    chosen = settings(local=Local(steps=400, batch=4))
    net = dressed(chosen)
    stage = Stage(bound(vhl(chosen), net), {"a": pictures([0] * 7)})
    kit = VirtualHomogeneity(chosen, chosen.local).begin(stage.client("a", round=1), Message(model=net.initial()), net)
    assert kit is not None
    assert int(kit["align_steps"]) == 10


# ---- the head and the predictions


def test_the_head_is_twice_as_wide_and_keeps_its_first_half() -> None:
    body, head = nn.Linear(16, 6), nn.Linear(6, 3)
    wide = vhl(settings()).adapt_network(Body(body, head), Problem(shape=(1, 4, 4), classes=3)).head
    assert isinstance(wide, nn.Linear)
    assert wide.weight.shape == (6, 6)
    assert torch.equal(wide.weight[:3], head.weight)
    assert torch.equal(wide.bias[:3], head.bias)
    deep = Body(body, nn.Sequential(nn.ReLU(), nn.Linear(6, 3, bias=False)))
    ends = vhl(settings()).adapt_network(deep, Problem(shape=(1, 4, 4), classes=3)).head
    assert isinstance(ends, nn.Sequential)
    last = ends[-1]
    assert isinstance(last, nn.Linear)
    assert last.out_features == 6
    assert last.bias is None


def test_predictions_are_made_among_the_classes_alone() -> None:
    net = dressed(settings())
    x = pictures([0, 1, 2]).x
    assert net(x)[1].shape == (3, 6)
    assert net.logits(x).shape == (3, 3)


def test_a_head_that_is_not_linear_is_refused() -> None:
    with pytest.raises(UserError, match="must be, or end with, a linear layer"):
        vhl(settings()).adapt_network(Body(nn.Linear(3, 3), nn.Identity()), Problem(shape=(3,), classes=3))


def test_several_labels_and_pictures_of_rows_are_refused() -> None:
    several = Network(lambda: Body(nn.Flatten(), nn.Linear(4, 6)), Problem((1, 2, 2), 3, multilabel=True))
    with pytest.raises(UserError, match="must have exactly one label"):
        vhl(settings()).bind(several, 1)
    with pytest.raises(UserError, match="write 'gaussian'"):
        vhl(settings()).bind(softmax_net(), 1)


# ---- a round


def test_nothing_but_the_wider_model_travels() -> None:
    # 16·6 + 6 in the body, 6·6 + 6 in the head of six outputs.
    chosen = settings()
    stage = Stage(bound(vhl(chosen), dressed(chosen)), {"a": pictures([0, 1, 1]), "b": pictures([2] * 5, name="b")})
    state = stage.play(2)
    assert {part: t.numel() for part, t in stage.replies[-1][2].items()} == {"change": 144, "weight": 1}
    assert {part: t.numel() for part, t in stage.briefs[-1][2].items()} == {"model": 144}
    assert set(state) == {"model"}
    assert all(not memory for memory in stage.memories.values())


def test_a_client_learns_its_records_and_the_noise() -> None:
    chosen = settings(local=Local(epochs=300, batch=4, lr=0.2), noise="gaussian", noise_spread=1.0)
    net, own = dressed(chosen), pictures([0, 1, 2, 0])
    stage = Stage(bound(vhl(chosen), net), {"a": own})
    net.load(stage.play(1)["model"])
    assert net.logits(own.x).argmax(1).tolist() == [0, 1, 2, 0]
    kit = VirtualHomogeneity(chosen, chosen.local).begin(stage.client("a", round=2), Message(), net)
    assert kit is not None
    with net.scoring():
        assert (net(kit["x"])[1].argmax(1) == 3 + kit["y"]).float().mean() > 0.9


def test_without_any_weight_it_is_fedavg_on_the_wider_network_to_the_last_bit() -> None:
    chosen = settings(noise_weight=0, alignment=0, noise_alignment=0)
    sites = {"a": pictures([0, 1, 1]), "b": pictures([2] * 5, name="b")}
    plain = play(fedavg(AveragingSettings(local=LOCAL)), dressed(chosen), sites, 2)
    assert torch.equal(play(vhl(chosen), dressed(chosen), sites, 2)["model"], plain["model"])


def test_an_empty_client_and_one_that_is_never_asked_change_nothing() -> None:
    chosen = settings(noise="gaussian")
    sites = {"a": pictures([0, 1, 1])}
    more = {**sites, "empty": sites["a"].none(), "idle": pictures([2, 2])}
    alone = play(vhl(chosen), dressed(chosen), sites, 2)
    beside = play(vhl(chosen), dressed(chosen), more, 2, cohorts=[["a", "empty"]] * 2)
    assert torch.equal(alone["model"], beside["model"])


def test_fedcogs_form_is_a_preset() -> None:
    words = {"data": {"name": "digits"}, "model": {"name": "mlp"}, "method": {"name": "vhl", "preset": "fedcog"}}
    chosen = resolve(words, {}).method.settings
    assert isinstance(chosen, VHLSettings)
    assert chosen.noise == "gaussian"
    assert isinstance(vhl(chosen).terms[0], VirtualHomogeneity)
