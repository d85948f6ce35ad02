"""What the tables and figures have in common at each scale: data, networks, generators.

At the desk: 4000 MNIST images at 14×14 instead of CIFAR, a network with one hidden layer, five local epochs, twenty
rounds, and generators that train for seconds. At the paper's scale the presets hold every number.
"""

from typing import Any, Literal

from understudy.config.read import read
from understudy.methods.fedssyn.fedssyn import PUBLISHED
from understudy.papers.demo import VAE as DEMO_VAE
from understudy.papers.study import Changes

SEEDS = (0, 1, 2)


def quickly(audited: bool) -> Literal["", "quick"]:
    """How a line's first run is attacked, if it is."""
    return "quick" if audited else ""


RATES = (0.03, 0.1, 0.3, 1.0)

# ---- desk

SMALL: Changes = {
    "data": {"name": "mnist-5k", "size": 14, "clients": 10, "split": {"kind": "dirichlet", "alpha": 0.01}},
    "model": {"name": "mlp", "hidden": [64]},
    "method": {"name": "fedavg", "rounds": 20, "local": {"epochs": 5, "batch": 64}},
    "engine": {"name": "inline"},
}
# Chosen on validation images; equally many updates for any number of records. Stages are kept for the studies of them.
VAE: Changes = {**DEMO_VAE, "least_steps": 100, "checkpoints": [1, 5]}
CONV: Changes = {
    "data": {"name": "mnist-5k", "size": 14, "clients": 10, "split": {"kind": "dirichlet", "alpha": 0.1}},
    "model": {"name": "small-convnet", "width": 16, "fast": "eager"},
    "method": {"name": "fedavg", "rounds": 10, "local": {"epochs": 2, "batch": 32}},
    "engine": {"name": "inline"},
}

# ---- smoke

TINY: Changes = {
    "data": {"name": "digits", "clients": 2, "limit": 100, "split": {"kind": "dirichlet", "alpha": 0.5}},
    "model": {"name": "mlp", "hidden": [8]},
    "method": {"name": "fedavg", "rounds": 1, "local": {"epochs": 1, "batch": 64}},
    "engine": {"name": "inline"},
}
TINY_VAE: Changes = {**DEMO_VAE, "epochs": 2, "least_steps": 2, "width": 4, "hidden": 8, "checkpoints": [1]}

# ---- paper

PAPER_RATES = (0.01, 0.05, 0.1)


def without_add_ons(preset: str) -> dict[str, Any]:
    """A preset's config for lines that say themselves what is added to the method."""
    return {**read(preset), "with": []}


CIFAR10, CIFAR100 = without_add_ons("fedssyn-cifar10"), without_add_ons("fedssyn-cifar100")
DIFFUSION: Changes = dict(PUBLISHED["generator"])
STAGES = (50, 150, 250, 350, 450)  # epochs after which the paper looks at its generators
STAGED_DIFFUSION: Changes = {**DIFFUSION, "checkpoints": list(STAGES)}
