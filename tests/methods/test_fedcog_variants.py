"""FedCOG's variants: where images come from, what they teach, who draws them; several labels; more outputs."""

import math

import pytest
import torch
from stage import Body, Stage, bound, cloud, image_net, pictures, play, softmax_net
from torch import Tensor, nn
from torch.nn import functional as F

from understudy.config.resolve import resolve
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.message import Message, scalar
from understudy.learning.local import Local
from understudy.learning.loop import Batch
from understudy.methods.fedavg import fedavg
from understudy.methods.fedcog import PREVIOUS, Consensus, FedCogSettings, fedcog
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.methods.shared.terms_and_rules import Kit
from understudy.models.network import Network
from understudy.randomness import generator

LOCAL = Local(epochs=2, batch=4, lr=0.1)
SITES = {"a": pictures([0, 0, 0, 1, 1, 0], name="a"), "b": pictures([1, 2, 2, 2, 2], name="b")}


def settings(**more: object) -> FedCogSettings:
    quick: dict[str, object] = {"kd_weighting": "fixed", "images": 6, "steps": 3, "lr": 0.1, "kd_weight": 0.5}
    return FedCogSettings.model_validate({**quick, **more})


def with_cog(chosen: FedCogSettings, local: Local = LOCAL) -> Averaging:
    joined = fedcog(chosen, fedavg(AveragingSettings(local=local)))
    assert isinstance(joined, Averaging)
    return joined


def kit_of(chosen: FedCogSettings, net: Network, own: Examples, previous: Tensor | None = None) -> Kit:
    stage = Stage(bound(fedavg(AveragingSettings()), net), {"a": own})
    client = stage.client("a", 1)
    if previous is not None:
        client.memory[PREVIOUS] = previous
    net.load(net.initial())
    kit = Consensus(chosen, LOCAL.batch).begin(client, Message(model=net.initial()), net)
    assert kit is not None
    return kit


def other_model(net: Network) -> Tensor:
    return net.initial() + torch.randn(net.size, generator=generator("other"))


# ---- where images come from


def test_from_noise_they_stay_the_noise() -> None:
    net, rng = image_net(), generator(0, 1, "a", "fedcog images")
    noise = torch.randn(6, 1, 4, 4, generator=rng)
    kit = kit_of(settings(source="noise"), net, SITES["a"], other_model(net))
    assert torch.equal(kit["x"], noise[torch.randperm(6, generator=rng)])
    assert torch.allclose(kit["teacher"], F.log_softmax(net.logits(kit["x"]), 1), atol=1e-6)


def test_from_the_global_model_alone_the_last_model_is_not_asked() -> None:
    net = image_net()
    alone = kit_of(settings(source="global", disagreement=9.0), net, SITES["a"], other_model(net))
    assert torch.equal(alone["x"], kit_of(settings(), net, SITES["a"])["x"])
    both = kit_of(settings(disagreement=9.0), net, SITES["a"], other_model(net))
    assert not torch.equal(alone["x"], both["x"])


def test_a_client_keeps_no_model_that_nobody_will_ask_for() -> None:
    for source, weight, kept in (
        ("both", 0.1, True),
        ("both", 0, False),
        ("global", 0.1, False),
        ("noise", 0.1, False),
    ):
        stage = Stage(bound(with_cog(settings(source=source, disagreement=weight)), image_net()), SITES)
        stage.play(1)
        assert (PREVIOUS in stage.memories["a"]) is kept


# ---- what they teach


