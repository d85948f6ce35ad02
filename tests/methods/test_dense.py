"""DENSE: distillation by hand, who is asked in which round, and what is in State."""

import math
from collections.abc import Sequence

import pytest
import torch
from stage import Body, Stage, bound, image_net, pictures, play, softmax_net
from torch import nn

from understudy.config.resolve import resolve
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.message import Message
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Feed, train
from understudy.methods.dense import EPOCH, SPEED, Dense, DenseSettings, distilling, pool
from understudy.methods.fedavg import fedavg
from understudy.methods.shared.averaging import AveragingSettings
from understudy.models.network import Network

ALONE = Local(epochs=2, batch=4, lr=0.1)
SITES = {"a": pictures([0, 1, 1]), "b": pictures([2, 2, 0, 2, 1], name="b")}


def settings(**more: object) -> DenseSettings:
    words = {
        "local": Local(epochs=1, batch=4, lr=0.1),
        "alone": ALONE,
        "epochs": 4,
        "epochs_a_round": 2,
        "images": 4,
        "generator_steps": 2,
        "student": Local(epochs=1, batch=3, lr=0.01, momentum=0.9),
    }
    return DenseSettings.model_validate({**words, **more})


def staged(chosen: DenseSettings, cohorts: Sequence[Sequence[str]] = (), sites: dict[str, Examples] = SITES) -> Stage:
    return Stage(bound(Dense(chosen), image_net()), sites, cohorts)


# ---- distillation


def test_one_step_of_distillation_by_hand() -> None:
    # Softmax regression on x = 1 with W = b = 0: the student says ½ and ½. The ensemble says (T·log 3, 0), which at the
    # temperature T is ¾ and ¼. The slope of T²·KL in a logit is T·(½ − target) = ∓T/4; rate 0.1, T = 2: the step is
    # ±0.05 in b and, x being 1, in W.
    net = Network(lambda: _zeros(Body(nn.Identity(), nn.Linear(1, 2))), Problem(shape=(1,), classes=2))
    taught = Examples(torch.ones(1, 1), torch.tensor([[2 * math.log(3), 0]]))
    local = Local(steps=1, batch=1, lr=0.1)
    plan = torch.zeros(1, 1, dtype=torch.int64)
    after = train(net, net.initial(), Feed(taught, plan), Descent(local, 0.1, slope=distilling(2.0))).model
    assert after.tolist() == pytest.approx([0.05, -0.05, 0.05, -0.05])


def _zeros(module: nn.Module) -> nn.Module:
    for parameter in module.parameters():
        nn.init.zeros_(parameter)
    return module


# ---- the protocol


def test_clients_are_asked_once_and_then_never_again() -> None:
    stage = staged(settings())
    state = stage.play(3)
    # 16·6 + 6 in the hidden layer, 6·3 + 3 in the head.
    briefs = [(round, name, {part: t.numel() for part, t in sent.items()}) for round, name, sent in stage.briefs]
    assert briefs == [(1, "a", {"model": 123}), (1, "b", {"model": 123})]
    assert [{part: t.numel() for part, t in sent.items()} for *_, sent in stage.replies] == [{"model": 123}] * 2
    assert stage.method.jobs()["Dense.train_alone"].kinds == {"model": "weights"}
    assert state[EPOCH].item() == 4


def test_what_comes_up_is_each_clients_own_training() -> None:
    stage = staged(settings())
    state = stage.play(1)
    for name in SITES:
        alone = play(fedavg(AveragingSettings(local=ALONE)), image_net(), {name: SITES[name]}, 1)
        assert torch.allclose(state[f"client.{name}"], alone["model"], atol=1e-6)


def test_averaging_goes_before_where_it_is_asked_for() -> None:
    stage = staged(settings(pre_rounds=2, student_init="server"))
    averaged = play(fedavg(AveragingSettings(local=settings().local)), image_net(), SITES, 2)
    state = stage.play(2)
    assert torch.equal(state["model"], averaged["model"])
    assert set(state) == {"model"}
    stage.begin(3)
    stage.method.round(stage, state)
    assert torch.equal(stage.briefs[-1][2]["model"], averaged["model"])
    assert set(stage.replies[-1][2]) == {"model"}


@pytest.mark.parametrize("start", ["fresh", "server"])
def test_where_the_student_starts(start: str) -> None:
    # With no epoch on the server the student stays where it starts.
    stage = staged(settings(student_init=start, epochs=0, pre_rounds=1))
    before = stage.play(1)["model"]
    stage.begin(2)
    after = stage.method.round(stage, Message(model=before))["model"]
    same = torch.equal(after, before)
    assert same == (start == "server")
    assert not torch.equal(after, stage.method.net.initial())  # not what the clients started from


