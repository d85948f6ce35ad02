"""A reply that a site holds back until a person has decided, as people and the page see it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.decisions import Decision
from understudy.federation.exchange import Request
from understudy.federation.message import Kind, Message
from understudy.federation.release import described, labelled, rows_of
from understudy.federation.rows import KeepRows, SentWhole, row_ids, without_rows
from understudy.privacy.charges import Charge, epsilon_of

FEW = 8  # at most this many numbers are shown as they are


@dataclass(frozen=True)
class Leaving:
    """A reply that a site is about to send: for which request, from which file, and its contents."""

    request: Request
    file: Path
    kinds: Mapping[str, Kind]
    problem: Problem
    charges: Sequence[Mapping[str, Any]]
    keep_rows: KeepRows

    def without(self, reply: Message, dropped: Sequence[int]) -> Message:
        return without_rows(self.keep_rows, self.kinds, self.problem, reply, dropped)

    def about(self, reply: Message, *, limited: bool) -> dict[str, Any]:
        """What a person is told; ``limited``: the site's policy has a limit on ε."""
        request, charges = self.request, [Charge.of(charge) for charge in self.charges]
        parts = described(reply, self.kinds, charges)
        for about in parts:
            tensor = reply[about["part"]]
            if _telling(about["kind"], tensor):
                about["values"] = tensor.flatten().tolist()
        named = {key: getattr(request, key) for key in ("client", "run", "round", "step", "task")}
        told = {"parts": parts, "epsilon": _epsilon(charges), "problem": asdict(self.problem)}
        return {**named, **told, "whole": self._why_whole(reply), "limited": limited}

    def _why_whole(self, reply: Message) -> str | None:
        """Why no single row can be dropped, found out by dropping one before anybody reviews."""
        if not rows_of("examples", reply, self.kinds, self.problem):
            return "it holds no examples"
        try:
            self.without(reply, [0])
        except SentWhole as why:
            return str(why)
        return None


@dataclass(frozen=True)
class Held:
    """A reply in the queue."""

    folder: Path
    about: dict[str, Any]  # client, run, round, step, task, parts, epsilon, problem, whole, limited
    reply: Message
    sha256: str  # of the reply's bytes
    decision: Decision | None  # None: not decided yet
    records_seen: bool = False  # a person had records in view

    @property
    def id(self) -> str:
        """Of the client, the step and the bytes, so that nobody approves other bytes than those they reviewed."""
        return f"{self.about['client']}-{self.folder.name}-{self.sha256[:8]}"

    @property
    def problem(self) -> Problem:
        return Problem.from_words(self.about["problem"])

    @property
    def whole(self) -> str | None:
        """Why it leaves as a whole or not at all; None: single rows can be dropped."""
        told: str | None = self.about.get("whole")
        return told

    @property
    def private(self) -> bool:
        """Whether a mechanism covers some of it: choosing by what it covers costs nothing, by records it does."""
        return any(part["covered"] for part in self.about["parts"])

    def examples(self) -> Examples | None:
        """The labelled records in it, if it holds any."""
        return labelled(self.reply, self._kinds, self.problem)

    def left(self) -> Examples | None:
        """Those that the decision lets leave; while there is none, all."""
        found, dropped = self.examples(), () if self.decision is None else self.decision.dropped
        return found if found is None else found.take([row for row in range(len(found)) if row not in dropped])

    def ids(self) -> list[str]:
        """Of its rows; empty if none can be told from another."""
        found = self.examples()
        return [] if found is None else row_ids(found)

    def not_shown(self) -> int:
        """How many examples ``examples`` leaves out."""
        return rows_of("examples", self.reply, self._kinds, self.problem) if self.examples() is None else 0

    @property
    def _kinds(self) -> dict[str, Kind]:
        return {part["part"]: part["kind"] for part in self.about["parts"]}

    def a_class(self) -> dict[int, int]:
        """How many records each class has, where it has any."""
        found = self.examples()
        counts = [] if found is None else found.label_counts(self.problem.classes).tolist()
        return {label: count for label, count in enumerate(counts) if count}

    def check_droppable(self, rows: Sequence[int]) -> None:
        if not rows:
            return
        if self.whole is not None:
            raise UserError(f"No single row of {self.id} can be dropped: {self.whole}. Say yes or no to all of it.")
        many = len(self.ids())
        if not all(0 <= row < many for row in rows):
            raise UserError(f"{self.id} has {many} rows, numbered from 0; {max(rows, key=abs)} is none of them.")
        if len(set(rows)) == many:
            raise UserError(f"Nothing of {self.id} would be left: say no to all of it instead.")


def is_about(told: object) -> bool:
    """Whether it is what `Leaving.about` wrote, as far as anything reads it."""
    if not isinstance(told, dict):
        return False
    try:
        words = [told[key] for key in ("client", "run", "task")]
        numbers = [told["round"], told["step"], *(size for part in told["parts"] for size in part["shape"])]
        words += [part[key] for part in told["parts"] for key in ("part", "kind")]
        numbers += [part[key] for part in told["parts"] for key in ("bytes", "covered")]
        problem, epsilon = told["problem"], told["epsilon"]
        numbers += [*problem["shape"], problem["classes"], problem["multilabel"], *problem["mean"], *problem["std"]]
    except (KeyError, TypeError):
        return False
    numbers += [epsilon] if epsilon is not None else []
    return all(isinstance(word, str) for word in words) and all(isinstance(one, int | float) for one in numbers)


def _telling(kind: str, tensor: Tensor) -> bool:
    """A few numbers, such as a count of near-copies, tell more than their shape."""
    return kind == "statistics" and 0 < tensor.numel() <= FEW


def _epsilon(charges: Sequence[Charge]) -> float | None:
    """Of this reply alone; None if there is no guarantee: no charge, or repeatable noise."""
    if not charges or any(charge.test_noise for charge in charges):
        return None
    return epsilon_of(charges, charges[0].delta, charges[0].accountant)