class Leaning(nn.Module):
    """Logits (w, 0, …), whatever comes in."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.w, self.outputs = nn.Parameter(torch.zeros(1)), outputs

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.w.expand(len(x), 1), torch.zeros(len(x), self.outputs - 1)], 1)


def leaning(*, outputs: int = 2, multilabel: bool = False) -> Network:
    problem = Problem(shape=(1,), classes=2, multilabel=multilabel)
    return Network(lambda: Body(nn.Identity(), Leaning(outputs)), problem)


def loss_at(net: Network, w: float, kit: Kit) -> list[float]:
    net.load(torch.tensor([w]))
    x = torch.ones(1, 1)
    batch = Batch(x, torch.zeros(1, dtype=torch.int64), 0, None, *net(x))
    found: list[float] = Consensus(settings(), 4).loss(kit, net, net.vector, batch).tolist()
    return found


def test_hard_labels_cost_cross_entropy_by_hand() -> None:
    # w = ln 3: the student says ¾, ¼. Asked for class 0 and class 1: −ln ¾ and −ln ¼, times b = 0.5.
    kit: Kit = {"x": torch.ones(2, 1), "asked": torch.tensor([[1.0, 0], [0, 1]]), "kd_weight": scalar(0.5)}
    assert loss_at(leaning(), math.log(3), kit) == pytest.approx([-0.5 * math.log(0.75), -0.5 * math.log(0.25)])


def test_hard_labels_are_those_that_were_asked_for() -> None:
    # a holds (4, 2, 0) and lacks (0, 2, 4): six images are two of class 1 and four of class 2, in the order of x.
    net, own = image_net(), SITES["a"]
    hard, soft = (kit_of(settings(targets=t), net, own) for t in ("hard", "soft"))
    assert hard["asked"].sum(0).tolist() == [0, 2, 4]
    assert torch.equal(hard["x"], soft["x"])
    assert "teacher" not in hard
    well = kit_of(settings(targets="hard", steps=60), net, own)  # inverted so well that the model says so itself
    assert torch.equal(F.one_hot(net.logits(well["x"]).argmax(1), 3).float(), well["asked"])


# ---- who draws them


def test_a_network_can_draw_them() -> None:
    net, chosen = image_net(channels=2, side=5), settings(generator="network", lr=0.01)
    own = pictures([0, 1, 1], channels=2, side=5)
    kit, again = (kit_of(chosen, net, own) for _ in range(2))
    assert kit["x"].shape == (6, 2, 5, 5)
    assert 0 <= kit["x"].min() <= kit["x"].max() <= 1  # pixels, where the problem scales by 255 alone
    assert torch.equal(kit["x"], again["x"])
    assert torch.allclose(kit["teacher"], F.log_softmax(net.logits(kit["x"]), 1), atol=1e-6)


def test_combinations_without_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="generator: pixels"):
        settings(source="noise", generator="network")
    with pytest.raises(ValueError, match="images: 2 or more"):
        settings(images=1, generator="network")
    with pytest.raises(UserError, match=r"shape \(3,\); write generator: pixels"):
        bound(with_cog(settings(generator="network")), softmax_net())


# ---- several labels


def several_net(dropout: float = 0.0) -> Network:
    def build() -> nn.Module:
        body = nn.Sequential(nn.Flatten(), nn.Linear(16, 6), nn.Tanh(), nn.Dropout(dropout))
        return Body(body, nn.Linear(6, 3))

    return Network(build, Problem(shape=(1, 4, 4), classes=3, multilabel=True))


def labelled(*sets: tuple[int, int, int]) -> Examples:
    return Examples(pictures([0] * len(sets), name=str(sets)).x, torch.tensor(sets, dtype=torch.float32))


TOPICS = {"a": labelled((1, 0, 0), (1, 1, 0), (1, 0, 0), (0, 0, 0)), "b": labelled((0, 1, 1), (0, 0, 1))}


def test_two_labels_by_hand() -> None:
    # The student says ¾ (w = ln 3) and ½, the teacher ½ and ¾, images count b = 0.5:
    # ½·ln(½/¾) + ½·ln(½/¼) = ½·ln(4/3), and ¾·ln(¾/½) + ¼·ln(¼/½).
    teacher = torch.tensor([[[0.5, 0.5], [0.75, 0.25]]]).log()
    kit: Kit = {"x": torch.ones(1, 1), "teacher": teacher, "kd_weight": scalar(0.5)}
    by_hand = 0.5 * math.log(4 / 3) + 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert loss_at(leaning(multilabel=True), math.log(3), kit) == pytest.approx([0.5 * by_hand], rel=1e-5)
    # Asked for the second label alone: −ln ¼ for the first, −ln ½ for the second.
    asked: Kit = {"x": torch.ones(1, 1), "asked": torch.tensor([[[0.0, 1], [1, 0]]]), "kd_weight": scalar(0.5)}
    by_hand = -math.log(0.25) - math.log(0.5)
    assert loss_at(leaning(multilabel=True), math.log(3), asked) == pytest.approx([0.5 * by_hand], rel=1e-5)


def test_the_teacher_is_a_coin_a_label() -> None:
    net = several_net(dropout=0.5)
    kit = kit_of(settings(), net, TOPICS["a"])
    p = torch.sigmoid(net.logits(kit["x"]))
    assert torch.allclose(kit["teacher"].exp(), torch.stack([p, 1 - p], -1), atol=1e-6)


def test_labels_that_the_client_lacks_are_asked_for() -> None:
    # d = (3, 1, 0), lacking (0, 2, 3); 4 labels on 4 records: one label an image, never the first.
    asked = kit_of(settings(targets="hard", images=50), several_net(), TOPICS["a"])["asked"][:, :, 0]
    assert asked.sum(1).tolist() == [1] * 50
    assert asked[:, 0].sum() == 0
    # b: d = (0, 1, 2), lacking (2, 1, 0); 3 labels on 2 records: 6 images have 9 labels.
    assert kit_of(settings(targets="hard"), several_net(), TOPICS["b"])["asked"][:, :, 0].sum() == 9


def test_balanced_weights_count_labels() -> None:
    # a: 4 labels held, 0 + 2 + 3 lacking.
    kit = kit_of(settings(kd_weighting="balanced"), several_net(), TOPICS["a"])
    assert (float(kit["data_weight"]), float(kit["kd_weight"])) == pytest.approx((4 / 9, 5 / 9))


def test_records_without_any_label_are_no_trouble() -> None:
    bare = {"a": labelled((0, 0, 0), (0, 0, 0))}
    assert torch.isfinite(play(with_cog(settings()), several_net(), bare, 2)["model"]).all()
    # Nothing is lacking, so balanced weights leave nothing to distil.
    joined = play(with_cog(settings(kd_weighting="balanced")), several_net(), bare, 2)
    assert torch.equal(joined["model"], play(fedavg(AveragingSettings(local=LOCAL)), several_net(), bare, 2)["model"])


@pytest.mark.parametrize("more", [{}, {"targets": "hard"}, {"divergence": "release"}, {"labels": "uniform"}])
def test_weight_zero_is_the_plain_method_to_the_last_bit_and_others_are_not(more: dict[str, object]) -> None:
    net = several_net(dropout=0.3)
    plain = play(fedavg(AveragingSettings(local=LOCAL)), net, TOPICS, 3)["model"]
    assert torch.equal(play(with_cog(settings(kd_weight=0.0, **more)), net, TOPICS, 3)["model"], plain)
    joined = play(with_cog(settings(**more)), net, TOPICS, 3)["model"]
    assert torch.isfinite(joined).all()
    assert not torch.allclose(joined, plain)


# ---- more outputs than classes


def test_outputs_beyond_the_classes_are_neither_asked_nor_taught() -> None:
    # Logits (w, 0, 0) with two classes: the third is no class. Student ¾, ¼; the teacher says ½, ½.
    kit: Kit = {"x": torch.ones(1, 1), "teacher": torch.tensor([[0.5, 0.5]]).log(), "kd_weight": scalar(1)}
    assert loss_at(leaning(outputs=3), math.log(3), kit) == pytest.approx([0.5 * math.log(4 / 3)], rel=1e-5)
    wide = Network(lambda: image_net(classes=6).module, Problem(shape=(1, 4, 4), classes=3))
    kit = kit_of(settings(), wide, SITES["a"], other_model(wide))
    assert kit["teacher"].shape == (6, 3)
    assert torch.allclose(kit["teacher"], F.log_softmax(wide.logits(kit["x"])[:, :3], 1), atol=1e-6)
    assert kit_of(settings(targets="hard"), wide, SITES["a"])["asked"].shape == (6, 3)


# ---- other things


@pytest.mark.parametrize("more", [{"source": "global"}, {"source": "noise"}, {"targets": "hard"}])
def test_records_that_are_not_images(more: dict[str, object]) -> None:
    state = play(with_cog(settings(**more)), softmax_net(), {"a": cloud("a", 6)}, 2)
    assert torch.isfinite(state["model"]).all()


@pytest.mark.parametrize(
    ("preset", "values"),
    [("paper", ("fixed", 0.01, 100, "exact")), ("release", ("balanced", 0.01, 500, "release"))],
)
def test_published_values_have_names(preset: str, values: tuple[object, ...]) -> None:
    config = resolve({"with": [{"name": "fedcog", "preset": preset}]})
    chosen = config.add_ons[0].settings
    assert isinstance(chosen, FedCogSettings)
    assert (chosen.kd_weighting, chosen.kd_weight, chosen.steps, chosen.divergence) == values
