"""Settings of the diffusion generator, and two presets."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from understudy.synthesis.generator import CourseSettings

FEW_STEPS, PUBLISHED_STEPS = 25, 250  # default numbers of sampling steps
MOST_FAST_STEPS = 100  # of dpm-solver and ddim: beyond that, neighbouring time steps would coincide

# The differences from the defaults, which are `tiny`.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {},
    "paper": {
        "epochs": 500,
        "least_steps": 0,
        "batch": 256,
        "lr": 1e-4,
        "flip": True,
        "predicts": "noise",
        "full_size": 64,
        "width": 64,
        "multipliers": (1, 2, 2, 2),
        "blocks": 3,
        "attention": (8, 32),
        "head": 64,
        "groups": 32,
        "dropout": 0.1,
    },
}


class DiffusionSettings(CourseSettings):
    """``tiny`` trains on a few hundred small images within minutes; ``paper`` is Fedssyn's for CIFAR."""

    preset: Literal["tiny", "paper"] = "tiny"  # defaults of the other settings
    least_steps: int = Field(default=1000, ge=0)
    lr: float = Field(default=2e-3, gt=0)  # learning rate of AdamW
    decay: float = Field(default=0.01, ge=0)  # weight decay of AdamW
    # largest share of the moving average kept per update; rises as (1+s)/(10+s)
    ema: float = Field(default=0.9995, ge=0, lt=1)
    weights: Literal["ema", "raw"] = "ema"  # which to sample from: the moving average, or the last
    flip: bool = False  # mirror half of the images; not for digits or letters
    # how far images are turned, scaled, slanted and moved while it learns; 0.15: by up to 15°, 15 %, 7.5 % of the side
    warp: float = Field(default=0.0, ge=0, le=0.5)
    predicts: Literal["noise", "velocity"] = "velocity"  # what the network predicts; velocity takes far fewer updates
    full_size: int = Field(default=16, ge=8)  # largest side the network sees; larger images are folded into channels
    width: int = Field(default=24, ge=1)  # channels at full size
    multipliers: tuple[int, ...] = Field(default=(1, 2), min_length=1)  # of the width, per level; each halves the side
    blocks: int = Field(default=1, ge=1)  # residual blocks per level
    attention: tuple[int, int] = (4, 8)  # smallest and largest side at which pixels attend to each other
    head: int = Field(default=24, ge=1)  # channels per attention head
    groups: int = Field(default=8, ge=1)  # groups of GroupNorm
    dropout: float = Field(default=0.0, ge=0, lt=1)  # share of units dropped; 0 in private training
    # Noise along the way corrects the errors of a barely trained network; the two samplers without it keep them.
    sampler: Literal["ancestral", "dpm-solver", "ddim"] = "ancestral"  # how images are drawn
    sampling_steps: int = Field(default=FEW_STEPS, ge=1, le=1000)  # network calls per image
    draws_per_record: int = Field(default=8, ge=1)  # private training: draws per record, averaged before clipping

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        preset = given.get("preset", "tiny")
        filled = {**(PRESETS.get(preset, {}) if isinstance(preset, str) else {}), **given}
        if preset == "paper" and filled.get("sampler", "ancestral") == "ancestral":
            filled.setdefault("sampling_steps", PUBLISHED_STEPS)
        return filled

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.width % self.groups:
            raise ValueError(f"groups: {self.groups} does not divide the width {self.width}")
        odd = [self.width * m for m in self.multipliers if m < 1 or self.width * m % self.head]
        if odd:
            raise ValueError(f"head: {self.head} does not divide the {odd[0]} channels of a level")
        if self.sampler != "ancestral" and self.sampling_steps > MOST_FAST_STEPS:
            raise ValueError(f"sampling_steps: {self.sampler} takes at most {MOST_FAST_STEPS}")
        return self
