"""How a client trains: the settings of the one training loop."""

import math
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from understudy.base_settings import Settings
from understudy.learning.augmentation import Augmentation
from understudy.learning.plan import steps_of_epochs


class Local(Settings):
    """Plain SGD; momentum is reset every round."""

    instead: ClassVar[tuple[tuple[str, str], ...]] = (("epochs", "steps"),)

    epochs: int | None = Field(default=None, ge=0)  # passes over a client's own records per round; default 5
    steps: int | None = Field(default=None, ge=0)  # instead of epochs: steps per round, however many records
    batch: int = Field(default=32, ge=1, le=1_000_000)  # records in a batch
    lr: float = Field(default=0.05, gt=0)  # η, the learning rate
    momentum: float = Field(default=0.0, ge=0, lt=1)  # momentum of SGD, reset every round
    weight_decay: float = Field(default=0.0, ge=0)  # factor of ‖w‖²/2 in the loss
    decay_on: Literal["all", "weights"] = "all"  # what decays; weights: not biases or normalisation layers
    clip: float | None = Field(default=None, gt=0)  # largest gradient norm, over all parameters; null: no limit
    schedule: Literal["constant", "cosine", "exponential"] = "constant"  # learning rate over the rounds
    decay: float = Field(default=1.0, gt=0, le=1)  # factor of the learning rate per round, with schedule: exponential
    augment: tuple[Augmentation, ...] = ()  # random changes to training images; warp: turned, slanted, moved a little
    drop_last: bool = False  # skip a smaller last batch of a pass, unless it is the only one

    @model_validator(mode="before")
    @classmethod
    def _epochs_or_steps(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        if given.get("epochs") is not None and given.get("steps") is not None:
            raise ValueError("give either epochs or steps, not both")
        return given if given.get("steps") is not None else {**given, "epochs": given.get("epochs", 5)}

    @model_validator(mode="after")
    def _something_to_do(self) -> Self:
        if self.epochs is None and self.steps is None:
            raise ValueError("give epochs or steps")
        return self

    def step_count(self, records: int) -> int:
        """Steps of a client with this many records of its own; without any it does not train."""
        if records == 0:
            return 0
        if self.epochs is None:
            return self.steps or 0
        return steps_of_epochs(records, self.epochs, self.batch, drop_last=self.drop_last)

    def rate(self, round: int, rounds: int) -> float:
        """The learning rate of a round; cosine runs from the full rate in round 1 towards 0 in the last."""
        if self.schedule == "cosine":
            turn = math.pi * (round - 1) / max(1, rounds - 1)
            return max(self.lr * (1 + math.cos(turn)) / 2, 1e-6)
        if self.schedule == "exponential":
            return self.lr * self.decay ** (round - 1)
        return self.lr
