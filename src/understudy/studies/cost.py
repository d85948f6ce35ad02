"""What a run with data shuffling sent, beside the formula 2·M_s + 2·R·M_c of its paper.

M_s are the synthetic images that a client sends once and gets once, M_c the model that goes down and up in each of R
rounds. Measured is what went through the wire: images up are all of the opening's replies; images down ride in a
client's first brief, so they are what that is longer by than a later one.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.studies.folder import Line, RunFolder

FLOAT = 4  # bytes


@dataclass(frozen=True)
class Cost:
    """Bytes a client: means over all clients. None: the metrics do not tell."""

    rounds: float  # R: in which a client took part
    model: int  # M_c by its numbers
    images: float  # M_s by its pixels and labels
    images_up: float | None  # M_s as sent
    images_down: float | None  # M_s as got
    measured: float  # everything that a client sent and got

    @property
    def formula(self) -> float:
        return 2 * self.images + 2 * self.rounds * self.model

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "formula": self.formula}


def cost_of(run: RunFolder, numbers: int, dealt: Mapping[str, Examples], problem: Problem) -> Cost | None:
    """``numbers``: of the model, buffers included. None where no round was written yet."""
    metrics = run.metrics()
    if not metrics or "bytes_by_client" not in metrics[-1]:
        return None
    clients = len(dealt)
    an_image = math.prod(problem.shape) + (1 if problem.classes <= 256 else 2)
    later = [line for line in metrics if line["round"] > 0]
    opening = next((line for line in metrics if line["round"] == 0), None)
    return Cost(
        sum(len(line["bytes_by_client"]) for line in later) / clients,
        FLOAT * numbers,
        an_image * sum(map(len, dealt.values())) / clients,
        None if opening is None else opening["bytes_up"] / clients,
        _extra_in_first_brief(later, clients),
        sum(line["bytes_up"] + line["bytes_down"] for line in metrics) / clients,
    )


def _extra_in_first_brief(rounds: list[Line], clients: int) -> float | None:
    """None where no client was briefed twice: then there is nothing to compare its first brief with."""
    briefs: dict[str, list[int]] = {}
    for line in rounds:
        for client, (_, down) in line["bytes_by_client"].items():
            briefs.setdefault(client, []).append(down)
    if any(len(downs) < 2 for downs in briefs.values()) or not briefs:
        return None
    return sum(downs[0] - min(downs[1:]) for downs in briefs.values()) / clients
