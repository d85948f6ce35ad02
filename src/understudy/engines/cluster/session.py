"""A connection to a Ray cluster, and the few things that are asked of it.

Ray is imported here alone, and only when a run asks for it. Reports of usage are switched off.
"""

import contextlib
import importlib
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from understudy.engines.cluster.folder_copy import FolderContent
from understudy.engines.cluster.record_block import RecordArrays
from understudy.engines.cluster.slot import ClientSlot, RunOnNodes
from understudy.errors import UserError

ROOM = "`ray start --num-cpus=N` on that node"
LOGS = Path("/tmp/ray/session_latest/logs")


class Promising(Protocol):
    answer: Any


P = TypeVar("P", bound=Promising)


class Cluster:
    def __init__(self, run: RunOnNodes, arrays: RecordArrays, *, gpus: float):
        ray = library()
        self._ray, self._gpus = ray, gpus
        self._run, self._arrays = ray.put(run), ray.put(arrays)
        self._started = 0  # slots that got as far as to answer
        self.shares_disk = run.home is not None
        errors = ray.exceptions
        self.deaths: tuple[type[Exception], ...] = (
            errors.RayActorError,
            errors.NodeDiedError,
            errors.WorkerCrashedError,
            errors.ObjectLostError,
            errors.OutOfMemoryError,
        )

    @property
    def needs(self) -> str:
        return "one CPU" + (f" and {self._gpus:g} of a GPU" if self._gpus else "")

    def room(self) -> int:
        """Further slots that would fit now."""
        free = self._ray.available_resources()
        cpus = int(free.get("CPU", 0.0) + 1e-6)
        return cpus if not self._gpus else min(cpus, int(free.get("GPU", 0.0) / self._gpus + 1e-6))

    def start_slot(self) -> tuple[Any, Any]:
        """The slot, and the promise that it is ready."""
        actor = self._ray.remote(num_cpus=1, num_gpus=self._gpus, max_restarts=0)(ClientSlot).remote(
            self._run, self._arrays
        )
        return actor, actor.ready.remote()

    def ask(self, actor: Any, header: bytes, body: Any, content: FolderContent) -> Any:
        """The promise of an answer."""
        return actor.answer.remote(header, body, content)

    def place(self, data: bytes) -> Any:
        return self._ray.put(data)

    def done(self, slots: Sequence[P], seconds: float) -> list[P]:
        """Those whose promise is kept or broken; waits for the first."""
        if not slots:
            return []
        ready, _ = self._ray.wait([slot.answer for slot in slots], num_returns=1, timeout=seconds)
        return [slot for slot in slots if slot.answer in ready]

    def result(self, promise: Any) -> Any:
        found = self._ray.get(promise)
        self._started += 1
        return found

    def check_start(self, death: Exception) -> None:
        """A slot died before it was ready: where none ever was, the nodes cannot run this at all."""
        if self._started == 0:
            raise UserError(
                f"A node of the Ray cluster could not set up the run: {_last_line(death)}. Is the same version of "
                f"understudy, with what the run needs, installed there? Ray's logs: {LOGS}."
            ) from None

    def end(self, actor: Any) -> None:
        with contextlib.suppress(Exception):  # the cluster may be gone, and that is not what a run fails for
            self._ray.kill(actor)


def library() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise UserError("engine: ray needs Ray; install it with `pip install 'understudy[ray]'`.") from None


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[None]:
    """``address``: host:port of a cluster's head, or auto; None: a cluster of this machine alone, for this run."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray = library()
    mine = not ray.is_initialized()
    if mine:
        try:
            ray.init(
                address=address or "local", logging_level=logging.ERROR, log_to_driver=False, **_of_its_own(address)
            )
        except (ConnectionError, OSError, RuntimeError, ValueError, TimeoutError) as error:
            where = "be started here" if address is None else f"be reached at '{address}'"
            raise UserError(f"Ray could not {where}: {_last_line(error)}. Its own log is in {LOGS}.") from None
    try:
        yield
    finally:
        if mine:
            ray.shutdown()


def _of_its_own(address: str | None) -> dict[str, Any]:
    """Settings for a cluster that is started here."""
    return {"include_dashboard": False} if address is None else {}


def sent_to_nodes(run: RunOnNodes, *, shared: bool) -> RunOnNodes:
    """Without a shared disk no path of this machine means anything there."""
    return run if shared else replace(run, home=None, working_folder=None)


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else type(error).__name__
