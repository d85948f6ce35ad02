"""The GAN: its costs by hand, one draw for both sides, and what it makes of images that anyone can tell apart."""

import math
from collections.abc import Callable, Sequence
from statistics import median

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load, save
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.learning import dsa
from understudy.privacy.sgd import PrivateGradients, PrivateSteps
from understudy.randomness import generator
from understudy.synthesis.gan import training as gan_training
from understudy.synthesis.gan.draws import augmented, changed, judges_private_turn, judges_turn, painters_turn
from understudy.synthesis.gan.gan import ConditionalGan
from understudy.synthesis.gan.losses import (
    Loss,
    Terms,
    Variant,
    other_orders,
    painted_cost,
    painter_cost,
    quarters_moved,
    real_cost,
)
from understudy.synthesis.gan.networks import Judge, Painter
from understudy.synthesis.gan.settings import GanSettings
from understudy.synthesis.gan.training import Gan, kept_share
from understudy.synthesis.image_layout import ImageLayout

EIGHT = Problem(shape=(1, 8, 8), classes=3, mean=(0.5,), std=(0.25,))
BRIEF = GanSettings(epochs=2, batch=4, width=2, hidden=8, latent=3)
VARIANTS: tuple[Variant, ...] = ("plain", "diffaugment", "consistency", "negative")


def noise(n: int, problem: Problem, *labels: int) -> Examples:
    x = torch.randint(0, 256, (n, *problem.shape), dtype=torch.uint8, generator=generator("noise", n))
    return Examples(x, torch.tensor([labels[i % len(labels)] for i in range(n)]))


