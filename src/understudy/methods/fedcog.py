"""FedCOG: "Fake It Till Make It: Federated Learning with Consensus-Oriented Generation".

An add-on to any averaging method. Before training, a client inverts the broadcast model θ into M inputs of the classes
it lacks, chosen so that its own previous model θ_prev disagrees with θ on them. During training it stays close to θ on
these inputs:

    L = a · CE(real) + b · KL( softmax θ(x̂) ‖ softmax local(x̂) ),      temperature 1

The paper gives two weightings that differ by a factor of hundreds (``kd_weighting``). ``balanced``, the default, is
that of the appendix and the released code, and the one with which the paper's gains were found again: a = n/(n+ñ),
b = ñ/(n+ñ), where ñ = Σ_c (max d − d_c) is the number of records that would balance the client. ``fixed`` is the main
text's a = 1, b = 0.01.

Labels follow the complement d̂_c = max d − d_c, allocated to exactly M by largest remainder. A client that has taken
part before uses the model it produced then, however old; one that has not generates without the disagreement term. The
soft labels belong to the final iterate of the images, the one that is used. Nothing else is sent, so the bytes are
those of the underlying method.

The paper's ablations and variants: ``source`` leaves out the disagreement (``global``) or the inversion altogether
(``noise``: x̂ stays N(0, I)); ``targets: hard`` uses the requested labels instead of θ's soft ones; with ``generator:
network`` a small network draws the images, and its weights and noise are learnt.

When a record has several labels, each label is a coin flip. The KL is summed over labels, which is the KL of their
joint distribution; CE and JS are means over labels. How the authors chose target labels is not known. Here an image has
as many labels as the client's records have on average, at least one, and a label is drawn more often the rarer it is
compared with the client's most frequent label; n and ñ count labels. If a network has more outputs than the problem has
classes, the first ones are the classes.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional as F

from understudy.base_settings import Settings
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message, scalar
from understudy.federation.method import ONLY_NUMBERS, Method, Takes
from understudy.federation.registry import Presets, add_on
from understudy.learning.loop import Batch, Trained
from understudy.methods.shared.term_registration import joined
from understudy.methods.shared.terms_and_rules import Kit, Parts, Term
from understudy.models.network import Network
from understudy.synthesis.divergence import Divergence, kullback_leibler, log_chances
from understudy.synthesis.inversion import Inversion, invert, invert_by_network
from understudy.synthesis.labels import label_sets, labels_from_counts, largest_remainder

PREVIOUS = "fedcog.previous"


class FedCogSettings(Settings):
    kd_weighting: Literal["fixed", "balanced"] = "balanced"  # weights of the two losses: main text, or appendix
    kd_weight: float = Field(default=0.01, ge=0)  # λ_kd, with kd_weighting: fixed
    from_round: int = Field(default=1, ge=1)  # first round with images; earlier rounds train plainly
    images: int = Field(default=256, ge=1)  # M, images per client and round
    steps: int = Field(default=100, ge=0)  # steps of Adam to make the images
    lr: float = Field(default=0.01, gt=0)  # learning rate of the images
    disagreement: float = Field(default=0.1, ge=0)  # λ_dis, weight of the disagreement with the previous model
    labels: Literal["complement", "uniform"] = "complement"  # classes of the images: those it lacks, or all equally
    divergence: Divergence = "exact"  # Jensen-Shannon divergence: exact, or as in the released code
    source: Literal["both", "global", "noise"] = "both"  # which models make the images: both, the global one, none
    targets: Literal["soft", "hard"] = "soft"  # what to learn on the images: θ's outputs, or the requested labels
    generator: Literal["pixels", "network"] = "pixels"  # what is optimised: the images, or a network that draws them

    @model_validator(mode="after")
    def _fits_the_generator(self) -> Self:
        if self.generator == "network" and self.source == "noise":
            raise ValueError("source: noise learns nothing, so it needs generator: pixels")
        if self.generator == "network" and self.images < 2:
            raise ValueError("generator: network normalises over the images, so it needs images: 2 or more")
        return self

    @property
    def wants_previous(self) -> bool:
        return self.source == "both" and self.disagreement > 0


@dataclass(frozen=True)
class Images:
    """What a client generated, in the order it learns from them."""

    x: Tensor  # (M, …) as the network expects them
    y: Tensor  # the requested labels, (M,) or (M, classes)
    logits: Tensor  # θ(x̂)


class Consensus(Term):
    """Distillation from the broadcast model on inputs generated from it."""

    per_record: ClassVar[bool] = False  # one number per generated image
    reads_records: bool = True  # label counts
    takes: Takes = ONLY_NUMBERS

    def __init__(self, settings: FedCogSettings, batch: int):
        self.settings, self.batch = settings, batch

    def check(self, net: Network) -> None:
        if self.settings.generator == "network" and len(net.problem.shape) != 3:
            raise UserError(
                f"fedcog: generator 'network' draws images, but the records have shape {net.problem.shape}; "
                "write generator: pixels."
            )

    def samples(self, steps: int, rounds: range) -> float:
        """Images through one or two networks at each step of the inversion, and a batch of them at each local step."""
        settings = self.settings
        inverted = 0 if settings.source == "noise" else settings.steps * settings.images
        taught = steps * min(self.batch, settings.images)
        late = sum(round >= settings.from_round for round in rounds)
        return float(late * (inverted * (2 if settings.wants_previous else 1) + taught))

    # ---- before training

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        if client.round < self.settings.from_round or not len(client.examples):
            return None
        real_weight, kd_weight = self.loss_weights(client.examples.label_counts(net.problem.classes))
        if kd_weight == 0:
            return None
        made = self.generate(client, net)
        soft = self.settings.targets == "soft"
        target = log_chances(net.problem, made.logits) if soft else asked_chances(net, made.y)
        weights = {"data_weight": scalar(real_weight), "kd_weight": scalar(kd_weight)}
        return {"x": made.x, "teacher" if soft else "asked": target, **weights}

    def generate(self, client: Client, net: Network) -> Images:
        """Expects the broadcast model in ``net``."""
        settings, labels = self.settings, self.target_labels(client, net)
        previous = client.memory.get(PREVIOUS) if settings.wants_previous else None
        rng = client.rng("fedcog images")
        make = invert_by_network if settings.generator == "network" else invert
        steps = 0 if settings.source == "noise" else settings.steps
        how = Inversion(steps, settings.lr, settings.disagreement, settings.divergence)
        x = make(net, labels, rng, None if previous is None else net.twin(previous, "previous"), how)
        order = torch.randperm(len(x), generator=rng)
        logits, there = net.logits(x), order.to(net.device)
        return Images(x[there], labels[order], logits[there])

    def target_labels(self, client: Client, net: Network) -> Tensor:
        """(images,) classes in order, or (images, classes) sets of labels."""
        held = client.examples.label_counts(net.problem.classes)
        if not net.problem.multilabel:
            return labels_from_counts(self.label_counts(held))
        a_record = int(held.sum()) / len(client.examples)
        return label_sets(self.settings.images, a_record, self._lacking(held), client.rng("fedcog labels"))

    def label_counts(self, held: Tensor) -> Tensor:
        """How many images of each class to make; exactly ``images`` in all."""
        return largest_remainder(self.settings.images, self._lacking(held))

    def _lacking(self, held: Tensor) -> Tensor:
        return held.max() - held if self.settings.labels == "complement" else torch.ones_like(held)

    def loss_weights(self, held: Tensor) -> tuple[float, float]:
        """a on the data and b on the distillation."""
        if self.settings.kd_weighting == "fixed":
            return 1.0, self.settings.kd_weight
        real, lacking = float(held.sum()), float((held.max() - held).sum())
        return (real / (real + lacking), lacking / (real + lacking)) if lacking else (1.0, 0.0)

    # ---- while training

    def data_weight(self, kit: Kit) -> float:
        return float(kit["data_weight"])

    def loss(self, kit: Kit, net: Network, w: Tensor, batch: Batch) -> Tensor:
        size = min(self.batch, len(kit["x"]))
        at = (batch.step * size + torch.arange(size, device=net.device)) % len(kit["x"])
        student = log_chances(net.problem, net.at(w, kit["x"][at])[1])
        if "asked" in kit:
            return -float(kit["kd_weight"]) * (kit["asked"][at] * student).flatten(1).sum(1)
        return float(kit["kd_weight"]) * kullback_leibler(kit["teacher"][at], student)

    def end(self, client: Client, kit: Kit | None, trained: Trained) -> Parts:
        if self.settings.wants_previous:
            client.memory[PREVIOUS] = trained.model
        return {}


def asked_chances(net: Network, y: Tensor) -> Tensor:
    """The labels as probabilities of 0 and 1, in the shape of ``log_chances``."""
    if net.problem.multilabel:
        return torch.stack([y, 1 - y], -1).to(net.device)
    return F.one_hot(y, net.problem.classes).to(net.device, torch.float32)


PRESETS: Presets = {
    "paper": {"kd_weighting": "fixed", "kd_weight": 0.01, "steps": 100},  # the main text
    "release": {"kd_weighting": "balanced", "steps": 500, "divergence": "release"},
    "desk": {"images": 64, "steps": 30},  # for a first look at some hundred records
}


@add_on(
    "fedcog",
    settings=FedCogSettings,
    presets=PRESETS,
    family="pictures teach, clients learn",
)
def fedcog(settings: FedCogSettings, method: Method) -> Method:
    return joined("fedcog", method, lambda local: Consensus(settings, local.batch))
