"""Every rule with every policy for running statistics."""

from collections.abc import Callable

import pytest
import torch
from numpy_rules import COHORTS, SITES
from stage import Stage, batchnorm_net, bound, settings_of

from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.methods.fedavgm import FedAvgMSettings, fedavgm
from understudy.methods.feddyn import FedDynSettings, feddyn
from understudy.methods.fedexp import FedExPSettings, fedexp
from understudy.methods.fednova import FedNovaSettings, fednova
from understudy.methods.fedprox import fedprox
from understudy.methods.fedsgd import FedSgdSettings, fedsgd
from understudy.methods.shared.averaging import Averaging

SGD = Local(epochs=1, batch=4, lr=0.1)
BUILD: dict[str, Callable[[str], Averaging]] = {
    "fedsgd": lambda policy: fedsgd(FedSgdSettings.model_validate({"buffers": policy})),
    "fedavgm": lambda policy: fedavgm(FedAvgMSettings.model_validate({"buffers": policy, "local": SGD})),
    "fedprox": lambda policy: fedprox(settings_of("fedprox", buffers=policy, local=SGD)),
    "fednova": lambda policy: fednova(FedNovaSettings.model_validate({"buffers": policy, "local": SGD})),
    "fedexp": lambda policy: fedexp(
        FedExPSettings.model_validate({"buffers": policy, "local": SGD, "average_last_two": True})
    ),
    "feddyn": lambda policy: feddyn(FedDynSettings.model_validate({"buffers": policy, "local": SGD})),
}


@pytest.mark.parametrize("name", BUILD)
@pytest.mark.parametrize("policy", ["average", "local"])
def test_only_averaged_running_statistics_travel(name: str, policy: str) -> None:
    net = batchnorm_net()
    stage = Stage(bound(BUILD[name](policy), net), SITES, COHORTS)
    state = stage.play(3)
    trained = [reply for round, _, reply in stage.replies if round]
    assert all(("buffers" in reply) == (policy == "average") for reply in trained)
    result = stage.method.result(state)
    assert result.shape == (net.size,)
    assert bool(torch.isfinite(result).all())
    moved = not torch.equal(result[net.buffers], net.initial()[net.buffers])
    assert moved == (policy == "average")
    assert ("buffers" in stage.memories["a"]) == (policy == "local")


@pytest.mark.parametrize("name", BUILD)
def test_they_can_be_forbidden(name: str) -> None:
    with pytest.raises(UserError, match="running statistics"):
        bound(BUILD[name]("forbid"), batchnorm_net())
