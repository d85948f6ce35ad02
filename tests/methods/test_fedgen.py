"""FedGen: each loss term by hand, the generator on the server, and what goes up and down in which round."""

import math

import pytest
import torch
from stage import Body, Stage, batchnorm_net, bound, cloud, play
from torch import Tensor, nn

from understudy.config.resolve import resolve
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.message import Message
from understudy.federation.method import State
from understudy.learning.local import Local
from understudy.learning.loop import Batch
from understudy.methods.fedavg import fedavg
from understudy.methods.fedgen import GENERATOR, MEAN, SQUARE, STEPS, FedGen, FedGenSettings
from understudy.methods.shared.averaging import AveragingSettings
from understudy.models.network import Network
from understudy.randomness import generator
from understudy.synthesis.feature_generator import FeatureGenerator, divergence_from, sameness, teachers_loss

LOCAL = Local(steps=4, batch=4, lr=0.1)
SITES = {"a": cloud("a", 7), "b": cloud("b", 12)}


def settings(**more: object) -> FedGenSettings:
    words = {"local": LOCAL, "noise": 5, "hidden": 6, "generator_steps": 3, "generator_batch": 8, "generated_batch": 2}
    return FedGenSettings.model_validate({**words, **more})


def layered() -> Network:
    """Four features: 3·4 + 4 numbers in the body, 4·3 + 3 in the head."""
    problem = Problem(shape=(3,), classes=3)
    return Network(lambda: Body(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), nn.Linear(4, 3)), problem)


# ---- the generator


@pytest.mark.parametrize(("classes", "count"), [(10, 302_080), (100, 348_160)])
def test_its_size_is_the_published_one(classes: int, count: int) -> None:
    # (64 + 10)·512 + 512, twice 512 for the norm, 512·512 + 512.
    made = FeatureGenerator(classes, 512, noise=64, hidden=512)
    assert made.net.parameters == count


def test_the_teachers_loss_by_hand() -> None:
    # Two records of the classes 0 and 1, two teachers. Logits (a, 0): the loss of class 0 is log(1 + e⁻ᵃ), of class 1
    # log(1 + eᵃ). Teacher 1 says 1 and 2, teacher 2 says 0 and −1; α of class 0 is (0.75, 0.25), of class 1 (0.4, 0.6).
    logits = [torch.tensor([[1.0, 0], [2, 0]]), torch.tensor([[0.0, 0], [-1, 0]])]
    shares = torch.tensor([[0.75, 0.4], [0.25, 0.6]])
    first = (0.75 * math.log(1 + math.exp(-1)) + 0.4 * math.log(1 + math.exp(2))) / 2
    second = (0.25 * math.log(2) + 0.6 * math.log(1 + math.exp(-1))) / 2
    found = teachers_loss(logits, torch.tensor([0, 1]), shares)
    assert found.item() == pytest.approx(first + second)


def test_sameness_by_hand() -> None:
    # ε: (0, 0) and (1, 0.5), u = (1 + 0.25)/2 = 0.625. G: (1, 2, 3) and (2, 2, 0), v = (1 + 0 + 3)/3 = 4/3.
    # Of the four pairs two are of one with itself: mean = 2·0.625·(4/3)/4 = 5/12.
    found = sameness(torch.tensor([[0, 0], [1, 0.5]]), torch.tensor([[1.0, 2, 3], [2, 2, 0]]))
    assert found.item() == pytest.approx(math.exp(-5 / 12))
    assert sameness(torch.rand(4, 2), torch.ones(4, 3)).item() == 1


def test_the_divergence_by_hand() -> None:
    # Teachers ½ and ½, student ¾ and ¼ (logits log 3 and 0): ½·log(½/¾) + ½·log(½/¼) = ½·log(4/3).
    found = divergence_from(torch.tensor([[math.log(3), 0]]), torch.zeros(1, 2))
    assert found.tolist() == pytest.approx([0.5 * math.log(4 / 3)])


