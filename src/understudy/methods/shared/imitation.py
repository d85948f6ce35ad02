"""What a client does with a generator: it trains it on some of its records and makes labelled images.

Images are sampled from their own stream, so sampling again from what was learnt, now or in a later run, gives the same
ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from pydantic import Field, field_validator
from torch import Tensor

from understudy.base_settings import Settings
from understudy.complaints import checked
from understudy.data.examples import Examples
from understudy.data.kinds import stand_ins
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.privacy.sgd import PrivateSteps
from understudy.synthesis import generator as generators
from understudy.synthesis.generator import Generator, Learnt, Stage
from understudy.synthesis.labels import labels_from_counts, largest_remainder
from understudy.synthesis.soundness import complaint

DEFAULT = "vae"
USUAL: Mapping[str, Any] = MappingProxyType({"name": DEFAULT})
Learn = Callable[[Client, Examples], Learnt]


class Unsound(UserError):
    """A generator failed."""

    code = "unsound"


class ImitationSettings(Settings):
    """How a client makes images that stand in for its records."""

    where: ClassVar[str]  # where the generator's settings are in a config
    stand_in: ClassVar[Mapping[str, Any]] = USUAL  # the generator, and which of its defaults differ here

    # a name or file.py:Class, and its settings
    generator: dict[str, Any] = Field(default=DEFAULT, validate_default=True)
    records: float = Field(default=0.75, gt=0, le=1)  # ρ, share of its records that a client's generator learns from
    images: int | None = Field(default=None, ge=0)  # ñ, images per client; null: as many as it has records
    sound_only: bool = True  # send no images if the generator diverged or collapsed

    @field_validator("generator", mode="before")
    @classmethod
    def _spelled_out(cls, given: object) -> object:
        return generator_in_full(given, cls.where, cls.stand_in)

    def built(self) -> Generator:
        return built_generator(self.generator)


def generator_in_full(given: object, where: str, usual: Mapping[str, Any] = USUAL) -> dict[str, Any]:
    """A generator as named in a config, with its own defaults filled in, so that the resolved config shows them.

    ``usual`` is the generator meant where no name is given; what it says counts for any generator of that name.
    """
    wanted = {"name": given} if isinstance(given, str) else given
    if not isinstance(wanted, dict) or not isinstance(wanted.get("name", ""), str):
        raise ValueError(f"name a generator, such as {usual['name']}")
    wanted = {**usual, **wanted} if wanted.get("name", usual["name"]) == usual["name"] else wanted
    rest = {key: value for key, value in wanted.items() if key != "name"}
    entry = generators.entry(wanted["name"])
    settings = checked(entry.settings, rest, where)
    return {"name": entry.name, **settings.model_dump(mode="json")}


def built_generator(words: Mapping[str, Any]) -> Generator:
    """From its name and all its settings."""
    rest = {key: value for key, value in words.items() if key != "name"}
    entry = generators.entry(words["name"])
    return entry.build(entry.settings(**rest))


@dataclass(frozen=True)
class SeenAndUnseen:
    """A client's own records: those that its generator learns from, and the others."""

    seen: Examples
    unseen: Examples


@dataclass(frozen=True)
class Imitation:
    settings: ImitationSettings
    generator: Generator
    problem: Problem

    def shares(self, client: Client) -> SeenAndUnseen:
        """Drawn anew by each call."""
        own, share = client.own, self.settings.records
        order = torch.randperm(len(own), generator=client.rng("fedssyn records"))
        return SeenAndUnseen(own.take(order[: round(share * len(own))]), own.take(order[round(share * len(own)) :]))

    def of(self, client: Client, learn: Learn | None = None, shares: SeenAndUnseen | None = None) -> Examples:
        """Images with the class frequencies of the records the generator saw; none if those are too few."""
        require_fitting(client, self.problem)
        own, some = client.own, (shares or self.shares(client)).seen
        if len(some) < self.generator.smallest:
            return own.none()
        state = (learn or self.learn)(client, some)
        counts = largest_remainder(self.wanted(len(own)), some.label_counts(self.problem.classes))
        return self.painted(client, state, counts)

    def learn(
        self,
        client: Client,
        some: Examples,
        private: PrivateSteps | None = None,
        keep: Callable[[Stage], None] = lambda stage: None,
    ) -> Learnt:
        """``keep`` is called with every stage of training."""
        state: Learnt = {}
        for stage in self.generator.course(some, self.problem, client.rng("fedssyn generator"), private):
            state = stage.state
            keep(stage)
        return state

    def painted(self, client: Client, state: Learnt, counts: Tensor) -> Examples:
        """``counts`` images of each class; a generator that failed is caught here."""
        labels = labels_from_counts(counts)
        made = Examples(self.generator.sample(state, labels, self.problem, client.rng("fedssyn images")), labels)
        why = complaint(made.x, made.y) if self.settings.sound_only else None
        if why is not None:
            raise Unsound(f"{why.rstrip('.')}, so its {stand_ins(self.problem.kind)} are not sent; {self._to_try()}.")
        return made

    def _to_try(self) -> str:
        """Never from the images: from what the config says of the generator."""
        known, more = self.settings.generator, []
        if known.get("name") == "vae" and known.get("gamma", 0) > 1:
            more.append("gamma: 1 and capacity: 0, which few or small records need")
        if known.get("epochs") == 1 and known.get("least_steps"):
            more.append(f"more least_steps than {known['least_steps']}")
        elif known.get("epochs") is not None:
            more.append(f"more epochs than {known['epochs']}, or smaller batches")
        return f"try in generator {', or '.join(more) or 'another name'}; sound_only: false sends them anyway"

    def wanted(self, records: int) -> int:
        """ñ"""
        return records if self.settings.images is None else self.settings.images


def require_fitting(client: Client, problem: Problem) -> None:
    if client.own.x.dtype != problem.dtype:
        wanted = "float32 numbers" if problem.floats else "uint8 pixels"
        raise UserError(f"generator: the records of {client.id} are not {wanted}, which a generator needs here.")


def check_single_labels(problem: Problem) -> None:
    if problem.multilabel:
        raise UserError("generator: it makes images of one class each, so every record must have exactly one label.")
