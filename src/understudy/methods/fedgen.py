"""FedGen: "Data-Free Knowledge Distillation for Heterogeneous Federated Learning", algorithm 1.

FedAvg, plus a generator G(y, ε) of last hidden features on the server. Each round the server trains G
with the clients' heads as teachers, on labels y drawn evenly from those some participant has, and ε ~ U(0, 1):

    Σ_k α_{k,y} · CE(head_k(G(y, ε)), y) + δ · exp(− mean_ij u_ij v_ij) − s · KL(Σ_k α_{k,y} head_k ‖ broadcast head)

α_{k,y} are the participants' label counts, normalised to sum to 1 for each label. The second term keeps G from mapping
all noise to the same features; the third has weight s = 0 by default. Once G has been trained, so from round 2 on, it
is sent down with the model, and a client's loss is

    CE + (b_g/b) · α_t · CE(head(G(ŷ)), ŷ) + β_t · KL( softmax head(G(y)) ‖ softmax model(x) )

with ŷ drawn evenly, y the labels of the batch, and the target of the KL held constant. α_t and β_t shrink over the
rounds, and the extra terms apply only in the first ``early_steps`` local steps (the authors' 20 local epochs are of one
batch each).

Clients send the model and their label counts, each count starting at 1 as in the authors' code; theirs counts labels
seen in training, ours a client's records. The generator and its Adam state are kept in State. The server reads single
replies, because the heads are the teachers.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Kind, Message, scalar
from understudy.federation.method import State, by_sums
from understudy.federation.registry import method
from understudy.federation.server import Brief, Reply, Server, Task, WrappedServer
from understudy.learning.ahead import ahead
from understudy.learning.local import Local
from understudy.learning.loop import Batch, Trained
from understudy.methods.shared.averaging import SOMEBODY, Averaging, AveragingSettings
from understudy.methods.shared.terms_and_rules import Kit, Parts, Shapes, Term
from understudy.models.network import Network
from understudy.synthesis.feature_generator import FeatureGenerator, divergence_from, sameness, teachers_loss

GENERATOR, MEAN, SQUARE, STEPS = "fedgen.generator", "fedgen.mean", "fedgen.square", "fedgen.steps"  # in State


class FedGenSettings(AveragingSettings):
    local: Local = Local(steps=20, batch=32, lr=0.01, schedule="exponential", decay=0.99)
    noise: int = Field(default=32, ge=1)  # length of ε
    hidden: int = Field(default=256, ge=1)  # units in the generator's hidden layer
    generator_steps: int = Field(default=50, ge=0)  # steps of the generator per round
    generator_batch: int = Field(default=32, ge=2)  # labels per step of the generator
    generator_lr: float = Field(default=3e-4, gt=0)  # learning rate of the generator, in Adam
    generator_lr_decay: float = Field(default=0.98, gt=0, le=1)  # factor of that rate per round
    generator_weight_decay: float = Field(default=1e-2, ge=0)  # weight decay of the generator, in Adam
    diversity: float = Field(default=1.0, ge=0)  # δ, weight of the diversity loss
    student_weight: float = Field(default=0.0, ge=0)  # s, weight of the disagreement with the broadcast head
    generated_batch: int = Field(default=32, ge=1)  # b_g, generated features per local step
    label_weight: float = Field(default=10.0, ge=0)  # α, weight of generated features in a client's loss
    kl_weight: float = Field(default=10.0, ge=0)  # β, weight of the KL in a client's loss
    fading: float = Field(default=0.98, gt=0, le=1)  # factor of α and β per round
    least_weight: float = Field(default=1e-4, ge=0)  # lower bound of α and β
    early_steps: int = Field(default=20, ge=0)  # local steps per round that use the generator

    def weight_at(self, first: float, round: int) -> float:
        """α_t or β_t; t counts rounds from 0."""
        return max(self.least_weight, first * self.fading ** (round - 1)) if first else 0.0


class Imagined(Term):
    """The client's half: generated features keep its head close to the others'."""

    per_record: ClassVar[bool] = False
    reads_records: bool = True  # label counts
    up: ClassVar[Mapping[str, Kind]] = {"labels": "statistics"}
    least: ClassVar[Mapping[str, float]] = {"labels": 1.0}  # counts start at 1
    generator: FeatureGenerator  # made for the network in `check`

    def __init__(self, settings: FedGenSettings):
        self.settings = settings

    def check(self, net: Network) -> None:
        if net.problem.multilabel:
            raise UserError("fedgen makes features of one class each, so every record must have exactly one label.")
        with net.scoring():
            features = net(net.problem.blank(1))[0]
        if features.ndim != 2 or net.head.start == net.head.stop:
            raise UserError("fedgen: the network needs features (n, d) and a head with parameters; choose another one.")
        chosen, classes = self.settings, net.problem.classes
        self.generator = FeatureGenerator(
            classes, features.shape[1], noise=chosen.noise, hidden=chosen.hidden, device=net.device
        )

    def shapes(self, net: Network) -> Shapes:
        return {"labels": (net.problem.classes,)}

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        settings, generator, rng = self.settings, self.generator, client.rng("fedgen")
        weights = [settings.weight_at(first, client.round) for first in (settings.label_weight, settings.kl_weight)]
        if GENERATOR not in brief or not len(client.examples) or not any(weights):
            return None
        steps, ratio = settings.early_steps, settings.generated_batch / settings.local.batch
        labels = torch.randint(generator.classes, (steps, settings.generated_batch), generator=rng).to(net.device)
        noise = generator.draw_noise(steps, settings.generated_batch, rng=rng).to(net.device)
        trained = brief[GENERATOR].to(net.device)
        with generator.net.scoring():
            made = generator.make(noise.flatten(0, 1), labels.flatten(), trained)
        return {
            "generator": trained,
            "labels": labels,
            "made": made.view(*labels.shape, -1),
            "noise": generator.draw_noise(steps, settings.local.batch, rng=rng).to(net.device),
            "label_weight": scalar(ratio * weights[0]),
            "kl_weight": scalar(weights[1]),
        }

    def loss(self, kit: Kit, net: Network, w: Tensor, batch: Batch) -> Tensor | None:
        at = batch.step
        if at >= len(kit["labels"]):
            return None
        with self.generator.net.scoring():
            imagined = self.generator.make(kit["noise"][at][: len(batch.y)], batch.y, kit["generator"])
            target = net.read(imagined)
        of_labels = F.cross_entropy(net.read(kit["made"][at]), kit["labels"][at])
        apart = divergence_from(batch.logits, target).mean()
        return float(kit["label_weight"]) * of_labels + float(kit["kl_weight"]) * apart

    def end(self, client: Client, kit: Kit | None, trained: Trained) -> Parts:
        return {"labels": 1.0 + client.examples.label_counts(self.generator.classes)}


class Listener(WrappedServer):
    """Passes every reply on, and keeps what the generator learns from: the heads' changes and label counts."""

    def __init__(self, inner: Server, head: slice):
        super().__init__(inner)
        self._head = head
        self.heard: list[tuple[Tensor, Tensor]] = []  # for each participant with records

    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        for reply in self.inner.ask(task, brief, to, at_least):
            yield reply
            if reply.refusal is None and float(reply["weight"]) >= SOMEBODY:
                head = reply["change"][self._head] / reply["weight"]
                self.heard.append((head.to(torch.float32), reply["labels"].to(torch.float32)))


