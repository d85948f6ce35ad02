"""Sampling and noise of every private method come from streams of their own: who knew one would else know the other."""

from pathlib import Path
from typing import Any

import pytest
import torch
from contract_checks import Case
from torch import Tensor

from understudy.federation.budget import Budget

LOCAL = {"steps": 2, "batch": 6, "lr": 0.1, "schedule": "constant"}
LAP = {"restarts": 1, "stages": 1, "real_batches": 2, "image_steps": 1, "ipc": 1, "batch": 6, "server_epochs": 1}
ONCE = {"ipc": 1, "outer": 1, "inner": 1, "iterations": 1, "batches": 2, "real_batch": 6, "server": {"epochs": 1}}
PRIVATE: dict[str, dict[str, Any]] = {
    "dp-fedavg": {"local": LOCAL},
    "dp-fedprox": {"local": LOCAL},
    "fedlap-dp": {**LAP, "dsa": False},
    "feddm": {"dp": "stat", "noise": 1.0, "ipc": 1, "steps": 2, "real_batch": 2, "server": {"epochs": 1}},
    "psg": {**ONCE, "noise": 1.0},
}


@pytest.mark.parametrize("name", PRIVATE)
def test_no_stream_both_samples_records_and_makes_noise(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret: list[torch.Generator] = []
    used: dict[str, list[torch.Generator]] = {"rand": [], "randn": []}
    give_out = Budget.secret_stream

    def noted(budget: Budget, seed: int, *words: int | str) -> torch.Generator:
        secret.append(give_out(budget, seed, *words))
        return secret[-1]

    def watched(kind: str) -> Any:
        draw = getattr(torch, kind)

        def drawing(*shape: Any, **more: Any) -> Tensor:
            rng = more.get("generator")
            used[kind] += [one for one in secret if one is rng]
            found: Tensor = draw(*shape, **more)
            return found

        return drawing

    monkeypatch.setattr(Budget, "secret_stream", noted)
    for kind in used:
        monkeypatch.setattr(torch, kind, watched(kind))
    Case(name, PRIVATE[name], privacy={"delta": 1e-5, "records": 12}).play(tmp_path / "run", rounds=1)
    assert used["rand"], "no record was sampled"
    assert used["randn"], "no noise was drawn"
    assert not {id(rng) for rng in used["rand"]} & {id(rng) for rng in used["randn"]}
