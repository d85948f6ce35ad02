"""A pool kept over rounds: the images of earlier rounds, in State, so that a resumed run has them too.

A round's images are the parts ``pool.<round>.x``, ``.y`` and, if images have weights, ``.weight``. They stay as they
came, in bytes if all of them did, and leave State once no round needs them any more. So ``keep_pool: K`` adds the
images of K rounds to State and to every checkpoint; the labels and images of one round never change after it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.data.problem import Problem
from understudy.federation.message import Message
from understudy.federation.method import State
from understudy.federation.server import Reply

PART = re.compile(r"pool\.(\d+)\.(x|y|weight)")


@dataclass(frozen=True)
class KeptImages:
    """Of one earlier round, as they came."""

    round: int
    age: int  # in rounds
    parts: Message  # x, y in wire format, and weight if images have one


def kept_images(state: State, round: int, many: int) -> list[KeptImages]:
    """Those of the ``many`` rounds before ``round`` that brought any, the newest first."""
    found: dict[int, dict[str, Tensor]] = {}
    for part, tensor in state.items():
        if (match := PART.fullmatch(part)) and 0 < round - int(match[1]) <= many:
            found.setdefault(int(match[1]), {})[match[2]] = tensor
    return [KeptImages(at, round - at, Message(found[at])) for at in sorted(found, reverse=True)]


def without_kept(state: State, *, but: Sequence[int]) -> State:
    """``but``: the rounds whose images stay."""
    return state.without(*(part for part in state if (match := PART.fullmatch(part)) and int(match[1]) not in but))


def to_keep(replies: Sequence[Reply], round: int, problem: Problem, *, weighted: bool) -> dict[str, Tensor]:
    """The images of one round as parts of State."""
    images = [reply["x"] for reply in replies]
    if len({x.dtype for x in images}) > 1:
        images = [problem.scale(x) for x in images]
    kept = {"x": torch.cat(images), "y": torch.cat([reply["y"] for reply in replies])}
    if weighted:
        kept["weight"] = torch.cat([reply["weight"] for reply in replies])
    return {f"pool.{round}.{part}": tensor for part, tensor in kept.items()}
