"""The β-VAE: its objective by hand, and what it makes of images that anyone can tell apart."""

import math
from unittest.mock import patch

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load, save
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.privacy.sgd import PrivateSteps
from understudy.randomness import generator
from understudy.synthesis.image_layout import ImageLayout, layout_of
from understudy.synthesis.vae.networks import Autoencoder, Encoder
from understudy.synthesis.vae.training import VaeSettings, divergence_from_unit, objective, record_objective
from understudy.synthesis.vae.vae import Vae, _statistics

EIGHT = Problem(shape=(1, 8, 8), classes=3, mean=(0.5,), std=(0.25,))
BRIEF = VaeSettings(epochs=2, batch=4, width=2, hidden=8, latent=3)
THOROUGH = VaeSettings(epochs=60, batch=16, lr=5e-3, width=4, hidden=32, latent=2, gamma=0.2, capacity=0)


def noise(n: int, problem: Problem, *labels: int) -> Examples:
    x = torch.randint(0, 256, (n, *problem.shape), dtype=torch.uint8, generator=generator("noise", n))
    return Examples(x, torch.tensor([labels[i % len(labels)] for i in range(n)]))


def dark_and_bright() -> Examples:
    """Class 0: about 30; class 2: about 220; a little noise on both."""
    shade = torch.tensor([30, 220]).repeat(20).view(40, 1, 1, 1)
    x = shade + torch.randint(-10, 11, (40, 1, 8, 8), generator=generator("shade"))
    return Examples(x.to(torch.uint8), torch.tensor([0, 2]).repeat(20))


def sample(settings: VaeSettings, state: dict[str, Tensor], labels: list[int], word: str = "draw") -> Tensor:
    return Vae(settings).sample(state, torch.tensor(labels), EIGHT, generator(word))


def test_the_divergence_of_a_gaussian_by_hand() -> None:
    mean = torch.tensor([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]])
    log_variance = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    expected = torch.tensor([0.0, (1 + 4) / 2, (math.e - 1 - 1) / 2])
    torch.testing.assert_close(divergence_from_unit(mean, log_variance), expected)


def test_the_capacity_rises_in_a_straight_line_and_stays() -> None:
    settings = VaeSettings(capacity=20, capacity_share=0.5)
    assert [settings.capacity_at(step, 10) for step in range(10)] == [0, 4, 8, 12, 16, 20, 20, 20, 20, 20]
    assert VaeSettings(capacity=20, capacity_share=0).capacity_at(0, 10) == 20


def test_the_defaults_are_those_of_the_paper() -> None:
    paper = VaeSettings()
    assert (paper.epochs, paper.batch, paper.lr, paper.latent) == (360, 256, 5e-4, 10)
    assert (paper.gamma, paper.capacity, paper.spread, paper.conditional) == (100, 20, "unit", False)
    # 55 296 records make 216 steps an epoch; C rises over the first 24 epochs.
    steps = paper.steps(55_296)
    assert steps == 360 * 216
    assert paper.capacity_at(12 * 216, steps) == pytest.approx(10)
    assert paper.capacity_at(24 * 216, steps) == pytest.approx(20)


def test_the_objective_by_hand() -> None:
    # Logits of 0 cost ln 2 a pixel; 4 pixels an image. KL 1 and 5, so their mean is 3 where C is 5.
    logits, x = torch.zeros(2, 1, 2, 2), torch.tensor([0.0, 1.0]).view(2, 1, 1, 1).expand(2, 1, 2, 2)
    loss = objective(logits, x, torch.tensor([1.0, 5.0]), gamma=100, capacity=5)
    assert float(loss) == pytest.approx(4 * math.log(2) + 100 * 2)


def test_the_latent_is_drawn_with_the_standard_deviation_of_its_posterior() -> None:
    # ln σ² = (ln 4, ln 9): z = μ + (2, 3)·noise.
    net = Autoencoder(layout_of(EIGHT, "vae"), 0, 2, 4, 8)
    mean, log_variance = torch.tensor([[1.0, -1.0]]), torch.tensor([[4.0, 9.0]]).log()
    with (
        patch.object(net.encoder, "forward", lambda *_: (mean, log_variance)),
        patch.object(net.decoder, "forward", lambda z, _: z),
    ):
        z, *posterior = net(torch.zeros(1, 1, 8, 8), torch.zeros(1, 0), torch.tensor([[0.5, 2.0]]))
    torch.testing.assert_close(z, torch.tensor([[2.0, 5.0]]))
    assert posterior[0] is mean
    assert posterior[1] is log_variance


def test_few_records_are_seen_more_often_where_steps_are_asked_for() -> None:
    assert VaeSettings(epochs=3, batch=2).steps(records=5) == 9
    assert VaeSettings(epochs=3, batch=2, least_steps=20).steps(records=5) == 20


