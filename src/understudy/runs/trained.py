"""From a run folder back to a model that predicts."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from understudy.complaints import unknown_name
from understudy.config.build import completed, method_with_add_ons, module_of
from understudy.config.resolve import resolve
from understudy.config.schema import LIVE, Config, Live
from understudy.data.federation import Federation
from understudy.data.new_records import read_new
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.client import Client, Memory
from understudy.federation.memories import memory_of
from understudy.federation.method import Method
from understudy.federation.site import SCORE
from understudy.federation.working import OF_SCORES
from understudy.models.frozen import freeze
from understudy.models.network import Network
from understudy.models.zoo import FastPath
from understudy.randomness import private_global_stream, seed_from
from understudy.runs.as_trained import as_trained
from understudy.runs.compare import read_config
from understudy.runs.folder import RunFolder
from understudy.runs.holdings import read_holdings
from understudy.runs.reported import problem_of
from understudy.runs.scaling import data_of_run
from understudy.threads import one_thread

BATCH = 1024


@dataclass(frozen=True)
class TrainedModel:
    """The network of a run with its trained weights. ``live`` holds objects that the run was given in Python."""

    folder: Path
    weights: Mapping[str, Tensor]
    live: Live = field(default_factory=Live)

    def module(self, site: str | None = None) -> nn.Module:
        """In evaluation mode, on the CPU, independent of the run; it takes scaled records (`problem.scale`)."""
        self._load(site)
        return copy.deepcopy(self.network.module).eval()

    def logits(self, records: object, site: str | None = None) -> Tensor:
        """(n, classes), of records scaled as in training."""
        x = as_trained(self._read(records), self.folder, self.problem, site)
        self._load(site)
        parts = [self.network.logits(part) for part in torch.split(x, BATCH)]
        return torch.cat(parts) if parts else torch.zeros(0, self.problem.classes)

    def probabilities(self, records: object, site: str | None = None) -> Tensor:
        """(n, classes): of exactly one class, or, where a record has several labels, of each."""
        logits = self.logits(records, site)
        return logits.sigmoid() if self.problem.multilabel else logits.softmax(1)

    def labels(self, records: object, site: str | None = None) -> Tensor:
        """(n,) class numbers, or (n, classes) zeros and ones."""
        logits = self.logits(records, site)
        return (logits > 0).to(torch.int64) if self.problem.multilabel else logits.argmax(1)

    # ---- inside

    @cached_property
    def words(self) -> dict[str, Any]:
        return read_config(self.folder)

    @cached_property
    def problem(self) -> Problem:
        return problem_of(self.folder, self.words)

    @cached_property
    def config(self) -> Config:
        """Without its data, which a model does not need. So does a method that was passed, unless it changed the
        network: then its weights do not fit."""
        words, live = {**self.words, "data": {}}, self.live
        if _name(words, "model") == LIVE and live.model is None:
            raise self._pass_again("network", "model")
        if _name(words, "method") == LIVE and live.method is None:
            words["method"] = {"rounds": words["method"]["rounds"]}
        return resolve(words, live=Live(None, live.model, live.method))

    @cached_property
    def method(self) -> Method:
        """Bound to its network."""
        config = completed(self.config, self.problem)
        method = method_with_add_ons(config, self.problem)
        # Without waiting for a compiler: the numbers are the same but for rounding.
        fast: FastPath = "channels-last" if config.model.fast == "channels-last" else "eager"

        def build() -> nn.Module:
            module = module_of(config, self.problem)
            freeze(module, config.model.frozen)
            return self._begun(method.adapt_network(module, self.problem))

        method.privacy = config.top.privacy
        method.bind(Network(build, self.problem, seed=config.top.seed, fast=fast), config.plan.rounds)
        return method

    def _begun(self, module: nn.Module) -> nn.Module:
        """What is frozen is not in a network's vector, so it must be right from the beginning."""
        there = module.state_dict()
        fitting = {name: w for name, w in self.weights.items() if name in there and there[name].shape == w.shape}
        module.load_state_dict(fitting, strict=False)
        return module

    def _read(self, records: object) -> object:
        """What a file or folder holds, as this run read its own; anything else is left as it is."""
        if not isinstance(records, str | Path):
            return records
        if _name(self.words, "data") == LIVE:
            raise UserError("This run was given its records in Python; pass new ones as an array, not as a file.")
        settings = resolve(self.words, live=self.live).data
        assert settings is not None
        held = read_holdings(self.folder)
        columns = () if held is None else held.columns
        return read_new(Path(records).expanduser(), settings.reading, self.problem.shape, columns)

    @property
    def network(self) -> Network:
        return self.method.net

    def _load(self, site: str | None) -> None:
        net = self.network
        try:
            weights = net.vector_of(self.weights)
        except (KeyError, RuntimeError):
            whole = getattr(net.module, "whole", net.module)
            raise UserError(
                f"The weights in {self.folder} are not those of {type(whole).__name__}; pass model=, and method= "
                "if it was passed, as they were for the run."
            ) from None
        if site is None and self.method.scored_at_home:
            raise UserError(
                "Part of every model of this run stayed with its client (its head, or its buffers); pass site=, whose "
                "model is meant."
            )
        net.load(weights if site is None else self._personal(site))

    def _personal(self, site: str) -> Tensor:
        """The model that this client scored at home."""
        run = RunFolder(self.folder)
        checkpoint, data = run.newest_checkpoint(), self._data()
        if site not in data.sites:
            raise unknown_name(f"client in {self.folder} of the name", site, data.sites)
        if checkpoint is None or data.remote:
            raise UserError(f"What {site} kept is not in {self.folder}, so its own model cannot be put together.")
        version = checkpoint.versions.get(site)
        kept = memory_of(self.folder, run.id, site, version) if version else None
        if version and kept is None:
            raise UserError(f"{self.folder} no longer has what {site} kept; run it again in a folder of its own.")
        memory = Memory(kept or {})
        held = data.sites[site]
        seed, round = seed_from(self.config.top.seed, OF_SCORES), checkpoint.round + 1
        client = Client(site, round, own=held.own, held_out=held.held_out, memory=memory, seed=seed)
        with one_thread(), private_global_stream(site, round, SCORE):
            return self.method.personal(client, self.method.model_brief(checkpoint.state)["model"])

    def _pass_again(self, what: str, argument: str) -> UserError:
        again = f"understudy.load({str(self.folder)!r}, {argument}=…)"
        return UserError(f"This run was given its {what} in Python; pass it again: {again}.")

    def _data(self) -> Federation:
        if self.live.data is None and _name(self.words, "data") == LIVE:
            raise self._pass_again("data", "data")
        return data_of_run(resolve(self.words, live=self.live), self.folder)


def _name(words: Mapping[str, Any], section: str) -> object:
    return words[section].get("name") if isinstance(words.get(section), dict) else None
