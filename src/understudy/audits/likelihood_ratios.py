"""Likelihood ratios with shadow clients: how a candidate's score falls when it was in, and when it was not.

Clients are taken in an order drawn beforehand, each with all its shadows, for as long as time allows, but at least one.
Every finished shadow is on disk, so an interrupted audit continues.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.audits.attacks.lira import lira
from understudy.audits.scene import AttackScores, Scene
from understudy.audits.shadows import SHADOWS, shadow
from understudy.engines.spread import at_a_time, spread
from understudy.errors import UserError
from understudy.federation.transcript import Exchanged
from understudy.randomness import generator
from understudy.runs.watching import Observer

FOLDER = "audit-shadows"  # in the run's folder
ClientRatios = tuple[
    str, AttackScores, AttackScores
]  # a client, the ratios of its candidates by attack, and those of the null


def with_shadows(scene: Scene, workers: int, seconds: float, observer: Observer) -> Iterator[ClientRatios]:
    """As many clients as fit into that time, judging by those before."""
    clients = list(scene.judged.clients)
    order = torch.randperm(len(clients), generator=generator(scene.seed, "audit", "shadows")).tolist()
    began, longest = time.monotonic(), 0.0
    for number, place in enumerate(order):
        so_far = time.monotonic() - began
        if number and so_far + longest > seconds:
            return
        try:
            ratios = _ratios(scene, clients[place], workers, observer)
        except UserError as refused:  # other records of the same counts may be none that its task can work with
            observer.says(f"{clients[place]} is left out of the likelihood ratios. {refused}")
            continue
        yield clients[place], *ratios
        longest = max(longest, time.monotonic() - began - so_far)


def check_transcript(scene: Scene) -> None:
    if not scene.left.whole:
        raise UserError(
            f"{scene.folder} kept no transcript, so no shadow can be asked what its clients were asked; run it again "
            "with transcript=true, or leave out --thorough."
        )


def _ratios(scene: Scene, client: str, workers: int, observer: Observer) -> tuple[AttackScores, AttackScores]:
    candidates = scene.judged.clients[client]
    inside, shadows = _all_shadows(scene, client, workers, observer)
    observed = scene.scores(scene.left.clients[client], candidates)
    by_chance = scene.scores(scene.null(client), candidates)
    bases = [name for name in observed if name in shadows]
    return (
        {name: lira(observed[name], shadows[name], inside) for name in bases},
        {name: lira(by_chance[name], shadows[name], inside) for name in bases if name in by_chance},
    )


def _all_shadows(scene: Scene, client: str, workers: int, observer: Observer) -> tuple[Tensor, dict[str, Tensor]]:
    """(shadows, candidates): who was in which, and by attack how they scored."""
    exchanges = list(scene.transcript.of(client))
    folder = scene.folder / FOLDER / scene.digest
    folder.mkdir(parents=True, exist_ok=True)

    def one(number: int) -> tuple[Tensor, AttackScores]:
        return _one_shadow(scene, client, exchanges, number, folder / f"{client}-{number}.npz")

    inside: list[Tensor] = []
    by_attack: dict[str, list[Tensor]] = {}
    observer.says(f"{client}: training {SHADOWS} shadows{at_a_time(workers, SHADOWS)}")
    for number, (who, scores) in enumerate(spread(one, list(range(SHADOWS)), workers), start=1):
        observer.says(f"{client}: shadow {number} of {SHADOWS}")
        inside.append(who)
        for name, found in scores.items():
            by_attack.setdefault(name, []).append(found)
    whole = {name: torch.stack(found) for name, found in by_attack.items() if len(found) == SHADOWS}
    return torch.stack(inside), whole


def _one_shadow(
    scene: Scene, client: str, exchanges: list[Exchanged], number: int, file: Path
) -> tuple[Tensor, AttackScores]:
    if file.exists():
        return _stored(file)
    candidates = scene.judged.clients[client]
    made = shadow(scene.method, candidates, exchanges, client, scene.seed, number)
    scores = scene.scores(made.seen, candidates)
    draft = file.with_name(f".{file.name}")
    arrays: dict[str, Any] = {"inside": made.inside.numpy(), **{name: found.numpy() for name, found in scores.items()}}
    np.savez_compressed(draft, **arrays)
    draft.replace(file)
    return made.inside, scores


def _stored(file: Path) -> tuple[Tensor, AttackScores]:
    with np.load(file, allow_pickle=False) as arrays:
        found = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    return found.pop("inside"), found
