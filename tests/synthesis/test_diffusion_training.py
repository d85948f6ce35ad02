"""How the diffusion network is trained: its average, its stages, and its private steps beside a loop."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.learning.plan import shuffled_batches
from understudy.privacy.sgd import PrivateGradients, PrivateSteps
from understudy.randomness import generator, private_global_stream
from understudy.synthesis.diffusion import training as diffusion_training
from understudy.synthesis.diffusion.network import Frame, build, predict
from understudy.synthesis.diffusion.schedule import T, add_noise, remaining
from understudy.synthesis.diffusion.settings import DiffusionSettings
from understudy.synthesis.diffusion.training import (
    Average,
    FramedRecords,
    _private_gradients,
    ema_decay,
    train,
)

EIGHT = Problem(shape=(1, 8, 8), classes=3)
BRIEF = DiffusionSettings(
    epochs=4, least_steps=0, batch=4, width=4, head=4, groups=2, draws_per_record=3, predicts="noise"
)


def network(settings: DiffusionSettings = BRIEF, private: bool = False) -> nn.Module:
    """No weight at nought, where gradients would vanish."""
    with private_global_stream("network"):
        net = build(settings, Frame(EIGHT, len(settings.multipliers), settings.full_size), 3, private)
        for p in net.parameters():
            nn.init.normal_(p, std=0.2)
    return net


def records(n: int) -> FramedRecords:
    x = torch.rand(n, 1, 8, 8, generator=generator("x")) * 2 - 1
    return FramedRecords(x, torch.arange(n) % 3, Frame(EIGHT, len(BRIEF.multipliers), BRIEF.full_size))


def private_steps(
    steps: int = 3, clip: float = 1.0, noise: float = 0.0, rate: float = 1.0, expected: float = 1.0
) -> PrivateSteps:
    streams = (generator("private", word) for word in ("sampling", "noises", "coins"))
    return PrivateSteps(rate, steps, clip, noise, expected, *streams)


def test_the_average_warms_up() -> None:
    # (1+s)/(10+s): 2/11, 3/12, …; 0.9995 is reached where 1 + s = 0.9995·(10 + s), at s = 17 990.
    assert ema_decay(1, 0.9995) == pytest.approx(2 / 11)
    assert ema_decay(2, 0.9995) == pytest.approx(3 / 12)
    assert ema_decay(17_980, 0.9995) < 0.9995
    assert ema_decay(18_000, 0.9995) == 0.9995
    assert ema_decay(1000, 0.99) == pytest.approx(0.99)  # 1001/1010 = 0.9911 is above


def test_two_updates_of_the_average_by_hand() -> None:
    average = Average([torch.tensor([11.0])], 0.9995)
    average.update([torch.tensor([22.0])])  # 2/11 of 11, 9/11 of 22
    torch.testing.assert_close(average.weights[0], torch.tensor([20.0]))
    average.update([torch.tensor([40.0])])  # a quarter of 20, three of 40
    torch.testing.assert_close(average.weights[0], torch.tensor([35.0]))


@pytest.mark.parametrize(("asked", "privately"), [(0.9995, 0.999), (0.99, 0.99)])
def test_a_private_average_is_no_longer_than_a_thousand_updates(
    asked: float, privately: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    heights: list[float] = []

    class Noted(Average):
        def __init__(self, weights: Sequence[Tensor], height: float):
            heights.append(height)
            super().__init__(weights, height)

    monkeypatch.setattr(diffusion_training, "Average", Noted)
    settings = BRIEF.model_copy(update={"ema": asked, "epochs": 1})
    for private in (None, private_steps(steps=1)):
        list(train(network(private=private is not None), records(4), settings, generator(0), private))
    assert heights == [asked, privately]


def test_every_record_comes_once_an_epoch() -> None:
    batches = shuffled_batches(10, 4, 6, generator(0))
    for _ in range(2):
        rows = [next(batches) for _ in range(3)]
        assert [len(r) for r in rows] == [4, 4, 2]
        assert sorted(torch.cat(rows).tolist()) == list(range(10))


@pytest.mark.parametrize("weights", ["ema", "raw"])
def test_checkpoints_change_nothing_that_comes_after_them(weights: str) -> None:
    settings = BRIEF.model_copy(update={"dropout": 0.3, "flip": True, "weights": weights})
    before = torch.random.get_rng_state()
    plain = list(train(network(settings), records(6), settings, generator("t")))
    watched = settings.model_copy(update={"checkpoints": (3, 1)})
    stages = list(train(network(settings), records(6), watched, generator("t")))
    assert [epoch for epoch, _ in plain] == [4]
    assert [epoch for epoch, _ in stages] == [1, 3, 4]
    assert all(torch.equal(w, plain[0][1][name]) for name, w in stages[-1][1].items())
    assert not torch.equal(stages[0][1]["conv_in.weight"], stages[1][1]["conv_in.weight"])
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_stage_is_the_end_of_a_shorter_run() -> None:
    early = next(train(network(), records(6), BRIEF.model_copy(update={"checkpoints": (2,)}), generator("t")))
    short = next(train(network(), records(6), BRIEF.model_copy(update={"epochs": 2}), generator("t")))
    assert early[0] == short[0] == 2
    assert all(torch.equal(w, short[1][name]) for name, w in early[1].items())


def test_one_step_of_adamw_by_hand() -> None:
    # Adam's first step is lr in the direction of the slope, after the weight shrank by lr·decay.
    settings = BRIEF.model_copy(update={"epochs": 1, "weights": "raw", "lr": 0.01, "decay": 0.5})
    net = network()
    start = {name: p.detach().clone() for name, p in net.named_parameters()}
    ((_, after),) = train(net, records(3), settings, generator("t"))
    slope = dict(net.named_parameters())["conv_in.weight"].grad
    assert slope is not None
    expected = start["conv_in.weight"] * (1 - 0.01 * 0.5) - 0.01 * slope.sign()
    torch.testing.assert_close(after["conv_in.weight"], expected, rtol=1e-3, atol=1e-5)


def test_a_rate_at_which_it_diverges_is_named() -> None:
    settings = BRIEF.model_copy(update={"lr": 1e20})
    with pytest.raises(UserError, match=r"diverged with lr 1e\+20; lower"):
        list(train(network(), records(4), settings, generator(0)))


# ---- changed records


def test_large_images_are_mirrored_before_they_are_folded() -> None:
    # 16 columns seen as 8: each square of four pixels is one place with four channels.
    frame = Frame(Problem(shape=(1, 16, 16), classes=3), 2, 8)
    image = torch.arange(256.0).view(1, 1, 16, 16)
    seen = FramedRecords(frame.put_on(image), torch.zeros(1, dtype=torch.int64), frame)
    rows, yes, nothing = torch.tensor([0]), torch.ones(1, 1, 1, 1, dtype=torch.bool), torch.empty(6, 0)
    assert torch.equal(frame.take_off(seen.changed(rows, yes, nothing)), image.flip(3))
    assert torch.equal(seen.changed(rows, ~yes, nothing), seen.x)


def test_warps_turn_the_image_and_not_its_folds() -> None:
    # Shifted by one pixel of 16: right = 2/16 of half the side, and nothing else.
    frame = Frame(Problem(shape=(1, 16, 16), classes=3), 2, 8)
    image = torch.arange(256.0).view(1, 1, 16, 16)
    seen = FramedRecords(frame.put_on(image), torch.zeros(1, dtype=torch.int64), frame)
    warps = torch.zeros(6, 1)
    warps[4] = 2 / 16
    mirrored = torch.empty(0, 1, 1, 1, dtype=torch.bool)
    moved = frame.take_off(seen.changed(torch.tensor([0]), mirrored, warps))
    torch.testing.assert_close(moved[..., :-1], image[..., 1:])
    torch.testing.assert_close(moved[..., -1], image[..., -1])  # the border is continued


@pytest.mark.parametrize("privately", [False, True])
def test_every_step_warps_its_records_anew_and_no_warp_is_as_before(
    privately: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Tensor] = []
    changed = FramedRecords.changed

    def noted(self: FramedRecords, rows: Tensor, mirrored: Tensor, warps: Tensor) -> Tensor:
        drawn.append(warps)
        return changed(self, rows, mirrored, warps)

    monkeypatch.setattr(FramedRecords, "changed", noted)

    def trained(warp: float) -> dict[str, Tensor]:
        settings = BRIEF.model_copy(update={"warp": warp})
        private = private_steps() if privately else None
        ((_, weights),) = train(network(private=privately), records(4), settings, generator("t"), private)
        return weights

    plain, first = trained(0.0), len(drawn)
    assert all(warps.shape == (6, 0) for warps in drawn)
    warped = trained(0.1)
    later = drawn[first:]
    assert all(warps.shape == (6, 4) and 0.05 < float(warps.abs().max()) <= 0.1 for warps in later)
    assert len({tuple(warps.flatten().tolist()) for warps in later}) == len(later) > 1
    assert not torch.equal(plain["conv_in.weight"], warped["conv_in.weight"])


# ---- time steps


class Flat(nn.Module):
    """A network that need not be run."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))


