"""Surrogates in a pool: clients send a few images of each class they own, and the server trains on all of them.

What FedDM and its control REAL have in common: which classes a client sends, what a reply looks like, and how the
server learns. It continues from the broadcast model w_r and is projected back into the ball of radius ρ around it after
every step, since that is where the images were made to stand in for records. With ``keep_pool`` it also trains on the
images of earlier rounds (``methods.shared.kept_pool``). The checks of such replies serve other methods too.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from understudy.base_settings import Settings
from understudy.data.examples import Examples
from understudy.data.kinds import stand_ins
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Kind, Message, labels_from_wire, labels_to_wire
from understudy.federation.method import Method, State
from understudy.federation.server import Reply, Server, Task
from understudy.learning.ball import into_ball
from understudy.learning.dsa import ALL, DsaKind
from understudy.learning.local import Local
from understudy.learning.loop import Descent
from understudy.learning.pool import PerImage, PoolFeed, learn_from_pool
from understudy.methods.shared.kept_pool import KeptImages, kept_images, to_keep, without_kept
from understudy.methods.shared.outliers import learnt_from
from understudy.models.network import Network

FEWEST = 10  # records for a client to own a class, by default


class PooledSettings(Settings):
    ipc: int = Field(default=10, ge=1)  # images per class
    radius: float = Field(default=5.0, gt=0)  # ρ: how far the server may move from w_r in a round
    min_class_records: int | None = Field(default=None, ge=1)  # records to own a class; null: 10, or no limit under dp
    weights: Literal["pool", "size"] = "pool"  # weights of images: all equal, or n_{k,c} / ipc each
    keep_pool: int = Field(default=0, ge=0)  # earlier rounds whose images the server trains on too; kept in State
    keep_weight: float = Field(default=1.0, gt=0, le=1)  # factor of a kept image's weight, per round of its age
    dsa: bool = False  # differentiable augmentation
    dsa_kinds: tuple[DsaKind, ...] = ALL  # kinds to draw from; leave out flip for digits and letters
    # how the server trains on the images
    server: Local = Local(epochs=500, batch=256, lr=0.01, momentum=0.9, weight_decay=5e-4)


class Pooled(Method):
    def __init__(self, settings: PooledSettings):
        self.settings = settings

    @property
    @abstractmethod
    def client_task(self) -> Task:
        """The client's task: images ``x`` with labels ``y``, and with ``weights: size`` a ``weight`` for each."""

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        check_images(net, type(self).__name__, self.settings.dsa_kinds if self.settings.dsa else None)

    # ---- on the client

    def owned(self, real: Examples, fewest: int | None = None) -> list[int]:
        """The classes that a client sends images of."""
        least = fewest or self.settings.min_class_records or FEWEST
        return [c for c, n in enumerate(real.label_counts(self.net.problem.classes).tolist()) if n >= least]

    def reply(self, x: Tensor, y: Tensor, real: Examples) -> Message:
        message = Message(x=x, y=labels_to_wire(y, self.net.problem.classes))
        if self.settings.weights == "pool":
            return message
        records, images = (labels.bincount(minlength=self.net.problem.classes) for labels in (real.y, y))
        return message.but(weight=records[y] / images[y].to(torch.float32))

    def keep_rows(self, kinds: Mapping[str, Kind], reply: Message, kept: Tensor) -> Message:
        """A class weighs as many records as before, spread over fewer images."""
        left = super().keep_rows(kinds, reply.without("weight"), kept)
        if "weight" not in reply:
            return left
        y = labels_from_wire(reply["y"])
        images = y.bincount(minlength=self.net.problem.classes)
        records = (reply["weight"][kept] * images[y[kept]]).round()
        return left.but(
            weight=records / y[kept].bincount(minlength=self.net.problem.classes)[y[kept]].to(torch.float32)
        )

    # ---- on the server

    def round(self, server: Server, state: State) -> State:
        asked = server.ask(self.client_task, Message(model=state["model"]), to=server.cohort())
        replies = [reply for reply in accepted(asked, self.why_refused) if len(reply["y"])]
        if not replies:
            return state
        earlier = kept_images(state, server.round, self.settings.keep_pool)
        learnt = learnt_from(replies, lambda some: self._learnt(server, state, some, earlier))
        if earlier and learnt.not_finite():  # an image of an earlier round may be why: they are forgotten
            earlier, left = [], [reply for reply in replies if reply.refusal is None]
            learnt = learnt_from(left, lambda some: self._learnt(server, state, some, earlier))
        needed = [kept.round for kept in earlier if kept.age < self.settings.keep_pool]
        return without_kept(state, but=needed).but(learnt)

    def why_refused(self, reply: Reply) -> str | None:
        """Why a reply cannot join the pool; None: it can."""
        most = self.settings.ipc * self.net.problem.classes
        return why_unfit(reply, self.net, most=most, weighted=self.settings.weights == "size")

    def _learnt(self, server: Server, state: State, replies: Sequence[Reply], earlier: Sequence[KeptImages]) -> Message:
        """The model trained further, and this round's images if a later round needs them."""
        model = self._learn(server, state["model"], replies, earlier)
        if not self.settings.keep_pool:
            return Message(model=model)
        kept = to_keep(replies, server.round, self.net.problem, weighted=self.settings.weights == "size")
        return Message(kept, model=model)

    def _learn(self, server: Server, w: Tensor, replies: Sequence[Reply], earlier: Sequence[KeptImages] = ()) -> Tensor:
        settings, local, problem = self.settings, self.settings.server, self.net.problem
        pool = PoolFeed(
            pooled([*replies, *(kept.parts for kept in earlier)], problem),
            order=server.rng("pool"),
            rng=server.rng("augmentation"),
            weights=self._weights(replies, earlier),
            augment=PerImage(settings.dsa_kinds, server.rng("dsa")) if settings.dsa else None,
        )
        centre = w[self.net.trainable].to(self.net.device)
        descent = Descent(
            local,
            local.rate(server.round, self.rounds),
            project=lambda here: into_ball(here, centre, settings.radius),
        )
        return learn_from_pool(self.net, w, pool, descent).model

    def _weights(self, replies: Sequence[Reply], earlier: Sequence[KeptImages]) -> Tensor | None:
        """One per image, in the order of the pool; None: all alike."""
        settings = self.settings
        if settings.weights == "pool" and (settings.keep_weight == 1 or not earlier):
            return None
        images = [(reply, 0) for reply in replies] + [(kept.parts, kept.age) for kept in earlier]
        sized = settings.weights == "size"
        plain = [(parts["weight"] if sized else torch.ones(len(parts["y"])), age) for parts, age in images]
        return torch.cat([weight * settings.keep_weight**age for weight, age in plain])


