"""What fits together in the averaging family: terms with one another, with a rule, and with local training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.learning.loop import Batch, Pull, RowPull
from understudy.methods.shared import local_scores
from understudy.methods.shared.terms_and_rules import Kit, Rule, Term
from understudy.models.network import Network

ALWAYS = ("weight", "buffers", local_scores.PART)  # parts of a reply that belong to no term


@dataclass(frozen=True)
class Active(Pull):
    """A term in this round, as the training loop sees it."""

    term: Term
    kit: Kit

    def data_weight(self) -> float:
        return self.term.data_weight(self.kit)

    def data_loss(self, net: Network, batch: Batch) -> Tensor | None:
        return self.term.data_loss(self.kit, net, batch)

    def loss(self, net: Network, batch: Batch) -> Tensor | None:
        return self.term.loss(self.kit, net, net.vector, batch)

    def gradient(self, w: Tensor) -> Tensor | None:
        return self.term.gradient(self.kit, w)

    def in_rows(self, pulls: Sequence[Pull]) -> RowPull | None:
        if not self.term.pulls:
            return lambda w: None
        if self.term.in_rows is None:
            return None
        kits = [cast(Active, pull).kit for pull in pulls]
        where = next((kits[0][part].device for part in self.term.in_rows if kits[0][part].ndim), torch.device("cpu"))
        stacked = {part: _rows([kit[part] for kit in kits]).to(where) for part in self.term.in_rows}
        return lambda w: self.term.gradient({part: rows[: len(w)] for part, rows in stacked.items()}, w)


def _rows(parts: Sequence[Tensor]) -> Tensor:
    """One row per client; single numbers become columns, to multiply rows by."""
    return torch.stack([part if part.ndim else part.to(torch.float32).reshape(1) for part in parts])


@dataclass(frozen=True)
class Training:
    """What the terms of a method have to fit."""

    rule: Rule
    local: Local
    head_at_home: bool


def check_together(terms: Sequence[Term], training: Training) -> None:
    """Refuses, in one sentence, what does not fit together."""
    for term in terms:
        term.fits(training.local, training.head_at_home)
    for at, term in enumerate(terms):
        for other in terms[:at]:
            _check_pair(other, term)
    sent = [*ALWAYS, *training.rule.up, *(part for term in terms for part in term.up)]
    twice = sorted({part for part in sent if sent.count(part) > 1})
    if twice:
        who = " and ".join(term.name for term in terms if set(twice) & set(term.up))
        raise UserError(f"{who} would send a part whose name is taken, {', '.join(twice)}; leave one of them out.")


def _check_pair(one: Term, other: Term) -> None:
    shared = sorted(set(one.up) & set(other.up))
    if one.name == other.name or (type(one) is type(other) and not shared):
        raise UserError(
            f"{other.name} is already in this method, and a second one would only change its strength; leave it out, "
            "and set its strength under `method`."
        )
    if shared:
        raise UserError(
            f"{one.name} and {other.name} would both send a part called {shared[0]}, so the sum could not tell them "
            "apart; leave one of them out."
        )
    for this, that in ((one, other), (other, one)):
        if this.replaces_loss and that.usual_loss:
            raise UserError(
                f"{this.name} replaces the loss of the data, but {that.name} needs the gradient of the usual one with "
                "these settings; leave one of them out."
            )
    if one.replaces_loss and other.replaces_loss:
        raise UserError(
            f"{one.name} and {other.name} both replace the loss of the data, and only one can; leave one of them out."
        )


def check_joins(term: Term, plain_steps: str, one_step: bool) -> None:
    """Refuses a term that a method cannot take; ``plain_steps`` says why only a loss may move its model."""
    if plain_steps and term.pulls:
        raise UserError(
            f"{term.name} moves the local model other than through the loss, but {plain_steps}; leave it out, or add "
            "it to a method such as fedavg."
        )
    if one_step and term.zero_at_start:
        raise UserError(
            f"{term.name} would do nothing, because in its only step a client is still at the broadcast model; "
            "leave it out, or add it to a method such as fedavg."
        )
