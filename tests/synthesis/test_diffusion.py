"""The diffusion generator: its settings, the images it takes, and what it makes of some that anyone can tell apart."""

import math

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from understudy.complaints import checked
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.methods.fedssyn.settings import FedssynSettings
from understudy.privacy.sgd import PrivateSteps
from understudy.randomness import generator
from understudy.synthesis.diffusion import diffusion
from understudy.synthesis.diffusion.diffusion import Diffusion, as_pixels
from understudy.synthesis.diffusion.network import Frame, build
from understudy.synthesis.diffusion.settings import DiffusionSettings

EIGHT = Problem(shape=(1, 8, 8), classes=3, mean=(0.5,), std=(0.25,))
BRIEF = DiffusionSettings(epochs=2, least_steps=0, batch=4, width=4, head=4, groups=2, sampling_steps=2)


def noise(n: int, problem: Problem, *labels: int) -> Examples:
    x = torch.randint(0, 256, (n, *problem.shape), dtype=torch.uint8, generator=generator("noise", n))
    return Examples(x, torch.tensor([labels[i % len(labels)] for i in range(n)]))


def sample(settings: DiffusionSettings, state: dict[str, Tensor], labels: list[int], word: str = "draw") -> Tensor:
    return Diffusion(settings).sample(state, torch.tensor(labels), EIGHT, generator(word))


def test_the_paper_is_a_preset_and_single_settings_go_before_it() -> None:
    paper = DiffusionSettings(preset="paper")
    assert (paper.epochs, paper.batch, paper.lr, paper.decay, paper.ema) == (500, 256, 1e-4, 0.01, 0.9995)
    assert (paper.width, paper.multipliers, paper.blocks, paper.attention) == (64, (1, 2, 2, 2), 3, (8, 32))
    assert (paper.head, paper.dropout, paper.flip, paper.weights) == (64, 0.1, True, "ema")
    assert (paper.predicts, paper.full_size) == ("noise", 64)
    assert (paper.sampler, paper.sampling_steps) == ("ancestral", 250)
    shorter = DiffusionSettings(preset="paper", epochs=50, sampler="dpm-solver")
    assert (shorter.epochs, shorter.width, shorter.sampling_steps) == (50, 64, 25)
    assert DiffusionSettings() == DiffusionSettings(preset="tiny")
    assert DiffusionSettings().sampling_steps == 25


def test_settings_survive_being_spelled_out() -> None:
    for preset in ("tiny", "paper"):
        settings = DiffusionSettings(preset=preset, batch=7)
        assert DiffusionSettings(**settings.model_dump(mode="json")) == settings


