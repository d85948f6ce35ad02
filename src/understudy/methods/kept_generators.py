"""Generators that clients kept: in their memory while a run goes on, and read again by a later run.

A stage of training is ``fedssyn.generator@250.<name>``: what the generator had learnt after 250 epochs. It never
travels. A later run on the same machine samples from it, so that the effect of longer training can be studied without
training again; a client looks only under its own name.
"""

import re
from collections.abc import MutableMapping
from pathlib import Path

from torch import Tensor

from understudy.errors import UserError
from understudy.federation.shelf import Shelf
from understudy.synthesis.generator import Stage, State

KEPT = re.compile(r"fedssyn\.generator@(\d+)\.(.+)")


def keep(memory: MutableMapping[str, Tensor], stage: Stage) -> None:
    for name, tensor in stage.state.items():
        memory[f"fedssyn.generator@{stage.epoch}.{name}"] = tensor


def kept_by(client: str, run: Path, epoch: int | None) -> State:
    """The stage after ``epoch`` epochs, or the last one, that this client kept in the run of that folder."""
    stages = _stages(client, run)
    if not stages:
        raise UserError(
            f"with.fedssyn.from_run: {client} kept no generator in {run}; run that with keep_generator: true."
        )
    wanted = max(stages) if epoch is None else epoch
    if wanted not in stages:
        there = ", ".join(map(str, sorted(stages)))
        raise UserError(
            f"with.fedssyn.epoch: in {run} {client} kept no generator after {wanted} epochs; there are {there}."
        )
    return stages[wanted]


def _stages(client: str, run: Path) -> dict[int, State]:
    try:
        name = (run / "run-id").read_text()
    except OSError:
        raise UserError(f"with.fedssyn.from_run: {run} is not the folder of a run.") from None
    shelf = Shelf(run / "clients" / client / name / "memory")
    entries, stages = shelf.entries(), dict[int, State]()
    for part, tensor in shelf.get(entries[-1])[0].items() if entries else ():
        if found := KEPT.fullmatch(part):
            stages.setdefault(int(found[1]), {})[found[2]] = tensor
    return stages
