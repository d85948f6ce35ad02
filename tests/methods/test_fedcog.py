"""FedCOG: labels, weights and losses by hand; what is generated, and what it must leave alone."""

import math
from collections.abc import Mapping

import pytest
import torch
from stage import Stage, bound, cloud, coin, image_net, pictures, play, softmax_net
from torch.nn import functional as F

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.message import Message, scalar
from understudy.learning.local import Local
from understudy.learning.loop import Batch, full_gradient
from understudy.methods.fedavg import fedavg
from understudy.methods.fedcog import PREVIOUS, Consensus, FedCogSettings, fedcog
from understudy.methods.feddm import FedDM, FedDMSettings
from understudy.methods.scaffold import ScaffoldSettings, scaffold
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.methods.shared.terms_and_rules import Kit
from understudy.models.network import Network
from understudy.randomness import generator
from understudy.synthesis.inversion import Inversion, invert
from understudy.synthesis.labels import labels_from_counts

LOCAL = Local(epochs=2, batch=4, lr=0.1)
# Not balanced: client a lacks class 2, client b lacks class 0.
SITES = {"a": pictures([0, 0, 0, 1, 1, 0], name="a"), "b": pictures([1, 2, 2, 2, 2], name="b")}


def settings(weighting: str = "fixed", **more: object) -> FedCogSettings:
    quick: dict[str, object] = {"images": 6, "steps": 3, "lr": 0.1, "kd_weight": 0.5}
    return FedCogSettings.model_validate({"kd_weighting": weighting, **quick, **more})


def averaging(local: Local = LOCAL) -> Averaging:
    return fedavg(AveragingSettings(local=local))


def with_cog(chosen: FedCogSettings, method: Averaging | None = None) -> Averaging:
    joined = fedcog(chosen, method or averaging())
    assert isinstance(joined, Averaging)
    return joined


# ---- labels and weights


def test_labels_are_the_complement_and_sum_to_256() -> None:
    # d = (7, 4, 3, 0): lacking (0, 3, 4, 7) of 14. 256·3/14 = 54.857, 256·4/14 = 73.143, 256·7/14 = 128:
    # 54 + 73 + 128 = 255, and the one that is left goes to the largest remainder, class 1.
    counts = Consensus(FedCogSettings(kd_weighting="fixed"), 64).label_counts(torch.tensor([7, 4, 3, 0]))
    assert counts.tolist() == [0, 55, 73, 128]


def test_a_client_of_one_class_makes_all_the_others() -> None:
    counts = Consensus(FedCogSettings(kd_weighting="fixed"), 64).label_counts(torch.tensor([0, 9, 0, 0, 0]))
    assert counts.tolist() == [64, 0, 64, 64, 64]


def test_a_balanced_client_makes_every_class() -> None:
    # 256 / 3 = 85.33: the first class gets the one that is left.
    counts = Consensus(FedCogSettings(kd_weighting="fixed"), 64).label_counts(torch.tensor([5, 5, 5]))
    assert counts.tolist() == [86, 85, 85]


def test_uniform_labels_do_not_look_at_the_records() -> None:
    chosen = FedCogSettings(kd_weighting="fixed", labels="uniform")
    assert Consensus(chosen, 64).label_counts(torch.tensor([9, 0, 0, 0])).tolist() == [64, 64, 64, 64]


def test_fixed_weights_are_one_and_a_hundredth() -> None:
    chosen = FedCogSettings(kd_weighting="fixed")
    assert Consensus(chosen, 64).loss_weights(torch.tensor([9, 0])) == (1.0, 0.01)


def test_balanced_weights_by_hand() -> None:
    # Two of ten classes (NIID-2): 2·500 records, 8·500 lacking: a = 1000/5000, b = 4000/5000.
    held = torch.tensor([500, 500, 0, 0, 0, 0, 0, 0, 0, 0])
    assert Consensus(settings("balanced"), 64).loss_weights(held) == pytest.approx((0.2, 0.8))
    # Ten of a hundred: 0.1 and 0.9.
    held = torch.tensor([50] * 10 + [0] * 90)
    assert Consensus(settings("balanced"), 64).loss_weights(held) == pytest.approx((0.1, 0.9))


def test_the_weighting_is_the_one_that_reproduced_unless_another_is_chosen() -> None:
    assert FedCogSettings().kd_weighting == "balanced"
    assert FedCogSettings(kd_weighting="fixed").kd_weight == 0.01


def test_the_published_numbers_are_the_defaults() -> None:
    chosen = FedCogSettings(kd_weighting="fixed")
    numbers = (chosen.images, chosen.steps, chosen.lr, chosen.disagreement, chosen.kd_weight, chosen.divergence)
    assert numbers == (256, 100, 0.01, 0.1, 0.01, "exact")


# ---- the loss


def batch_at(net: Network, step: int) -> Batch:
    x, y = torch.ones(1, 1), torch.zeros(1, dtype=torch.int64)
    return Batch(x, y, step, None, *net(x))