def test_an_add_on_names_it_with_its_preset() -> None:
    chosen = FedssynSettings(generator={"name": "diffusion", "preset": "paper", "epochs": 3})
    assert (chosen.generator["width"], chosen.generator["epochs"]) == (64, 3)
    with pytest.raises(UserError, match=r"generator\.preset.*'tiny' or 'paper' \(it is 'huge'\)"):
        FedssynSettings(generator={"name": "diffusion", "preset": "huge"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"preset": ["tiny"]}, "preset"),
        ({"epochs": 5, "checkpoints": [6]}, "6 is not one of the epochs 1 to 5"),
        ({"width": 20, "groups": 8}, "8 does not divide the width 20"),
        ({"width": 16, "head": 12}, "12 does not divide the 16 channels"),
        ({"sampler": "ddim", "sampling_steps": 300}, "ddim takes at most 100"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        checked(DiffusionSettings, given, "generator")


def test_the_published_network() -> None:
    # Attention at 32, 16 and 8 px and in the middle, not at 4; a head has 64 of 64 or 128 channels.
    paper = DiffusionSettings(preset="paper")
    with torch.device("meta"):
        net = build(paper, Frame(Problem((3, 32, 32), 10), 4, paper.full_size), 10)
    kinds = [type(block).__name__ for block in net.get_submodule("down_blocks").children()]
    assert kinds == ["AttnDownBlock2D"] * 3 + ["ResnetDownsampleBlock2D"]
    assert net.get_submodule("down_blocks.0.attentions.0").heads == 1
    assert net.get_submodule("down_blocks.1.attentions.0").heads == 2
    assert len(list(net.get_submodule("down_blocks.0.resnets").children())) == 3
    assert net.get_parameter("class_embedding.weight").shape == (10, 256)


@pytest.mark.parametrize(
    ("shape", "levels", "largest", "seen"),
    [
        ((1, 8, 8), 2, 16, (1, 8, 8)),
        ((1, 14, 14), 2, 16, (1, 14, 14)),
        ((1, 28, 28), 2, 16, (4, 14, 14)),
        ((3, 32, 32), 2, 16, (12, 16, 16)),
        ((1, 28, 28), 4, 64, (1, 32, 32)),
        ((3, 9, 12), 2, 16, (3, 10, 12)),
        ((1, 28, 20), 3, 16, (4, 16, 12)),
    ],
)
def test_images_come_back_from_their_frame(
    shape: tuple[int, int, int], levels: int, largest: int, seen: tuple[int, int, int]
) -> None:
    frame = Frame(Problem(shape, 2), levels, largest)
    x = torch.randn(2, *shape, generator=generator("frame"))
    assert frame.shape == seen
    assert frame.put_on(x).shape == (2, *seen)
    assert torch.equal(frame.take_off(frame.put_on(x)), x)
    assert frame.put_on(x[:0]).shape == (0, *seen)


def test_the_border_repeats_the_edge() -> None:
    frame = Frame(Problem((1, 9, 8), 2), 2, 16)
    x = torch.arange(9.0).view(1, 1, 9, 1).expand(1, 1, 9, 8)
    assert frame.put_on(x)[0, 0, :, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 8]


def test_pixels_are_truncated() -> None:
    # 127.5·(−0.5 + 1) = 63.75; 127.5·1.004 = 128.01; beyond the ends nothing wraps around.
    x = torch.tensor([-1.2, -1.0, -0.5, 0.0, 0.004, 1.0, 1.3])
    assert as_pixels(x).tolist() == [0, 0, 63, 127, 128, 255, 255]


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 9, 12), (1, 14, 14), (1, 28, 28), (3, 32, 32)])
def test_images_have_the_shape_of_the_records(shape: tuple[int, ...]) -> None:
    problem, made_by = Problem(shape=shape, classes=3), Diffusion(BRIEF)
    state = made_by.fit(noise(5, problem, 0, 2), problem, generator(0))
    made = made_by.sample(state, torch.tensor([2, 0, 0, 2]), problem, generator(1))
    assert made.shape == (4, *shape)
    assert made.dtype == torch.uint8
    assert made.is_contiguous()
    assert made_by.sample(state, torch.tensor([], dtype=torch.int64), problem, generator(1)).shape == (0, *shape)


@pytest.mark.parametrize("name", ["ancestral", "dpm-solver", "ddim"])
def test_the_same_words_give_the_same_bits_and_leave_the_global_stream_alone(name: str) -> None:
    settings = BRIEF.model_copy(update={"sampler": name, "dropout": 0.2, "flip": True})
    made_by, examples = Diffusion(settings), noise(9, EIGHT, 0, 1)
    before = torch.random.get_rng_state()
    first, again, other = (made_by.fit(examples, EIGHT, generator(word)) for word in ("a", "a", "b"))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["network.conv_in.weight"], other["network.conv_in.weight"])
    labels = [0, 1, 1]
    assert torch.equal(sample(settings, first, labels), sample(settings, again, labels))
    assert not torch.equal(sample(settings, first, labels), sample(settings, first, labels, "another draw"))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_every_batch_begins_with_noise_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Diffusion(BRIEF).fit(noise(4, EIGHT, 0), EIGHT, generator(0))
    monkeypatch.setattr(diffusion, "AT_ONCE", 3)
    made = sample(BRIEF, state, [0] * 6)
    assert len({bytes(image.flatten().tolist()) for image in made}) == 6


def test_what_was_learnt_survives_a_file() -> None:
    state = Diffusion(BRIEF).fit(noise(6, EIGHT, 0, 1), EIGHT, generator(0))
    assert torch.equal(sample(BRIEF, load(save(state)), [0, 1]), sample(BRIEF, state, [0, 1]))


def test_scaled_records_are_learnt_from_as_their_pixels() -> None:
    pixels = noise(6, EIGHT, 0, 1)
    scaled = Examples(EIGHT.scale(pixels.x), pixels.y)
    from_pixels, from_floats = (Diffusion(BRIEF).fit(e, EIGHT, generator(0)) for e in (pixels, scaled))
    assert all(torch.equal(from_pixels[name], from_floats[name]) for name in from_pixels)


