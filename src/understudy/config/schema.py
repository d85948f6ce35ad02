"""A resolved config: what a run does, with nothing left to guess."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, StrictFloat, StrictInt, field_validator
from torch import nn

from understudy.base_settings import Settings
from understudy.data.federated_scale import FederatedScale
from understudy.data.federation import Federation
from understudy.data.problem import Problem
from understudy.data.settings import DataSettings
from understudy.federation.method import Method
from understudy.federation.registry import Entry
from understudy.privacy.policy import Policy, read_policy
from understudy.privacy.promise import PrivacySettings

LIVE = "live"  # an object passed in Python: the config can only note that there was one


Tracked = Literal["tensorboard", "mlflow", "wandb"]


class MethodPlan(Settings):
    """The part of ``method`` that every method has."""

    name: str = "fedavg"  # a name from `understudy methods`, or file.py:Class
    rounds: int = Field(default=10, ge=0)  # rounds of training, after the opening
    cohort: StrictInt | StrictFloat = 1.0  # clients per round: a whole number, or a share up to 1.0
    min_replies: int = Field(default=1, ge=1)  # with fewer replies, a round is undone


class ModelPlan(Settings):
    name: str = "small-convnet"  # a name from `understudy models`, or file.py:build
    # memory layout or compilation; auto: the fastest measured for this network
    fast: Literal["auto", "eager", "channels-last", "batch-last", "compiled"] = "auto"
    start: str | None = None  # weights to start from: a .safetensors file, or the folder of an earlier run
    start_head: bool = True  # false: the head starts as drawn, if that of the file is for other classes
    start_digest: str | None = None  # SHA-256 of that file; null: whatever it is when the run begins
    frozen: tuple[str, ...] = ()  # parameters that stay as they are and never travel, by name: body, or *.bias
    frozen_digest: str | None = None  # of their values, so that all parties have the same; written into config.yaml

    @field_validator("frozen", mode="before")
    @classmethod
    def _one_or_several(cls, frozen: object) -> object:
        return [frozen] if isinstance(frozen, str) else frozen

    def words(self) -> dict[str, Any]:
        """Without what this run does not use, which older folders do not have."""
        return {key: value for key, value in self.model_dump(mode="json").items() if self._used(key)}

    def _used(self, key: str) -> bool:
        if key in ("start_head", "start_digest"):
            return self.start is not None
        return key in ("name", "fast") or bool(getattr(self, key))


class EngineSettings(Settings):
    # clients run in this process, in several, on a Ray cluster, or as sites of their own by Flower
    name: Literal["inline", "workers", "ray", "flower"] = "workers"
    # clients that train as one program, with the same results up to rounding; auto: as many as pay for this network
    together: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = 1
    # processes, one thread each; ray takes as many as the cluster has room for
    workers: int = Field(default_factory=lambda: min(8, os.cpu_count() or 1), ge=1, le=1024)
    # megabytes of the clients' memories that a simulation keeps in RAM; what is beyond waits in the run's folder
    client_memory: int = Field(default=1024, ge=0)
    address: str | None = None  # ray: host:port of the cluster's head, or auto; null: a cluster of this machine alone
    shared: bool = False  # ray: whether all nodes see the run's folder; else clients' files travel with requests
    gpus: float = Field(default=0.0, ge=0)  # ray: share of a GPU for each process
    # flower: how long a site may take to answer, in seconds, including time offline; ray: how long to wait for room
    timeout: float = Field(default=600.0, gt=0)
    # flower: most held-out records a site may claim; more is a failure
    most_held_out: int = Field(default=10_000, ge=0)

    @property
    def group(self) -> int:
        """How many clients train as one program; 1 until `auto` has been decided."""
        return 1 if self.together == "auto" else self.together

    def words(self) -> dict[str, Any]:
        """One by one is not written down: older folders do not name it."""
        return {key: value for key, value in self.model_dump(mode="json").items() if (key, value) != ("together", 1)}


class Top(Settings):
    """The keys beside the sections."""

    seed: int = Field(default=0, ge=0)  # of every draw; the same seed gives the same bits
    device: str = "auto"  # where networks are: auto, cpu, mps, cuda or cuda:0
    privacy: PrivacySettings | None = None  # what is promised to each record; null: nothing
    policy: str | None = None  # a YAML file with the sites' policy; in a real federation each site reads its own
    measure: int = Field(default=0, ge=0)  # every how many rounds metrics get ζ², σ², δ², L and the bounds; 0: never
    transcript: bool = False  # keep every brief and reply, so that `understudy audit` sees all that the server saw
    track: tuple[Tracked, ...] = ()  # experiment trackers that are told of each round (docs/trackers.md)

    @field_validator("track", mode="before")
    @classmethod
    def _one_or_several(cls, track: object) -> object:
        """``track=tensorboard,mlflow`` on a command line."""
        return [name.strip() for name in track.split(",")] if isinstance(track, str) else track

    @field_validator("track")
    @classmethod
    def _each_once(cls, track: tuple[Tracked, ...]) -> tuple[Tracked, ...]:
        return tuple(dict.fromkeys(track))

    @field_validator("device")
    @classmethod
    def _known_device(cls, device: str) -> str:
        if not re.fullmatch(rf"auto|cpu|({'|'.join(_accelerators())})(:\d+)?", device):
            raise ValueError("write auto, cpu, mps, cuda or cuda:0")
        return device


class Branched(Settings):
    """For a run that continues from another run's rounds: which run, from where, and what it changed."""

    run: str  # folder of the other run
    config: str  # digest of the other run's config
    round: int  # the last round the two runs share
    changes: dict[str, Any]  # settings this run changed


