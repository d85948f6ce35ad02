"""A federation in which one site sends whatever the test makes of its answers."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from contract_checks import Case
from torch import Tensor

from understudy.data.federation import Federation
from understudy.engines.inline import Inline
from understudy.federation.exchange import Answer, Engine, Request
from understudy.federation.message import Message
from understudy.federation.method import Method
from understudy.federation.site import Site
from understudy.runs.rounds import Result

Tamper = Callable[[Request, Answer], Answer]
VICTIM = "beech"  # the site that holds records of every class


class Tampered(Engine):
    """Inline; what a site answers goes through ``tamper``."""

    def __init__(self, sites: Mapping[str, Site], method: Method, tamper: Tamper):
        self._inner, self._tamper = Inline(sites, method), tamper

    def exchange(self, requests: Iterable[Request]) -> Iterator[Answer]:
        for request in requests:
            for answer in self._inner.exchange([request]):
                yield self._tamper(request, answer)

    def settle(self, clients: Iterable[str]) -> None:
        self._inner.settle(clients)


def tampered_play(case: Case, out: Path, tamper: Tamper, data: Federation | None = None, **changes: Any) -> Result:
    def choose(_: object, sites: Mapping[str, Site], method: Method) -> Engine:
        return Tampered(sites, method, tamper)

    with patch("understudy.engines.choose.choose_engine", choose):
        return case.play(out, data, **changes)


def only(victim: str, tamper: Tamper, round: int | None = None) -> Tamper:
    """The others answer as they do."""
    return lambda request, answer: (
        tamper(request, answer) if request.client == victim and round in (None, request.round) else answer
    )


def sends(body: bytes) -> Tamper:
    return lambda request, answer: replace(answer, message=None, read=lambda: body)


def check_only_the_victim_failed(result: Result, round: int, others: int) -> None:
    line = result.metrics[round]
    assert {failure["client"] for failure in line["failures"]} <= {VICTIM}, line["failures"]
    assert all(failure["why"].isprintable() for failure in line["failures"])
    assert not line["undone"]
    assert line["clients"] >= others, "the others' round counts"
    assert result.summary["finished"]


# ---- what can be wrong with one part of a reply


@dataclass(frozen=True)
class Harm:
    """One way to spoil a part."""

    name: str
    spoil: Callable[[Tensor], Tensor | None]  # None: the part is missing

    def __call__(self, part: str) -> Tamper:
        def tamper(_: Request, answer: Answer) -> Answer:
            if answer.outcome != "done":
                return answer
            reply = Message.from_bytes(answer.read())
            if part not in reply:
                return answer
            spoilt = self.spoil(reply[part])
            rest = reply.only(*(other for other in reply if other != part))
            body = (rest if spoilt is None else rest.but({part: spoilt})).to_bytes()
            return replace(answer, message=None, read=lambda: body)

        return tamper


def _full(value: float, dtype: torch.dtype | None = None) -> Callable[[Tensor], Tensor]:
    def fill(tensor: Tensor) -> Tensor:
        kind = dtype or tensor.dtype
        if not kind.is_floating_point:
            limits = torch.iinfo(kind)
            whole = 0 if math.isnan(value) else max(limits.min, min(limits.max, value))
            return torch.full(tensor.shape, int(whole), dtype=kind)
        return torch.full(tensor.shape, value, dtype=torch.float64).to(kind)

    return fill


def _first(value: float) -> Callable[[Tensor], Tensor]:
    """Only the first number is wrong."""

    def spoil(tensor: Tensor) -> Tensor:
        spoilt = tensor.clone()
        if spoilt.numel():
            spoilt.view(-1)[0] = _full(value)(spoilt.view(-1)[:1])[0]
        return spoilt

    return spoil


HARMS = (
    Harm("missing", lambda tensor: None),
    Harm("one number", lambda tensor: torch.zeros((), dtype=tensor.dtype)),
    Harm("empty", lambda tensor: tensor.flatten()[:0]),
    Harm("empty rows", lambda tensor: torch.zeros(0, *tensor.shape[1:], dtype=tensor.dtype)),
    Harm("nothing but shape", lambda tensor: torch.zeros(0, 2**40, dtype=tensor.dtype)),
    Harm("one more", lambda tensor: torch.cat([tensor.flatten(), tensor.flatten()[:1]])),
    Harm("a dimension more", lambda tensor: tensor.unsqueeze(0)),
    Harm("a dimension at the end", lambda tensor: tensor.unsqueeze(-1)),
    Harm("flat", lambda tensor: tensor.flatten()),
    Harm("half of the rows", lambda tensor: tensor[: len(tensor) // 2] if tensor.ndim else tensor),
    Harm("float64", lambda tensor: tensor.to(torch.float64)),
    Harm("float16", lambda tensor: tensor.clamp(-6e4, 6e4).to(torch.float16) if tensor.is_floating_point() else None),
    Harm("bfloat16", lambda tensor: tensor.to(torch.bfloat16)),
    Harm("bytes", lambda tensor: tensor.to(torch.uint8)),
    Harm("int8", lambda tensor: tensor.to(torch.int8)),
    Harm("uint32", lambda tensor: tensor.to(torch.int64).to(torch.uint32)),
    Harm("int64", lambda tensor: tensor.to(torch.int64)),
    Harm("truth values", lambda tensor: tensor > 0),
    Harm("not a number", _full(math.nan, torch.float32)),
    Harm("infinite", _full(math.inf, torch.float32)),
    Harm("one is not a number", _first(math.nan)),
    Harm("largest float32", _full(3.4e38)),
    Harm("largest float64", _full(1.7e308, torch.float64)),
    Harm("lowest float32", _full(-3.4e38)),
    Harm("one is huge", _first(1e30)),
    Harm("large", _full(1e14)),
    Harm("large below zero", _full(-1e14)),
    Harm("largest int64", _full(2.0**63 - 1025, torch.int64)),
    Harm("lowest int64", _full(-(2.0**63), torch.int64)),
    Harm("zero", _full(0)),
    Harm("minus one", _full(-1)),
    Harm("minus three", _full(-3)),
    Harm("half", _full(0.5, torch.float32)),
    Harm("tiny", _full(1e-40)),
    Harm("out of range", _full(255)),
    Harm("one out of range", _first(200)),
)


def as_json(result: Result) -> str:
    """A line that is no JSON for others (NaN, Infinity) is refused here."""
    return json.dumps([result.metrics, result.summary], allow_nan=False)