def test_the_distillation_loss_by_hand() -> None:
    # The teacher says ¾, ¼, the student ½, ½: KL = ¾·ln(3/2) + ¼·ln(1/2) = 0.1308, times b = 0.8.
    kit: Kit = {
        "x": torch.ones(1, 1),
        "teacher": torch.tensor([[0.75, 0.25]]).log(),
        "data_weight": scalar(0.2),
        "kd_weight": scalar(0.8),
    }
    net, term = coin(), Consensus(settings("balanced"), 64)
    loss = term.loss(kit, net, net.vector, batch_at(net, 0))
    assert loss.tolist() == pytest.approx([0.8 * (0.75 * math.log(1.5) + 0.25 * math.log(0.5))])
    assert term.data_weight(kit) == pytest.approx(0.2)


def test_generated_images_are_cycled_a_batch_a_step() -> None:
    # Three images two at a time: 0 1, then 2 0, then 1 2. The student is at ½, so each loss tells its teacher.
    teacher = torch.tensor([[0.9, 0.1], [0.7, 0.3], [0.6, 0.4]])
    kit: Kit = {"x": torch.ones(3, 1), "teacher": teacher.log(), "kd_weight": scalar(1)}
    net, term = coin(), Consensus(settings(), 2)
    each = (teacher * (teacher / 0.5).log()).sum(1)
    for step, rows in enumerate([[0, 1], [2, 0], [1, 2]]):
        assert term.loss(kit, net, net.vector, batch_at(net, step)).tolist() == pytest.approx(each[rows].tolist())


@pytest.mark.parametrize(("weighting", "share"), [("fixed", 1.0), ("balanced", 0.5)])
def test_the_first_step_feels_only_the_data(weighting: str, share: float) -> None:
    # At θ the student is the teacher and the KL is flat, so one step is a times FedAvg's: a = 1, or for
    # d = (4, 2, 0), lacking 0 + 2 + 4 = 6 and holding 6, a = ½.
    sites, net = {"a": SITES["a"]}, image_net()
    once = Local(epochs=1, batch=10, lr=0.1)
    joined = play(with_cog(settings(weighting), averaging(once)), net, sites, 1)["model"]
    alone = play(averaging(once), net, sites, 1)["model"]
    assert torch.allclose(joined - net.initial(), share * (alone - net.initial()), atol=1e-6)


def test_later_steps_are_held_near_the_broadcast_model() -> None:
    net = image_net()
    many = Local(epochs=20, batch=10, lr=0.5)
    apart = [
        (play(method, net, {"a": SITES["a"]}, 1)["model"] - net.initial()).norm()
        for method in (averaging(many), with_cog(settings(kd_weight=5.0), averaging(many)))
    ]
    assert apart[1] < 0.9 * apart[0]


# ---- what is generated


def kit_of(
    chosen: FedCogSettings,
    net: Network,
    own: Examples,
    round: int = 1,
    memory: Mapping[str, torch.Tensor] | None = None,
) -> Kit:
    stage = Stage(bound(averaging(), net), {"a": own})
    client = stage.client("a", round)
    for name, tensor in (memory or {}).items():
        client.memory[name] = tensor
    net.load(net.initial())
    kit = Consensus(chosen, LOCAL.batch).begin(client, Message(model=net.initial()), net)
    assert kit is not None
    return kit


@pytest.mark.parametrize("channels", [1, 3])
def test_images_have_the_shape_of_the_problem(channels: int) -> None:
    net = image_net(channels=channels)
    kit = kit_of(settings(images=256), net, pictures([0, 1, 1], channels=channels))
    assert kit["x"].shape == (256, channels, 4, 4)
    assert kit["teacher"].shape == (256, 3)


def test_the_stored_teacher_is_the_broadcast_model_on_the_images_that_are_used() -> None:
    net = image_net(dropout=0.5)  # frozen and in evaluation mode: no dropout in the teacher
    kit = kit_of(settings(), net, SITES["a"])
    assert torch.allclose(kit["teacher"], F.log_softmax(net.logits(kit["x"]), 1), atol=1e-6)


def expected_images(net: Network, own: Examples, chosen: FedCogSettings, previous: torch.Tensor | None) -> torch.Tensor:
    labels = labels_from_counts(Consensus(chosen, 4).label_counts(own.label_counts(3)))
    rng = generator(0, 3, "a", "fedcog images")
    net.load(net.initial())
    twin = None if previous is None else net.twin(previous)
    x = invert(net, labels, rng, twin, Inversion(steps=3, lr=0.1, disagreement=chosen.disagreement))
    return x[torch.randperm(len(x), generator=rng)]


def test_without_a_previous_model_there_is_no_disagreement() -> None:
    one, other = (kit_of(settings(disagreement=d), image_net(), SITES["a"]) for d in (0.0, 50.0))
    assert torch.equal(one["x"], other["x"])


