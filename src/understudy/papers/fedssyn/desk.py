"""The claims of "Synthetic data shuffling accelerates the convergence of federated learning under data heterogeneity"
at desk scale, by name, and what each study is at which scale.

Smaller than published: 4000 MNIST images at 14×14 (or digits of 8×8) instead of CIFAR, a network with one hidden
layer, five local epochs, twenty rounds, and generators that train for seconds.
"""

from collections.abc import Mapping

from understudy.papers.demo import VAE as DEMO_VAE
from understudy.papers.fedssyn.controls import ControlsPlan, controls_study
from understudy.papers.fedssyn.generators import GeneratorsPlan, Private, generators_study
from understudy.papers.fedssyn.peers import PeersPlan, peers_study
from understudy.papers.fedssyn.rounds_to_target import RoundsPlan, Taking, rounds_study
from understudy.papers.study import Changes, Scale, Shown, Study, at_scales

SEEDS = (0, 1, 2)
RATES = (0.03, 0.1, 0.3, 1.0)
SMALL: Changes = {
    "data": {"name": "mnist-5k", "size": 14, "clients": 10, "split": {"kind": "dirichlet", "alpha": 0.01}},
    "model": {"name": "mlp", "hidden": [64]},
    "method": {"name": "fedavg", "rounds": 20, "local": {"epochs": 5, "batch": 64}},
    "engine": {"name": "inline"},
}
TINY: Changes = {
    "data": {"name": "digits", "clients": 2, "limit": 100, "split": {"kind": "dirichlet", "alpha": 0.5}},
    "model": {"name": "mlp", "hidden": [8]},
    "method": {"name": "fedavg", "rounds": 1, "local": {"epochs": 1, "batch": 64}},
    "engine": {"name": "inline"},
}
VAE: Changes = {**DEMO_VAE, "least_steps": 100}  # chosen on validation images; equally many updates for any size
TINY_VAE: Changes = {**VAE, "epochs": 2, "least_steps": 2, "width": 4, "hidden": 8}

TAKINGS = (Taking("all clients", 1.0, 20, 10), Taking("4 of 10 clients", 0.4, 40, 20))
QUICK_TAKINGS = (Taking("all clients", 1.0, 1, 1), Taking("1 of 2 clients", 0.5, 1, 1))
ROUNDS: Mapping[Scale, RoundsPlan] = {
    "smoke": RoundsPlan(TINY, TINY_VAE, (0.5,), QUICK_TAKINGS, (0.1,), (0,), ("FedAvg", "SCAFFOLD")),
    "desk": RoundsPlan(SMALL, VAE, (0.01, 0.1), TAKINGS, RATES, SEEDS),
}
STAGED, QUICK_STAGED = {**VAE, "checkpoints": [1, 5]}, {**TINY_VAE, "checkpoints": [1]}
CONTROLS: Mapping[Scale, ControlsPlan] = {
    "smoke": ControlsPlan(TINY, QUICK_STAGED, (0.5,), (5,), (0.1,), (0,), {}),
    # p = 0.06, 0.2: 26 and 100 images beside 400 records.
    "desk": ControlsPlan(SMALL, STAGED, (0.1, 0.25), (26, 100), RATES, SEEDS, {"method.rounds": 10}),
}

# ---- generators

DIGITS: Changes = {
    "data": {"name": "digits", "clients": 5, "split": {"kind": "dirichlet", "alpha": 0.01}},
    "model": {"name": "mlp", "hidden": [64]},
    "method": {"name": "fedavg", "rounds": 15, "local": {"epochs": 5, "batch": 32}},
    "engine": {"name": "inline"},
}
GAN: Changes = {"name": "gan", "epochs": 60, "least_steps": 400, "batch": 32}
DIFFUSION: Changes = {"name": "diffusion", "epochs": 60, "least_steps": 600, "batch": 32}
KINDS: Mapping[str, Changes] = {
    "VAE": {**VAE, "epochs": 60, "least_steps": 400, "batch": 32},
    "GAN, DiffAugment": GAN,
    "GAN, consistency": {**GAN, "variant": "consistency"},
    "GAN, negative": {**GAN, "variant": "negative"},
    "diffusion": DIFFUSION,
}
SAMPLERS = (
    ("ancestral", 10),
    ("ancestral", 25),
    ("dpm-solver", 10),
    ("dpm-solver", 25),
    ("ddim", 10),
    ("ddim", 25),
    ("ancestral", 250),
)
PRIVATE = Private(
    {
        "data": {
            "name": "fashion-mnist",
            "size": 14,
            "clients": 5,
            "limit": 20_000,
            "split": {"kind": "dirichlet", "alpha": 0.01},
        },
        "model": {"name": "mlp", "hidden": [64]},
        "method": {"name": "fedavg", "rounds": 10, "local": {"epochs": 1, "batch": 64}},
        "engine": {"name": "inline"},
    },
    {
        "VAE": {**VAE, "spread": "prior", "epochs": 20, "batch": 256, "width": 16, "hidden": 64},
        # 204 steps; images are folded to 7×7 to make per-record gradients affordable
        "diffusion": {
            "name": "diffusion",
            "epochs": 17,
            "least_steps": 0,
            "batch": 256,
            "lr": 0.01,
            "draws_per_record": 2,
            "full_size": 8,
            "width": 8,
            "head": 8,
        },
    },
    {"VAE": 1.0, "diffusion": 0.1},
    {"epsilon": 10.0, "delta": 1e-5, "records": 4000, "public": ["labels"]},
    {"method.rounds": 5},
)


