"""The epochs after which a generator is kept during training, besides the end."""

from collections.abc import Iterator
from typing import Self

from pydantic import Field, model_validator

from understudy.base_settings import Settings


class CourseSettings(Settings):
    """How long a generator is trained, and which stages are kept."""

    epochs: int = Field(default=100, ge=1)  # passes over the records
    checkpoints: tuple[int, ...] = ()  # epochs after which a stage of training is also kept

    @model_validator(mode="after")
    def _checkpoints_are_epochs(self) -> Self:
        for epoch in self.checkpoints:
            if not 1 <= epoch <= self.epochs:
                raise ValueError(f"checkpoints: {epoch} is not one of the epochs 1 to {self.epochs}")
        return self

    def kept_after(self, step: int, steps: int) -> Iterator[int]:
        """The epochs whose stage is kept after a step (1 to ``steps``); the last one is the end of training.

        An epoch is an equal share of the steps, even if these are planned (under privacy) or more than the requested
        epochs would take.
        """
        for epoch in sorted({*self.checkpoints, self.epochs}):
            if max(1, epoch * steps // self.epochs) == step:
                yield epoch
