"""Generators that clients kept: in their memory during a run, and read again by a later run.

A stage of training is ``fedssyn.generator@250.<name>``: what the generator had learnt after 250 epochs. It is never
sent. A later run on the same machine can sample from it, to study the effect of longer training without training again.
A client looks only under its own name, and only if it had the same records.
"""

import hashlib
import re
from collections.abc import Mapping, MutableMapping
from pathlib import Path

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.memories import memory_of
from understudy.synthesis.generator import Learnt, Stage

KEPT = re.compile(r"fedssyn\.generator@(\d+)\.(.+)")
RECORDS = "fedssyn.generator.records"  # in memory: which records the client had


def keep(memory: MutableMapping[str, Tensor], stage: Stage, own: Examples) -> None:
    memory[RECORDS] = _fingerprint(own)
    for name, tensor in stage.state.items():
        memory[f"fedssyn.generator@{stage.epoch}.{name}"] = tensor


def kept_by(client: str, own: Examples, run: Path, epoch: int | None) -> Learnt:
    """The stage after ``epoch`` epochs, or the last one, that this client kept in the run in that folder."""
    kept = _memory(client, run)
    if RECORDS in kept and not torch.equal(kept[RECORDS], _fingerprint(own)):
        raise UserError(
            f"with.fedssyn.from_run: {client} had other records in {run}, and its generator learnt from those; "
            "use the same data, split and seed as that run."
        )
    stages = _stages(kept)
    if not stages:
        raise UserError(
            f"with.fedssyn.from_run: {client} kept no generator in {run}; repeat that run with keep_generator: true."
        )
    wanted = max(stages) if epoch is None else epoch
    if wanted not in stages:
        there = ", ".join(map(str, sorted(stages)))
        raise UserError(
            f"with.fedssyn.epoch: in {run}, {client} kept no generator after {wanted} epochs; choose from {there}."
        )
    return stages[wanted]


def _memory(client: str, run: Path) -> Mapping[str, Tensor]:
    try:
        name = (run / "run-id").read_text()
    except OSError:
        raise UserError(f"with.fedssyn.from_run: {run} is not a run folder.") from None
    return memory_of(run, name, client) or {}


def _stages(kept: Mapping[str, Tensor]) -> dict[int, Learnt]:
    stages: dict[int, Learnt] = {}
    for part, tensor in kept.items():
        if found := KEPT.fullmatch(part):
            stages.setdefault(int(found[1]), {})[found[2]] = tensor
    return stages


def _fingerprint(own: Examples) -> Tensor:
    digest = hashlib.sha256(f"{own.x.dtype} {tuple(own.x.shape)}".encode())
    for tensor in (own.x, own.y):
        digest.update(tensor.contiguous().numpy().tobytes())
    return torch.tensor(list(digest.digest()), dtype=torch.uint8)
