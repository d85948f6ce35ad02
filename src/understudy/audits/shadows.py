"""Shadow clients: the method's own tasks on other records, asked with the very briefs that the client got.

A shadow of a client holds as many records of each class as the client does, drawn from the client's records and from
others in equal chance. Whether a candidate was in is known for each shadow, so the candidate's scores with and without
it can be told apart. Streams, memory and charges are the shadow's own, in a folder that is thrown away.
"""

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from understudy.audits.members import Candidates
from understudy.audits.sighting import Seen
from understudy.audits.what_left import sightings
from understudy.data.examples import Examples
from understudy.data.federation import Holding
from understudy.errors import UserError
from understudy.federation.answering import answer
from understudy.federation.exchange import NOTHING, Request
from understudy.federation.message import Message
from understudy.federation.method import Method
from understudy.federation.site import Site
from understudy.federation.transcript import Exchanged
from understudy.randomness import generator, seed_from

SHADOWS = 16
RUN = "shadow"


@dataclass(frozen=True)
class Shadow:
    inside: Tensor  # (candidates,) bool: which candidates it held
    seen: Seen  # what the server would have seen of it


def shadow(
    method: Method, candidates: Candidates, exchanges: Iterable[Exchanged], client: str, seed: int, number: int
) -> Shadow:
    """The ``number``-th shadow of a client."""
    inside = drawn_inside(candidates, method.net.problem.classes, generator(seed, "shadow", client, number))
    records = candidates.all.take(torch.nonzero(inside).flatten())
    with tempfile.TemporaryDirectory() as folder:
        # Another seed than the run's: which records a task draws first must not be the same in every shadow.
        site = Site(
            client, Holding(records, records.none()), Path(folder), seed_from(seed, "shadow", number), "", None,
            method.privacy,
        )  # fmt: skip
        replies = list(_replayed(site, method, exchanges))
    return Shadow(inside, Seen(client, sightings(method, replies)))


def drawn_inside(candidates: Candidates, classes: int, rng: torch.Generator) -> Tensor:
    """As many candidates of each class as the client holds, whoever they are."""
    everybody, members = candidates.all, candidates.members
    inside = torch.zeros(len(everybody), dtype=torch.bool)
    for places, held in _groups(everybody, members, classes):
        inside[places[torch.randperm(len(places), generator=rng)[:held]]] = True
    return inside


def _groups(everybody: Examples, members: Examples, classes: int) -> Iterator[tuple[Tensor, int]]:
    if everybody.multilabel:
        yield torch.arange(len(everybody)), len(members)
        return
    for c, held in enumerate(members.label_counts(classes).tolist()):
        yield torch.nonzero(everybody.y == c).flatten(), held


def _replayed(site: Site, method: Method, exchanges: Iterable[Exchanged]) -> Iterator[Exchanged]:
    version, jobs = NOTHING, method.jobs()
    for one in exchanges:
        if one.task not in jobs:  # see `sightings`
            continue
        request = Request(
            RUN, site.config, site.name, one.task, one.round, one.step, version, version, False, one.brief.to_bytes()
        )
        answered = answer(site, method, request)
        if answered.outcome != "done":
            raise UserError(f"A shadow of {site.name} could not repeat {one.task}: {answered.why}")
        version = answered.version
        yield Exchanged(
            site.name, one.round, one.step, one.task, one.brief, Message.from_bytes(answered.read()),
        )  # fmt: skip
