"""The noise schedule and the samplers, by hand and on data whose noise anyone can compute."""

import math

import pytest
import torch
from torch import Tensor

from understudy.randomness import generator
from understudy.synthesis.diffusion.schedule import add_noise, draw, remaining, sampler, wanted


def f(share: float) -> float:
    return math.cos(math.pi / 2 * (share + 0.008) / 1.008) ** 2


def test_what_remains_under_the_cosine_schedule_by_hand() -> None:
    # Product of f(s+1)/f(s): everything between cancels. Halfway, cos²(π/2 · 0.508/1.008) = cos²(0.79163) = 0.49377,
    # and f(0) = cos²(0.012467) = 0.99984.
    kept = remaining()
    assert kept.shape == (1000,)
    assert float(kept[499]) == pytest.approx(0.4938, abs=1e-4)
    for t in (0, 10, 250, 499, 900):
        assert float(kept[t]) == pytest.approx(f((t + 1) / 1000) / f(0), rel=1e-4)


def test_no_step_takes_more_than_0_999() -> None:
    # f(1000) = cos²(π/2) = 0, so that the last step would take everything; the one before takes three quarters.
    kept = remaining()
    assert float(kept[999] / kept[998]) == pytest.approx(0.001, rel=1e-4)
    assert float(kept[998] / kept[997]) == pytest.approx(f(0.999) / f(0.998), rel=1e-3)
    assert 0.2 < f(0.999) / f(0.998) < 0.3


def test_noise_is_added_by_its_share() -> None:
    x, noise = torch.tensor([1.0, -1.0]).view(2, 1, 1, 1), torch.tensor([2.0, 2.0]).view(2, 1, 1, 1)
    noisy = add_noise(x, noise, torch.tensor([0.64, 0.36]))
    torch.testing.assert_close(noisy.flatten(), torch.tensor([0.8 + 0.6 * 2, -0.6 + 0.8 * 2]))


def test_noise_and_velocity_by_hand() -> None:
    # ᾱ = 0.64: v = 0.8·2 − 0.6·1 = 1.
    x, noise, kept = torch.full((1, 1, 1, 1), 1.0), torch.full((1, 1, 1, 1), 2.0), torch.tensor([0.64])
    assert wanted("noise", x, noise, kept) is noise
    assert float(wanted("velocity", x, noise, kept)) == pytest.approx(1)


def test_ancestral_time_steps_are_equally_far_apart_with_both_ends() -> None:
    assert sampler("ancestral", 10).timesteps.tolist() == [999, 888, 777, 666, 555, 444, 333, 222, 111, 0]
    many = sampler("ancestral", 250).timesteps
    assert (len(many), int(many[0]), int(many[-1])) == (250, 999, 0)
    assert set((many[:-1] - many[1:]).tolist()) == {4, 5}  # 999 in 249 parts
    assert sampler("ancestral", 1).timesteps.tolist() == [999]
    assert sampler("ancestral", 1000).timesteps.tolist() == list(range(999, -1, -1))


@pytest.mark.parametrize("name", ["dpm-solver", "ddim"])
@pytest.mark.parametrize("steps", [1, 2, 7, 10, 25, 100])
def test_fast_time_steps_begin_where_there_is_next_to_nothing_left(name: str, steps: int) -> None:
    found = sampler(name, steps).timesteps.tolist()
    assert len(set(found)) == steps
    assert found == sorted(found, reverse=True)
    assert found[-1] == 0 or steps == 1
    # ln(√ᾱ/√(1−ᾱ)) = −5.1 is where ᾱ = 1/(1+e^10.2) = 3.7e-5; the next step would have less.
    kept = remaining()
    assert kept[found[0]] >= 3.7e-5 > kept[found[0] + 1]


def test_fast_time_steps_grow_as_squares() -> None:
    # 995·(i/9)²: 0, 12.3, 49.1, 110.6, 196.5, 307.1, 442.2, 601.9, 786.2, 995.
    assert sampler("dpm-solver", 10).timesteps.tolist() == [995, 786, 602, 442, 307, 197, 111, 49, 12, 0]


def test_one_ancestral_step_by_hand() -> None:
    # From t = 500 to s = 0, of three steps (999, 500, 0).
    plan, kept = sampler("ancestral", 3), remaining().double()
    assert plan.timesteps.tolist() == [999, 500, 0]
    x, said = torch.tensor([0.3, -0.1, 2.0]).view(3, 1, 1, 1), torch.tensor([0.2, 0.1, 0.0]).view(3, 1, 1, 1)
    now, then = float(kept[500]), float(kept[0])
    alpha = now / then
    clean = [(0.3 - math.sqrt(1 - now) * 0.2) / math.sqrt(now), (-0.1 - math.sqrt(1 - now) * 0.1) / math.sqrt(now), 1.0]
    mean = [
        (math.sqrt(then) * (1 - alpha) * c + math.sqrt(alpha) * (1 - then) * v) / (1 - now)
        for c, v in zip(clean, [0.3, -0.1, 2.0], strict=True)  # the third would be 2.85: clamped
    ]
    variance = (1 - then) * (1 - alpha) / (1 - now)
    noise = torch.randn(3, 1, 1, 1, generator=generator("step"))
    after = plan.step(said, plan.timesteps[1], x, generator=generator("step"), return_dict=False)[0]
    expected = torch.tensor(mean).view(3, 1, 1, 1) + math.sqrt(variance) * noise
    torch.testing.assert_close(after, expected, rtol=1e-4, atol=1e-5)


