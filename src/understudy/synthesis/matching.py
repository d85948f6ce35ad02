"""Distribution matching: a few images a class whose mean embedding is that of the real ones near a model.

From "FedDM: Iterative Distribution Matching for Communication-Efficient Federated Learning". The loss depends
on the images only through class means, so classes can share a pass through the network: as many as make
a pass of a good size (``classes_at_once``), which are more of the few synthetic images than of the many real ones.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.models.network import Network

SMALL_PASS = 40_000  # numbers going into one pass; a larger one was measured to spend its time on fresh memory


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
) -> Tensor:
    """``x``: (classes · ipc, …) float, class after class; returned after ``steps`` steps of SGD on

    Σ_c ‖mean h(x_c) − mean h(x̃_c)‖² + ‖mean z(x_c) − mean z(x̃_c)‖²

    with h the features and z the logits of a network drawn anew for each step, ρ away from ``w``.
    """
    ipc = len(x) // len(classes)
    members = [torch.nonzero(real.y == c).flatten() for c in classes]
    pixels, x = real.x.to(net.device), x.to(net.device).clone()
    of_real, of_made = (classes_at_once or max(1, SMALL_PASS // (n * x[0].numel())) for n in (real_size, ipc))
    speed: Tensor | None = None
    start = w.clone()
    with net.frozen():
        for _ in range(steps):
            near = start.clone()
            near[net.trainable] = on_sphere(start[net.trainable], radius, rng)
            net.load(near)
            batches = torch.stack([real_batch(m, real_size, rng) for m in members])
            with torch.no_grad():
                wanted = torch.cat([_means(net, pixels, group) for group in torch.split(batches, of_real)])
            groups = zip(torch.split(x, of_made * ipc), torch.split(wanted, of_made), strict=True)
            grad = torch.cat([matching_gradient(net, images, means, ipc) for images, means in groups])
            speed = grad if speed is None else speed.mul_(momentum).add_(grad)
            x.sub_(speed, alpha=lr)
    return x.cpu()


def _means(net: Network, pixels: Tensor, batches: Tensor) -> Tensor:
    """(classes, d + classes): the mean embedding of each row of ``batches``, in one pass."""
    return embedding(net, pixels[batches.flatten()]).view(*batches.shape, -1).mean(1)


def matching_gradient(net: Network, x: Tensor, wanted: Tensor, ipc: int) -> Tensor:
    """The gradient in the images of Σ_c ‖wanted_c − mean v(x̃_c)‖², v the embedding."""
    x = x.detach().requires_grad_()
    made = embedding(net, x).view(len(x) // ipc, ipc, -1).mean(1)
    return torch.autograd.grad((made - wanted).square().sum(), x)[0]