def test_what_the_generator_is_taught_is_the_sum_of_its_terms() -> None:
    method = FedGen(settings(diversity=0.3, student_weight=0.2))
    method.bind(layered(), 3)
    made_by, rng = method.imagined.generator, generator("terms")
    noise, y = torch.rand(6, 5, generator=rng), torch.tensor([0, 1, 2, 0, 1, 2])
    heads = [torch.randn(15, generator=rng) for _ in range(3)]
    shares = torch.tensor([[0.5, 0.1, 0.9], [0.5, 0.9, 0.1]])
    with made_by.net.scoring():
        found = method.generator_loss(noise, y, heads[2], heads[:2], shares)
        made = made_by.make(noise, y)
    logits = [made @ head[:12].view(3, 4).T + head[12:] for head in heads]
    together = sum(shares[k][y].view(-1, 1) * logits[k] for k in (0, 1))
    assert isinstance(together, Tensor)
    expected = teachers_loss(logits[:2], y, shares) + 0.3 * sameness(noise, made)
    expected = expected - 0.2 * divergence_from(logits[2], together).mean()
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)


class Spied(FedGen):
    """Notes what the generator is taught with."""

    def generator_loss(self, noise: Tensor, y: Tensor, broadcast: Tensor, heads: object, shares: Tensor) -> Tensor:
        self.seen = getattr(self, "seen", [])
        self.seen.append((y, broadcast, heads, shares))
        return super().generator_loss(noise, y, broadcast, heads, shares)  # type: ignore[arg-type]


def test_labels_are_those_that_somebody_has_and_teachers_those_with_records() -> None:
    few = cloud("few", 6)
    without_one = Examples(few.x, torch.tensor([0, 2, 2, 0, 2, 2]))
    sites = {"a": without_one, "b": Examples(few.x[:3], torch.tensor([2, 2, 2])), "empty": few.none()}
    method = Spied(settings(generator_batch=64))
    stage = Stage(bound(method, layered()), sites)
    start = method.start(stage)
    stage.begin(1)
    method.round(stage, start)
    y, broadcast, heads, shares = method.seen[0]
    assert set(y.tolist()) == {0, 2}
    # Counts begin at 1: a has 3, 1, 5 and b has 1, 1, 4.
    assert torch.allclose(shares, torch.tensor([[3 / 4, 1 / 2, 5 / 9], [1 / 4, 1 / 2, 4 / 9]]))
    # The heads are those that the clients trained, the broadcast one is that before.
    net = method.net
    assert torch.equal(broadcast, net.initial()[net.head])
    assert isinstance(heads, list)
    assert len(heads) == 2
    alone = play(fedavg(AveragingSettings(local=LOCAL)), layered(), {"a": without_one}, 1)
    assert torch.allclose(heads[0], alone["model"][net.head], atol=1e-6)


def test_the_first_step_of_adam_is_its_rate_and_its_memory_is_in_state() -> None:
    # Adam's first step is lr·g/(|g| + 10⁻⁸), so lr wherever the gradient is not tiny; then 0.1·g and 0.001·g² are kept.
    stage = Stage(bound(FedGen(settings(generator_steps=1, generator_lr=0.01)), layered()), SITES)
    start = stage.method.start(stage)
    stage.begin(1)
    after = stage.method.round(stage, start)
    assert after[STEPS].item() == 1
    g = after[MEAN] / 0.1
    assert torch.allclose(after[SQUARE], 0.001 * g.square(), rtol=1e-3, atol=1e-12)
    moved = (after[GENERATOR] - start[GENERATOR])[: len(g)]
    clear = g.abs() > 1e-4
    assert clear.sum() > 20
    assert torch.allclose(moved[clear], -0.01 * g[clear].sign(), rtol=1e-3)