def test_a_stale_previous_model_is_used_as_it_is() -> None:
    chosen, net = settings(disagreement=5.0), image_net()
    old = net.initial() + torch.randn(net.size, generator=generator("old"))
    kit = kit_of(chosen, net, SITES["a"], round=3, memory={PREVIOUS: old})
    assert torch.equal(kit["x"], expected_images(net, SITES["a"], chosen, old))
    assert not torch.allclose(kit["x"], expected_images(net, SITES["a"], chosen, None))


def test_a_client_keeps_the_model_that_it_produced_last() -> None:
    stage = Stage(bound(with_cog(settings()), image_net()), SITES, cohorts=[["a"], ["b"], ["b"]])
    state = stage.play(1)
    assert torch.allclose(stage.memories["a"][PREVIOUS], state["model"], atol=1e-6)  # a alone made that model
    kept = stage.memories["a"][PREVIOUS].clone()
    for round in (2, 3):
        stage.begin(round)
        state = stage.method.round(stage, state)
    assert torch.equal(stage.memories["a"][PREVIOUS], kept)
    assert PREVIOUS in stage.memories["b"]


# ---- beside other methods


def test_weight_zero_is_fedavg_to_the_last_bit() -> None:
    joined = play(with_cog(settings(kd_weight=0.0)), image_net(dropout=0.3), SITES, 3)
    assert torch.equal(joined["model"], play(averaging(), image_net(dropout=0.3), SITES, 3)["model"])


def test_a_balanced_client_under_balanced_weights_is_fedavg_to_the_last_bit() -> None:
    sites = {"a": pictures([0, 1, 2, 0, 1, 2])}
    joined = play(with_cog(settings("balanced")), image_net(), sites, 2)
    assert torch.equal(joined["model"], play(averaging(), image_net(), sites, 2)["model"])


def test_before_its_first_round_it_is_fedavg_and_already_keeps_models() -> None:
    stage = Stage(bound(with_cog(settings(from_round=3)), image_net()), SITES)
    state = stage.play(2)
    assert torch.equal(state["model"], play(averaging(), image_net(), SITES, 2)["model"])
    assert all(PREVIOUS in stage.memories[name] for name in SITES)
    stage.begin(3)
    joined = stage.method.round(stage, state)
    assert not torch.equal(joined["model"], play(averaging(), image_net(), SITES, 3)["model"])


def test_an_empty_client_generates_nothing_and_changes_nothing() -> None:
    with_empty = {**SITES, "empty": SITES["a"].none()}
    joined = play(with_cog(settings()), image_net(), with_empty, 2)
    assert torch.equal(joined["model"], play(with_cog(settings()), image_net(), SITES, 2)["model"])


def test_nothing_else_crosses_the_wire() -> None:
    joined, alone = (Stage(bound(m, image_net()), SITES) for m in (with_cog(settings()), averaging()))
    for stage in (joined, alone):
        stage.play(2)
    assert [r.nbytes for *_, r in joined.replies] == [r.nbytes for *_, r in alone.replies]
    assert [b.nbytes for *_, b in joined.briefs] == [b.nbytes for *_, b in alone.briefs]


def test_over_scaffold_the_control_variate_sees_the_full_gradient() -> None:
    # Option II with one step a round: c_k⁺ is the whole gradient of that step, a·∇CE and a KL that is flat at θ.
    chosen = ScaffoldSettings(local=Local(epochs=1, batch=10, lr=0.1), option="II")
    stage = Stage(bound(with_cog(settings("balanced"), scaffold(chosen)), image_net()), {"a": SITES["a"]})
    net, state = stage.method.net, stage.play(1)
    assert torch.isfinite(state["model"]).all()
    whole = full_gradient(net, net.initial(), SITES["a"], 10)
    assert torch.allclose(stage.memories["a"]["control"], 0.5 * whole, atol=1e-5)


def test_over_scaffold_the_two_options_agree_on_what_the_full_gradient_is() -> None:
    # The same with option I: the gradient over all records at θ is also a·∇CE, a = ½.
    chosen = ScaffoldSettings(local=Local(epochs=1, batch=10, lr=0.1), option="I")
    stage = Stage(bound(with_cog(settings("balanced"), scaffold(chosen)), image_net()), {"a": SITES["a"]})
    stage.play(1)
    net = stage.method.net
    whole = full_gradient(net, net.initial(), SITES["a"], 10)
    assert torch.allclose(stage.memories["a"]["control"], 0.5 * whole, atol=1e-5)


def test_it_works_on_records_that_are_not_images() -> None:
    state = play(with_cog(settings()), softmax_net(), {"a": cloud("a", 6)}, 2)
    assert torch.isfinite(state["model"]).all()


def test_it_does_not_join_a_method_without_local_training() -> None:
    with pytest.raises(UserError, match="FedDM"):
        fedcog(settings(), FedDM(FedDMSettings()))
