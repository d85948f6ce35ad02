"""What "FedDM: Iterative Distribution Matching for Communication-Efficient Federated Learning" claims, at desk scale.

``feddm-skew``: FedDM beside FedAvg, FedProx, FedNova and SCAFFOLD on splits of growing skew, over rounds and over
megabytes. ``feddm-options``: how much images per class, the radius ρ and matching itself (against REAL) matter.

Smaller than published: 4000 MNIST images at 14×14, two blocks of a narrow ConvNet, few rounds, 40 matching steps with
batches of 32 instead of 1000 with 256. ρ is 2 and not 5: a point on the sphere differs from the model by ρ/√P per
weight, and P is about 4000 instead of 320 000, so even ρ = 2 is 3.6 times as much as in the paper.
"""

from collections.abc import Mapping, Sequence

from understudy.papers.compared import compared
from understudy.papers.study import Changes, Scale, Shown, Study, at_scales
from understudy.papers.tuned import Comparison, Contender

ON = "4000 MNIST images at 14×14, ten clients"
ALPHAS = (0.5, 0.1, 0.01)
SERVER_RATE = "method.server.lr"  # what is tuned if the server trains

SMALL: Changes = {
    "data": {"name": "mnist-5k", "size": 14, "clients": 10, "split": {"kind": "dirichlet", "alpha": 0.1}},
    "model": {"name": "small-convnet", "width": 16, "fast": "eager"},  # compiling does not pay off in runs of seconds
    "method": {"name": "fedavg", "rounds": 5, "local": {"epochs": 2, "batch": 32}},
    "engine": {"name": "inline"},
}
SERVER = {"epochs": 50, "batch": 256, "momentum": 0.9, "weight_decay": 5e-4}
FEDDM: Changes = {
    "name": "feddm",
    "rounds": 5,
    "radius": 2.0,
    "real_batch": 32,
    "steps": 40,
    "server": SERVER,
}
REAL: Changes = {"name": "real", "rounds": 5, "radius": 2.0, "server": SERVER}
AVERAGING: Mapping[str, Changes] = {
    "FedAvg": {},
    "FedProx": {"method.name": "fedprox", "method.mu": 0.1},
    "FedNova": {"method.name": "fednova"},
    "SCAFFOLD": {"method.name": "scaffold"},
}
QUICK: Changes = {"method.rounds": 1, "data.limit": 300}
QUICK_SERVER: Changes = {**QUICK, "method.server.epochs": 2}


# ---- as skew grows


def _skew(
    alphas: Sequence[float], averaging: Changes, surrogates: Changes, rates: Sequence[float], seeds: Sequence[int]
) -> Comparison:
    """All averaging methods on the more skewed splits; on the least skewed one only FedAvg."""
    contenders, panels = [], {}
    for alpha in alphas:
        split = {"data.split.alpha": alpha}
        lines = {"FedDM": f"feddm-{alpha:g}", "REAL": f"real-{alpha:g}"}  # the same images, as they are
        contenders.append(Contender(lines["FedDM"], {"method": FEDDM, **split, **surrogates}, SERVER_RATE))
        unmatched = {key: value for key, value in surrogates.items() if key != "method.steps"}
        contenders.append(Contender(lines["REAL"], {"method": REAL, **split, **unmatched}, SERVER_RATE))
        for label, change in AVERAGING.items():
            if alpha < max(alphas) or label == "FedAvg":
                lines[label] = f"{label.lower()}-{alpha:g}"
                contenders.append(Contender(lines[label], {**change, **split, **averaging}))
        panels[f"α = {alpha:g}"] = lines
    return Comparison("feddm-skew", f"FedDM beside averaging: {ON}", SMALL, rates, seeds, contenders, panels=panels)


SKEW: Mapping[Scale, Comparison] = {
    "smoke": _skew((0.5, 0.1), QUICK, {**QUICK_SERVER, "method.steps": 1}, (0.1,), (0,)),
    "desk": _skew(ALPHAS, {}, {}, (0.1, 0.3, 1.0), (0, 1, 2)),
}

# ---- what matters

BASE = "ipc 10, ρ 2, T 40"
OPTIONS: Mapping[str, Changes] = {
    "feddm": {},
    "ipc-5": {"method.ipc": 5},
    "ipc-3": {"method.ipc": 3},
    "rho-1": {"method.radius": 1.0},
    "rho-4": {"method.radius": 4.0},
    "steps-120": {"method.steps": 120},
    "real": {"method": REAL},
    "real-3": {"method": {**REAL, "ipc": 3}},
}
PANELS = {
    "images per class": {BASE: "feddm", "ipc 5": "ipc-5", "ipc 3": "ipc-3"},
    "radius": {BASE: "feddm", "ρ 1": "rho-1", "ρ 4": "rho-4"},
    "more steps, or real images": {BASE: "feddm", "T 120": "steps-120", "REAL, ipc 10": "real"},
    "three images per class": {"ipc 3": "ipc-3", "REAL, ipc 3": "real-3"},
}


def _options(changes: Changes, matching: Changes, rates: Sequence[float], seeds: Sequence[int]) -> Comparison:
    contenders = [
        Contender(
            label, {"method": FEDDM, **change, **changes, **({} if label.startswith("real") else matching)}, SERVER_RATE
        )
        for label, change in OPTIONS.items()
    ]
    return Comparison(
        "feddm-options", f"What matters for FedDM: {ON}, Dirichlet 0.1", SMALL, rates, seeds, contenders, panels=PANELS
    )


STUDIES = (
    Study(
        "feddm-skew",
        "FedDM beside averaging as skew grows (Dirichlet 0.5, 0.1, 0.01), learning rates tuned alike",
        at_scales(compared, SKEW),
        Shown(
            "4000 MNIST images at 14×14, small ConvNet, 10 clients, 5 rounds, Dirichlet {}",
            r"(?P<method>[a-z]+)-(?P<more>[\d.]+)",
        ),
    ),
    Study(
        "feddm-options",
        "FedDM: images per class, the radius, and real images in place of matched ones",
        at_scales(
            compared,
            {
                "smoke": _options(QUICK_SERVER, {"method.steps": 1}, (0.1,), (0,)),
                "desk": _options({}, {}, (0.1, 0.3), (0, 1, 2)),
            },
        ),
        Shown("4000 MNIST images at 14×14, small ConvNet, 10 clients, 5 rounds, Dirichlet 0.1", r"(?P<method>real)"),
    ),
)
