"""Distribution matching: a few images a class whose mean embedding is that of the real ones near a model.

From "FedDM: Iterative Distribution Matching for Communication-Efficient Federated Learning". The loss depends
on the images only through class means, so classes can share a pass through the network: as many as fit the
cache (``classes_at_once``).
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.models.network import Network

SMALL_PASS = 300_000  # numbers going into one pass, above which it was measured to fall out of the cache


def on_sphere(w: Tensor, radius: float, rng: torch.Generator) -> Tensor:
    """w + u · min(1, ρ/‖u‖), u ~ N(0, I). For any real network ‖u‖ ≈ √P ≫ ρ: a point of the sphere."""
    u = torch.randn(w.shape, generator=rng)
    return w + (u * torch.clamp(radius / u.norm(), max=1)).to(w.device)


def into_ball(w: Tensor, centre: Tensor, radius: float) -> None:
    """w ← centre + (w − centre) · min(1, ρ/‖w − centre‖), in place."""
    away = w - centre
    distance = float(away.norm())
    if distance > radius:
        torch.add(centre, away, alpha=radius / distance, out=w)


def real_batch(members: Tensor, size: int, rng: torch.Generator) -> Tensor:
    """``size`` records of a class without replacement; of a smaller class all, and some of them again."""
    if len(members) >= size:
        return members[torch.randperm(len(members), generator=rng)[:size]]
    again = torch.randint(len(members), (size - len(members),), generator=rng)
    return torch.cat([members, members[again]])


def embedding(net: Network, x: Tensor) -> Tensor:
    """(n, d + classes): features and logits side by side."""
    return torch.cat([part.flatten(1) for part in net(x)], 1)


def match_distributions(
    net: Network,
    w: Tensor,
    real: Examples,
    x: Tensor,
    classes: Sequence[int],
    *,
    radius: float,
    steps: int,
    real_size: int,
    lr: float,
    momentum: float,
    rng: torch.Generator,
    classes_at_once: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Tensor:
    """``x``: (classes · ipc, …) float, class after class; returned after ``steps`` steps of SGD on

    Σ_c ‖mean h(x_c) − mean h(x̃_c)‖² + ‖mean z(x_c) − mean z(x̃_c)‖²

    with h the features and z the logits of a network drawn anew for each step, ρ away from ``w``.
    """
    ipc = len(x) // len(classes)
    members = [torch.nonzero(real.y == c).flatten() for c in classes]
    pixels, x = real.x.to(net.device), x.to(net.device).clone()
    group = classes_at_once or max(1, SMALL_PASS // (real_size * x[0].numel()))
    speed: Tensor | None = None
    start = w.clone()
    with net.frozen():
        for step in range(steps):
            near = start.clone()
            near[net.trainable] = on_sphere(start[net.trainable], radius, rng)
            net.load(near)
            grads = []
            for first in range(0, len(classes), group):
                batch = torch.stack([real_batch(m, real_size, rng) for m in members[first : first + group]])
                with torch.no_grad():
                    wanted = embedding(net, pixels[batch.flatten()]).view(*batch.shape, -1).mean(1)
                grads.append(matching_gradient(net, x[first * ipc : (first + group) * ipc], wanted, ipc))
            grad = torch.cat(grads)
            speed = grad if speed is None else speed.mul_(momentum).add_(grad)
            x.sub_(speed, alpha=lr)
            if progress is not None:
                progress(step)
    return x.cpu()


def matching_gradient(net: Network, x: Tensor, wanted: Tensor, ipc: int) -> Tensor:
    """The gradient in the images of Σ_c ‖wanted_c − mean v(x̃_c)‖², v the embedding."""
    x = x.detach().requires_grad_()
    made = embedding(net, x).view(len(x) // ipc, ipc, -1).mean(1)
    return torch.autograd.grad((made - wanted).square().sum(), x)[0]
