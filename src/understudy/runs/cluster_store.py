"""A store whose missing runs are played on a Ray cluster, whole runs at a time.

Nodes need the same version of understudy and the data sets that the runs name; no disk is shared. What a run goes on
from (its own begun folder, first rounds, kept generators) travels there, and its folder travels back.
"""

import functools
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from understudy.config.resolve import resolve
from understudy.config.schema import Config, Live
from understudy.engines.cluster.folder_copy import FolderContent, content_of, lay_out
from understudy.engines.cluster.whole_calls import spread_on_ray
from understudy.runs.run_store import RunStore, StoredConfig
from understudy.runs.watching import Observer

OTHER_CODE = "the node takes its config for another one; is the same version of understudy installed there?"
DIED = "its process on the Ray cluster died each time it was tried; is there enough memory?"


@dataclass(frozen=True)
class RunInWords:
    """A `StoredConfig` that can be sent."""

    words: Mapping[str, Any]
    live: Live
    first: "RunInWords | None"
    changes: tuple[tuple[str, Any], ...]
    keep_all: bool

    @classmethod
    def of(cls, run: StoredConfig) -> "RunInWords":
        first = None if run.first is None else cls.of(run.first)
        return cls(run.inline().config.asked(), run.config.live, first, run.changes, run.keep_all)

    def read(self, runs: Path) -> StoredConfig:
        """With generators found among these runs; the digest does not depend on where a store is."""
        config = resolve(dict(self.words), {}, self.live)
        first = None if self.first is None else self.first.read(runs)
        return StoredConfig(with_generators_from(runs, config), first, self.changes, self.keep_all)


@dataclass(frozen=True)
class RunForNode:
    run: RunInWords
    digest: str
    folders: Mapping[str, FolderContent]  # of the store, by name: what it goes on from


@dataclass(frozen=True)
class RunFromNode:
    """What became of it there."""

    content: FolderContent  # of its folder
    trouble: str  # why it could not be done; empty: it was


class ClusterStore(RunStore):
    def __init__(self, root: Path, address: str, *, gpus: float = 0.0):
        """``address``: the head's host:port, or auto. ``gpus``: the share of a GPU that each run takes."""
        super().__init__(root)
        self.address, self.gpus = address, gpus

    def where(self, processes: int) -> str:
        return f"on the Ray cluster at {self.address}"

    def play_all(self, runs: Sequence[StoredConfig], observer: Observer, processes: int) -> Iterator[tuple[int, str]]:
        """As many at once as the cluster has CPUs, or GPUs, for."""
        if not runs:
            return
        away = [functools.partial(self._away, run) for run in runs]
        for place, back in spread_on_ray(play_on_node, away, self.address, gpus=self.gpus):
            if back is not None and back.content:
                self._take_in(self.folder(runs[place]), back.content)
            yield place, DIED if back is None else back.trouble

    def _away(self, run: StoredConfig) -> RunForNode:
        names = [self.folder(run).name, *generators_of(run)]
        first = run.first
        while first is not None:
            names.append(self.folder(first).name)
            first = first.first
        folders = {name: content_of(self.root / "runs" / name) for name in names}
        sent = {name: content for name, content in folders.items() if content}
        return RunForNode(RunInWords.of(run), run.digest, sent)

    def _take_in(self, folder: Path, content: FolderContent) -> None:
        """Whole or not at all, whatever ends this process meanwhile."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="arriving-") as there:
            lay_out(content, Path(there) / folder.name)
            shutil.rmtree(folder, ignore_errors=True)
            (Path(there) / folder.name).replace(folder)


def store_at(root: Path, address: str | None, gpus: float = 0.0) -> RunStore:
    """``address``: of the Ray cluster that plays its runs; None: this machine does."""
    if address is None:
        return RunStore(root)
    return ClusterStore(root, address, gpus=gpus)


def play_on_node(job: RunForNode) -> RunFromNode:
    """On the node."""
    with tempfile.TemporaryDirectory(prefix="understudy-run-") as root:
        store = RunStore(Path(root))
        for name, content in job.folders.items():
            lay_out(content, store.root / "runs" / name)
        run = job.run.read(store.root / "runs")
        if run.digest != job.digest:
            return RunFromNode({}, OTHER_CODE)
        trouble = store.trouble_with(run, Observer())
        return RunFromNode(content_of(store.folder(run)), trouble)


def generators_of(run: StoredConfig) -> list[str]:
    """The runs of the store whose clients kept the generators that this one uses."""
    return [Path(chosen).name for chosen in map(_from_run, run.config.add_ons) if chosen]


def with_generators_from(runs: Path, config: Config) -> Config:
    add_ons = [
        replace(one, settings=one.settings.model_copy(update={"from_run": str(runs / Path(was).name)}))
        if (was := _from_run(one))
        else one
        for one in config.add_ons
    ]
    return replace(config, add_ons=tuple(add_ons))


def _from_run(add_on: Any) -> str | None:
    return getattr(add_on.settings, "from_run", None)