def test_the_pool_grows_by_a_batch_an_epoch_in_bytes() -> None:
    stage = staged(settings())
    state = stage.play(1)
    sizes = {part: (t.dtype, tuple(t.shape)) for part, t in state.items() if part.startswith("pool.")}
    assert sizes == {
        "pool.00000.logits": (torch.float32, (4, 3)),
        "pool.00000.x": (torch.uint8, (4, 1, 4, 4)),
        "pool.00001.logits": (torch.float32, (4, 3)),
        "pool.00001.x": (torch.uint8, (4, 1, 4, 4)),
    }
    assert {part for part in state if not part.startswith("pool.")} == {"model", "client.a", "client.b", EPOCH, SPEED}
    stage.begin(2)
    later = stage.method.round(stage, state)
    assert len(pool(later)) == 16
    # What is there already is the same tensor, which a checkpoint does not write again.
    assert all(later[part] is state[part] for part in state if part.startswith(("pool.", "client.")))
    # With all its epochs done a round changes nothing.
    stage.begin(3)
    assert stage.method.round(stage, later)["model"].equal(later["model"])
    assert len(pool(stage.method.round(stage, later))) == 16


def test_the_pool_bears_the_mean_logits_of_the_clients_models() -> None:
    stage = staged(settings())
    state = stage.play(2)
    net, taught = stage.method.net, pool(state)
    said = []
    for name in SITES:
        net.load(state[f"client.{name}"])
        said.append(net.logits(taught.x))
    assert torch.allclose(taught.y, (said[0] + said[1]) / 2, atol=1e-5)


def test_an_epoch_is_a_pass_over_the_whole_pool() -> None:
    # Batches of 3 over 4, 8, 12 and 16 images: 2, 3, 4 and 6 steps.
    counted = []

    class Counting(Dense):
        def _learn(self, server: object, w: object, pool: Examples, speed: object) -> torch.Tensor:
            counted.append(self.settings.student.step_count(len(pool)))
            return super()._learn(server, w, pool, speed)  # type: ignore[arg-type]

    Stage(bound(Counting(settings()), image_net()), SITES).play(2)
    assert counted == [2, 3, 4, 6]


def test_all_that_lasts_is_in_state() -> None:
    straight = staged(settings(pre_rounds=1)).play(4)
    stage = staged(settings(pre_rounds=1))
    state = stage.method.start(stage)
    for round in range(1, 5):
        stage.method = bound(Dense(settings(pre_rounds=1)), image_net())
        stage.begin(round)
        state = stage.method.round(stage, Message.from_bytes(state.to_bytes()))
    assert all(torch.equal(state[part], straight[part]) for part in straight)


def test_the_student_comes_to_say_what_the_ensemble_says() -> None:
    chosen = settings(epochs=30, epochs_a_round=30, images=16, student=Local(epochs=1, batch=16, lr=0.05, momentum=0.9))
    stage = staged(chosen)
    state = stage.play(1)
    net, taught = stage.method.net, pool(state)

    def apart(w: torch.Tensor) -> float:
        net.load(w)
        return float((net.logits(taught.x).softmax(1) - taught.y.softmax(1)).abs().mean())

    fresh = staged(settings(epochs=0)).play(1)["model"]
    assert apart(state["model"]) < 0.3 * apart(fresh)


# ---- at its edges


def test_who_has_no_record_sends_nothing_and_teaches_nothing() -> None:
    sites = {**SITES, "empty": SITES["a"].none(), "idle": pictures([0, 0], name="idle")}
    beside = staged(settings(), [["a", "b", "empty"]] * 2, sites)
    with_them, without = beside.play(2), staged(settings()).play(2)
    assert torch.equal(with_them["model"], without["model"])
    assert not {"client.empty", "client.idle"} & set(with_them)
    nobody = staged(settings(), (), {"empty": SITES["a"].none()}).play(1)
    assert set(nobody) == {"model"}


def test_a_model_of_another_size_is_refused() -> None:
    class Short(Dense):
        def work(self, client: object, brief: object) -> object:  # type: ignore[override]
            trained, parts = super().work(client, brief)  # type: ignore[arg-type]
            return type(trained)(trained.start, trained.model[:-1], 1, 0.1, 1), parts

    stage = Stage(bound(Short(settings()), image_net()), SITES)
    assert set(stage.play(1)) == {"model"}


def test_it_takes_models_with_batch_norm() -> None:
    def build() -> nn.Module:
        return Body(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten()), nn.Linear(8, 3))

    net = Network(build, Problem(shape=(1, 4, 4), classes=3))
    state = play(Dense(settings(pre_rounds=1)), net, SITES, 3)
    assert state[EPOCH].item() == 4
    assert not state.not_finite()


def test_what_it_cannot_work_with_is_refused() -> None:
    with pytest.raises(UserError, match="records must be images"):
        Dense(settings()).bind(softmax_net(), 1)
    net = Network(
        lambda: Body(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten()), nn.Linear(8, 3)),
        Problem(shape=(1, 4, 4), classes=3),
    )
    with pytest.raises(UserError, match="must not be 'local'"):
        Dense(settings(buffers="local")).bind(net, 1)


def test_fedssyns_way_is_a_preset() -> None:
    words = {"data": {"name": "digits"}, "model": {"name": "mlp"}, "method": {"name": "dense", "preset": "fedssyn"}}
    chosen = resolve(words, {}).method.settings
    assert isinstance(chosen, DenseSettings)
    assert (chosen.pre_rounds, chosen.student_init, chosen.epochs) == (10, "server", 200)
    assert chosen.alone == Local(epochs=400, batch=128, lr=0.01, momentum=0.9)