@pytest.mark.parametrize(
    ("side", "stages", "left", "padding"),
    [(8, 1, 4, 0), (14, 1, 7, 0), (15, 1, 8, 1), (28, 2, 7, 0), (30, 2, 8, 2), (32, 3, 4, 0), (64, 4, 4, 0)],
)
def test_how_often_a_side_is_halved(side: int, stages: int, left: int, padding: int) -> None:
    layout = ImageLayout(1, side, side)
    assert (layout.stages, layout.rows, layout.columns) == (stages, left, left)
    assert (layout.below, layout.beside) == (padding, padding)


def test_the_encoder_at_64_pixels_is_the_published_one() -> None:
    encoder = Encoder(ImageLayout(1, 64, 64), told=0, latent=10, width=32, hidden=256)
    convolutions = (16 * 32 + 32) + 3 * (16 * 32 * 32 + 32)
    dense = (512 * 256 + 256) + (256 * 256 + 256) + (256 * 20 + 20)
    assert sum(p.numel() for p in encoder.parameters()) == convolutions + dense


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 9, 12), (1, 14, 14), (1, 28, 28), (3, 32, 32), (1, 64, 64)])
def test_images_have_the_shape_of_the_records(shape: tuple[int, ...], conditional: bool) -> None:
    problem = Problem(shape=shape, classes=3)
    vae = Vae(BRIEF.model_copy(update={"conditional": conditional}))
    state = vae.fit(noise(5, problem, 0, 2), problem, generator(0))
    made = vae.sample(state, torch.tensor([2, 0, 0, 2]), problem, generator(1))
    assert made.shape == (4, *shape)
    assert made.dtype == torch.uint8
    assert made.is_contiguous()
    assert vae.sample(state, torch.tensor([], dtype=torch.int64), problem, generator(1)).shape == (0, *shape)


def test_the_same_words_give_the_same_bits_and_leave_the_global_stream_alone() -> None:
    vae, examples = Vae(BRIEF), noise(9, EIGHT, 0, 1)
    before = torch.random.get_rng_state()
    first, again, other = (vae.fit(examples, EIGHT, generator(word)) for word in ("a", "a", "b"))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["mean"], other["mean"])
    labels = [0, 1, 1]
    assert torch.equal(sample(BRIEF, first, labels), sample(BRIEF, again, labels))
    assert not torch.equal(sample(BRIEF, first, labels), sample(BRIEF, first, labels, "another draw"))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_what_was_learnt_survives_a_file() -> None:
    state = Vae(BRIEF).fit(noise(6, EIGHT, 0, 1), EIGHT, generator(0))
    assert torch.equal(sample(BRIEF, load(save(state)), [0, 1]), sample(BRIEF, state, [0, 1]))


def test_scaled_records_are_learnt_from_as_their_pixels() -> None:
    pixels = noise(6, EIGHT, 0, 1)
    scaled = Examples(EIGHT.scale(pixels.x), pixels.y)
    from_pixels, from_floats = (Vae(BRIEF).fit(e, EIGHT, generator(0)) for e in (pixels, scaled))
    assert all(torch.equal(from_pixels[name], from_floats[name]) for name in from_pixels)


@pytest.mark.parametrize("spread", ["unit", "class"])
def test_the_decoder_obeys_the_label_it_is_told(spread: str) -> None:
    settings = THOROUGH.model_copy(update={"conditional": True, "spread": spread})
    made = sample(settings, Vae(settings).fit(dark_and_bright(), EIGHT, generator(0)), [0] * 20 + [2] * 20)
    shades = made.float().mean((1, 2, 3))
    assert bool((shades[:20] < 125).all())
    assert bool((shades[20:] > 125).all())


def test_with_its_own_spread_a_class_stays_itself_in_a_shared_latent_space() -> None:
    settings = THOROUGH.model_copy(update={"spread": "class"})
    made = sample(settings, Vae(settings).fit(dark_and_bright(), EIGHT, generator(0)), [0] * 20 + [2] * 20)
    shades = made.float().mean((1, 2, 3))
    assert bool((shades[:20] < 125).all())
    assert bool((shades[20:] > 125).all())


def test_mean_and_spread_of_a_class_by_hand() -> None:
    # Class 0: means 0 and 2, variances 1 and 3: centre 1, spread √(1 + 2). Class 1: one record; class 2: none
    mean, variance = torch.tensor([[0.0], [2.0], [5.0]]), torch.tensor([[1.0], [3.0], [4.0]])
    found = _statistics(mean, variance, torch.tensor([0, 0, 1]), 3)
    assert found["count"].tolist() == [2, 1, 0]
    torch.testing.assert_close(found["mean"], torch.tensor([[1.0], [5.0], [0.0]]))
    torch.testing.assert_close(found["spread"], torch.tensor([[math.sqrt(3)], [2.0], [0.0]]))


