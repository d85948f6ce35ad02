"""FedSGD: "Communication-Efficient Learning of Deep Networks from Decentralized Data", section 2.

A client draws one batch of its records, takes one step of SGD at the rate η_l and sends the step; the server adds the
mean of the steps. It is FedAvg with ``local.steps: 1``, and nothing else is accepted: one batch per round, not one
message for every batch of an epoch. A ``local.batch`` as large as the largest client gives the paper's full-batch form.
"""

from typing import ClassVar

from pydantic import field_validator

from understudy.errors import UserError
from understudy.federation.registry import method
from understudy.learning.local import Local
from understudy.methods.shared.averaging import Averaging, AveragingSettings


class FedSgdSettings(AveragingSettings):
    local: Local = Local(steps=1)

    @field_validator("local", mode="before")
    @classmethod
    def _one_step(cls, given: object) -> object:
        """One step, if neither epochs nor steps are given."""
        if isinstance(given, dict) and given.get("epochs") is None and given.get("steps") is None:
            return {**given, "steps": 1}
        return given


class FedSgd(Averaging):
    one_step: ClassVar[bool] = True


@method("fedsgd", settings=FedSgdSettings, needs="'method.local={epochs: null, steps: 1}'")
def fedsgd(settings: FedSgdSettings) -> Averaging:
    local = settings.local
    if local.steps != 1:
        said = f"epochs {local.epochs}" if local.steps is None else f"steps {local.steps}"
        raise UserError(
            f"fedsgd: method.local has {said}, but fedsgd takes one step per round; "
            "set local.steps to 1 and local.epochs to null, or use fedavg."
        )
    if local.momentum:
        raise UserError(
            "fedsgd: method.local.momentum would do nothing, because it is reset each round and a round is one "
            "step; set it to 0, or use fedavgm, whose momentum is on the server."
        )
    return FedSgd(settings)
