"""From a data set and the settings of a config to a split."""

from dataclasses import replace
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from understudy.data.dataset import Dataset
from understudy.data.examples import Examples
from understudy.data.persons import people_in
from understudy.data.splits.dirichlet import Dirichlet
from understudy.data.splits.kind import SplitKind
from understudy.data.splits.simple import ClassPairs, Factor, Iid, LabelGroups, Users
from understudy.data.splits.split import Split
from understudy.data.strata import Indices, draw_exactly
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
    if clients < 1:
        raise UserError(f"data.clients: {clients} clients cannot hold anything; write 1 or more.")
    for name, share in (("held_out", held_out), ("validation", validation)):
        if not 0 <= share < 1:
            raise UserError(f"data.{name}: {share} is not a share; write a number from 0 up to, but not including, 1.")
    people = None if dataset.train.person is None else people_in(dataset.train, np.arange(len(dataset.train)))
    whole = dataset if people is None else dataset.only(people.first)  # one record stands for each person
    kept, left = np.empty(0, np.int64), np.arange(len(whole.train))
    if validation:
        kept, left = settings.keep_back(whole, validation, numpy_generator(seed, "validation"))
    dealt = settings.deal(whole, left, clients, numpy_generator(seed, "split"))
    if people is not None:
        kept, dealt = people.records(kept), replace(dealt, parts=[people.records(part) for part in dealt.parts])
    own: dict[str, Indices] = {}
    scored: dict[str, Indices] = {}
    for number, part in enumerate(dealt.parts):
        name = dealt.names[number] if dealt.names else f"client-{number}"
        own[name], scored[name] = hold_out(np.sort(part), dataset.train, held_out, seed, name)
    return Split(_tensors(own), _tensors(scored), torch.from_numpy(kept), dealt.notes)


def _tensors(parts: dict[str, Indices]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(indices) for name, indices in parts.items()}


def hold_out(records: Indices, examples: Examples, share: float, seed: int, client: str) -> tuple[Indices, Indices]:
    """(own, held out): a share of each class; at least one record if there are two, and never all of them. Where it is
    known whose they are, this holds for persons."""
    if examples.person is not None and share and len(records):
        people = people_in(examples, records)
        apart = hold_out(people.first, replace(examples, person=None), share, seed, client)
        own, kept = (people.records_of(part) for part in apart)
        return own, kept
    total = len(records)
    if not share or total < 2:
        return records, records[:0]
    count = min(max(int(total * share + 0.5), 1), total - 1)
    rng = numpy_generator(seed, "held-out", client)
    labels = np.zeros(total, np.int64) if examples.multilabel else examples.y.numpy()[records]
    kept, left = draw_exactly(labels, count, rng)
    return records[left], records[kept]
