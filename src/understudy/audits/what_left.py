"""What the server of a run saw of each client, from the run's folder.

With a transcript that is everything: every round's images and local models, and the model that was broadcast. Without
one it is what any run keeps: each client's newest images, and the final model.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.audits.sighting import Seen, Sighting, SumsSent
from understudy.data.examples import Examples
from understudy.federation.message import Kind
from understudy.federation.method import Method
from understudy.federation.release import labelled
from understudy.federation.transcript import Exchanged
from understudy.runs.compare import last_counted
from understudy.runs.folder import RunFolder


@dataclass(frozen=True)
class WhatLeft:
    clients: Mapping[str, Seen]
    images: int  # that left, of all clients; without a transcript estimated from the newest sets
    whole: bool  # from a transcript

    @property
    def weights(self) -> bool:
        """Whether a client's own weights left, as far as is known."""
        return any(one.model is not None for seen in self.clients.values() for one in seen.sightings)


def what_left(run: RunFolder, method: Method, clients: Iterable[str]) -> WhatLeft:
    exchanges = {client: list(run.transcript.of(client)) for client in run.transcript.clients()}
    if exchanges:
        found = {client: Seen(client, sightings(method, exchanges.get(client, ()))) for client in clients}
        if not any(seen.sightings for seen in found.values()):  # only sums, or statistics
            found = {client: Seen(client, (_final(run, method),)) for client in clients}
        return WhatLeft(found, sum(images_of(one) for seen in found.values() for one in seen.sightings), whole=True)
    return _newest(run, method, clients)


def sightings(method: Method, exchanges: Iterable[Exchanged]) -> tuple[Sighting, ...]:
    """Of replies that hold images or a local model."""
    jobs = method.jobs()
    found = []
    for one in exchanges:
        if one.task not in jobs:  # the opening that agreed on a scale; records are on it already
            continue
        sent = labelled(one.reply, jobs[one.task].kinds, method.net.problem)
        examples = sent if sent is not None and len(sent) else None
        model = method.local_model(one.brief, one.reply)
        sums = _sums(method, one, jobs[one.task].kinds)
        if examples is not None or model is not None or sums is not None:
            found.append(Sighting(one.round, _broadcast(method, one), examples, model, sums))
    return tuple(found)


def _broadcast(method: Method, one: Exchanged) -> Tensor | None:
    model = one.brief.get("model")
    return model if model is not None and tuple(model.shape) == (method.net.size,) else None


def _sums(method: Method, one: Exchanged, kinds: Mapping[str, Kind]) -> SumsSent | None:
    how = method.summed(one.task, one.brief)
    if how is None:
        return None
    total = torch.cat([one.reply[part].flatten() for part in one.reply if kinds[part] == "statistics"])
    key = hashlib.sha256(one.task.encode() + one.brief.to_bytes()).hexdigest()
    return SumsSent(total.to(torch.float64), how.rows, how.noise, key)


def _newest(run: RunFolder, method: Method, clients: Iterable[str]) -> WhatLeft:
    sets, last = run.synthetic(), last_counted(run.metrics())
    final = _final(run, method)
    found = {}
    for client in clients:
        images = (Sighting(last, None, sets[client]),) if client in sets else ()
        found[client] = Seen(client, (*images, final))
    return WhatLeft(found, _estimated(run, sets), whole=False)


def _final(run: RunFolder, method: Method) -> Sighting:
    """The run's final model, which everybody gets."""
    return Sighting(last_counted(run.metrics()), None, None, method.net.vector_of(run.weights()))


def images_of(one: Sighting) -> int:
    return 0 if one.examples is None else len(one.examples)


def _estimated(run: RunFolder, sets: Mapping[str, Examples]) -> int:
    """As many images in every release as in the newest."""
    times: dict[str, int] = {}
    for client, lines in run.ledger()["clients"].items():
        times[client] = max((line["releases"] for line in lines if line["kind"] == "examples"), default=0)
    return sum(len(examples) * times.get(client, 1) for client, examples in sets.items())
