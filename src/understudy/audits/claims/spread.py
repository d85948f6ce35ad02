"""Repetitions spread over forked processes, one torch thread each; what comes back is numbers in JSON."""

import json
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait

import torch

from understudy.engines.with_parent import ENDING, end_with_parent, start_deaf
from understudy.errors import UserError

Statistics = Mapping[str, float]
Once = Callable[[int], Statistics]  # the repetition with this number


def spread(
    once: Once,
    repetitions: int,
    workers: int,
    done: Callable[[], None] = lambda: None,
    *,
    least: int | None = None,
    until: float = math.inf,
) -> list[Statistics]:
    """``once(0)``, ``once(1)``, … in order; ``done`` is called after each. Once the monotonic clock has passed
    ``until``, no repetition from number ``least`` on is begun; an even number of them comes back."""
    shift = _Shift(once, repetitions if least is None else least, until)
    if workers <= 1 or repetitions < 2:
        found = {number: _noted(scores, done) for number, scores in shift.results(range(repetitions))}
    else:
        found = _in_processes(shift, repetitions, min(workers, repetitions), done)
    whole = next((number for number in range(repetitions) if number not in found), repetitions)
    if whole < shift.least:
        raise UserError("A process of the audit ended early; if memory ran out, ask for fewer workers, then run again.")
    return [found[number] for number in range(whole - whole % 2 if whole < repetitions else whole)]


@dataclass(frozen=True)
class _Shift:
    once: Once
    least: int
    until: float

    def results(self, numbers: Iterable[int]) -> Iterator[tuple[int, Statistics]]:
        for number in numbers:
            if number >= self.least and time.monotonic() > self.until:
                return
            yield number, self.once(number)


def _in_processes(shift: _Shift, repetitions: int, workers: int, done: Callable[[], None]) -> dict[int, Statistics]:
    context = multiprocessing.get_context("fork")
    found: dict[int, Statistics] = {}
    pipes: list[Connection] = []
    processes = []
    try:
        for first in range(workers):
            ours, theirs = context.Pipe(duplex=False)
            numbers = range(first, repetitions, workers)
            process = context.Process(target=_work, args=(os.getpid(), theirs, shift, numbers), daemon=True)
            start_deaf(process)
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        _gather(pipes, found, done)
    finally:
        for process in processes:
            process.terminate()
            process.join()
        for pipe in pipes:
            pipe.close()
    return found


def _gather(pipes: Sequence[Connection], found: dict[int, Statistics], done: Callable[[], None]) -> None:
    open_pipes = list(pipes)
    while open_pipes:
        for pipe in wait(open_pipes):
            assert isinstance(pipe, Connection)
            try:
                line = json.loads(pipe.recv_bytes())
            except EOFError:
                open_pipes.remove(pipe)
                continue
            if "failed" in line:
                raise UserError(line["failed"])
            found[line["number"]] = line["scores"]
            done()


def _work(parent: int, pipe: Connection, shift: _Shift, numbers: Sequence[int]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the audit itself handles Ctrl-C
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    end_with_parent(parent)
    torch.set_num_threads(1)
    try:
        for number, scores in shift.results(numbers):
            pipe.send_bytes(json.dumps({"number": number, "scores": scores}).encode())
    except UserError as error:
        pipe.send_bytes(json.dumps({"failed": str(error)}).encode())
    pipe.close()
    os._exit(0)


def _noted(scores: Statistics, done: Callable[[], None]) -> Statistics:
    done()
    return scores