def test_its_rate_shrinks_by_the_round() -> None:
    chosen = settings(generator_lr=0.01, generator_lr_decay=0.5)
    method = FedGen(chosen)
    stage = Stage(bound(method, layered()), SITES)
    _, adam = method._adam(3, method.start(stage))
    assert adam.param_groups[0]["lr"] == pytest.approx(0.0025)
    assert adam.param_groups[0]["weight_decay"] == 1e-2


def test_all_that_lasts_is_in_state() -> None:
    # A method built anew for every round goes on as one that was there all the time.
    straight = Stage(bound(FedGen(settings()), layered(), 3), SITES).play(3)
    stage = Stage(bound(FedGen(settings()), layered(), 3), SITES)
    state: State = stage.method.start(stage)
    for round in (1, 2, 3):
        stage.method = bound(FedGen(settings()), layered(), 3)
        stage.begin(round)
        state = stage.method.round(stage, Message.from_bytes(state.to_bytes()))
    assert all(torch.equal(state[part], straight[part]) for part in straight)
    assert state[STEPS].item() == 9
    assert not torch.equal(straight[GENERATOR], Stage(stage.method, SITES).play(0)[GENERATOR])


# ---- the client


def test_the_clients_loss_by_hand() -> None:
    # Round 3: α = 10·0.98², β = 4·0.98²; two generated for a batch of four: b_g/b = ½.
    method = FedGen(settings(kl_weight=4.0))
    net = layered()
    stage = Stage(bound(method, net), SITES)
    trained = method.imagined.generator.first(generator("some generator"))
    kit = method.imagined.begin(stage.client("a", round=3), Message({GENERATOR: trained}), net)
    assert kit is not None
    own = SITES["a"].take([0, 1, 2])
    features, logits = net(own.x)
    batch = Batch(own.x, own.y, 1, None, features, logits)
    head = net.module.head
    assert isinstance(head, nn.Linear)
    maker = method.imagined.generator
    with maker.net.scoring():
        imagined = maker.make(kit["noise"][1][:3], own.y, trained)
    target = (imagined @ head.weight.T + head.bias).softmax(1).detach()  # a constant
    kl = (target * (target.log() - logits.log_softmax(1))).sum(1).mean()
    of_labels = nn.functional.cross_entropy(kit["made"][1] @ head.weight.T + head.bias, kit["labels"][1])
    found = method.imagined.loss(kit, net, net.vector, batch)
    assert found is not None
    expected = 0.5 * 10 * 0.98**2 * of_labels + 4 * 0.98**2 * kl
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)
    mine, wanted = (torch.autograd.grad(loss, head.weight, retain_graph=True)[0] for loss in (found, expected))
    assert torch.allclose(mine, wanted, atol=1e-5)


def test_it_is_there_in_the_first_steps_only() -> None:
    method = FedGen(settings(early_steps=2))
    net = layered()
    stage = Stage(bound(method, net), SITES)
    brief = Message({GENERATOR: method.imagined.generator.first(generator("some generator"))})
    kit = method.imagined.begin(stage.client("a", round=2), brief, net)
    assert kit is not None
    own = SITES["a"]
    features, logits = net(own.x[:4])
    found = [
        method.imagined.loss(kit, net, net.vector, Batch(own.x[:4], own.y[:4], at, None, features, logits))
        for at in range(3)
    ]
    assert [loss is None for loss in found] == [False, False, True]


def test_the_weights_shrink_to_a_floor() -> None:
    chosen = FedGenSettings()
    assert chosen.weight_at(10, 1) == 10
    assert chosen.weight_at(10, 2) == pytest.approx(9.8)
    assert chosen.weight_at(10, 1000) == 1e-4  # 10·0.98⁹⁹⁹ is less
    assert chosen.weight_at(0, 5) == 0


# ---- the protocol


