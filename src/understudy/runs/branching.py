"""``branch``: a run that continues from another run's rounds with other settings.

The rounds that several runs have in common are then run once. A branch has its own run id, and its config says from
which run it came, at which round, and what changed; as in every run, the checkpoint carries the digest of all that. It
shares no file with the other run, and privacy spent before the branch counts in both.
"""

import json
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from understudy.config.build import build_data
from understudy.config.read import Words
from understudy.config.resolve import BRANCHED, resolve
from understudy.config.schema import Config
from understudy.errors import UserError
from understudy.federation.method import Method, State, task_name
from understudy.federation.server import Brief, Reply, Server, Task
from understudy.federation.site import forget_answers
from understudy.randomness import generator
from understudy.runs.checkpoint import Checkpoint
from understudy.runs.folder import RunFolder
from understudy.runs.play import built
from understudy.runs.resuming import FREE, check_not_edited, digest_of_run, first_difference
from understudy.runs.tracking.tracker import FOLDER as TRACKING
from understudy.threads import one_thread

MAY_CHANGE = ("method", "with", BRANCHED, *FREE)
NOT_COPIED = (
    ".lock",
    "*.part",
    "status.json",
    "summary.json",
    "model.safetensors",
)  # they belong to the end of the other run


def branch(folder: Path, to: Path, changes: Mapping[str, Any]) -> Config:
    """Copies the run in ``folder``, as far as it has come, to ``to``, with ``changes`` to method, add-ons or rounds. To
    continue it, play the returned config there with ``resume=True``. A branch that already exists stays.
    """
    source = RunFolder(folder)
    with one_thread(), _at_rest(source):
        check_not_edited(source)
        words, checkpoint = source.config(), _newest(source)
        config = resolve({**words, BRANCHED: _record(source, words, checkpoint.round, changes)}, changes)
        if RunFolder(to).holds_a_run:
            _check_same_branch(RunFolder(to), config)
            return config
        after = _checked_words(source, words, config, checkpoint.state)
        half = to.with_name(f"{to.name}.part")
        shutil.rmtree(half, ignore_errors=True)
        shutil.copytree(folder, half, ignore=shutil.ignore_patterns(*NOT_COPIED))
        _make_its_own(RunFolder(half), checkpoint, after)
        try:
            half.rename(to)
        except OSError:
            raise UserError(f"{to} already exists and holds no run; choose another folder for the branch.") from None
        return config


@contextmanager
def _at_rest(source: RunFolder) -> Iterator[None]:
    if not source.holds_a_run:
        raise UserError(f"{source.path} holds no run to branch from.")
    with source.locked(wait=60, waiting=lambda _: None):
        yield


def _newest(source: RunFolder) -> Checkpoint:
    checkpoint = source.newest_checkpoint()
    if checkpoint is None:
        raise UserError(f"The run in {source.path} has no checkpoint yet; wait until its opening is done.")
    return checkpoint


def _record(source: RunFolder, words: Words, round: int, changes: Mapping[str, Any]) -> Words:
    plain = json.loads(json.dumps(changes))
    return {"run": source.id, "config": digest_of_run(words), "round": round, "changes": plain}


def _check_same_branch(there: RunFolder, config: Config) -> None:
    assert config.branched is not None
    found, wanted = there.config().get(BRANCHED), config.branched.model_dump(mode="json")
    if found != wanted:
        raise UserError(
            f"{there.path} holds a run other than this branch ({first_difference(found, wanted, BRANCHED)}); "
            "delete it, or choose another folder."
        )


def _checked_words(source: RunFolder, words: Words, config: Config, state: State) -> Words:
    """The branch's config as its folder will have it, if it can continue from that State."""
    data, fast = build_data(config), words["model"]["fast"]
    if data.remote:
        raise UserError("The memories of this run's clients are at its sites, so it cannot be branched.")
    method, after = built(config, data, fast)
    before, was = built(resolve(words), data, fast)
    for key in sorted(was.keys() | after.keys()):
        if key not in MAY_CHANGE and was.get(key) != after.get(key):
            what = first_difference(was.get(key), after.get(key), key)
            raise UserError(f"A branch can only change its method, add-ons and rounds: {what}.")
    clients = list(data.sites)
    _check_opening(_opening(before, clients), _opening(method, clients), state, source.path)
    return after


def _make_its_own(run: RunFolder, checkpoint: Checkpoint, words: Words) -> None:
    """Gives it a new run id, under which clients find their memories, a new config, and its digest. Answers from a
    round that never counted were made with the old settings, so they are dropped."""
    old, new = run.id, secrets.token_hex(8)
    shutil.rmtree(run.path / TRACKING, ignore_errors=True)  # trackers know the other run by it
    for kept in (run.path / "clients").glob(f"*/{old}"):
        forget_answers(kept)
        kept.rename(kept.with_name(new))
    run.write_id(new)
    run.write_config(words)
    run.save_checkpoint(replace(checkpoint, config=digest_of_run(words)))


# ---- whether a method can continue from a State that another one left


class _Asks(Exception):
    """The opening asks clients for something."""


class _Nobody(Server):
    """Shows what an opening does without clients."""

    def __init__(self, clients: Sequence[str]):
        self.clients, self.round = clients, 0

    def cohort(self) -> list[str]:
        return list(self.clients)

    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        raise _Asks(task_name(task))

    def leave_out(self, client: str, why: str) -> None:
        raise AssertionError(f"nobody was asked, but {client} is left out")

    def rng(self, purpose: str) -> torch.Generator:
        return generator(0, purpose)


def _opening(method: Method, clients: Sequence[str]) -> State | str:
    """The State it makes, or the first task it asks for."""
    try:
        return method.start(_Nobody(clients))
    except _Asks as asks:
        return str(asks)


def _check_opening(before: State | str, after: State | str, state: State, folder: Path) -> None:
    if isinstance(after, str):
        if before != after:
            raise UserError(f"A branch has no opening, but this one would ask {after} there; start a new run instead.")
        return
    for part, tensor in after.items():
        if part not in state or state[part].shape != tensor.shape:
            raise UserError(
                f"The run in {folder} has no '{part}' of the size that the branch needs to continue; "
                "start a new run instead."
            )