def even_from_first_to_last(t: Tensor) -> None:
    """Of 40 000 draws over T = 1000 steps each is drawn 40 times in the mean, and no step less than 10 times."""
    assert t.numel() == 40_000
    counts = torch.bincount(t.flatten(), minlength=T)
    assert len(counts) == T
    assert int(counts.min()) >= 10
    assert int(counts.max()) <= 90


def test_every_time_step_is_trained_on_the_first_and_the_last_included(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []

    def noted(net: Flat, noisy: Tensor, t: Tensor, *_: Tensor) -> Tensor:
        seen.append(t)
        return net.weight * noisy.new_zeros(())

    monkeypatch.setattr(diffusion_training, "_loss", noted)
    settings = DiffusionSettings(**{**BRIEF.model_dump(), "batch": 4000})
    gradients = diffusion_training._plain_gradients(Flat(), records(4000), settings, generator("steps"), 10)
    for _ in range(10):
        next(gradients)
    even_from_first_to_last(torch.cat(seen))


def test_and_so_it_is_in_private(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []
    monkeypatch.setattr(diffusion_training, "fill_gradients", lambda net, gradient: None)
    monkeypatch.setattr(PrivateGradients, "__call__", lambda _, loss, noisy, t, *rest, at_once: seen.append(t))
    settings = DiffusionSettings(**{**BRIEF.model_dump(), "draws_per_record": 10})
    gradients = _private_gradients(Flat(), records(4000), settings, private_steps())
    next(gradients)
    even_from_first_to_last(torch.cat(seen))


# ---- private


@pytest.mark.parametrize("clip", [1e9, 0.2])
def test_private_gradients_are_those_of_a_loop_over_records_and_draws(clip: float) -> None:
    some = records(3)
    x, y = some.x, some.y
    net, plain = network(private=True), network()
    next(_private_gradients(net, some, BRIEF, private_steps(clip=clip)))
    coins = private_steps().coins  # the same again
    t = torch.randint(1000, (3, 3), generator=coins)
    noise = torch.randn(3, 3, 1, 8, 8, generator=coins)
    total = [torch.zeros_like(p) for p in plain.parameters()]
    for i in range(3):
        plain.zero_grad()
        for k in range(3):
            noisy = add_noise(x[i : i + 1], noise[i, k : k + 1], remaining()[t[i, k : k + 1]])
            loss = functional.mse_loss(predict(plain, noisy, t[i, k : k + 1], y[i : i + 1]), noise[i, k : k + 1])
            (loss / 3).backward()  # type: ignore[no-untyped-call]
        slopes = [p.grad for p in plain.parameters() if p.grad is not None]
        norm = float(torch.cat([g.flatten() for g in slopes]).norm())
        assert norm > 0.2
        for sum_, g in zip(total, slopes, strict=True):
            sum_ += g * min(1.0, clip / norm)
    for p, expected in zip(net.parameters(), total, strict=True):
        assert p.grad is not None
        torch.testing.assert_close(p.grad, expected, rtol=1e-3, atol=1e-5 * float(expected.abs().max() + 1))


def test_a_private_run_takes_its_steps_with_or_without_records() -> None:
    settings = BRIEF.model_copy(update={"checkpoints": (1, 2, 3), "dropout": 0.5})
    for n in (0, 4):
        private = private_steps(steps=2, rate=0.5, noise=1.0)
        stages = list(train(network(private=True), records(n), settings, generator(0), private))
        assert [epoch for epoch, _ in stages] == [1, 2, 3, 4]
        first, second, third, last = (weights["conv_in.weight"] for _, weights in stages)
        assert torch.equal(second, third)  # two steps over four epochs: after the second, and after the last
        assert not torch.equal(first, second)
        assert not torch.equal(third, last)
        rest = torch.rand(1, generator=private.sampling), torch.rand(1, generator=generator("private", "sampling"))
        assert n == 0 or not torch.equal(*rest)


def test_private_draws_come_from_the_coins_alone() -> None:
    def trained(word: str) -> dict[str, Tensor]:
        ((_, weights),) = train(network(private=True), records(4), BRIEF, generator(word), private_steps())
        return weights

    one, other = trained("one"), trained("other")
    assert all(torch.equal(w, other[name]) for name, w in one.items())
    assert all(bool(torch.isfinite(w).all()) for w in one.values())


@pytest.mark.parametrize("change", [lambda net: None, lambda net: net.eval()])
def test_the_private_network_predicts_what_the_plain_one_does(change: Callable[[nn.Module], object]) -> None:
    x, y = records(3).x, records(3).y
    t = torch.tensor([1, 500, 999])
    nets = network(), network(BRIEF.model_copy(update={"dropout": 0.5}), private=True)
    for net in nets:
        change(net)
    one, other = (predict(net, x, t, y) for net in nets)
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
