"""``audit_run``: attacks on what left the clients of a run, in a simulation.

Every attack scores each client's records and the non-members dealt to it; the scores of all clients are pooled. Beside
each stands its null, the same attack on foreign images in place of the shared ones (or on a model that saw no record).
A report on real records is itself a release: it belongs where the records are.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from understudy.audits.attacks import ATTACKS
from understudy.audits.likelihood_ratios import check_transcript, with_shadows
from understudy.audits.measures import Reached, reached, resolves
from understudy.audits.members import SMALL
from understudy.audits.nearest_pairs import copies_of
from understudy.audits.result import AttackRow, Audit, write_audit
from understudy.audits.scene import AttackScores, Scene, scene_of
from understudy.config.schema import Live
from understudy.engines.spread import at_a_time, spread
from understudy.errors import UserError
from understudy.randomness import numpy_generator
from understudy.runs.watching import Observer
from understudy.threads import one_thread

FEWEST_SMALL = 100  # non-members in small classes, for numbers of their own: one of them is 1 %
THOROUGH_SECONDS = 1100.0  # for shadows: with all else a thorough audit stays within 20 minutes


def audit_run(
    folder: Path,
    *,
    thorough: bool = False,
    workers: int = 1,
    only: Sequence[str] = (),
    observer: Observer | None = None,
    live: Live | None = None,
) -> Audit:
    """Of a run folder; written to ``audit.json`` there. ``only``: these attacks, by name."""
    with one_thread():
        return audit_scene(scene_of(folder, live), thorough=thorough, workers=workers, only=only, observer=observer)


def audit_scene(
    scene: Scene,
    *,
    thorough: bool = False,
    workers: int = 1,
    only: Sequence[str] = (),
    observer: Observer | None = None,
) -> Audit:
    watcher, began = observer or Observer(), time.monotonic()
    scene = replace(scene, attacks=tuple(only)) if only else scene
    if thorough:
        check_transcript(scene)
    rows = _attacked(scene, workers, watcher)
    if thorough:
        rows += _with_ratios(scene, workers, THOROUGH_SECONDS, watcher)
    if not rows:
        raise UserError(f"{scene.folder}: nothing left its clients that could be attacked, and there is no model yet.")
    found = Audit(
        scene.label,
        rows,
        copies_of(scene),
        scene.judged.members,
        scene.judged.non_members,
        len(scene.judged.reference),
        scene.left.images,
        sum(len(holding.own) for holding in scene.data.sites.values()),
        thorough,
        scene.left.whole,
        scene.epsilon,
        _notes(scene),
        scene.digest,
        scene.rounds,
        round(time.monotonic() - began, 1),
    )
    write_audit(scene.folder, found)
    return found


@dataclass
class PooledScores:
    """AttackScores of all clients by one attack."""

    scores: list[Tensor] = field(default_factory=list)
    member: list[Tensor] = field(default_factory=list)  # bool
    small: list[Tensor] = field(default_factory=list)  # bool

    def reached(self, name: str, seed: int) -> tuple[Reached, Reached | None]:
        """Pooled, and in small classes."""
        scores, member, small = (torch.cat(some) for some in (self.scores, self.member, self.small))
        pooled = reached(scores[member], scores[~member], numpy_generator(seed, "audit", name))
        if int((small & ~member).sum()) < FEWEST_SMALL or not bool((small & member).any()):
            return pooled, None
        rng = numpy_generator(seed, "audit", name, "small")
        return pooled, reached(scores[member & small], scores[~member & small], rng)


def _attacked(scene: Scene, workers: int, observer: Observer) -> list[AttackRow]:
    clients = list(scene.judged.clients)

    def scored(client: str) -> tuple[str, AttackScores, AttackScores]:
        candidates = scene.judged.clients[client]
        found = scene.scores(scene.left.clients[client], candidates)
        return client, found, scene.scores(scene.null(client), candidates)

    results = []
    observer.says(f"Attacking {len(clients)} clients{at_a_time(workers, len(clients))}")
    for done, one in enumerate(spread(scored, clients, workers), start=1):
        observer.says(f"Attacked {done} of {len(clients)} clients")
        results.append(one)
    return _rows(scene, results, {name: (name, entry.about) for name, entry in ATTACKS.items()})


def _with_ratios(scene: Scene, workers: int, seconds: float, observer: Observer) -> list[AttackRow]:
    results = list(with_shadows(scene, workers, seconds, observer))
    called = {
        name: (f"{name}, with shadows", f"likelihood ratio with shadow clients, by {entry.about}")
        for name, entry in ATTACKS.items()
    }
    return _rows(scene, results, called)


def _rows(
    scene: Scene, results: Sequence[tuple[str, AttackScores, AttackScores]], called: dict[str, tuple[str, str]]
) -> list[AttackRow]:
    rows = []
    for attack, (name, about) in called.items():
        real = _pooled(scene, ((client, scores[attack]) for client, scores, _ in results if attack in scores))
        null = _pooled(scene, ((client, scores[attack]) for client, _, scores in results if attack in scores))
        if not real.scores or not null.scores:
            continue
        (pooled, small), (of_null, small_null) = real.reached(name, scene.seed), null.reached(name, scene.seed)
        rows.append(AttackRow(name, about, pooled, of_null, small, small_null, len(real.scores)))
    return rows


def _pooled(scene: Scene, scored: Iterable[tuple[str, Tensor]]) -> PooledScores:
    pool = PooledScores()
    for client, scores in scored:
        candidates = scene.judged.clients[client]
        members = len(candidates.members)
        pool.scores.append(scores)
        pool.member.append(torch.arange(len(scores)) < members)
        pool.small.append(candidates.small(scene.data.problem.classes))
    return pool


def _notes(scene: Scene) -> list[str]:
    notes = []
    if why := resolves(scene.judged.non_members, scene.judged.members):
        notes.append(why)
    if not scene.left.whole:
        notes.append(
            "Only the newest images of each client and the final model were kept; with transcript=true an audit sees "
            "every round, the models that were broadcast and those that were sent."
        )
    if not any(candidates.small(scene.data.problem.classes).any() for candidates in scene.judged.clients.values()):
        notes.append(f"No client holds a class of at most {SMALL} records.")
    return notes
