"""Fedssyn's settings: the exchange, its privacy, and the checks before images are sent."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from understudy.base_settings import Settings
from understudy.learning.local import Local
from understudy.methods.shared.imitation import ImitationSettings


class ExchangePrivacy(Settings):
    """A generator that learns by DP-SGD; epochs and batch are in the generator's own settings."""

    scope: Literal["exchange", "all"]  # what the promise covers: the images alone, or training as well
    epsilon: float | None = Field(default=None, gt=0)  # ε of the images; null: all of privacy.epsilon
    clip: float = Field(default=1.0, gt=0)  # C, clipping norm of one record's gradient
    noise: float | None = Field(default=None, gt=0)  # σ, in units of C; null: solved from epsilon
    labels: Literal["uniform", "noised"] = "uniform"  # labels of the images: all classes equally, or by noised counts
    label_noise: float = Field(default=10.0, gt=0)  # σ of the noised counts, in records

    @model_validator(mode="after")
    def _one_way_to_the_noise(self) -> Self:
        if self.noise is not None and self.epsilon is not None:
            raise ValueError("give epsilon, from which noise is solved, or noise itself, but not both")
        return self


class FedssynSettings(ImitationSettings):
    where: ClassVar[str] = "with.fedssyn.generator"

    source: Literal["generator", "real"] = "generator"  # what is shuffled: images, or real records (no privacy at all)
    deal: Literal["shuffled", "own"] = "shuffled"  # who gets the images: all clients, shuffled, or each its own
    dp: ExchangePrivacy | None = None  # train the generator by DP-SGD; null: without privacy
    warm_start: Local | None = None  # how the server trains on all images before round 1; null: not at all
    veto: Literal["drop", "flag", "stop"] | None = None  # near-copies of records: drop them, count them, or see below
    veto_share: float = Field(default=0.1, ge=0, lt=1)  # veto: stop sends nothing if more than this are near-copies
    veto_space: Literal["pixels", "features"] = "pixels"  # where nearness is measured; features: of the initial model
    keep_generator: bool = False  # keep every stage of the generator's training in the client's memory
    from_run: str | None = None  # folder of a run whose clients kept their generators; nothing is trained
    epoch: int | None = Field(default=None, ge=1)  # the stage to take from there; null: the last one

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        real, again = self.source == "real", self.from_run is not None
        if self.dp is not None:
            if self.veto is not None:
                raise ValueError("veto compares images with records without noise; leave out veto or dp")
            if real:
                raise ValueError("real records cannot be private; leave out dp, or write source: generator")
            if again:
                raise ValueError("what an earlier run spent is not in this run's ledger; leave out dp or from_run")
        if real and (self.veto is not None or again or self.keep_generator):
            raise ValueError("source: real uses no generator; leave out veto, keep_generator and from_run")
        if self.warm_start is not None and self.deal == "own":
            raise ValueError("with deal: own the server gets no images to train on; leave out warm_start or deal")
        if self.epoch is not None and not again:
            raise ValueError("epoch chooses among the stages an earlier run kept; name that run with from_run")
        return self
