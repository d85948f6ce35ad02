"""FedRep: "Exploiting Shared Representations for Personalized Federated Learning", algorithm 1.

The body of the network is shared; the head is personal: it is neither sent nor averaged and stays in the client's
memory. In each round a client first fits its head to the body it received, which stays fixed, and then trains the body
under that head:

    h ← h − η ∇_h f_k(φ, h)     ``head_parts`` of its local steps, then
    φ ← φ − η ∇_φ f_k(φ, h)     ``body_parts`` of them

each with its own optimiser, so that neither momentum nor decay moves the fixed part. The server averages bodies with
weights n_k. The parts divide up whatever ``local`` gives: 11 epochs are 10 for the head and 1 for the body, 400 steps
are 364 and 36. Decay applies to matrices and kernels only; the authors' code goes by the name "weight", which includes
the scale factors of normalisation layers.

The authors finish by tuning the heads of all clients. Here a client tunes a copy of its head to the current body for
``tuning_epochs`` whenever it is scored (``personal``). The last score is therefore theirs, every score means the same
wherever a run is stopped, and clients that were never asked have a head to be scored with. What a client keeps is the
head it trained in the rounds. Tuning uses the usual loss, also under a term that replaces it (FedLC).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from pydantic import Field
from torch import Tensor

from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.registry import method
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Pull, Trained
from understudy.learning.plan import passes, steps_of_epochs
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.models.network import Network


class FedRepSettings(AveragingSettings):
    local: Local = Local(epochs=11, batch=10, lr=0.01, momentum=0.5, weight_decay=1e-4, decay_on="weights")
    head_parts: int = Field(default=10, ge=0)  # parts of local training that move the head
    body_parts: int = Field(default=1, ge=1)  # parts that then move the body
    tuning_epochs: int = Field(default=10, ge=0)  # epochs on the head before scoring; 0: no tuning

    def head_steps(self, steps: int) -> int:
        """How many of the local steps go to the head, rounded."""
        parts = self.head_parts + self.body_parts
        return (2 * steps * self.head_parts + parts) // (2 * parts)


FEDCOG_SGD = {"steps": 400, "batch": 64, "lr": 0.01, "momentum": 0.9, "weight_decay": 1e-5, "decay_on": "all"}
CIFAR100_SGD = {"epochs": 15, "batch": 10, "lr": 0.01, "momentum": 0.5, "weight_decay": 1e-4, "decay_on": "weights"}


@method(
    "fedrep",
    settings=FedRepSettings,
    needs="data.held_out=0.2",
    family="personal models",
    sends="the change of its body",
    presets={"cifar100": {"body_parts": 5, "local": CIFAR100_SGD}, "fedcog": {"local": FEDCOG_SGD}},
)
class FedRep(Averaging):
    head_at_home: ClassVar[bool] = True
    settings: FedRepSettings

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        for part, which, other in ((net.head, "head", "keep at home"), (net.body, "body", "share")):
            if part.start == part.stop:
                raise UserError(
                    f"fedrep: the {which} of this network has no parameters, so there is nothing to {other}; "
                    "choose a network with both, such as mlp or simple-cnn, or another method."
                )

    def fit(self, client: Client, brief: Message, w: Tensor, pulls: Sequence[Pull]) -> Trained:
        plan, net = self.plan(client), self.net
        cut = self.settings.head_steps(len(plan))
        descent = self.descent(client, pulls, self.slope(client, brief, net))
        head = self._walk(client, w, plan[:cut], replace(descent, only=net.head))
        body = self._walk(client, head.model, plan[cut:], replace(descent, only=net.body))
        steps, rates = head.steps + body.steps, head.rate_sum + body.rate_sum
        return replace(body, start=w, steps=steps, rate_sum=rates)

    def _walk(self, client: Client, w: Tensor, plan: Tensor, descent: Descent) -> Trained:
        with self.net.moving(descent.only or self.net.trainable):
            return self.walk(client, w, plan, descent)

    def personal(self, client: Client, model: Tensor) -> Tensor:
        """The current body with the client's own head tuned to it."""
        local, w = self.settings.local, self.whole(client, model)
        steps = steps_of_epochs(len(client.own), self.settings.tuning_epochs, local.batch, drop_last=local.drop_last)
        plan = passes(len(client.examples), steps, local.batch, client.rng("tuning"), drop_last=local.drop_last)
        tuned = self._walk(client, w, plan, replace(self.descent(client), only=self.net.head)).model
        w[self.net.head] = tuned[self.net.head]  # not the running statistics from tuning
        return w
