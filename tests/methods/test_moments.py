"""Moments: what a client sends, what it is charged, and what the server makes of it."""

import math
from pathlib import Path

import pytest
import torch
from stage import Stage, bound, image_net, pictures, play, records, softmax_net

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.budget import Budget, Occasion
from understudy.federation.client import Client, Memory
from understudy.federation.message import Message
from understudy.learning.local import Local
from understudy.methods.moments import Moments, MomentsSettings
from understudy.privacy.accounting import Spending, epsilon
from understudy.privacy.charges import ChargeLog
from understudy.privacy.promise import Accountant, PrivacySettings

PRIVACY = PrivacySettings(epsilon=8, delta=1e-4)
OWN = records([[3, 4], [0, 1], [2, 0]], [0, 0, 1])  # with C = 2: (0.6, 0.8), (0, 0.5), (1, 0)


def method(privacy: PrivacySettings | None = None, **given: object) -> Moments:
    quick = {"ipc": 5, "clip": 2.0, "axes": 2, "counted": 0.5, "server": Local(epochs=1)}
    chosen = Moments(MomentsSettings.model_validate({**quick, **given}))
    chosen.privacy = privacy
    return chosen


def client(folder: Path, own: Examples = OWN, privacy: PrivacySettings | None = PRIVACY, round: int = 1) -> Client:
    occasion = Occasion("run", round, 1, "Moments.tell")
    budget = Budget(ChargeLog(folder / "charges.jsonl"), occasion, privacy, None, len(own))
    return Client("a", round, own=own, held_out=own.none(), memory=Memory({}), seed=0, budget=budget)


BRIEF = Message(means=torch.tensor([[0.0, 0.5], [0, 0]]), axes=torch.eye(2), reach=torch.tensor(0.5))


def test_counts_norms_and_sums_of_each_class_by_hand(tmp_path: Path) -> None:
    # a² = ½ is for counts and Σ ‖u‖² together: ½ each; b = √½. Σ ‖u‖² = 1 + ¼ + 1.
    chosen = bound(method(), softmax_net(2, 2))
    assert isinstance(chosen, Moments)
    sums = chosen.tell_means(client(tmp_path), Message())["sums"]
    b = math.sqrt(0.5)
    torch.testing.assert_close(sums, torch.tensor([1, 0.5, 1.125, 0.6 * b, 1.3 * b, b, 0]))


def test_squares_of_centred_records_by_hand(tmp_path: Path) -> None:
    # Centred: (0.6, 0.3), (0, 0), (1, 0); within reach 0.5 they become (0.6, 0.3)/√0.45, 0 and (1, 0).
    chosen = bound(method(), softmax_net(2, 2))
    assert isinstance(chosen, Moments)
    b, root2 = math.sqrt(0.5), math.sqrt(2)
    shared = chosen.tell_shared(client(tmp_path), BRIEF)["sums"]
    torch.testing.assert_close(shared, b * torch.tensor([3, 0.8 + 1, 0.4 * root2, 0.2]))
    own = chosen.tell_own(client(tmp_path), BRIEF)["sums"]
    torch.testing.assert_close(own, b * torch.tensor([2, 1, 0.8, 0.4 * root2, 0.2, 1, 0, 0]))


def test_one_record_moves_what_is_sent_by_at_most_one(tmp_path: Path) -> None:
    """Of any size, and in the worst place."""
    chosen = bound(method(), softmax_net(2, 2))
    assert isinstance(chosen, Moments)
    for far in ([1e30, 0], [-7, 1e9], [math.inf, 0], [0.001, 0]):
        more = OWN.and_also(records([far], [1]))
        for work in (chosen.tell_means, chosen.tell_shared, chosen.tell_own):
            moved = work(client(tmp_path, more), BRIEF)["sums"] - work(client(tmp_path), BRIEF)["sums"]
            assert moved.norm().item() <= 1 + 1e-6
    assert moved.norm().item() > 0.7  # it counts


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_three_rounds_cost_the_budget_and_hardly_less(accountant: Accountant, tmp_path: Path) -> None:
    privacy = PrivacySettings(epsilon=8, delta=1e-4, accountant=accountant)
    chosen = bound(method(privacy), softmax_net(2, 2))
    assert isinstance(chosen, Moments)
    for round, work in enumerate((chosen.tell_means, chosen.tell_shared, chosen.tell_own), 1):
        work(client(tmp_path, privacy=privacy, round=round), BRIEF)
    charges = ChargeLog(tmp_path / "charges.jsonl").charges()
    assert [(charge.rate, charge.steps, charge.clip, charge.covers) for charge in charges] == [
        (1.0, 1, 1.0, ("sums",))
    ] * 3
    spent = epsilon([Spending(1.0, charge.noise, 1) for charge in charges], 1e-4, accountant)
    assert 7.98 < spent <= 8
    # Shares of ¼, ⅕ and 11/20 of 1/σ².
    squares = [charge.noise**-2 for charge in charges]
    assert [square / sum(squares) for square in squares] == pytest.approx([0.25, 0.2, 0.55])


