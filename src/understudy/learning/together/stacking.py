"""What the clients of a group bring, stacked: their batches, step by step, and their weights."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.learning.ahead import ahead
from understudy.learning.augmentation import changed, draw_changes
from understudy.learning.loop import Descent, Feed
from understudy.learning.plan import EMPTY
from understudy.learning.together.layers import ManyLayout
from understudy.learning.together.program import ManyBatches
from understudy.models.network import Network

SCALED_AT_ONCE = 2**24  # numbers: beyond it (64 MiB), records are laid out and scaled batch by batch


@dataclass(frozen=True)
class Exercise:
    """What one client trains: from ``w`` along its feed's plan."""

    w: Tensor
    feed: Feed
    descent: Descent
    records: int  # the client's own

    @property
    def steps(self) -> int:
        return self.feed.plan.shape[0]


class StackedWeights:
    """The clients' weights: one block of (clients, …) for each tensor of the network, in its order."""

    def __init__(self, net: Network, starts: Sequence[Tensor]):
        for start in starts:
            if start.shape != net.vector.shape:
                net.load(start)  # says what does not fit
        same = all(start is starts[0] for start in starts)
        stacked = starts[0].expand(len(starts), -1) if same else torch.stack(list(starts))
        stacked = stacked.to(net.device)
        blocks: dict[str, Tensor] = {}
        for name, (where, shape) in net.windows.items():
            blocks[name] = stacked.new_empty(len(starts), *shape)
            blocks[name].view(len(starts), -1).copy_(stacked[:, where])
        self.blocks = [blocks[name] for name in net.trained]
        self.kept = [block for name, block in blocks.items() if name not in net.trained]
        self._ordered = list(blocks.values())

    def rows(self) -> Tensor:
        """(clients, size) on the processor: a model in each row."""
        return torch.cat([block.reshape(len(block), -1) for block in self._ordered], 1).cpu()


class Batches:
    """The batches of all clients, step by step; ``exercises`` come with the longest first. A step has those clients
    that still train."""

    def __init__(self, net: Network, exercises: Sequence[Exercise], layout: ManyLayout):
        self._net, self._layout = net, layout
        feeds = [exercise.feed for exercise in exercises]
        self._kinds = exercises[0].descent.local.augment if feeds[0].rng is not None else ()
        self._rngs = [feed.rng for feed in feeds]
        x = net.stacked_there([feed.examples.x for feed in feeds])
        y = net.stacked_there([feed.examples.y for feed in feeds])
        rows, present = _table(feeds)
        steps = [exercise.steps for exercise in exercises]
        self._many = [sum(own > step for own in steps) for step in range(steps[0])]
        self._present: list[list[int]] = present.tolist()  # [step][client]
        self._rows = rows.to(net.device)
        self._y = y.index_select(0, self._rows.flatten()).view(*rows.shape, *y.shape[1:])
        # A client's loss is the mean over those present.
        within = torch.arange(rows.shape[2]) < present.unsqueeze(2)
        self._share = (within / present.clamp(min=1).unsqueeze(2)).to(net.device)
        at_once = not self._kinds and max(len(x), rows.numel()) * x[:1].numel() <= SCALED_AT_ONCE
        # Records that come again in another epoch are scaled before.
        self._x = net.problem.scale(x) if at_once and rows.numel() > len(x) else x
        self._laid_out = self._records(self._rows, ()) if at_once else None

    def __iter__(self) -> Iterator[ManyBatches]:
        draws = (self._drawn(step) for step in range(len(self._many)))
        for step, (_, drawn) in enumerate(ahead(draws, lambda some: some, self._net.device)):
            active, wide = self._many[step], max(self._present[step][: self._many[step]])
            y, share = self._y[step, :active, :wide], self._share[step, :active, :wide]
            if self._laid_out is None:
                x = self._records(self._rows[step, :active, :wide], drawn)
            elif self._layout == "images":
                x = self._laid_out[step, :wide, :active]
            else:
                x = self._laid_out[step, :active, :wide]
            yield ManyBatches(x, y, share)

    def _records(self, there: Tensor, drawn: Sequence[Tensor]) -> Tensor:
        """Of the places in ``there``, (…, clients, batch), scaled and in the program's layout."""
        turn = self._layout == "images"
        order = there.transpose(-1, -2) if turn else there
        x = self._x.index_select(0, order.reshape(-1))
        if drawn:
            turned = [some.transpose(-1, -2) if turn else some for some in drawn]
            x = changed(x, self._kinds, [some.flatten(-2) for some in turned])
        return self._net.problem.scale(x).view(*order.shape, *x.shape[1:])

    def _drawn(self, step: int) -> list[Tensor]:
        """Each client's draws come from its own stream, as many as it has records there; empty places get none."""
        if not self._kinds:
            return []
        active = self._many[step]
        present = self._present[step][:active]
        wide, found = max(present), list[list[Tensor]]()
        for records, rng in zip(present, self._rngs, strict=False):
            assert rng is not None
            found.append([_filled(some, wide) for some in draw_changes(records, self._kinds, rng)])
        return [torch.stack(kind, -2) for kind in zip(*found, strict=True)]  # (…, clients, batch)


def _filled(drawn: Tensor, wide: int) -> Tensor:
    return torch.nn.functional.pad(drawn, (0, wide - drawn.shape[-1]))


def _table(feeds: Sequence[Feed]) -> tuple[Tensor, Tensor]:
    """(steps, clients, batch) rows among the records of all, and (steps, clients) how many of them are there."""
    steps, wide = len(feeds[0].plan), max(feed.plan.shape[1] for feed in feeds)
    plans = torch.stack([_widened(feed.plan, steps, wide) for feed in feeds], 1)
    there = plans != EMPTY
    first = torch.tensor([0, *itertools.accumulate(len(feed.examples) for feed in feeds)][:-1])
    # Repeating a record of the same batch adds nothing that the batch does not have, not even an infinity.
    rows = torch.where(there, plans, plans[:, :, :1]) + first.view(-1, 1)
    present = there.sum(2)
    return rows.masked_fill(present.unsqueeze(2) == 0, 0), present  # who has finished is not read, but must be in range


def _widened(plan: Tensor, steps: int, wide: int) -> Tensor:
    missing = wide - plan.shape[1], steps - plan.shape[0]
    return torch.nn.functional.pad(plan, (0, missing[0], 0, missing[1]), value=EMPTY) if any(missing) else plan
