"""Repetitions spread over forked processes, one torch thread each; what comes back is numbers in JSON."""

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection, wait

import torch

from understudy.engines.with_parent import end_with_parent
from understudy.errors import UserError

Scores = Mapping[str, float]
Once = Callable[[int], Scores]  # the repetition with this number


def spread(once: Once, repetitions: int, workers: int, done: Callable[[], None] = lambda: None) -> list[Scores]:
    """``once(0)``, ``once(1)``, … in order; ``done`` is called after each. With one worker, in this process."""
    if workers <= 1 or repetitions < 2:
        return [_noted(once(number), done) for number in range(repetitions)]
    context = multiprocessing.get_context("fork")
    found: dict[int, Scores] = {}
    pipes: list[Connection] = []
    processes = []
    try:
        for first in range(min(workers, repetitions)):
            ours, theirs = context.Pipe(duplex=False)
            numbers = range(first, repetitions, workers)
            process = context.Process(target=_work, args=(os.getpid(), theirs, once, numbers), daemon=True)
            process.start()
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
    if len(found) < repetitions:
        raise UserError("A process of the audit ended early; if memory ran out, ask for fewer workers, then run again.")
    return [found[number] for number in range(repetitions)]


def _gather(pipes: Sequence[Connection], found: dict[int, Scores], done: Callable[[], None]) -> None:
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


def _work(parent: int, pipe: Connection, once: Once, numbers: Sequence[int]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the audit itself handles Ctrl-C
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent(parent)
    torch.set_num_threads(1)
    for number in numbers:
        try:
            line = {"number": number, "scores": once(number)}
        except UserError as error:
            line = {"failed": str(error)}
        pipe.send_bytes(json.dumps(line).encode())
    pipe.close()
    os._exit(0)


def _noted(scores: Scores, done: Callable[[], None]) -> Scores:
    done()
    return scores
