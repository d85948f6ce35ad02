"""Figure 2 of "FedLAP-DP: Federated Learning by Sharing Differentially Private Loss Approximations": where images stop
standing in for records.

A client's images are matched at one model, as FedLAP does without a path. Then the model descends on the images: the
loss on them falls all the way, that on the records falls and, somewhere, rises again. r_k is the distance at which
the records' loss was smallest.
"""

from dataclasses import dataclass

import torch

from understudy.data.examples import Examples
from understudy.learning.dsa import WITHOUT_FLIP, apply, draw
from understudy.learning.evaluate import tally
from understudy.learning.loop import full_gradient
from understudy.models.network import Network
from understudy.papers.fedlap.criteria import CRITERIA, REGULARIZATION, CriteriaPlan
from understudy.randomness import generator
from understudy.synthesis.gradient_matching import MovingImages, Target, match_gradient
from understudy.synthesis.matching import real_batch


@dataclass(frozen=True)
class Descended:
    """After each step; the first is the model at which the images were matched."""

    distance: tuple[float, ...]
    real: tuple[float, ...]  # mean loss
    synthetic: tuple[float, ...]

    @property
    def turning(self) -> int:
        """The step with the smallest loss on real records."""
        return min(range(len(self.real)), key=lambda at: self.real[at])

    @property
    def radius(self) -> float:
        return self.distance[self.turning]


def matched_images(net: Network, real: Examples, batches: int, plan: CriteriaPlan, seed: int) -> Examples:
    """All batches at the first model; images start as records, as FedLAP's do."""
    first, rows, change = (generator(seed, "trust", purpose) for purpose in ("first images", "batches", "dsa"))
    classes = torch.nonzero(real.label_counts(net.problem.classes)).flatten().tolist()
    chosen = torch.cat([real_batch(torch.nonzero(real.y == c).flatten(), plan.ipc, first) for c in classes])
    start, w = real.take(chosen), net.initial()
    images = MovingImages(net.problem.scale(start.x), start.y, lr=plan.image_lr, momentum=plan.image_momentum)
    for _ in range(batches):
        batch = real.take(torch.randperm(len(real), generator=rows)[: plan.batch])
        same = draw(WITHOUT_FLIP, change)
        seen = Examples(apply(same, net.problem.scale(batch.x)), batch.y)
        target = Target(net, full_gradient(net, w, seen, len(seen)), CRITERIA[REGULARIZATION])
        net.load(w)
        match_gradient(net, images, target, steps=plan.image_steps, draw=same)
    return Examples(images.x, images.y)


def descended(net: Network, real: Examples, made: Examples, steps: int, lr: float) -> Descended:
    begun = net.initial()
    here, found = begun.clone(), []
    for _ in range(steps + 1):
        net.load(here)
        losses = [tally(net.logits, some, net.problem).loss or 0.0 for some in (real, made)]
        found.append((float((here - begun).norm()), *losses))
        here[net.trainable] -= lr * full_gradient(net, here, made, len(made))
    distance, on_real, on_made = zip(*found, strict=True)
    return Descended(distance, on_real, on_made)
