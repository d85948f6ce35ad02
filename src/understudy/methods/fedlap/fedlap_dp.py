"""FedLAP-DP: "FedLAP-DP: Federated Learning by Sharing Differentially Private Loss Approximations", algorithm 2.

FedLAP (see `fedlap`), except that a client's records are used only through private gradients. g_r is replaced by

    ( Σ_{i in a Poisson batch} g_i · min(1, C/‖g_i‖) + N(0, σ²C²I) ) / (q·n̄)

with g_i the gradient of one record over all parameters, q = ``batch``/n̄, and n̄ the planned number of records
(``privacy.records``), or the real one if counts are declared public. The divisor's n̄ also includes the records dealt
to the client (Fedssyn), which are sampled like its own and whose number is not secret. An empty batch releases noise,
and so does a client without records. The image steps, the epochs on the images and everything the server does are
post-processing and cost nothing. The augmentation is drawn independently of the records and changes each record by
itself.

A round is charged for restarts · stages · real_batches releases, 200 by default, before a record is touched and whether
or not the radius ends a path early. r is a constant, and no r_k is sent. Images start as noise and stay with the client
between rounds. All classes are sent, unless ``privacy.public`` says that labels are not secret (``labels: owned``).

Where we depart from the paper: its algorithm adds noise to each record of a batch, more than its accountant counts, and
says "uniformly sample". Its code adds noise once and uses Poisson sampling, but divides by the actual size of the
batch, and draws the noise from a generator that the augmentation has just seeded. Here the divisor is planned, and
noise and sampling have their own secret generators. The squared distance (``mse``) is off, as in the code.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field
from torch import Tensor

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message, scalar
from understudy.federation.method import task
from understudy.federation.registry import method
from understudy.learning.dsa import Draw
from understudy.learning.local import Local
from understudy.methods.fedlap.fedlap import FedLap, RealGradient
from understudy.methods.fedlap.settings import FEW_ROUNDS, GENTLER, MEASURED, FedLapSettings
from understudy.methods.shared.planned_releases import charge, noisy_means
from understudy.models.network import Network
from understudy.privacy.gradients import clipped_gradient_sum
from understudy.privacy.planning import NoisePlan, check_promise, planned
from understudy.privacy.promise import PrivacySettings
from understudy.synthesis.gradient_matching import MovingImages

IMAGES, LABELS = "fedlap.x", "fedlap.y"  # in a client's memory


class FedLapDpSettings(FedLapSettings):
    restarts: int = Field(default=4, ge=1)
    real_batches: int = Field(default=10, ge=1)
    path_epochs: int = Field(default=2, ge=0)
    radius: float = Field(default=1.5, gt=0)
    radius_rule: Literal["min", "max", "median", "mean", "constant", "fixed"] = "constant"
    mse: float = Field(default=0.0, ge=0)
    ipc: int = Field(default=10, ge=1)
    labels: Literal["owned", "all"] = "all"
    init: Literal["real", "noise"] = "noise"
    lr: float = Field(default=0.002, gt=0)
    clip: float = Field(default=1.0, gt=0)  # C, clipping norm of one record's gradient
    noise: float | None = Field(default=1.0, gt=0)  # σ; null: the smallest that keeps all rounds within privacy.epsilon


PAPER = {"restarts": 4, "stages": 5, "real_batches": 10, "image_steps": 5, "path_epochs": 2, "radius": 1.5, "lr": 0.002}
DESK = {"restarts": 2, "real_batches": 4, "path_epochs": 1, "server_epochs": 50, "batch": 128, "lr": 0.05, **FEW_ROUNDS}
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": PAPER,  # 30 rounds; ε is read after 1 and 15
    "mnist": {**PAPER, "flip": False},
    "desk": {**PAPER, **DESK, "flip": False},
}


@method("fedlap-dp", settings=FedLapDpSettings, presets=PRESETS, usual=GENTLER)
class FedLapDp(FedLap):
    settings: FedLapDpSettings

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        _refuse_what_leaks(self.settings, self._promise(), net)
        check_promise(self._promise(), self.settings.noise)
        if self._promise().records is not None:
            self._plan(0)  # refuses an ε that cannot be reached before any client is asked

    @property
    def private(self) -> bool:
        return True

    def _promise(self) -> PrivacySettings:
        if self.privacy is None:
            raise UserError(
                "fedlap-dp needs a privacy promise; write `privacy: {delta: 1e-5, records: 10000}` in the config, "
                "with the planned number of records per client, or choose fedlap."
            )
        return self.privacy

    def _plan(self, own: int) -> NoisePlan:
        a_round = Local(steps=self.settings.most_batches, batch=self.settings.batch)
        return planned(self._promise(), a_round, self.settings.noise, own, self.rounds, self.spent_before(own))

    # ---- on the client

    @task(x="examples", y="labels", records="statistics")
    def distil(self, client: Client, brief: Message) -> Message:
        plan, sent = self._plan(len(client.own)), ("x", "y", *self._beside)
        charge(client, plan, self.settings.clip, covers=sent)
        images = self._kept_images(client)
        if len(images.y):
            self.match(client, brief["model"], images, self._private_gradient(client, plan))
        made = Examples(images.x.cpu(), images.y.cpu())
        client.memory[IMAGES], client.memory[LABELS] = made.x, made.y
        reply = self._reply(made)
        return reply.but(records=scalar(len(client.own))) if "records" in sent else reply

    def _kept_images(self, client: Client) -> MovingImages:
        """The images of the previous round; N(0, 1) in the first."""
        if IMAGES in client.memory:
            return self._moving(client.memory[IMAGES], client.memory[LABELS])
        y = self._labels(client.own)
        return self._moving(self._first_images(client, client.own, y), y)

    def _private_gradient(self, client: Client, plan: NoisePlan) -> RealGradient:
        """One release per call; sampling and noise come from their own secret generators alone."""
        batches = self.batches(client.examples, plan.rate, client.secret_rng("fedlap sampling"), plan.steps)
        means = noisy_means(client, plan, self.settings.clip, self.net.grad, client.secret_rng("fedlap noise"))

        def gradient(_: Tensor, change: Draw | None) -> Tensor:
            batch = self.seen(next(batches), change)
            return means(clipped_gradient_sum(self.net, batch.x, batch.y, means.clip))

        return gradient


def _refuse_what_leaks(settings: FedLapDpSettings, privacy: PrivacySettings, net: Network) -> None:
    """Refuses, before any record is touched, what no charge could cover."""
    if settings.init == "real":
        raise UserError("method.init: real images would be sent as they are under fedlap-dp; write noise.")
    if settings.radius_rule in MEASURED:
        raise UserError(
            f"method.radius_rule: '{settings.radius_rule}' needs each client's r_k, which is measured on its records "
            "without noise; write constant or fixed."
        )
    if settings.labels == "owned" and "labels" not in privacy.public:
        raise UserError(
            "method.labels: 'owned' reveals which classes a client has; write all, or declare labels public "
            "with privacy.public: [labels]."
        )
    if settings.weights == "size" and "counts" not in privacy.public:
        raise UserError(
            "method.weights: 'size' reveals how many records a client has; write pool or uniform, or declare counts "
            "public with privacy.public: [counts]."
        )
    if net.needs_company:
        raise UserError(
            "model: BatchNorm mixes the records of a batch, so fedlap-dp cannot bound the effect of one; choose "
            "a network with GroupNorm (for resnet18: norm: group)."
        )