def _accelerators() -> list[str]:
    """The devices a config may name: two everywhere, since configs travel, and what torch has on this machine."""
    here = torch.accelerator.current_accelerator()
    return ["cuda", "mps", *([] if here is None else [here.type])]


@dataclass(frozen=True)
class Chosen:
    """Something by name, with its own settings."""

    name: str
    settings: Settings
    entry: Entry

    def words(self) -> dict[str, Any]:
        return {"name": self.name, **self.settings.model_dump(mode="json")}


@dataclass(frozen=True)
class Live:
    """Objects passed in Python instead of names."""

    data: Federation | None = None
    model: nn.Module | None = None
    method: Method | type[Method] | None = None


@dataclass(frozen=True)
class Config:
    top: Top
    data: DataSettings | None  # None: the federation was passed
    model: ModelPlan
    model_settings: Mapping[str, Any]
    plan: MethodPlan
    method: Chosen
    add_ons: tuple[Chosen, ...]
    engine: EngineSettings
    live: Live = Live()
    network_open: bool = False  # it names no network, so its records choose one
    branched: Branched | None = None

    @property
    def policy(self) -> Policy | None:
        return None if self.top.policy is None else read_policy(Path(self.top.policy))

    def asked(self) -> dict[str, Any]:
        """Every setting in words. Resolved again, with the same live objects, they give this config."""
        model = {**self.model.words(), **self.model_settings}
        method = {**self.plan.model_dump(mode="json"), **self.method.settings.model_dump(mode="json")}
        return {
            **self.top.model_dump(mode="json"),
            **({} if self.data is None else {"data": self.data.words()}),
            **({} if self.network_open or self.live.model is not None else {"model": model}),
            **({} if self.live.method is not None else {"method": method}),
            "with": [chosen.words() for chosen in self.add_ons],
            "engine": self.engine.words(),
        }

    def words(
        self,
        version: str,
        problem: Problem,
        fast: str,
        device: str,
        data_digest: str,
        found: Mapping[str, Any] = MappingProxyType({}),  # in the records: class names, vocabularies
        scale: FederatedScale | None = None,
        frozen_digest: str | None = None,
    ) -> dict[str, Any]:
        """Every value that matters, spelled out; read back, they give the same run."""
        model = self.model.model_copy(update={"frozen_digest": frozen_digest})
        data: dict[str, Any] = {"name": LIVE} if self.data is None else {**self.data.words(), **found}
        return {
            "version": version,
            "seed": self.top.seed,
            "data": data,
            "problem": problem.words(),
            "model": {**model.words(), "fast": fast, **self.model_settings},
            "method": {**self.plan.model_dump(mode="json"), **self.method.settings.model_dump(mode="json")},
            "with": [chosen.words() for chosen in self.add_ons],
            "privacy": None if self.top.privacy is None else self.top.privacy.model_dump(mode="json"),
            "policy": self.top.policy,
            "measure": self.top.measure,
            "transcript": self.top.transcript,
            "track": list(self.top.track),
            "engine": self.engine.words(),
            "device": device,
            "data_digest": data_digest,
            **({} if scale is None else {"scaling": {"ranges": list(map(list, scale.ranges)), "noise": scale.noise}}),
            **({} if self.branched is None else {"branched": self.branched.model_dump(mode="json")}),
        }
