"""The parts of a member of the averaging family: terms that act on local models, and a rule that combines the
results.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

from torch import Tensor, nn

from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Kind, Message
from understudy.federation.method import ANYTHING, State, Takes
from understudy.learning.local import Local
from understudy.learning.loop import Batch, Slope, Trained
from understudy.models.network import Network

Kit = Mapping[str, Tensor]
Parts = dict[str, Tensor]
Shapes = dict[str, tuple[int, ...]]
SlopeFor = Callable[[Client, Message, Network], Slope]  # how a client turns a batch into a direction


class Term:
    """What acts on the local model besides the loss of the data, or in its place. Stateless: what lasts is in State or
    in memory."""

    name: str  # as registered; otherwise the class name
    # Every term with a `loss` or a `data_loss` declares which: one number per record, made from that record and the
    # kit, or one for a whole batch (or for anything else). Under privacy the first is clipped with the record's
    # gradient, the second is refused.
    per_record: ClassVar[bool]
    # `begin` or `end` look at the client's records, or count them: refused under privacy, where only the clipped
    # gradient may do so.
    reads_records: bool = False
    usual_loss: bool = False  # `begin` or `end` use the usual loss of the data, so no term may replace it
    zero_at_start: ClassVar[bool] = False  # has no effect at the broadcast model, so none in a method of one step
    takes: Takes = ANYTHING  # the kinds of record that it can work with, and what must be set for each
    # The parts of the kit that `gradient` uses, if it also works on several clients at once: then these parts and ``w``
    # have one row per client, and single numbers are columns. None: clients with this term train one by one.
    in_rows: ClassVar[tuple[str, ...] | None] = None
    down: ClassVar[tuple[str, ...]] = ()  # parts of State that are sent in the brief
    up: ClassVar[Mapping[str, Kind]] = {}  # parts that `end` adds to the reply, to be summed
    least: ClassVar[Mapping[str, float]] = {}  # for parts in ``up``: the smallest number allowed

    def shapes(self, net: Network) -> Shapes:
        """Shapes of the parts in ``up``."""
        return dict.fromkeys(self.up, (net.parameters,))

    def check(self, net: Network) -> None:
        """Refuses, in one sentence, a network or a problem it cannot work with."""

    def adapt_network(self, module: nn.Module, problem: Problem) -> nn.Module:
        """The network as this term needs it, still with features and head; called for each term in turn."""
        return module

    def fits(self, local: Local, head_at_home: bool) -> None:
        """Refuses, in one sentence, local training it cannot work with."""

    def first_state(self, net: Network) -> Parts:
        """Parts of State before round 1."""
        return {}

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        """Before training, with the broadcast model in ``net``; None: nothing to do this round."""
        return {}

    def data_weight(self, kit: Kit) -> float:
        """The factor on the loss of the data."""
        return 1.0

    def data_loss(self, kit: Kit, net: Network, batch: Batch) -> Tensor | None:
        """(n,) losses of a batch that replace the usual ones, with the same weights; None: the usual ones."""
        return None

    def loss(self, kit: Kit, net: Network, w: Tensor, batch: Batch) -> Tensor | None:
        """An additional loss: one number per record, or one per batch if ``per_record`` is False."""
        return None

    @property
    def replaces_loss(self) -> bool:
        return type(self).data_loss is not Term.data_loss

    @property
    def changes_loss(self) -> bool:
        changed = type(self).loss is not Term.loss or type(self).data_weight is not Term.data_weight
        return changed or self.replaces_loss

    @property
    def pulls(self) -> bool:
        """Whether it acts on the model other than through the loss."""
        return type(self).gradient is not Term.gradient

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.name = cls.__name__
        if (cls.loss, cls.data_loss) != (Term.loss, Term.data_loss) and not hasattr(cls, "per_record"):
            raise UserError(
                f"The term {cls.__name__} adds a loss: write `per_record = True` if it is one number per record, "
                "made from that record alone, and `per_record = False` if not."
            )

    def samples(self, steps: int, rounds: range) -> float:
        """What it sends through the network in these rounds, each of ``steps`` local steps, besides the records; as
        `Method.samples` counts."""
        return 0.0

    def gradient(self, kit: Kit, w: Tensor) -> Tensor | None:
        """In closed form, over the trainable part; added after clipping."""
        return None

    def end(self, client: Client, kit: Kit | None, trained: Trained) -> Parts:
        """After training, always called: writes memory, adds parts to be summed."""
        return {}

    def fold(self, state: State, sums: Message, clients: int) -> Parts:
        """The server's half: new parts of State. ``clients`` is the number of all clients."""
        return {}


class Rule:
    """How changes are combined. This one is the mean: w ← w + rate · Σ a_k Δ_k / Σ a_k."""

    up: ClassVar[Mapping[str, Kind]] = {"change": "weights"}
    least: ClassVar[Mapping[str, float]] = {}  # for parts in ``up``: the smallest number allowed

    def __init__(self, rate: float = 1.0):
        self.rate = rate

    def shapes(self, size: int) -> Shapes:
        """Shapes of the parts in ``up``, with ``size`` trained numbers shared."""
        return dict.fromkeys(self.up, (size,))

    def first_state(self, size: int) -> Parts:
        """Parts of State before round 1."""
        return {}

    def share(self, change: Tensor, weight: float, trained: Trained) -> Parts:
        """On the client: its part of the sums, multiplied by its weight. Nobody else reads ``change``."""
        return {"change": change.mul_(weight)}

    def step(self, w: Tensor, state: State, sums: Message, clients: int) -> Parts:
        """On the server: the new shared part as ``model``, and anything else the rule keeps in State."""
        mean = sums["change"] / sums["weight"]
        return {"model": w + self.rate * mean}

    def result(self, state: State) -> Tensor:
        """The weights to score and to save."""
        return state["model"]
