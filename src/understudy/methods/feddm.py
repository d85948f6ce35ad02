"""FedDM: "FedDM: Iterative Distribution Matching for Communication-Efficient Federated Learning", algorithms 1 and 2.

Images travel up instead of weights. In each round a client makes ``ipc`` images for each class it owns. Their mean
features and logits match those of its records under networks drawn from the sphere of radius ρ around the broadcast
model w_r (the paper's truncated Gaussian is always cut off there, see ``synthesis.matching``). The server pools all
images and continues training from w_r, projecting back into the ball of radius ρ around w_r after every step
(``methods.shared.pooled``).

Where the paper is silent, we follow the distribution matching it builds on: image momentum 0.5, server momentum 0.9,
decay 5e-4, and ``dsa``, off by default: one augmentation per class and step, shared by real and synthetic
images, and one per image in the server's training. A class with fewer than ``min_class_records`` records is left out,
which is what the paper's message sizes imply. ``weights: size`` is its equation 10 with n_{k,c} in place of the
misprinted count: each image weighs n_{k,c} / ipc, which reveals those counts to the server.

Where we go further. ``init: generator``: images start neither as records nor as noise, but as images of a generator
that the client trains once on its records of those classes and keeps to itself; each round starts from fresh ones.
``pixels: uint8`` rounds and clips the finished images to pixels, a quarter of the bytes; matching itself stays in
floats. ``keep_pool: K`` lets the server train on the images of the K rounds before as well, which stay in its State (K
· clients · classes · ipc images at most). Those were matched near earlier models, up to ρ away per round;
``keep_weight`` makes them count for less with age. An epoch of the server is a pass over all of them, so a round takes
up to K + 1 times as long.

Privacy. The gradient with respect to the images depends on the records only through the class means of v(x) = [h(x);
z(x)].

``dp: stat`` releases these means. At each step, records of each class are Poisson-sampled at one rate q, each v is
clipped to C, and (Σ v + N(0, σ²C²)) / (q·n̄_c) replaces the mean; everything after that costs nothing. A record belongs
to one class, so a round costs ``steps`` releases at rate q, however many classes there are. q and n̄_c are planned, not
counted. Records dealt to a client (Fedssyn) are sampled too, and their number, which is not secret, is added to n̄_c. C
is computed from noise images under w_r, and images start as noise. All classes are made, those without records from
noise alone, unless ``privacy.public`` says that labels are not secret. With ``stat_releases: K`` a round has K
networks, each with one release over all records (rate 1), and the image steps cycle through them.

If classes differ much in size, one n̄_c for all of them mis-scales every mean, and images of classes that a client does
not hold are noise under a label. ``count_noise: σ_n`` has each client release its class counts once, with noise of σ_n
records (``methods.shared.noised_counts``); the noise of the means is solved for what that leaves of ε. Each mean is
then divided by q times its class's noised count, and classes below ``min_class_records`` noised records are not made
(by default 10, or 3 σ_n if that is more).

``dp: paper`` is algorithm 2 as published, for comparison only: it clips the gradient after averaging over the batch and
adds noise of σC/|B|; noise and batches come from secret streams, which its claim takes for granted. One record can
reverse that average, so the noise is too small by a factor of up to 2|B| and no ε holds: nothing is charged, and the
ledger reports no ε. The published claim (σ, q = |B|/n_c and T steps, one round) is declared for `understudy audit`,
which refutes it.
"""

from itertools import cycle, islice
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.method import ONLY_NUMBERS, Takes, task, task_name
from understudy.federation.registry import KindDefaults, method
from understudy.federation.server import Reply, Task
from understudy.learning.pool import Siamese
from understudy.methods.shared.generated_start import GeneratedStart, of_classes
from understudy.methods.shared.imitation import DEFAULT, built_generator, generator_in_full
from understudy.methods.shared.noised_counts import NoisedCounts
from understudy.methods.shared.pooled import FEWEST, Pooled, PooledSettings, first_noise
from understudy.models.network import Network
from understudy.privacy.accounting import Spending
from understudy.privacy.planning import check_promise, planned_records, solved_noise
from understudy.privacy.published import PublishedClaim
from understudy.synthesis.matching import (
    Alter,
    ImageSteps,
    Neighbourhood,
    RealClasses,
    looks_near,
    match_distributions,
    match_means,
    real_batch,
)
from understudy.synthesis.private_matching import PlannedRelease, PrivateMeans, PublishedNoise, clip_from_noise