@method(
    "fedgen",
    settings=FedGenSettings,
    family="a generator on the server",
    sends="its change and label counts",
    presets={
        "emnist": {"generator_lr": 1e-4, "kl_weight": 1.0},
        "fedssyn": {"noise": 64, "hidden": 512},  # 302 080 parameters for VGG-11 and ten classes
    },
)
class FedGen(Averaging):
    settings: FedGenSettings

    def __init__(self, settings: FedGenSettings):
        self.imagined = Imagined(settings)
        super().__init__(settings, terms=[self.imagined])

    @by_sums
    def start(self, server: Server) -> State:
        first = self.imagined.generator.first(server.rng("generator"))
        nothing = torch.zeros(self.imagined.generator.net.parameters)
        parts = {GENERATOR: first, MEAN: nothing, SQUARE: nothing.clone(), STEPS: scalar(0)}
        return super().start(server).but(parts)

    def _brief(self, state: State) -> Message:
        brief = super()._brief(state)
        return brief.but({GENERATOR: state[GENERATOR]}) if float(state[STEPS]) else brief

    def round(self, server: Server, state: State) -> State:
        """Not `by_sums`: the generator learns from every single head."""
        listener = Listener(server, self.net.head)
        after = super().round(listener, state)
        labels = torch.stack([counts for _, counts in listener.heard]) if listener.heard else torch.ones(1, 1)
        present = torch.nonzero(labels.max(0).values > 1).flatten()  # counts start at 1
        if not len(present) or not self.settings.generator_steps:
            return after
        broadcast = state["model"][self.net.head]
        heads = [broadcast + change for change, _ in listener.heard]
        return after.but(self._teach(server, state, broadcast, heads, labels / labels.sum(0), present))

    def _teach(
        self, server: Server, state: State, broadcast: Tensor, heads: list[Tensor], shares: Tensor, present: Tensor
    ) -> Parts:
        settings, generator, rng = self.settings, self.imagined.generator, server.rng("generator")
        net, device = generator.net, generator.net.device
        net.load(state[GENERATOR])
        net.module.train()
        moving, adam = self._adam(server.round, state)
        there, shares, broadcast = [head.to(device) for head in heads], shares.to(device), broadcast.to(device)

        def drawn() -> tuple[Tensor, Tensor]:
            y = present[torch.randint(len(present), (settings.generator_batch,), generator=rng)]
            return y, generator.draw_noise(settings.generator_batch, rng=rng)

        draws = (drawn() for _ in range(settings.generator_steps))
        for _, (y, noise) in ahead(draws, lambda each: each, device):
            net.grad.zero_()
            self.generator_loss(noise, y, broadcast, there, shares).backward()  # type: ignore[no-untyped-call]
            adam.step()
        learnt = adam.state[moving]
        return {
            GENERATOR: net.vector.clone(),
            MEAN: learnt["exp_avg"],
            SQUARE: learnt["exp_avg_sq"],
            STEPS: scalar(learnt["step"]),
        }

    def generator_loss(
        self, noise: Tensor, y: Tensor, broadcast: Tensor, heads: Sequence[Tensor], shares: Tensor
    ) -> Tensor:
        """The loss that the loaded generator minimises."""
        made = self.imagined.generator.make(noise, y)
        logits = [self.net.read(made, head) for head in heads]
        loss = teachers_loss(logits, y, shares) + self.settings.diversity * sameness(noise, made)
        if not self.settings.student_weight:
            return loss
        together = (torch.stack(logits) * shares[:, y, None]).sum(0)
        apart = divergence_from(self.net.read(made, broadcast), together)
        return loss - self.settings.student_weight * apart.mean()

    def _adam(self, round: int, state: State) -> tuple[Tensor, torch.optim.Adam]:
        """Adam over the loaded generator, resumed from State."""
        net, settings = self.imagined.generator.net, self.settings
        moving = net.vector[net.trainable]
        moving.grad = net.grad
        rate = settings.generator_lr * settings.generator_lr_decay ** (round - 1)
        adam = torch.optim.Adam([moving], lr=rate, weight_decay=settings.generator_weight_decay)
        adam.state[moving] = {
            "step": state[STEPS].clone(),
            "exp_avg": state[MEAN].to(net.device, copy=True),
            "exp_avg_sq": state[SQUARE].to(net.device, copy=True),
        }
        return moving, adam
