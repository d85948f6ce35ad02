"""Neighbouring data: two sets of made-up records, one of which has one record more.

Records have the shape and the classes of the config's problem. A pair only needs to be allowed: it does not look like
data, because a claim covers every pair of neighbours.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.randomness import generator

FAR = 1e4  # entries of an unbounded record, in the network's space, where others have about 1
MOST_CLASSES = 20  # in a set that cancels
OUTSIDE = "the record lies outside what uint8 can hold"


@dataclass(frozen=True)
class Neighbours:
    name: str
    without: Examples
    with_record: Examples
    every_record: bool  # under a plan in which every record is in every release
    note: str = ""


@dataclass(frozen=True)
class PairMaker:
    """``held``: the records of every class that both sets hold where classes are no secret, 0 where they are;
    ``of_one``: all of them are of the first class, whose size the claim depends on (a published claim)."""

    problem: Problem
    pixels: bool
    held: int = 0
    of_one: bool = False

    def all(self) -> tuple[Neighbours, ...]:
        return self.one_record(), self.cancelling(), self.one_more(), self.unbounded()

    def one_record(self) -> Neighbours:
        return self._pair("nothing against one record" if not self.held else "some records against one more", [], False)

    def cancelling(self) -> Neighbours:
        """One pattern under every label: gradients cancel as far as outputs are even. Of one class: with its negative,
        around whose middle embeddings lie."""
        a = self._pattern("a")
        base = [(a, c) for c in range(min(self.problem.classes, MOST_CLASSES))]
        if self.of_one:
            base = [(x, 0) for x in (a, self._negative(a)) for _ in range(max(1, self.held // 2))]
        return self._pair("records that cancel against one more", base, True, held=0)

    def one_more(self) -> Neighbours:
        """Copies of one record: only their number differs, which divisors must not show."""
        copies = max(1, self.held) if self.of_one else 1
        a = self._pattern("a")
        base = [(a, 0)] * copies
        held = 0 if self.of_one else self.held
        return self._pair(f"{copies} against {copies + 1}, all alike", base, True, one=a, held=held)

    def unbounded(self) -> Neighbours:
        copies = max(2, self.held) if self.of_one else 2
        far = FAR * torch.sign(torch.randn(self.problem.shape, generator=generator("audit", "far")))
        base = [(self._pattern("a"), 0)] * copies
        held = 0 if self.of_one else self.held
        note = OUTSIDE if self.pixels else ""
        return self._pair("copies against one unbounded record", base, True, one=far, held=held, note=note, floats=True)

    def canaries(self, number: int) -> Examples:
        """Records that have little in common: random patterns, and labels that have nothing to do with them."""
        classes = 1 if self.of_one else self.problem.classes
        return self._examples([(self._pattern(f"canary {n}"), n % classes) for n in range(number)], floats=False)

    def _pair(
        self,
        name: str,
        base: Sequence[tuple[Tensor, int]],
        every_record: bool,
        *,
        one: Tensor | None = None,
        held: int | None = None,
        note: str = "",
        floats: bool = False,
    ) -> Neighbours:
        held = self.held if held is None else held
        classes = 1 if self.of_one else self.problem.classes
        common = [(self._pattern("a"), c) for c in range(classes) for _ in range(held)]
        with_one = [*common, *base, (self._pattern("b") if one is None else one, 0)]
        without, with_record = (self._examples(some, floats) for some in (with_one[:-1], with_one))
        return Neighbours(name, without, with_record, every_record and not self.of_one, note)

    def _pattern(self, name: str) -> Tensor:
        """Every entry at one of two values: black or white, or ±1."""
        up = torch.rand(self.problem.shape, generator=generator("audit", "pattern", name)) < 0.5
        return up.to(torch.uint8) * 255 if self.pixels else up.to(torch.float32) * 2 - 1

    def _negative(self, x: Tensor) -> Tensor:
        return 255 - x if self.pixels else -x

    def _examples(self, records: Sequence[tuple[Tensor, int]], floats: bool) -> Examples:
        kind = torch.uint8 if self.pixels and not floats else torch.float32
        x = torch.empty(0, *self.problem.shape, dtype=kind)
        if records:
            x = torch.stack([self.problem.scale(x[None])[0] if floats else x for x, _ in records]).to(kind)
        labels = torch.tensor([c for _, c in records], dtype=torch.int64)
        if self.problem.multilabel:
            labels = torch.nn.functional.one_hot(labels, self.problem.classes).to(torch.float32)
        return Examples(x, labels)