def test_noise_has_the_size_that_is_charged(tmp_path: Path) -> None:
    # Nothing but noise, σ/√share in every number: 1 + 45 · 46 / 2 = 1036 of them.
    privacy = PrivacySettings(delta=1e-5)
    chosen = bound(method(privacy, noise=3.0), softmax_net(45, 2))
    assert isinstance(chosen, Moments)
    nobody = records([[0.0] * 45], [0]).none()
    brief = Message(means=torch.zeros(2, 45), reach=torch.tensor(1.0))
    sums = chosen.tell_shared(client(tmp_path, nobody, privacy), brief)["sums"]
    assert sums.shape == (1036,)
    assert sums.std().item() == pytest.approx(3 / math.sqrt(0.2), rel=0.1)


def test_nothing_is_charged_or_noised_where_nothing_is_promised(tmp_path: Path) -> None:
    chosen = bound(method(), softmax_net(2, 2))
    assert isinstance(chosen, Moments)
    assert not chosen.private
    sent = [chosen.tell_means(client(tmp_path, privacy=None), Message())["sums"] for _ in range(2)]
    assert torch.equal(*sent)
    with pytest.raises(UserError, match=r"method\.noise spends privacy"):
        bound(method(noise=1.0), softmax_net(2, 2))


def test_a_promise_without_a_budget_needs_its_noise() -> None:
    with pytest.raises(UserError, match=r"privacy\.epsilon"):
        bound(method(PrivacySettings(delta=1e-5)), softmax_net(2, 2))


def test_each_round_asks_for_the_next_thing_and_then_nobody_is_asked() -> None:
    sites = {"a": pictures([0] * 8 + [1] * 8, name="a"), "b": pictures([1] * 8 + [2] * 8, name="b")}
    stage = Stage(bound(method(frequencies=2, clip=None), image_net(), 5), sites)
    state = stage.play(4)
    asked = {round: sorted(brief) for round, _, brief in stage.briefs}
    assert asked == {1: [], 2: ["means", "reach"], 3: ["axes", "means", "reach"]}
    # 4 frequencies of 3 classes: 3 + 1 + 12 numbers, then 1 + 10, then 3·(1 + 3) along two axes.
    assert [len(reply["sums"]) for _, _, reply in stage.replies] == [16, 16, 11, 11, 12, 12]
    assert state["counts"].tolist() == pytest.approx([8, 16, 8])


def test_the_mean_of_all_clients_is_that_of_their_records() -> None:
    # Equal holdings weigh the same, so without noise this is exact.
    sites = {"a": pictures([0] * 8 + [1] * 8, name="a"), "b": pictures([0] * 8 + [1] * 8, name="b")}
    net, chosen = image_net(), method(frequencies=4, clip=None)
    state = play(chosen, net, sites, 1)
    every = sites["a"].and_also(sites["b"])
    images = net.problem.scale(every.x).flatten(1)
    for c in (0, 1):
        torch.testing.assert_close(4 * state["means"][c] @ chosen.basis, images[every.y == c].mean(0))


def test_only_classes_that_somebody_holds_are_drawn_as_pixels() -> None:
    net, chosen = image_net(), method(frequencies=4, clip=None, ipc=7, warp=0)
    state = play(chosen, net, {"a": pictures([0] * 9 + [2] * 9)}, 3)
    pool = chosen.images(state, torch.Generator().manual_seed(0))
    assert pool.y.tolist() == [0] * 7 + [2] * 7
    assert pool.x.shape == (14, 1, 4, 4)
    torch.testing.assert_close(pool.x * 255, (pool.x * 255).round(), atol=1e-4, rtol=0)
    assert 0 <= pool.x.min().item() < pool.x.max().item() <= 1


def test_records_that_are_no_images_stay_floats() -> None:
    net, chosen = softmax_net(2, 2), method(clip=10.0)
    state = play(chosen, net, {"a": records([[5, -5], [6, -4], [5, -6], [-5, 5]], [0, 0, 0, 1])}, 3)
    x = chosen.images(state, torch.Generator().manual_seed(0)).x
    assert x.min().item() < -2
    assert (x != x.round()).any()
