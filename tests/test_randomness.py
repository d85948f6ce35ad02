"""The global streams that layers draw from: seeded and put back, on the accelerator that is in use and on no other."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from understudy.randomness import private_global_stream, seed_from


class Accelerator(SimpleNamespace):
    """What torch has of a device, without one."""

    def __init__(self, begun: bool):
        super().__init__(begun=begun, state=torch.tensor(7), seeds=[])

    def is_initialized(self) -> bool:
        return bool(self.begun)

    def device_count(self) -> int:
        return 1

    def manual_seed_all(self, seed: int) -> None:
        self.seeds.append(seed)
        self.state = torch.tensor(0)

    def get_rng_state(self, device: int) -> Any:
        assert self.begun, "a forked worker must not begin to use the accelerator"
        return self.state

    def set_rng_state(self, state: Any, device: int) -> None:
        self.state = state


def given(accelerator: Accelerator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch, "get_device_module", lambda device: accelerator)


def test_the_accelerator_in_use_has_a_stream_of_its_own_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    accelerator = Accelerator(begun=True)
    given(accelerator, monkeypatch)
    with private_global_stream("dropout", 3):
        assert accelerator.seeds == [seed_from("dropout", 3)]
        assert int(accelerator.state) == 0
    assert int(accelerator.state) == 7


def test_one_that_nobody_uses_is_let_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    accelerator = Accelerator(begun=False)
    given(accelerator, monkeypatch)
    before = torch.get_rng_state()
    with private_global_stream("dropout"):
        torch.rand(3)
    assert accelerator.seeds == []
    assert torch.equal(torch.get_rng_state(), before)
