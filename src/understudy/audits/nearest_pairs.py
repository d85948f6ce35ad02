"""The shared images nearest to a record, each beside that record; and how many of all are near-copies."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.audits.near_copies import NearCopies, near_copies
from understudy.audits.result import Copies
from understudy.audits.scene import Scene
from understudy.data.examples import Examples

MOST = 10
CLOSER = 5  # times as many images of each client are looked at, since several may be near one record


@dataclass(frozen=True)
class NearPair:
    client: str
    label: int | None  # of the image; None: records have several labels
    image: Tensor  # uint8 if it is an image; else as the network sees it, like the record
    record: Tensor
    quantile: float  # share of held-out records that come as near to a record
    copy: bool  # a near-copy


def copies_of(scene: Scene) -> Copies | None:
    """None: no image left."""
    found = [near for _, _, near in _by_client(scene)]
    return Copies(sum(int(one.near.sum()) for one in found), sum(len(one.near) for one in found)) if found else None


def nearest_pairs(scene: Scene, most: int = MOST, client: str | None = None) -> list[NearPair]:
    """The nearest first, each record once; of one client, or of all."""
    everybody = {name: (shared, near) for name, shared, near in _by_client(scene) if client in (None, name)}
    places = [
        (float(near.quantile[at]), float(near.distance[at]), name, int(near.record[at]), at)
        for name, (_, near) in everybody.items()
        for at in near.nearest_first(CLOSER * most)
    ]
    chosen: dict[tuple[str, int], NearPair] = {}
    for quantile, _, name, record, at in sorted(places):
        if (name, record) not in chosen and len(chosen) < most:
            shared, near = everybody[name]
            chosen[name, record] = _pair(scene, name, shared, record, at, quantile, bool(near.near[at]))
    return list(chosen.values())


def _pair(scene: Scene, name: str, shared: Examples, record: int, at: int, quantile: float, copy: bool) -> NearPair:
    problem, own = scene.data.problem, scene.data.sites[name].own
    label = None if shared.multilabel else int(shared.y[at])
    both = (shared.x[at : at + 1], own.x[record][None])
    image, nearest = (problem.unscale(x)[0] for x in both) if problem.kind == "image" else (x[0] for x in both)
    return NearPair(name, label, image, nearest, quantile, copy)


def _by_client(scene: Scene) -> Iterator[tuple[str, Examples, NearCopies]]:
    problem = scene.data.problem
    for client in scene.judged.clients:
        sent = [one.examples for one in scene.left.clients[client].sightings if one.examples is not None]
        if sent:
            shared = Examples(torch.cat([problem.scale(one.x) for one in sent]), torch.cat([one.y for one in sent]))
            yield client, shared, near_copies(shared, scene.data.sites[client].own, scene.judged.reference, problem)
