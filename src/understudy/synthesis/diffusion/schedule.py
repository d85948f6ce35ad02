"""How noise is added, and how samplers remove it again.

T = 1000 time steps of the cosine schedule (Improved Denoising Diffusion Probabilistic Models), as implemented in
`diffusers`:

    ᾱ_t = Π (1 − β_s),   β_s = min(1 − f(s+1)/f(s), 0.999),   f(s) = cos²(π/2 · (s/T + 0.008)/1.008)

The network predicts the noise ε, as published, or the velocity v = √ᾱ ε − √(1−ᾱ) x₀ (Progressive Distillation for Fast
Sampling of Diffusion Models). Where hardly anything is left of x₀, a small error in ε is a large one in x₀, and it
takes many updates until images are as dark or bright as they should be; an error in v is never magnified.

A sampler starts from fresh noise and asks the network what to remove:

- ``ancestral``: some of the T steps, equally spaced with both ends; a single one is the last. x₀ from the network's
  output, clamped; then x_s ~ N((√ᾱ_s (1−α) x₀ + √α (1−ᾱ_s) x_t) / (1−ᾱ_t), (1−ᾱ_s)(1−α)/(1−ᾱ_t) I) with
  α = ᾱ_t/ᾱ_s. At the last step ᾱ_s is 1, so the result is x₀.
- ``dpm-solver``: DPM-Solver++ (Fast Solver for Guided Sampling of Diffusion Probabilistic Models), order 2.
- ``ddim``: Denoising Diffusion Implicit Models, which is the same solver at order 1.

The two fast samplers use time steps that grow as squares, starting at 0. Equal steps would end with a jump over the
last twentieth of the way: of pixels that vary by 0.05, half of the variation would be lost.
"""

import importlib
import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from understudy.errors import missing_extra

T = 1000
COSINE = {"num_train_timesteps": T, "beta_schedule": "squaredcos_cap_v2"}
LEAST_LOG_SNR = -5.1  # ln(√ᾱ/√(1−ᾱ)): where the fast samplers start, since the schedule goes to −∞ towards T

PredictNoise = Callable[[Tensor, Tensor], Tensor]  # (images, time step) -> their noise or velocity
KINDS = {"noise": "epsilon", "velocity": "v_prediction"}  # what `diffusers` calls them


def require_library() -> None:
    if importlib.util.find_spec("diffusers") is None:
        raise missing_extra("Generator 'diffusion'", "diffusion")


def library() -> Any:
    """Imported only when needed, because it takes seconds."""
    require_library()
    return importlib.import_module("diffusers")


def remaining() -> Tensor:
    """(T,) ᾱ: the share of the image's variance left at each time step."""
    found: Tensor = library().DDPMScheduler(**COSINE).alphas_cumprod
    return found


def add_noise(x: Tensor, noise: Tensor, kept: Tensor) -> Tensor:
    """x_t = √ᾱ x₀ + √(1−ᾱ) ε; ``kept``: ᾱ at each record's time step."""
    kept = kept.view(*kept.shape, 1, 1, 1)
    return kept.sqrt() * x + (1 - kept).sqrt() * noise


def wanted(predicts: str, x: Tensor, noise: Tensor, kept: Tensor) -> Tensor:
    """What the network should predict."""
    if predicts == "noise":
        return noise
    kept = kept.view(*kept.shape, 1, 1, 1)
    return kept.sqrt() * noise - (1 - kept).sqrt() * x


def sampler(name: str, steps: int, predicts: str = "noise") -> Any:
    """A scheduler of `diffusers` with its time steps set."""
    given = {**COSINE, "prediction_type": KINDS[predicts]}
    if name == "ancestral":
        plan = library().DDPMScheduler(
            **given, variance_type="fixed_small", clip_sample=True, timestep_spacing="linspace"
        )
    else:
        # With a maximum of 1 its thresholding clamps x₀ between −1 and 1.
        plan = library().DPMSolverMultistepScheduler(
            **given,
            solver_order=1 if name == "ddim" else 2,
            thresholding=True,
            sample_max_value=1.0,
        )
    times: dict[str, Any] = {"num_inference_steps": steps}
    if name != "ancestral":
        times = {"timesteps": squares(steps, plan.lambda_t)}
    elif steps == 1:
        times = {"timesteps": [T - 1]}  # the library would take 0, where images are almost clean
    with warnings.catch_warnings():  # it turns a tensor into an array in a way that numpy 2 warns about
        warnings.simplefilter("ignore", DeprecationWarning)
        plan.set_timesteps(**times)
    return plan


def squares(steps: int, log_snr: Tensor) -> list[int]:
    """Time steps from the last one that is not pure noise down to 0, all different; a single one is the last."""
    last = int((log_snr >= LEAST_LOG_SNR).sum()) - 1
    found: list[int] = []
    for i in range(steps):
        place = round(last * (i / (steps - 1)) ** 2) if steps > 1 else last
        found.append(max(place, found[-1] + 1) if found else place)
    return found[::-1]


@torch.no_grad()
def draw(
    predict: PredictNoise,
    shape: tuple[int, ...],
    name: str,
    steps: int,
    rng: torch.Generator,
    predicts: str = "noise",
    device: torch.device | str = "cpu",
) -> Tensor:
    """Images between −1 and 1, from fresh noise."""
    plan = sampler(name, steps, predicts)
    x = torch.randn(shape, generator=rng).to(device)
    for t, there in zip(plan.timesteps, plan.timesteps.to(device), strict=True):
        x = plan.step(predict(x, there), t, x, generator=rng, return_dict=False)[0]
    return x
