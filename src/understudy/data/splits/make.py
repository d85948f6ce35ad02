"""From a data set and the settings of a config to a split."""

from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from understudy.data.dataset import Dataset
from understudy.data.holding import hold_out
from understudy.data.population import PopulationSites
from understudy.data.splits.dirichlet import Dirichlet
from understudy.data.splits.kind import SplitKind
from understudy.data.splits.simple import ClassPairs, Factor, Iid, LabelGroups, Users
from understudy.data.splits.split import Split
from understudy.data.strata import Indices
from understudy.errors import UserError
from understudy.randomness import numpy_generator

SplitSettings = Annotated[Iid | Dirichlet | LabelGroups | ClassPairs | Factor | Users, Field(discriminator="kind")]


def make_split(
    dataset: Dataset,
    settings: SplitKind,
    *,
    clients: int,
    seed: int,
    held_out: float = 0.0,
    validation: float = 0.0,
) -> Split:
    """Deals out the training records; the same settings and seed always give the same split."""
    check_shares(clients, held_out, validation)
    kept, left = keep_back(dataset, settings, validation, seed)
    dealt = settings.deal(dataset, left, clients, numpy_generator(seed, "split"))
    own: dict[str, Indices] = {}
    scored: dict[str, Indices] = {}
    for number, part in enumerate(dealt.parts):
        name = dealt.names[number] if dealt.names else f"client-{number}"
        own[name], scored[name] = hold_out(np.sort(part), dataset.train, held_out, seed, name)
    return Split(_tensors(own), _tensors(scored), torch.from_numpy(kept), dealt.notes)


def make_population(
    dataset: Dataset, settings: SplitKind, *, clients: int, seed: int, held_out: float = 0.0, validation: float = 0.0
) -> tuple[PopulationSites, Indices]:
    """The same split for very many clients, as an index; and the records kept for validation."""
    check_shares(clients, held_out, validation)
    kept, left = keep_back(dataset, settings, validation, seed)
    index = settings.deal_index(dataset, left, clients, numpy_generator(seed, "split"))
    return PopulationSites(dataset.train, index, held_out, seed, settings.model_dump(mode="json")), kept


def keep_back(dataset: Dataset, settings: SplitKind, share: float, seed: int) -> tuple[Indices, Indices]:
    """Records for validation, and the others."""
    if not share:
        return np.empty(0, np.int64), np.arange(len(dataset.train))
    return settings.keep_back(dataset, share, numpy_generator(seed, "validation"))


def check_shares(clients: int, held_out: float, validation: float) -> None:
    if clients < 1:
        raise UserError(f"data.clients: {clients} clients cannot hold anything; write 1 or more.")
    for name, share in (("held_out", held_out), ("validation", validation)):
        if not 0 <= share < 1:
            raise UserError(f"data.{name}: {share} is not a share; write a number from 0 up to, but not including, 1.")


def _tensors(parts: dict[str, Indices]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(indices) for name, indices in parts.items()}