@pytest.mark.parametrize("spread", ["unit", "class"])
def test_a_class_with_one_record_is_enough(spread: str) -> None:
    settings = BRIEF.model_copy(update={"spread": spread})
    examples = noise(5, EIGHT, 0, 0, 0, 0, 1)
    state = Vae(settings).fit(examples, EIGHT, generator(0))
    assert state["count"].tolist() == [4, 1, 0]
    assert sample(settings, state, [1, 1, 1]).shape == (3, 1, 8, 8)


def test_a_class_that_was_never_seen_cannot_be_drawn() -> None:
    state = Vae(BRIEF).fit(noise(4, EIGHT, 0, 1), EIGHT, generator(0))
    with pytest.raises(UserError, match="no record of class 2"):
        sample(BRIEF, state, [0, 2])


def test_fewer_records_than_the_smallest_number_are_refused() -> None:
    with pytest.raises(UserError, match=r"at least 2 records, but was given 1"):
        Vae(BRIEF).fit(noise(1, EIGHT, 0), EIGHT, generator(0))
    assert Vae(BRIEF).fit(noise(Vae.smallest, EIGHT, 0), EIGHT, generator(0))


@pytest.mark.parametrize("shape", [(1, 7, 8), (1, 65, 64), (30,)])
def test_records_that_it_cannot_make_are_refused(shape: tuple[int, ...]) -> None:
    problem = Problem(shape=shape, classes=3)
    with pytest.raises(UserError, match=r"8 to 64 pixels per side, but the records have shape"):
        Vae(BRIEF).fit(noise(4, problem, 0), problem, generator(0))


def test_a_rate_at_which_it_diverges_is_named() -> None:
    wild = VaeSettings(epochs=5, batch=2, width=2, hidden=8, lr=1e30)
    with pytest.raises(UserError, match=r"diverged with lr 1e\+30; lower"):
        Vae(wild).fit(noise(4, EIGHT, 0), EIGHT, generator(0))


def test_records_with_several_labels_need_a_conditional_vae() -> None:
    problem = Problem(shape=(1, 8, 8), classes=3, multilabel=True)
    y = torch.tensor([[1.0, 0, 1], [0, 0, 0], [0, 1, 1], [1, 1, 1]])
    examples = Examples(noise(4, problem, 0).x, y)
    with pytest.raises(UserError, match="conditional: true"):
        Vae(BRIEF).fit(examples, problem, generator(0))
    vae = Vae(BRIEF.model_copy(update={"conditional": True}))
    state = vae.fit(examples, problem, generator(0))
    assert vae.sample(state, y, problem, generator(1)).shape == (4, 1, 8, 8)


# ---- along the way


@pytest.mark.parametrize("spread", ["unit", "class", "prior"])
def test_checkpoints_change_nothing_but_what_is_seen(spread: str) -> None:
    examples, wanted = noise(9, EIGHT, 0, 1), {"epochs": 4, "spread": spread, "conditional": True}
    plain, watched = (BRIEF.model_copy(update=wanted | {"checkpoints": c}) for c in ((), (1, 3, 4)))
    end = Vae(plain).fit(examples, EIGHT, generator(0))
    stages = list(Vae(watched).course(examples, EIGHT, generator(0)))
    assert [stage.epoch for stage in stages] == [1, 3, 4]
    assert all(torch.equal(stages[-1].state[name], end[name]) for name in end)
    first, middle, _ = (stage.state["decoder.dense.0.weight"] for stage in stages)
    assert not torch.equal(first, middle)


def test_a_stage_is_where_a_shorter_training_would_have_ended() -> None:
    # Capacity at its height from the start: then no step knows how many are to come.
    settings = BRIEF.model_copy(update={"epochs": 4, "checkpoints": (2,), "capacity_share": 0.0})
    examples = noise(9, EIGHT, 0, 1)
    stage, _ = Vae(settings).course(examples, EIGHT, generator(0))
    short = Vae(settings.model_copy(update={"epochs": 2, "checkpoints": ()})).fit(examples, EIGHT, generator(0))
    assert all(torch.equal(stage.state[name], short[name]) for name in short)


