"""What FedCOG's clients generate: they neither keep nor send it, so it is generated again to be viewed.

Everything that the images depend on is in the run folder: the broadcast model in the checkpoint, the client's last
model in its memory, its label counts in the data that the config names. So these are the images that the client would
learn from in the round after the checkpoint.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from understudy.complaints import unknown_name
from understudy.config.build import build_data, build_method
from understudy.config.resolve import resolve
from understudy.config.schema import Chosen, Config, Live
from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.data.problem import Problem
from understudy.errors import UserError, option
from understudy.federation.client import Client, Memory
from understudy.federation.memories import memory_of
from understudy.federation.message import Message
from understudy.federation.method import Method
from understudy.federation.wrapped import WrappedMethod
from understudy.methods.fedcog import PREVIOUS, Consensus, FedCogSettings, Images
from understudy.methods.shared.averaging import Averaging
from understudy.models.network import Network
from understudy.models.zoo import FastPath
from understudy.runs.compare import label_of, read_config
from understudy.runs.folder import RunFolder
from understudy.threads import one_thread


@dataclass(frozen=True)
class Generated:
    label: str  # `fedavg + fedcog`
    client: str
    round: int  # the round in which it would learn from them
    source: str  # which models they were made from, in words
    problem: Problem
    examples: Examples  # in the network's own space, with the requested labels
    held: Tensor  # (classes,) how many of the client's records have each label
    obeyed: float  # share of labels on which the broadcast model agrees with the request
    disputed: float | None  # share of its answers that the client's last model contradicts; None if it has none


def generated(
    folder: Path, client: str | None = None, live: Live | None = None, changes: Mapping[str, Any] | None = None
) -> Generated:
    """For ``client``, by default the run's first; ``live`` holds objects that a run in Python got instead of names.
    ``changes`` to fedcog's settings show what the client would generate with those.
    """
    words = read_config(folder)
    config = resolve(words, live=live)
    settings = _fedcog(config, folder).settings
    assert isinstance(settings, FedCogSettings)
    if changes:
        settings = FedCogSettings(**{**settings.model_dump(), **changes})
    with one_thread():
        data = build_data(config)
        name = _chosen_client(client, data, folder)
        state, round, memory = _checkpoint(RunFolder(folder), name)
        # Without waiting for a compiler: the pictures look the same.
        fast: FastPath = "channels-last" if config.model.fast == "channels-last" else "eager"
        method = build_method(config, data, fast)
        net = method.net
        own = data.sites[name].own
        worker = Client(name, round, own=own, held_out=own.none(), memory=memory, seed=config.top.seed)
        _load_broadcast(method, worker, state)
        if not len(worker.examples):
            raise UserError(
                f"{name} in {folder} has no records, so it generates nothing; name another {option('client')}."
            )
        made = Consensus(settings, 1).generate(worker, net)
    previous = memory.get(PREVIOUS) if settings.wants_previous else None
    return Generated(
        label_of(words),
        name,
        round,
        _source(settings, previous is not None),
        data.problem,
        Examples(made.x.cpu(), made.y),
        worker.examples.label_counts(data.problem.classes),
        _obeyed(made, data.problem),
        None if previous is None else _disputed(made, net, net.twin(previous, "previous")),
    )


def _fedcog(config: Config, folder: Path) -> Chosen:
    for chosen in config.add_ons:
        if chosen.entry.settings is FedCogSettings:
            return chosen
    raise UserError(f"{folder} is a run without fedcog, so its clients generate nothing; name a run with fedcog.")


def _chosen_client(client: str | None, data: Federation, folder: Path) -> str:
    if client is None:
        return next(iter(data.sites))
    if client not in data.sites:
        raise unknown_name(f"client in {folder} of the name", client, data.sites)
    return client


def _checkpoint(run: RunFolder, client: str) -> tuple[Message, int, Memory]:
    """State, the number of the next round, and the client's memory in the version that counts."""
    checkpoint = run.newest_checkpoint()
    if checkpoint is None:
        raise UserError(f"{run.path} has no checkpoint yet; wait until its first round is done.")
    version = checkpoint.versions.get(client)
    kept = memory_of(run.path, run.id, client, version) if version else None
    return checkpoint.state, checkpoint.round + 1, Memory(kept or {})


def _load_broadcast(method: Method, client: Client, state: Message) -> None:
    while isinstance(method, WrappedMethod):
        method = method.inner
    assert isinstance(method, Averaging)  # fedcog joins no other
    method.net.load(method.whole(client, method.broadcast(state)))


def _source(settings: FedCogSettings, previous: bool) -> str:
    if settings.source == "noise":
        return "noise alone"
    models = "the global model and the client's last one" if previous else "the global model"
    return f"{models}, drawn by a network" if settings.generator == "network" else models


def _answers(logits: Tensor, problem: Problem) -> Tensor:
    """(n,) classes, or (n, classes) yes and no."""
    of_classes = logits[:, : problem.classes].cpu()
    return of_classes > 0 if problem.multilabel else of_classes.argmax(1)


def _obeyed(made: Images, problem: Problem) -> float:
    asked = made.y > 0 if problem.multilabel else made.y
    return float((_answers(made.logits, problem) == asked).to(torch.float64).mean())


def _disputed(made: Images, net: Network, previous: Network) -> float:
    there = _answers(previous.logits(made.x), net.problem)
    return float((_answers(made.logits, net.problem) != there).to(torch.float64).mean())
