"""The epochs after which a generator in training is kept, beside its end."""

from collections.abc import Iterator
from typing import Self

from pydantic import Field, model_validator

from understudy.base_settings import Settings


class CourseSettings(Settings):
    """How long a generator is trained, and when it is looked at on the way."""

    epochs: int = Field(default=100, ge=1)  # passes over the records
    checkpoints: tuple[int, ...] = ()  # epochs after which a stage of training is kept as well

    @model_validator(mode="after")
    def _checkpoints_are_epochs(self) -> Self:
        for epoch in self.checkpoints:
            if not 1 <= epoch <= self.epochs:
                raise ValueError(f"checkpoints: {epoch} is none of the epochs 1 to {self.epochs}")
        return self

    def kept_after(self, step: int, steps: int) -> Iterator[int]:
        """The epochs at which training stops to be looked at after a step (1 to ``steps``); the last is its end.

        An epoch is an equal share of the steps, also where these are planned, under privacy, or more than the epochs
        asked for would make.
        """
        for epoch in sorted({*self.checkpoints, self.epochs}):
            if max(1, epoch * steps // self.epochs) == step:
                yield epoch
