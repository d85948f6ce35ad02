"""What an audit of a run works with: what left, who is judged, and the attacker's view."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from understudy.audits.attacks import ATTACKS
from understudy.audits.members import Candidates, Judged, judged
from understudy.audits.sighting import Seen, Sighting, SumsSent, View
from understudy.audits.what_left import WhatLeft, what_left
from understudy.config.build import build_method
from understudy.config.resolve import resolve
from understudy.config.schema import Live
from understudy.data.assemble import unused_records
from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.federation.method import Method
from understudy.federation.transcript import Transcript
from understudy.randomness import generator
from understudy.runs.compare import label_of, last_counted, read_config
from understudy.runs.folder import RunFolder
from understudy.runs.scaling import data_of_run, scaling_of

ROWS = 500  # records whose rows are in memory at a time
AttackScores = dict[str, Tensor]  # by attack: (candidates of a client,), members first


@dataclass(frozen=True)
class Scene:
    folder: Path  # of the run or the site; the audit is written there
    label: str
    seed: int
    data: Federation
    method: Method
    judged: Judged
    left: WhatLeft
    transcript: Transcript
    identity: str  # of the run
    rounds: int
    epsilon: float | None  # of everything that left; None: not all of it is covered
    attacks: tuple[str, ...] = tuple(ATTACKS)

    @cached_property
    def view(self) -> View:
        return View(self.method.net, self.judged.reference)

    @cached_property
    def digest(self) -> str:
        """Of what is audited: the run, and how far it has come."""
        told = f"{self.identity} {self.rounds} {self.left.whole} {self.seed}"
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def scores(self, seen: Seen, candidates: Candidates) -> AttackScores:
        """By every attack that has something to go by."""
        found = {name: ATTACKS[name].attack(seen, candidates.all, self.view) for name in self.attacks}
        return {name: scores for name, scores in found.items() if scores is not None}

    def null(self, client: str) -> Seen:
        """What the server would have seen if the client had sent nothing of its own: foreign images with the same
        labels, and models that saw no record."""
        rng = generator(self.seed, "audit", "null", client)
        untrained = self.method.net.initial()

        def foreign(one: Sighting) -> Sighting:
            examples = None if one.examples is None else _drawn_like(one.examples, self.judged.foreign, rng)
            sums = None if one.sums is None else self._foreign_sums(one.sums, client, rng)
            return replace(one, examples=examples, model=None if one.model is None else untrained, sums=sums)

        return Seen(client, tuple(map(foreign, self.left.clients[client].sightings)))

    def _foreign_sums(self, sums: SumsSent, client: str, rng: torch.Generator) -> SumsSent:
        """Over foreign records in place of the client's."""
        foreign = _drawn_like(self.data.sites[client].own, self.judged.foreign, rng)
        total = sum((sums.rows(foreign.take(part)).double().sum(0) for part in _parts(len(foreign))), sums.total * 0)
        return replace(sums, total=total + sums.noise * torch.randn(len(total), generator=rng, dtype=torch.float64))


def _parts(records: int) -> Sequence[Tensor]:
    return torch.split(torch.arange(records), ROWS)


def scene_of(folder: Path, live: Live | None = None) -> Scene:
    """Of a run folder; ``live`` holds objects that a run in Python got instead of names."""
    words = read_config(folder)
    config, run = resolve(words, live=live), RunFolder(folder)
    data = data_of_run(config, folder)
    if data.remote:
        raise UserError(
            f"{folder} is a server's run: the records are at the sites, so only a site can audit what it sent; run "
            "`understudy audit FOLDER` there."
        )
    unused = None if config.data is None else unused_records(config.data, config.top.seed)
    if unused is not None and config.data is not None and config.data.scale == "federated":
        agreed = scaling_of(folder)
        unused = unused if agreed is None else agreed.applied(unused)
    candidates = judged(data, config.top.seed, unused)
    method = build_method(config, data, "eager")
    left = what_left(run, method, candidates.clients)
    return Scene(
        folder,
        label_of(words),
        config.top.seed,
        data,
        method,
        candidates,
        left,
        run.transcript,
        run.id,
        last_counted(run.metrics()),
        run.epsilon(),
    )


def _drawn_like(sent: Examples, foreign: Examples, rng: torch.Generator) -> Examples:
    """Foreign records with the labels of ``sent``; any, for a label that none of them has."""
    if sent.multilabel:
        return Examples(foreign.x[torch.randint(len(foreign), (len(sent),), generator=rng)], sent.y)
    places = torch.empty(len(sent), dtype=torch.int64)
    for c in sent.y.unique().tolist():  # type: ignore[no-untyped-call]
        of_class = torch.nonzero(foreign.y == c).flatten()
        pool = of_class if len(of_class) else torch.arange(len(foreign))
        wanted = torch.nonzero(sent.y == c).flatten()
        places[wanted] = pool[torch.randint(len(pool), (len(wanted),), generator=rng)]
    return Examples(foreign.x[places], sent.y)