@pytest.mark.parametrize(
    ("epochs", "steps", "checkpoints", "expected"),
    [
        (3, 9, (), {9: [3]}),
        (3, 9, (2, 1, 2), {3: [1], 6: [2], 9: [3]}),
        (4, 10, (1, 3), {2: [1], 7: [3], 10: [4]}),  # 10/4 and 30/4, rounded down
        (4, 2, (1, 2, 3), {1: [1, 2, 3], 2: [4]}),  # fewer steps than epochs: the first is never the zeroth
    ],
)
def test_after_which_steps_it_is_kept(
    epochs: int, steps: int, checkpoints: tuple[int, ...], expected: dict[int, list[int]]
) -> None:
    settings = VaeSettings(epochs=epochs, checkpoints=checkpoints)
    found = {step: list(settings.kept_after(step, steps)) for step in range(1, steps + 1)}
    assert {step: kept for step, kept in found.items() if kept} == expected


def test_settings_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ValidationError, match="5 is not one of the epochs 1 to 4"):
        VaeSettings(epochs=4, checkpoints=(2, 5))
    with pytest.raises(ValidationError, match="so it needs conditional: true"):
        VaeSettings(spread="prior")


# ---- private

PRIVATE = BRIEF.model_copy(update={"conditional": True, "spread": "prior"})


def private(steps: int = 4, noise: float = 1.0, clip: float = 1.0, expected: float = 4.0) -> PrivateSteps:
    streams = [generator("private", which) for which in ("sampling", "noises", "coins")]
    return PrivateSteps(0.5, steps, clip, noise, expected, *streams)


def test_the_objective_of_a_record_by_hand() -> None:
    # A network whose logits are 0 (ln 2 for each of 4 pixels) and whose latent has mean 2 and variance 1: KL 2. C is
    # 5. In a batch with a record of KL 8, the mean would be exactly C; each by itself is 3 away from it.
    def call(x: Tensor, told: Tensor, _noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return torch.zeros_like(x), told, torch.zeros_like(told)

    loss = record_objective(VaeSettings(gamma=10), capacity=5)
    x, no_noise = torch.zeros(1, 2, 2), torch.zeros(1)
    for mean in (2.0, 4.0):
        found = loss(call, x, torch.tensor([mean]), no_noise)
        assert float(found) == pytest.approx(4 * math.log(2) + 10 * 3)


def test_a_private_fit_learns_the_shade_of_a_class_where_noise_is_small() -> None:
    settings = THOROUGH.model_copy(update={"conditional": True, "spread": "prior"})
    state = Vae(settings).fit(dark_and_bright(), EIGHT, generator(0), private(steps=150, noise=0.01, expected=20))
    shades = sample(settings, state, [0] * 20 + [2] * 20).float().mean((1, 2, 3))
    assert bool((shades[:20] < 125).all())
    assert bool((shades[20:] > 125).all())


def test_what_a_private_fit_gives_is_weights_alone_and_every_label_can_be_drawn() -> None:
    state = Vae(PRIVATE).fit(noise(4, EIGHT, 0), EIGHT, generator(0), private())
    assert all(name.startswith("decoder.") for name in state)
    assert sample(PRIVATE, state, [0, 1, 2]).shape == (3, 1, 8, 8)


def test_a_private_fit_needs_no_record() -> None:
    settings = PRIVATE.model_copy(update={"checkpoints": (1,)})
    stages = list(Vae(settings).course(noise(2, EIGHT, 0).none(), EIGHT, generator(0), private(steps=4)))
    assert [stage.epoch for stage in stages] == [1, 2]  # after 2 of the 4 steps, and at the end
    assert sample(settings, stages[-1].state, [2]).shape == (1, 1, 8, 8)


def test_a_private_fit_repeats_itself_with_its_streams_and_takes_nothing_else_from_the_known_one() -> None:
    examples, left = noise(9, EIGHT, 0, 1), []
    for records in (examples, examples, examples.none()):
        rng = generator("known")
        state = Vae(PRIVATE).fit(records, EIGHT, rng, private())
        left.append((state["decoder.dense.0.weight"], torch.randint(2**62, (1,), generator=rng)))
    assert torch.equal(left[0][0], left[1][0])
    assert torch.equal(left[0][1], left[2][1])


def test_class_means_are_not_released_privately() -> None:
    for update in ({"conditional": True}, {"spread": "class", "conditional": True}):
        with pytest.raises(UserError, match="conditional: true and spread: prior to be private"):
            Vae(BRIEF.model_copy(update=update)).fit(noise(4, EIGHT, 0), EIGHT, generator(0), private())


def test_drawn_from_the_prior_a_class_obeys_its_label_and_must_have_been_seen() -> None:
    settings = THOROUGH.model_copy(update={"conditional": True, "spread": "prior"})
    state = Vae(settings).fit(dark_and_bright(), EIGHT, generator(0))
    shades = sample(settings, state, [0] * 20 + [2] * 20).float().mean((1, 2, 3))
    assert bool((shades[:20] < 125).all())
    assert bool((shades[20:] > 125).all())
    with pytest.raises(UserError, match="no record of class 1"):
        sample(settings, state, [0, 1])