def dark_and_bright(n: int = 40) -> Examples:
    """Class 0: about 30; class 2: about 220; a little noise on both."""
    shade = torch.tensor([30, 220]).repeat(n // 2).view(n, 1, 1, 1)
    x = shade + torch.randint(-10, 11, (n, 1, 8, 8), generator=generator("shade"))
    return Examples(x.to(torch.uint8), torch.tensor([0, 2]).repeat(n // 2))


def private(
    steps: int = 3, noise: float = 1.0, clip: float = 1.0, expected: float = 4.0, rate: float = 0.5
) -> PrivateSteps:
    streams = [generator("private", which) for which in ("sampling", "noises", "coins")]
    return PrivateSteps(rate, steps, clip, noise, expected, *streams)


def shades(settings: GanSettings, state: dict[str, Tensor], *labels: int) -> Tensor:
    made = ConditionalGan(settings).sample(state, torch.tensor(labels), EIGHT, generator("draw"))
    return made.float().mean((1, 2, 3))


def small_gan(settings: GanSettings) -> Gan:
    layout = ImageLayout(1, 8, 8)
    with torch.random.fork_rng():
        torch.random.manual_seed(0)
        painters = [Painter(layout, 3, settings.latent, settings.width) for _ in range(2)]
        return Gan(painters[0], Judge(layout, 3, settings.width, settings.hidden), painters[1], settings)


# ---- costs


def test_the_hinge_by_hand() -> None:
    score = torch.tensor([-2.0, 0.5, 3.0])
    assert real_cost(score, "hinge").tolist() == [3.0, 0.5, 0.0]
    assert painted_cost(score, "hinge").tolist() == [0.0, 1.5, 4.0]
    assert painter_cost(score, "hinge").tolist() == [2.0, -0.5, -3.0]


def test_the_non_saturating_costs_by_hand() -> None:
    # A score of ln 3 means real with probability 3/4: −ln 3/4 for the judge of a real image and for the painter,
    # −ln 1/4 for the judge of a painted one.
    score = torch.tensor([math.log(3)])
    assert float(real_cost(score, "non-saturating")) == pytest.approx(math.log(4 / 3))
    assert float(painted_cost(score, "non-saturating")) == pytest.approx(math.log(4))
    assert float(painter_cost(score, "non-saturating")) == pytest.approx(math.log(4 / 3))


def brightness(x: Tensor, _told: Tensor) -> Tensor:
    """A score that one can work out: the mean pixel."""
    return x.mean((1, 2, 3))


@pytest.mark.parametrize(
    ("variant", "real", "painted"),
    [
        # An image of 0.5 that is changed to one of −0.25, hinge: real 1 − 0.5, painted 1 + 0.5.
        ("plain", 0.5, 1.5),
        ("diffaugment", 1.25, 0.75),  # of the changed one: 1 + 0.25 and 1 − 0.25
        ("consistency", 0.5 + 10 * 0.5625, 1.5 + 10 * 0.5625),  # (0.5 − (−0.25))² = 0.5625
        ("negative", 0.5 + 0.25 * 0.75, 0.75 * 1.5),  # a quarter of what is called painted are spoilt records
    ],
)
def test_what_each_variant_costs_the_judge_by_hand(variant: Variant, real: float, painted: float) -> None:
    terms = Terms(variant, "hinge", consistency=10, negative=0.25)
    x, told = torch.full((2, 1, 2, 2), 0.5), torch.zeros(2, 3)
    assert terms.real(brightness, x, -x / 2, told).tolist() == pytest.approx([real] * 2)
    assert terms.painted(brightness, x, -x / 2, told).tolist() == pytest.approx([painted] * 2)


def test_quarters_are_moved_by_hand() -> None:
    # Quarters 0 1 / 2 3, one pixel each. The orders after the first are 0 1 3 2, 0 2 1 3, … and the last is 3 2 1 0.
    x = torch.tensor([0.0, 1, 2, 3]).view(1, 1, 2, 2).repeat(3, 1, 1, 1)
    moved = quarters_moved(x, other_orders(torch.tensor([0.0, 1.5 / 23, 1 - 1e-7])))
    assert moved.flatten(1).tolist() == [[0, 1, 3, 2], [0, 2, 1, 3], [3, 2, 1, 0]]
    odd = quarters_moved(torch.arange(9.0).view(1, 1, 3, 3), other_orders(torch.tensor([1 - 1e-7])))
    assert odd[0, 0].tolist() == [[8, 1, 6], [3, 4, 5], [2, 7, 0]]  # middle row and column stay
    assert quarters_moved(x[:0], other_orders(torch.zeros(0))).shape == (0, 1, 2, 2)


@pytest.mark.parametrize("variant", ["diffaugment", "consistency"])
def test_both_sides_are_augmented_by_one_draw(variant: Variant) -> None:
    turn, x = judges_turn(GanSettings(variant=variant), 5, generator(0)), torch.rand(5, 1, 8, 8)
    assert isinstance(turn.real, dsa.Draw)
    assert len(turn.real.u) == 5
    assert not torch.equal(changed(x, turn.real), x)
    assert torch.equal(changed(x, turn.real), changed(x, turn.painted))


def test_what_augmentation_lets_in_is_black() -> None:
    white = torch.ones(20, 1, 8, 8)
    moved = augmented(white, dsa.draw(("crop",), generator(0), images=20))
    assert set(moved.flatten().tolist()) == {-1.0, 1.0}


def test_only_real_images_are_spoilt() -> None:
    x = torch.rand(6, 1, 8, 8)
    turn = judges_turn(GanSettings(variant="negative"), 6, generator(0))
    spoilt, painted = changed(x, turn.real), changed(x, turn.painted)
    assert not torch.equal(spoilt, x)
    assert torch.equal(painted, x)
    assert torch.equal(spoilt.flatten(1).sort(1).values, x.flatten(1).sort(1).values)


# ---- training


def test_the_share_that_an_average_keeps_by_hand() -> None:
    assert [kept_share(0.5, updates) for updates in (0, 1, 8, 100)] == [0.1, 2 / 11, 0.5, 0.5]


def test_the_painter_that_is_kept_is_an_average() -> None:
    # First update: 1/10 of the start stays; second: 2/11 of what is there.
    gan = small_gan(BRIEF)
    start = [p.detach().clone() for p in gan.averaged.parameters()]
    told = torch.eye(3)
    gan.paint_better(told, painters_turn(BRIEF, 3, generator(0)))
    first = [p.detach().clone() for p in gan.painter.parameters()]
    gan.paint_better(told, painters_turn(BRIEF, 3, generator(1)))
    for mean, a, b, c in zip(gan.averaged.parameters(), start, first, gan.painter.parameters(), strict=True):
        torch.testing.assert_close(mean.detach(), 2 / 11 * (a / 10 + 9 / 10 * b) + 9 / 11 * c.detach())


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_noise_and_clipping_a_private_step_of_the_judge_is_a_plain_one(variant: Variant) -> None:
    settings = BRIEF.model_copy(update={"variant": variant, "augmentation": ("rotate",)})
    x, told = torch.rand(4, 1, 8, 8) * 2 - 1, torch.eye(3)[torch.tensor([0, 1, 2, 0])]
    plain, steps = small_gan(settings), private(noise=0, clip=1e6)
    plain.judge_better(x, told, judges_turn(settings, 4, generator(5)))
    # The same draws, in the order in which the plain step takes them from one stream.
    coins = generator(5)
    torch.randn(4, settings.latent, generator=coins)
    privately = small_gan(settings)
    turn = judges_private_turn(settings, 4, 4, coins, generator(5))
    privately.judge_privately(x, told, told, turn, PrivateGradients(privately.judge, steps))
    for a, b in zip(plain.judge.parameters(), privately.judge.parameters(), strict=True):
        assert a.grad is not None
        assert b.grad is not None
        torch.testing.assert_close(a.grad, b.grad, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_on_the_painted_side_of_a_private_step_follows_from_who_came(variant: Variant) -> None:
    settings = BRIEF.model_copy(update={"variant": variant, "augmentation": ("rotate",)})
    painted = torch.rand(4, 1, 8, 8) * 2 - 1
    turns = {
        records: judges_private_turn(settings, records, 4, generator("coins", records), generator("rest"))
        for records in (0, 1, 3, 4, 9)
    }
    assert all(len(changed(torch.rand(records, 1, 8, 8), turn.real)) == records for records, turn in turns.items())
    found = [(turn.z, changed(painted, turn.painted)) for turn in turns.values()]
    assert all(torch.equal(z, found[0][0]) and torch.equal(other, found[0][1]) for z, other in found)
    assert torch.equal(found[0][1], painted) == (variant in ("plain", "negative"))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_record_more_moves_the_sum_of_a_private_step_by_the_clip_at_most(
    variant: Variant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes first, and each of the others keeps the numbers that were drawn for it."""
    settings = BRIEF.model_copy(update={"variant": variant, "augmentation": ("rotate",)})
    x, told = torch.rand(4, 1, 8, 8) * 2 - 1, torch.eye(3)[torch.tensor([0, 1, 2, 0])]
    sums, draw = [], dsa.draw
    for first in (1, 0):  # without the first record, with it
        gan, coins = small_gan(settings), generator("coins")
        torch.rand(first, generator=coins)  # negative: one number a record, and this was the first one's

        def follows(
            kinds: Sequence[dsa.DsaKind],
            rng: torch.Generator,
            *,
            images: int,
            coins: torch.Generator = coins,
            first: int = first,
        ) -> dsa.Draw:
            if rng is coins:
                return dsa.Draw("rotate", draw(kinds, generator("u"), images=9).u[first:][:images])
            return draw(kinds, rng, images=images)

        monkeypatch.setattr(dsa, "draw", follows)
        turn = judges_private_turn(settings, 4 - first, 4, coins, generator(5))
        gradient = PrivateGradients(gan.judge, private(noise=0.0, clip=1e-3, expected=4.0))
        gan.judge_privately(x[first:], told[first:], told, turn, gradient)
        sums.append(torch.cat([p.grad.flatten() for p in gan.judge.parameters() if p.grad is not None]))
    assert 0 < float((sums[1] - sums[0]).norm()) <= 1e-3 / 4 * (1 + 1e-3)


def test_the_painted_side_of_a_private_step_has_no_noise_and_is_clipped() -> None:
    # Nobody came, so the real side is noise alone; without noise nothing is left but the painted side, whose mean of
    # clipped gradients is no longer than the clip.
    gan = small_gan(BRIEF)
    turn = judges_private_turn(BRIEF, 0, 3, generator("coins"), generator(0))
    gradient = PrivateGradients(gan.judge, private(noise=0.0, clip=0.01))
    gan.judge_privately(torch.empty(0, 1, 8, 8), torch.empty(0, 3), torch.eye(3), turn, gradient)
    length = torch.cat([p.grad.flatten() for p in gan.judge.parameters() if p.grad is not None]).norm()
    assert 0 < float(length) <= 0.01 * (1 + 1e-5)


@pytest.mark.parametrize("loss", ["hinge", "non-saturating"])
def test_it_learns_the_shade_of_a_class(loss: Loss) -> None:
    settings = GanSettings(epochs=40, batch=10, width=4, hidden=16, latent=3, lr=5e-3, loss=loss, variant="plain")
    dark, bright = [], []
    for stream in range(5):  # how far one of them gets is a matter of last bits, which differ by processor
        state = ConditionalGan(settings).fit(dark_and_bright(), EIGHT, generator(stream))
        found = shades(settings, state, *[0] * 10, *[2] * 10)
        dark.append(float(found[:10].mean()))
        bright.append(float(found[10:].mean()))
    assert max(dark) < min(bright)
    assert median(dark) < 100
    assert median(bright) > 150


def test_it_learns_the_shade_of_a_class_privately_where_noise_is_small() -> None:
    settings = GanSettings(epochs=30, batch=10, width=4, hidden=16, latent=3, lr=5e-3, variant="plain")
    steps = private(steps=120, noise=0.01, expected=20)
    state = ConditionalGan(settings).fit(dark_and_bright(), EIGHT, generator(0), steps)
    assert "count" not in state
    found = shades(settings, state, *[0] * 10, *[2] * 10)
    assert float(found[:10].mean()) < 100
    assert float(found[10:].mean()) > 150


@pytest.mark.parametrize("variant", VARIANTS)
def test_checkpoints_change_nothing_but_what_is_seen(variant: Variant) -> None:
    examples = noise(9, EIGHT, 0, 1)
    wanted = {"variant": variant, "epochs": 4}
    plain, watched = (BRIEF.model_copy(update=wanted | {"checkpoints": c}) for c in ((), (1, 3, 4)))
    end = ConditionalGan(plain).fit(examples, EIGHT, generator(0))
    stages = list(ConditionalGan(watched).course(examples, EIGHT, generator(0)))
    assert [stage.epoch for stage in stages] == [1, 3, 4]
    assert all(torch.equal(stages[-1].state[name], end[name]) for name in end)
    # A stage is what a shorter training would have ended with.
    short = ConditionalGan(plain.model_copy(update={"epochs": 3})).fit(examples, EIGHT, generator(0))
    assert all(torch.equal(stages[1].state[name], short[name]) for name in short)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_private_fit_without_a_record_makes_images_of_every_class(variant: Variant) -> None:
    settings = BRIEF.model_copy(update={"variant": variant, "checkpoints": (1,)})
    none = noise(2, EIGHT, 0).none()
    stages = list(ConditionalGan(settings).course(none, EIGHT, generator(0), private(steps=4)))
    assert [stage.epoch for stage in stages] == [1, 2]
    made = ConditionalGan(settings).sample(stages[-1].state, torch.tensor([0, 1, 2]), EIGHT, generator(1))
    assert made.shape == (3, 1, 8, 8)


def test_a_private_fit_draws_as_often_from_the_known_stream_whoever_comes() -> None:
    left = []
    for examples in (noise(9, EIGHT, 0, 1), noise(2, EIGHT, 2), noise(2, EIGHT, 0).none()):
        rng = generator("known")
        ConditionalGan(BRIEF).fit(examples, EIGHT, rng, private())
        left.append(torch.randint(2**62, (1,), generator=rng))
    assert torch.equal(left[0], left[1])
    assert torch.equal(left[0], left[2])


def test_the_judge_moves_more_often_than_the_painter_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def noted(name: str) -> Callable[..., None]:
        return lambda *_: done.append(name)

    monkeypatch.setattr(Gan, "judge_better", noted("judge"))
    monkeypatch.setattr(Gan, "paint_better", noted("painter"))
    settings = BRIEF.model_copy(update={"judge_steps": 2, "epochs": 4})
    list(gan_training.train(small_gan(settings), torch.zeros(3, 1, 8, 8), torch.zeros(3, 3), generator(0)))
    assert done == ["judge", "judge", "painter"] * 2


# ---- as a generator


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 9, 12), (1, 14, 14), (1, 28, 28), (3, 64, 64)])
def test_images_have_the_shape_of_the_records(shape: tuple[int, ...]) -> None:
    problem = Problem(shape=shape, classes=3)
    gan = ConditionalGan(BRIEF.model_copy(update={"epochs": 1}))
    state = gan.fit(noise(5, problem, 0, 2), problem, generator(0))
    made = gan.sample(state, torch.tensor([2, 0, 0, 2]), problem, generator(1))
    assert made.shape == (4, *shape)
    assert made.dtype == torch.uint8
    assert gan.sample(state, torch.tensor([], dtype=torch.int64), problem, generator(1)).shape == (0, *shape)


def test_the_same_words_give_the_same_bits_and_leave_the_global_stream_alone() -> None:
    gan, examples = ConditionalGan(BRIEF), noise(9, EIGHT, 0, 1)
    before = torch.random.get_rng_state()
    first, again, other = (gan.fit(examples, EIGHT, generator(word)) for word in ("a", "a", "b"))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["painter.dense.weight"], other["painter.dense.weight"])
    assert torch.equal(shades(BRIEF, first, 0, 1), shades(BRIEF, again, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_what_was_learnt_survives_a_file() -> None:
    state = ConditionalGan(BRIEF).fit(noise(6, EIGHT, 0, 1), EIGHT, generator(0))
    assert torch.equal(shades(BRIEF, load(save(state)), 0, 1), shades(BRIEF, state, 0, 1))


def test_a_class_that_was_never_seen_cannot_be_drawn() -> None:
    state = ConditionalGan(BRIEF).fit(noise(4, EIGHT, 0, 1), EIGHT, generator(0))
    with pytest.raises(UserError, match="no record of class 2"):
        shades(BRIEF, state, 0, 2)


def test_records_with_several_labels_are_told_in_full() -> None:
    problem = Problem(shape=(1, 8, 8), classes=3, multilabel=True)
    y = torch.tensor([[1.0, 0, 1], [0, 0, 0], [0, 1, 1], [1, 1, 1]])
    gan, examples = ConditionalGan(BRIEF), Examples(noise(4, problem, 0).x, y)
    for state in (gan.fit(examples, problem, generator(0)), gan.fit(examples, problem, generator(0), private())):
        assert gan.sample(state, y, problem, generator(1)).shape == (4, 1, 8, 8)


def test_what_it_cannot_do_is_refused() -> None:
    with pytest.raises(UserError, match=r"at least 2 records, but was given 1"):
        ConditionalGan(BRIEF).fit(noise(1, EIGHT, 0), EIGHT, generator(0))
    flat = Problem(shape=(30,), classes=3)
    with pytest.raises(UserError, match=r"Generator 'gan' .* 8 to 64 pixels per side"):
        ConditionalGan(BRIEF).fit(noise(4, flat, 0), flat, generator(0))
    wild = BRIEF.model_copy(update={"lr": 1e38, "epochs": 9})
    with pytest.raises(UserError, match=r"diverged with lr 1e\+38; lower"):
        ConditionalGan(wild).fit(noise(4, EIGHT, 0), EIGHT, generator(0))
    with pytest.raises(ValidationError, match="5 is not one of the epochs 1 to 4"):
        GanSettings(epochs=4, checkpoints=(2, 5))
