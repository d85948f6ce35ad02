"""Run folders written by hand, so that what is drawn can be checked."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.runs.folder import RunFolder

GREY = Problem((1, 2, 2), 3, mean=(0.5,), std=(0.25,))


def line(round: int, accuracy: float | None, **others: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"bytes_up": 0, "bytes_down": 0, "epsilon": None, "clients": 2, "failed": 0, "failures": []}
    return {"round": round, "accuracy": accuracy, **usual, "undone": False, "seconds": 2.0, **others}


def write_run(
    folder: Path,
    accuracies: Sequence[float | None] = (0.1, 0.5),
    *,
    sent: int = 1_000_000,
    method: str = "fedavg",
    add: Sequence[str] = (),
    problem: Problem = GREY,
    cohort: float = 1.0,
    **others: Any,
) -> Path:
    """``sent`` bytes up and as many down in every round after the opening."""
    folder.mkdir(parents=True)
    words = {
        "data": {"name": "digits"},
        "problem": {**vars(problem), "shape": list(problem.shape), "mean": [*problem.mean], "std": [*problem.std]},
        "method": {"name": method, "rounds": len(accuracies) - 1, "cohort": cohort},
        "with": [{"name": name} for name in add],
    }
    RunFolder(folder).write_config(words)
    lines = [
        line(round, accuracy, bytes_up=sent * bool(round), bytes_down=sent * bool(round), **others)
        for round, accuracy in enumerate(accuracies)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    return folder


def keep(folder: Path, sets: Mapping[str, Examples], releases: Mapping[str, int] | None = None) -> Path:
    for client, examples in sets.items():
        RunFolder(folder).keep_examples(client, examples)
    if releases is not None:
        parts = {"task": "FedDM.distil", "part": "x", "kind": "examples", "bytes": 1, "covered": 0, "mechanism": None}
        sent = {client: [{**parts, "releases": times}] for client, times in releases.items()}
        RunFolder(folder).write_json("ledger.json", {"epsilon": None, "unit": "record", "clients": sent})
    return folder


def change_config(folder: Path, **changes: Any) -> None:
    words = yaml.safe_load((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(yaml.safe_dump({**words, **changes}))