def test_what_goes_up_and_down_in_which_round() -> None:
    stage = Stage(bound(FedGen(settings()), layered()), SITES, cohorts=[["a", "b"], ["b"]])
    state = stage.play(2)
    # Noise and classes 5 + 3 to 6 hidden, a norm, 6 to 4 features: 54 + 12 + 28 = 94, and 12 running statistics.
    briefs = [(round, name, {part: t.numel() for part, t in sent.items()}) for round, name, sent in stage.briefs]
    assert briefs == [
        (1, "a", {"model": 31}),
        (1, "b", {"model": 31}),
        (2, "b", {"model": 31, GENERATOR: 106}),
    ]
    sent = stage.replies[0][2]
    assert {part: t.numel() for part, t in sent.items()} == {"change": 31, "labels": 3, "weight": 1}
    assert sent["labels"].tolist() == [1 + n for n in SITES["a"].label_counts(3).tolist()]
    assert {part: t.numel() for part, t in state.items()} == {
        "model": 31,
        GENERATOR: 106,
        MEAN: 94,
        SQUARE: 94,
        STEPS: 1,
    }
    assert stage.method.jobs()["Averaging.train"].kinds["labels"] == "statistics"
    assert all(not memory for memory in stage.memories.values())


def test_without_its_weights_the_model_is_fedavgs_to_the_last_bit() -> None:
    chosen = settings(label_weight=0, kl_weight=0)
    cohorts = [["a", "b"], ["b"], ["a"]]
    plain = play(fedavg(AveragingSettings(local=LOCAL)), batchnorm_net(), SITES, 3, cohorts)
    mine = play(FedGen(chosen), batchnorm_net(), SITES, 3, cohorts)
    assert torch.equal(mine["model"], plain["model"])


def test_the_first_round_is_fedavgs_and_the_second_is_not() -> None:
    plain = fedavg(AveragingSettings(local=LOCAL))
    assert torch.equal(
        play(FedGen(settings()), layered(), SITES, 1)["model"], play(plain, layered(), SITES, 1)["model"]
    )
    second = play(FedGen(settings()), layered(), SITES, 2)["model"]
    assert not torch.allclose(second, play(plain, layered(), SITES, 2)["model"])


def test_who_has_no_record_or_is_never_asked_changes_nothing() -> None:
    more = {**SITES, "empty": SITES["a"].none(), "idle": cloud("idle", 5)}
    alone = play(FedGen(settings()), layered(), SITES, 2)
    beside = play(FedGen(settings()), layered(), more, 2, cohorts=[["a", "b", "empty"]] * 2)
    assert all(torch.equal(alone[part], beside[part]) for part in alone)
    nobody = Stage(bound(FedGen(settings()), layered()), {"empty": SITES["a"].none()})
    assert nobody.play(1)[STEPS].item() == 0


def test_a_reply_of_another_make_does_not_teach() -> None:
    class Liar(Spied):
        def reply_shapes(self) -> dict[str, tuple[int, ...]]:
            return {**super().reply_shapes(), "labels": (4,)}

    method = Liar(settings())
    state = Stage(bound(method, layered()), SITES).play(1)
    assert state[STEPS].item() == 0
    assert not hasattr(method, "seen")


def test_what_it_cannot_work_with_is_refused() -> None:
    several = Network(lambda: Body(nn.Linear(3, 4), nn.Linear(4, 3)), Problem((3,), 3, multilabel=True))
    with pytest.raises(UserError, match="exactly one label"):
        FedGen(settings()).bind(several, 1)
    headless = Network(lambda: Body(nn.Linear(3, 3), nn.Identity()), Problem((3,), 3))
    with pytest.raises(UserError, match="a head with parameters"):
        FedGen(settings()).bind(headless, 1)


def test_the_published_values_are_presets() -> None:
    words = {"data": {"name": "digits"}, "model": {"name": "mlp"}, "method": {"name": "fedgen", "preset": "emnist"}}
    chosen = resolve(words, {}).method.settings
    assert isinstance(chosen, FedGenSettings)
    assert (chosen.generator_lr, chosen.kl_weight, chosen.label_weight) == (1e-4, 1.0, 10.0)
    assert chosen.local == Local(steps=20, batch=32, lr=0.01, schedule="exponential", decay=0.99)