def test_the_last_ancestral_step_adds_no_noise() -> None:
    plan, kept = sampler("ancestral", 3), float(remaining()[0])
    x = torch.full((1, 1, 1, 1), 0.5)
    ends = [
        plan.step(0.1 * x, plan.timesteps[2], x, generator=generator(word), return_dict=False)[0] for word in ("a", "b")
    ]
    assert torch.equal(*ends)
    assert float(ends[0]) == pytest.approx((0.5 - math.sqrt(1 - kept) * 0.05) / math.sqrt(kept), rel=1e-4)


def test_one_ddim_step_by_hand() -> None:
    # x_s = √ᾱ_s x₀ + √(1−ᾱ_s) ε with the network's ε and the x₀ that follows from it.
    plan, kept = sampler("ddim", 3), remaining().double()
    assert plan.timesteps.tolist() == [995, 249, 0]
    now, then = float(kept[995]), float(kept[249])
    clean = (0.31 - math.sqrt(1 - now) * 0.308) / math.sqrt(now)
    assert -1 < clean < 1
    x, said = torch.full((1, 1, 1, 1), 0.31), torch.full((1, 1, 1, 1), 0.308)
    after = plan.step(said, plan.timesteps[0], x, return_dict=False)[0]
    assert float(after) == pytest.approx(math.sqrt(then) * clean + math.sqrt(1 - then) * 0.308, rel=1e-3)


@pytest.mark.parametrize("name", ["dpm-solver", "ddim"])
def test_a_fast_sampler_ends_with_the_clamped_image(name: str) -> None:
    # A network that finds no noise: x₀ = x/√ᾱ at every step, so that all that is beyond 1 is clamped to it.
    made = draw(lambda x, t: torch.zeros_like(x), (50, 1, 2, 2), name, 5, generator("clamp"))
    assert float(made.abs().max()) == pytest.approx(1)


MEAN, SPREAD = 0.2, 0.2


def exact(x: Tensor, t: Tensor) -> Tensor:
    """For pixels N(m, s²): E[ε | x_t] = √(1−ᾱ) (x_t − √ᾱ m) / (ᾱ s² + 1 − ᾱ)."""
    kept = remaining()[t]
    return (1 - kept).sqrt() * (x - kept.sqrt() * MEAN) / (kept * SPREAD**2 + 1 - kept)


@pytest.mark.parametrize(
    ("name", "steps", "off"), [("dpm-solver", 20, 0.06), ("dpm-solver", 10, 0.15), ("ddim", 25, 0.1)]
)
def test_with_the_exact_noise_of_gaussian_data_images_have_its_mean_and_spread(
    name: str, steps: int, off: float
) -> None:
    made = draw(exact, (100, 1, 10, 10), name, steps, generator("gauss"))
    assert float(made.mean()) == pytest.approx(MEAN, abs=0.01)  # 10 000 draws: a standard error is 0.002
    assert float(made.std()) == pytest.approx(SPREAD, rel=off)


def test_ancestral_images_have_the_spread_that_its_steps_add_up_to() -> None:
    # Every step is linear in x with Gaussian data: v ← slope²·v + β̃, where x₀ = m + √ᾱ s²/(ᾱ s² + 1 − ᾱ) (x_t − √ᾱ m).
    kept, times, v = remaining().double(), sampler("ancestral", 50).timesteps.tolist(), 1.0
    for t, s in zip(times, [*times[1:], None], strict=True):
        now, then = float(kept[t]), 1.0 if s is None else float(kept[s])
        alpha = now / then
        clean = math.sqrt(now) * SPREAD**2 / (now * SPREAD**2 + 1 - now)
        slope = (math.sqrt(then) * (1 - alpha) * clean + math.sqrt(alpha) * (1 - then)) / (1 - now)
        v = slope**2 * v + (1 - then) * (1 - alpha) / (1 - now)
    made = draw(exact, (100, 1, 10, 10), "ancestral", 50, generator("gauss"))
    assert float(made.mean()) == pytest.approx(MEAN, abs=0.01)
    assert float(made.std()) == pytest.approx(math.sqrt(v), rel=0.03)
    assert math.sqrt(v) == pytest.approx(SPREAD, rel=0.25)  # few steps with the smaller variance: a little narrow


@pytest.mark.parametrize("name", ["ancestral", "dpm-solver", "ddim"])
def test_one_step_from_pure_noise_gives_the_mean_image(name: str) -> None:
    # E[x₀ | x_T] = m + √ᾱ s²/(1 − ᾱ) (x_T − …) with ᾱ below 6e-5: what is left of the noise is 0.008·0.04.
    made = draw(exact, (4, 1, 10, 10), name, 1, generator("gauss"))
    torch.testing.assert_close(made, torch.full_like(made, MEAN), rtol=0, atol=0.02)


@pytest.mark.parametrize(("name", "steps"), [("ancestral", 25), ("dpm-solver", 10), ("ddim", 10)])
def test_the_exact_velocity_draws_the_images_that_the_exact_noise_does(name: str, steps: int) -> None:
    def velocity(x: Tensor, t: Tensor) -> Tensor:
        kept, noise = remaining()[t], exact(x, t)
        clean = MEAN + kept.sqrt() * SPREAD**2 / (kept * SPREAD**2 + 1 - kept) * (x - kept.sqrt() * MEAN)
        return kept.sqrt() * noise - (1 - kept).sqrt() * clean

    shape = (4, 1, 3, 3)
    by_noise = draw(exact, shape, name, steps, generator("same"))
    by_velocity = draw(velocity, shape, name, steps, generator("same"), "velocity")
    torch.testing.assert_close(by_velocity, by_noise, rtol=1e-3, atol=1e-3)