PUBLISHED_CLIP = 5.0
COVERED = ("x", "y")  # by what a client charges


class FedDMSettings(PooledSettings):
    steps: int = Field(default=1000, ge=0)  # T, steps of the images per round
    real_batch: int = Field(default=256, ge=1)  # real records per class and step
    image_lr: float = Field(default=1.0, gt=0)  # learning rate of the images; by default 0.1 for vectors and sequences
    image_momentum: float = Field(default=0.5, ge=0, lt=1)  # momentum of the images
    init: Literal["real", "noise", "generator"] | None = None  # how images start; null: real, or noise under dp
    generator: dict[str, Any] | None = None  # for init: generator, a name or file.py:Class, and its settings
    pixels: Literal["float32", "uint8"] = "float32"  # how images travel; uint8: rounded and clipped to pixels
    classes_at_once: int | None = Field(default=None, ge=1)  # classes per pass; null: set by the size of the images
    dp: Literal["none", "stat", "paper"] = "none"  # stat: private class means; paper: as published, without a guarantee
    noise: float | None = Field(default=None, gt=0)  # σ; null: solved from privacy.epsilon over all rounds
    clip: float | None = Field(default=None, gt=0)  # C, clipping norm; null: from noise images (stat), 5 (paper)
    rate: float | None = Field(default=None, gt=0, le=1)  # q, share of records per step; null: real_batch / n̄_c
    class_records: int | None = Field(default=None, ge=1)  # n̄_c per class; null: planned records / classes
    count_noise: float | None = Field(default=None, gt=0)  # σ_n of class counts, released once; null: not released
    stat_releases: int | None = Field(default=None, ge=1)  # K per round, over all records; null: one per step

    @model_validator(mode="before")
    @classmethod
    def _generator_in_full(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        named, wanted = given.get("generator"), given.get("init") == "generator"
        if named is not None and not wanted:
            raise ValueError("generator is only used with init: generator; write both, or leave it out")
        return {**given, "generator": generator_in_full(named or DEFAULT, "method.generator")} if wanted else given


PAPER = {"ipc": 10, "radius": 5.0, "steps": 1000, "real_batch": 256, "server": {"epochs": 500}}
DESK = {"steps": 100, "real_batch": 64, "server": {"epochs": 100}}  # for a first look at some hundred records
PRESETS = {"paper": PAPER, "desk": DESK}


GENTLER: KindDefaults = {"vector": {"image_lr": 0.1}, "sequence": {"image_lr": 0.1}}  # with 1, rows of a table diverge


@method("feddm", settings=FedDMSettings, presets=PRESETS, usual=GENTLER)
class FedDM(Pooled):
    settings: FedDMSettings

    def __init__(self, settings: FedDMSettings):
        super().__init__(settings)
        self.generator = None if settings.generator is None else built_generator(settings.generator)

    @property
    def client_task(self) -> Task:
        return self.distil

    @property
    def takes(self) -> Takes:
        return ONLY_NUMBERS

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        if self.settings.pixels == "uint8" and len(net.problem.shape) != 3:
            raise UserError("method.pixels: uint8 needs images (channels, height, width); write float32.")
        if self.generator is not None:
            self.generator.device = net.device
            self.generator.check(net.problem)
        if self.settings.count_noise is not None and self.settings.dp != "stat":
            raise UserError("method.count_noise is only used with dp: stat; write null.")
        if self.settings.dp != "none":
            self._check_private(net)

    def _check_private(self, net: Network) -> None:
        settings = self.settings
        if settings.init == "real":
            raise UserError("method.init: images that start as real records cannot be private; write init: noise.")
        if settings.init == "generator":
            raise UserError(
                "method.init: this generator learns without noise, so images that start from it cannot be private; "
                "write init: noise."
            )
        if net.needs_company:
            raise UserError(
                "model: BatchNorm mixes records, so method.dp cannot hold; choose a network with GroupNorm."
            )
        if settings.min_class_records is not None and settings.count_noise is None:
            raise UserError("method.min_class_records reveals who holds few records; write null under method.dp.")
        if settings.dp == "paper":
            if settings.noise is None:
                raise UserError(
                    "method.noise: dp: paper has no budget to solve it from; give a value (the paper tries 1, 3, 5)."
                )
            return
        if self.privacy is None:
            raise UserError("method.dp: stat spends privacy; write `privacy: {epsilon: 8, delta: 1e-5}` in the config.")
        if settings.stat_releases is not None and settings.rate not in (None, 1.0):
            raise UserError("method.rate: stat_releases releases means over all records; leave the rate out.")
        if settings.weights == "size":
            raise UserError("method.weights: size reveals record counts to the server; write pool under dp: stat.")
        check_promise(self.privacy, settings.noise)

    @property
    def private(self) -> bool:
        return self.settings.dp == "stat"

    def published_claim(self, own: Examples) -> PublishedClaim | None:
        """``dp: paper``: a sampled Gaussian at q = |B|/n_c, here of the smallest class that the client owns."""
        settings, counts = self.settings, own.label_counts(self.net.problem.classes)
        if settings.dp != "paper" or settings.noise is None or not len(own):
            return None
        rate = min(1.0, settings.real_batch / int(counts[counts > 0].min()))
        spending = Spending(rate, settings.noise, settings.steps)
        return PublishedClaim(
            task_name(self.distil), spending, settings.clip or PUBLISHED_CLIP, "FedDM, algorithm 2, one round"
        )

    def effort(self, records: int, classes: int) -> int:
        owned = min(classes, max(1, records // (self.settings.min_class_records or FEWEST)))
        return self.settings.steps * owned * (self.settings.real_batch + self.settings.ipc)

    # ---- on the client

    @task(x="examples", y="labels", weight="statistics")
    def distil(self, client: Client, brief: Message) -> Message:
        if self.settings.pixels == "uint8" and client.own.x.dtype != torch.uint8:
            raise UserError(f"method.pixels: the records of {client.id} are not uint8 pixels; write float32.")
        if self.settings.dp == "stat":
            return self._distil_privately(client, brief["model"])
        real = client.examples
        classes = self.owned(real, 1 if self.settings.dp == "paper" else None)
        x = self.net.problem.scale(self._first_images(client, real, classes))
        if classes:
            near = self._near(client, brief["model"], self.settings.steps)
            published = self.settings.dp == "paper"
            steps = self._image_steps(self._published_privacy(client, x) if published else None)
            sampling = client.secret_rng("feddm published records") if published else None
            batch, mine = self.settings.real_batch, RealClasses(real, classes)
            x = match_distributions(self.net, x, mine, batch, near, steps, sampling)
        return self.reply(x, self._labels(classes), real)

    def _first_images(self, client: Client, real: Examples, classes: list[int]) -> Tensor:
        ipc = self.settings.ipc
        if self.settings.init == "noise" or self.settings.dp != "none" or not classes:
            return first_noise(client, len(classes) * ipc, self.net)
        if self.generator is not None:
            start = GeneratedStart(self.generator, self.net.problem)
            made = start.images(client, of_classes(real, classes), self._labels(classes))
            return first_noise(client, len(classes) * ipc, self.net) if made is None else made
        rng = client.rng("feddm first images")
        chosen = [real_batch(torch.nonzero(real.y == c).flatten(), ipc, rng) for c in classes]
        return real.x[torch.cat(chosen)]

    def reply(self, x: Tensor, y: Tensor, real: Examples) -> Message:
        return super().reply(self.net.problem.unscale(x) if self.settings.pixels == "uint8" else x, y, real)

    def _labels(self, classes: list[int]) -> Tensor:
        return torch.tensor(classes, dtype=torch.int64).repeat_interleave(self.settings.ipc)

    def _near(self, client: Client, w: Tensor, looks: int) -> Neighbourhood:
        settings = self.settings
        augment = Siamese(settings.dsa_kinds, client.rng("feddm augmentation")) if settings.dsa else None
        return Neighbourhood(w, settings.radius, looks, client.rng("feddm matching"), augment)

    def _image_steps(self, alter: Alter | None = None) -> ImageSteps:
        settings = self.settings
        return ImageSteps(settings.image_lr, settings.image_momentum, alter, settings.classes_at_once)

    # ---- on the server

    def why_refused(self, reply: Reply) -> str | None:
        wrong = super().why_refused(reply)
        if wrong is None and self.settings.pixels == "uint8" and reply["x"].dtype != torch.uint8:
            wrong = "its images are not in bytes"
        return wrong

    # ---- with privacy

    def _distil_privately(self, client: Client, w: Tensor) -> Message:
        settings, net = self.settings, self.net
        clip = settings.clip or clip_from_noise(net, w, client.rng("feddm clip"))
        held, release = self._noised_holding(client), self._planned(client, clip)
        planned = self._planned_by_class(client, held, release)
        classes = list(planned)
        repeats = settings.stat_releases or settings.steps
        if held is not None and not classes:
            repeats = 0  # by its noised counts it has nothing to release
        client.budget.charge(rate=release.rate, noise=release.noise, steps=repeats, clip=clip, covers=COVERED)
        x = first_noise(client, len(classes) * settings.ipc, net)
        if classes:
            real = RealClasses(client.examples, classes)
            divisors = list(planned.values())
            means = PrivateMeans(net, real, release, client.secret_rng, settings.classes_at_once, divisors)
            looks = looks_near(net, self._near(client, w, repeats), means, len(classes))
            if settings.stat_releases is not None:
                with net.frozen():
                    looks = islice(cycle(list(looks)), settings.steps)
            x = match_means(net, x, looks, settings.ipc, self._image_steps())
        return self.reply(x, self._labels(classes), client.examples.none())

    def _noised_holding(self, client: Client) -> dict[int, float] | None:
        """Noised counts of the classes that are made, if counts are released."""
        settings = self.settings
        if settings.count_noise is None:
            return None
        counts = NoisedCounts(settings.count_noise)
        noised = counts.of(client, self.net.problem.classes, COVERED).tolist()
        fewest = counts.fewest(settings.min_class_records, FEWEST)
        return {c: noised[c] for c in self._told(client.own) if noised[c] >= fewest}

    def _planned(self, client: Client, clip: float) -> PlannedRelease:
        """How means are released; it does not depend on any single record."""
        settings, privacy = self.settings, self.privacy
        assert privacy is not None
        held = max(1, len(self._told(client.own)))
        records = settings.class_records or max(1, planned_records(privacy, len(client.own)) // held)
        rate = settings.rate or min(1.0, settings.real_batch / records)
        if settings.stat_releases is not None:
            rate = 1.0
        steps = (settings.stat_releases or settings.steps) * self.rounds
        before = self.spent_before(len(client.own))
        if settings.count_noise is not None:
            before = (*before, NoisedCounts(settings.count_noise).spending)
        return PlannedRelease(rate, records, clip, settings.noise or solved_noise(privacy, rate, steps, before))

    def _planned_by_class(
        self, client: Client, noised: dict[int, float] | None, release: PlannedRelease
    ) -> dict[int, float]:
        """The classes that are made: n̄_c, or its noised count, plus the dealt records, whose number is not secret."""
        held = noised if noised is not None else dict.fromkeys(self._told(client.own), float(release.records))
        dealt = client.dealt.label_counts(self.net.problem.classes).tolist()
        return {c: held.get(c, 0.0) + m for c, m in enumerate(dealt) if c in held or m}

    def _told(self, records: Examples) -> list[int]:
        """The classes to treat as held: all, unless labels are not secret."""
        assert self.privacy is not None
        return self.owned(records, 1) if "labels" in self.privacy.public else list(range(self.net.problem.classes))

    def _published_privacy(self, client: Client, images: Tensor) -> PublishedNoise:
        settings = self.settings
        return PublishedNoise(
            images.to(self.net.device),
            settings.ipc,
            clip=settings.clip or PUBLISHED_CLIP,
            noise=(settings.noise or 0.0) / settings.real_batch,
            steps=settings.steps,
            rng=client.secret_rng("feddm published noise"),
        )