GENERATORS_AT_DESK = GeneratorsPlan(
    DIGITS, KINDS, "diffusion", SAMPLERS, 100, PRIVATE, (0.01, *RATES), SEEDS, {"method.rounds": 8}
)


def _generators_smoke() -> GeneratorsPlan:
    """On images that need no download."""
    gan = {"name": "gan", "epochs": 1, "width": 4, "hidden": 8}
    small = {"name": "diffusion", "epochs": 1, "least_steps": 1, "width": 8, "head": 8, "multipliers": [1]}
    kinds = {"VAE": TINY_VAE, "GAN": gan, "diffusion": {**small, "sampling_steps": 2}}
    vae = {**TINY_VAE, "spread": "prior", "epochs": 1}
    private = Private(TINY, {"VAE": vae, "diffusion": small}, PRIVATE.clips, {**PRIVATE.privacy, "records": 50}, {})
    samplers = (("dpm-solver", 2), ("ancestral", 3))
    return GeneratorsPlan(TINY, kinds, "diffusion", samplers, 10, private, (0.1,), (0,), {})


# ---- peers

CONV: Changes = {
    **SMALL,
    "data": {"name": "mnist-5k", "size": 14, "clients": 10, "split": {"kind": "dirichlet", "alpha": 0.1}},
    "model": {"name": "small-convnet", "width": 16, "fast": "eager"},
    "method": {"name": "fedavg", "rounds": 10, "local": {"epochs": 2, "batch": 32}},
}
SERVER: Changes = {"epochs": 50, "batch": 256, "momentum": 0.9, "weight_decay": 5e-4}
PEERS: Mapping[str, Changes] = {
    "FedGen": {"method.name": "fedgen"},
    "DENSE": {
        "method.name": "dense",
        "method.pre_rounds": 4,
        "method.student_init": "server",
        "method.alone.epochs": 10,
        "method.epochs_a_round": 2,
        "method.images": 64,
        "method.generator_steps": 10,
    },
    "FedDM": {"method": {"name": "feddm", "rounds": 5, "radius": 2.0, "real_batch": 32, "steps": 40, "server": SERVER}},
}


PEERS_AT_DESK = PeersPlan(CONV, VAE, PEERS, ("FedDM",), (0.01, *RATES), SEEDS, {"method.rounds": 5})


def _peers_smoke() -> PeersPlan:
    feddm = {"name": "feddm", "rounds": 1, "ipc": 1, "steps": 1, "real_batch": 8, "server": {"epochs": 1}}
    config = {**TINY, "model": {"name": "small-convnet", "width": 2, "fast": "eager"}}
    dense = {"method.name": "dense", "method.alone.epochs": 1, "method.epochs_a_round": 1, "method.images": 4}
    peers: dict[str, Changes] = {
        "FedGen": {"method.name": "fedgen"},
        "DENSE": {**dense, "method.generator_steps": 1},
        "FedDM": {"method": feddm},
    }
    return PeersPlan(config, TINY_VAE, peers, ("FedDM",), (0.1,), (0,), {})


STUDIES = (
    Study(
        "fedssyn-rounds",
        "rounds to a target accuracy of five methods with and without Fedssyn, rates tuned alike",
        at_scales(rounds_study, ROUNDS),
        Shown("4000 MNIST images at 14×14, MLP, 10 clients: {}", r"(FedAvg \+ )?(?P<method>\w+), (?P<more>.+)"),
    ),
    Study(
        "fedssyn-controls",
        "Fedssyn's controls (a) to (f), records and epochs of its generators, few images, and ζ² measured",
        at_scales(controls_study, CONTROLS),
        Shown(
            "4000 MNIST images at 14×14, MLP, 10 clients, Dirichlet 0.01, 20 rounds",
            r"\(\w\) (?P<method>shuffled images|central, records)",
            {"shuffled images": "fedssyn", "central, records": "central"},
        ),
    ),
    Study(
        "fedssyn-generators",
        "Fedssyn with diffusion, GANs and a VAE, with few and many sampling steps, and with privacy",
        at_scales(generators_study, {"smoke": _generators_smoke(), "desk": GENERATORS_AT_DESK}),
    ),
    Study(
        "fedssyn-peers",
        "Fedssyn beside FedGen, DENSE and FedDM over rounds and over megabytes, rates tuned alike",
        at_scales(peers_study, {"smoke": _peers_smoke(), "desk": PEERS_AT_DESK}),
        Shown("4000 MNIST images at 14×14, 10 clients, Dirichlet 0.1", r"(FedAvg \+ )?(?P<method>\w+)"),
    ),
)