def check_images(net: Network, who: str, dsa_kinds: tuple[DsaKind, ...] | None = None) -> None:
    """``who`` makes images class by class; ``dsa_kinds``: how they are augmented, if they are."""
    if net.problem.multilabel:
        raise UserError(f"{who} makes images class by class, so every record must have exactly one label.")
    if dsa_kinds is not None and len(net.problem.shape) != 3:
        raise UserError("method.dsa needs images (channels, height, width), unlike these records; write dsa: false.")
    if dsa_kinds == ():
        raise UserError("method.dsa_kinds is empty; name at least one kind, or write dsa: false.")


def why_unfit(reply: Reply, net: Network, *, most: int | None = None, weighted: bool = False) -> str | None:
    """Why a reply cannot join the pool. More than ``most`` images are unplanned and would hold up the server."""
    missing = [part for part in ("x", "y", *(["weight"] if weighted else [])) if part not in reply]
    if missing:
        return f"it has no part '{missing[0]}'"
    x, y, problem, several = reply["x"], reply["y"], net.problem, stand_ins(net.problem.kind)
    labels = labels_to_wire(torch.empty(0, problem.classes) if problem.multilabel else torch.empty(0), problem.classes)
    if x.dtype not in ((torch.int32,) if problem.tokens else (torch.uint8, torch.float32)) or y.dtype != labels.dtype:
        return f"its {several} and labels are in {_name(x.dtype)} and {_name(y.dtype)}, which this method never sends"
    if tuple(x.shape[1:]) != problem.shape or tuple(y.shape) != (*x.shape[:1], *labels.shape[1:]):
        return f"its {several} {tuple(x.shape)} and labels {tuple(y.shape)} do not fit; one has shape {problem.shape}"
    kinds = 2 if problem.multilabel else problem.classes
    if y.numel() and not 0 <= int(y.min()) <= int(y.max()) < kinds:
        return f"its labels run from {int(y.min())} to {int(y.max())}, but there are only {kinds}"
    if problem.tokens and x.numel() and not 0 <= int(x.min()) <= int(x.max()) < problem.tokens:
        return f"its token ids run from {int(x.min())} to {int(x.max())}, but there are only {problem.tokens}"
    if most is not None and len(y) > most:
        return f"it sent {len(y)} {several}, but at most {most} are planned"
    weight = reply["weight"] if weighted else torch.ones(len(y))
    if tuple(weight.shape) != (len(y),) or weight.dtype != torch.float32 or bool((weight <= 0).any()):
        return f"it needs a weight above 0 for each of its {several}"
    return None


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def of_one_kind(replies: Sequence[Reply], known: Sequence[torch.dtype] = ()) -> list[Reply]:
    """Replies of one kind, all pixels or all numbers: the most common among ``known`` and these."""
    kinds = Counter([*known, *(reply["x"].dtype for reply in replies if len(reply["y"]))])
    common = kinds.most_common(1)[0][0] if kinds else None
    for reply in replies:
        if len(reply["y"]) and reply["x"].dtype != common:
            reply.refuse(f"its images are in {_name(reply['x'].dtype)}, unlike those of most others")
    return [reply for reply in replies if reply.refusal is None]


def accepted(replies: Iterable[Reply], fault: Callable[[Reply], str | None]) -> Iterator[Reply]:
    """The replies that have no fault; the others are refused."""
    for reply in replies:
        wrong = fault(reply)
        if wrong is None:
            yield reply
        else:
            reply.refuse(wrong)


def pooled(replies: Sequence[Mapping[str, Tensor]], problem: Problem) -> Examples:
    """All images, scaled reply by reply, so that one reply's number type does not affect the others."""
    x = torch.cat([problem.scale(reply["x"]) for reply in replies])
    return Examples(x, torch.cat([labels_from_wire(reply["y"]) for reply in replies]))


def first_noise(client: Client, images: int, net: Network) -> Tensor:
    """N(0, 1) in the space of scaled images, independent of the records."""
    return torch.randn(images, *net.problem.shape, generator=client.rng("first images"))
