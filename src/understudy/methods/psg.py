"""PSG: "Private Set Generation with Discriminative Information", in one shot.

Gradient matching as in DC (``methods.dc``), but with one private statistic for all classes together. At each point of a
network's path, ``batches`` Poisson batches of mixed labels are drawn. Each gives one private gradient

    (Σ clipped to C + N(0, σ²C²I)) / (q·n̄)

and one step of the whole image set towards it. Images start as noise, ``ipc`` of every class, so that only these
gradients depend on records; the networks and their training on images cost nothing.

The authors' release runs one more iteration than it accounts for. Here ``iterations`` · outer · ``batches`` gradients
are charged, all at once and before a record is touched, and exactly that many are made. The paper gives ε = 10 and δ =
1e-5 and solves σ from them; so does ``noise: null``, from ``privacy.epsilon``. q = real_batch / n̄, where n̄ is the
planned number of a client's records; the divisor also counts records dealt to it (Fedssyn), which are sampled alike.
"""

from collections.abc import Iterator

import torch
from pydantic import Field
from torch import Tensor

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.method import task
from understudy.federation.registry import method
from understudy.learning.dsa import Draw, apply, draw, with_changes
from understudy.methods.dc import ANGLES, CondensationSettings, Condensing
from understudy.methods.shared.planned_releases import charge, noisy_means
from understudy.methods.shared.pooled import first_noise
from understudy.models.network import Network
from understudy.privacy.gradients import clipped_gradient_sum
from understudy.privacy.mechanism import NoisyMeans, poisson_rows
from understudy.privacy.planning import NoisePlan, check_promise, planned_records, solved_noise
from understudy.synthesis.gradient_matching import Target, match_gradient


class PSGSettings(CondensationSettings):
    batches: int = Field(default=10, ge=1)  # private gradients at each point
    clip: float = Field(default=0.1, gt=0)  # C, clipping norm of one record's gradient
    noise: float | None = Field(default=None, gt=0)  # σ; null: solved from privacy.epsilon


@method(
    "psg",
    settings=PSGSettings,
    needs="'privacy={epsilon: 10, delta: 1e-4, records: 140}'",
    sends="images, once",
)
class PSG(Condensing):
    settings: PSGSettings

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        if self.privacy is None:
            raise UserError(
                "psg spends privacy; write `privacy: {epsilon: 10, delta: 1e-5}` in the config, or choose dc."
            )
        check_promise(self.privacy, self.settings.noise)

    @property
    def private(self) -> bool:
        return True

    @property
    def gradients(self) -> int:
        """How many are released and charged for."""
        return self.settings.iterations * self.settings.loops[0] * self.settings.batches

    def planned(self, own: int) -> NoisePlan:
        settings, privacy = self.settings, self.privacy
        assert privacy is not None
        records = planned_records(privacy, own)
        rate = min(1.0, settings.real_batch / records)
        noise = settings.noise or solved_noise(privacy, rate, self.gradients, self.spent_before(own))
        return NoisePlan(records, rate, self.gradients, noise)

    # ---- on the client

    @task(x="examples", y="labels")
    def condense(self, client: Client, brief: Message) -> Message:
        settings, plan = self.settings, self.planned(len(client.own))
        charge(client, plan, settings.clip, covers=("x", "y"))
        y = torch.arange(self.net.problem.classes).repeat_interleave(settings.ipc)
        images = self.moving(first_noise(client, len(y), self.net), y)
        there, looks = self.net.records_there(client.examples), self._looks(client, plan)
        means = self._means(client, plan)
        for _ in self.along(client, images):
            for _ in range(settings.batches):
                rows, change = next(looks)
                real = self._private_gradient(there.take(rows), change, means)
                match_gradient(self.net, images, Target(self.net, real, ANGLES), steps=1, draw=change)
        return self.reply(images)

    def _looks(self, client: Client, plan: NoisePlan) -> Iterator[tuple[Tensor, Draw | None]]:
        """The records of each batch and their augmentation; drawn ahead for all batches."""
        settings, records = self.settings, len(client.examples)

        def look() -> tuple[Tensor, Draw | None]:
            change = draw(settings.dsa_kinds, client.rng("dsa")) if settings.dsa else None
            return poisson_rows(records, plan.rate, client.secret_rng("records")), change

        return with_changes((look() for _ in range(self.gradients)), self.net.device)

    def _means(self, client: Client, plan: NoisePlan) -> NoisyMeans:
        return noisy_means(client, plan, self.settings.clip, self.net.grad, client.secret_rng("noise"))

    def _private_gradient(self, batch: Examples, change: Draw | None, means: NoisyMeans) -> Tensor:
        """At the loaded network; an empty batch gives noise alone, at the same cost."""
        x = batch.x
        if change is not None and len(x):
            x = apply(change, self.net.problem.scale(x))
        return means(clipped_gradient_sum(self.net, x, batch.y, means.clip))