def test_it_learns_to_make_dark_and_bright_images_by_their_label() -> None:
    shade = torch.tensor([40, 210]).repeat(20).view(40, 1, 1, 1)
    x = shade + torch.randint(-10, 11, (40, 1, 8, 8), generator=generator("shade"))
    examples = Examples(x.to(torch.uint8), torch.tensor([0, 2]).repeat(20))
    one_level = {"width": 16, "head": 16, "groups": 4, "multipliers": (1,), "attention": (0, 0)}
    sampling = {"sampler": "ancestral", "sampling_steps": 30}
    settings = BRIEF.model_copy(update={**one_level, **sampling, "least_steps": 200, "batch": 40, "lr": 5e-3})
    made = sample(settings, Diffusion(settings).fit(examples, EIGHT, generator(0)), [0] * 20 + [2] * 20)
    shades = made.float().mean((1, 2, 3))
    assert bool((shades[:20] < 100).all())
    assert bool((shades[20:] > 150).all())
    assert float(shades[:20].mean()) == pytest.approx(40, abs=15)
    assert float(shades[20:].mean()) == pytest.approx(210, abs=15)


def test_it_goes_on_from_what_another_has_learnt() -> None:
    first = Diffusion(BRIEF).fit(noise(8, EIGHT, 0, 1), EIGHT, generator("first"))
    still = BRIEF.model_copy(update={"lr": 1e-12})
    begun = Diffusion(still).beginning_at(first)
    found = begun.fit(noise(8, EIGHT, 2), EIGHT, generator("second"))
    weights = [name for name in first if name.startswith("network.")]
    assert all(torch.allclose(found[name], first[name], atol=1e-9) for name in weights)
    assert found["fitted"].tolist() == [False, False, True]  # by its own records
    anew = Diffusion(still).fit(noise(8, EIGHT, 2), EIGHT, generator("second"))
    assert not all(torch.allclose(anew[name], first[name], atol=1e-3) for name in weights)


def test_weights_of_another_network_are_refused() -> None:
    first = Diffusion(BRIEF).fit(noise(8, EIGHT, 0, 1), EIGHT, generator("first"))
    wider = BRIEF.model_copy(update={"width": 8})
    with pytest.raises(UserError, match="cannot begin at the weights of one with other settings"):
        Diffusion(wider).beginning_at(first).fit(noise(8, EIGHT, 0), EIGHT, generator("second"))


def test_a_private_one_needs_no_record_and_gives_every_label() -> None:
    streams = (generator("private", word) for word in ("sampling", "noises", "coins"))
    private = PrivateSteps(0.5, 3, 1.0, 1.0, 2.0, *streams)
    settings = BRIEF.model_copy(update={"checkpoints": (1,)})
    stages = list(Diffusion(settings).course(noise(0, EIGHT, 0), EIGHT, generator(0), private))
    assert [stage.epoch for stage in stages] == [1, 2]
    assert sample(settings, stages[-1].state, [0, 1, 2]).shape == (3, 1, 8, 8)


def test_a_class_that_was_never_seen_cannot_be_drawn() -> None:
    state = Diffusion(BRIEF).fit(noise(4, EIGHT, 0, 1), EIGHT, generator(0))
    with pytest.raises(UserError, match="no record of class 2"):
        sample(BRIEF, state, [0, 2])


def test_fewer_records_than_the_smallest_number_are_refused() -> None:
    with pytest.raises(UserError, match=r"at least 2 records, but was given 1"):
        Diffusion(BRIEF).fit(noise(1, EIGHT, 0), EIGHT, generator(0))


@pytest.mark.parametrize("shape", [(1, 7, 8), (1, 65, 64), (30,)])
def test_records_that_it_cannot_make_are_refused(shape: tuple[int, ...]) -> None:
    problem = Problem(shape=shape, classes=3)
    with pytest.raises(UserError, match=r"8 to 64 pixels per side, but the records have shape"):
        Diffusion(BRIEF).fit(noise(4, problem, 0), problem, generator(0))


def test_images_too_small_for_the_levels_are_refused() -> None:
    deep = BRIEF.model_copy(update={"multipliers": (1, 1, 1, 1, 1)})
    with pytest.raises(UserError, match=r"cannot halve images of 8×8 pixels 4 times"):
        Diffusion(deep).fit(noise(4, EIGHT, 0), EIGHT, generator(0))


def test_several_labels_are_refused() -> None:
    problem = Problem(shape=(1, 8, 8), classes=3, multilabel=True)
    examples = Examples(noise(4, EIGHT, 0).x, torch.ones(4, 3))
    with pytest.raises(UserError, match="one class each"):
        Diffusion(BRIEF).fit(examples, problem, generator(0))


def test_without_its_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"needs more packages.*\.\[diffusion\]"):
        Diffusion(BRIEF)


def test_a_network_that_learnt_nothing_finite_is_not_drawn_from() -> None:
    state = Diffusion(BRIEF).fit(noise(4, EIGHT, 0), EIGHT, generator(0))
    state["network.conv_out.weight"] = torch.full_like(state["network.conv_out.weight"], math.inf)
    with pytest.raises(UserError, match="diverged with lr"):
        sample(BRIEF, state, [0])
