"""The claims of "FedLAP-DP: Federated Learning by Sharing Differentially Private Loss Approximations" at desk scale:
FedLAP beside its baselines on class pairs, its radius rules and numbers of images, and accuracy against ε.

All methods have the same number of rounds and see about as many records per round: FedLAP ten batches of 128 (1.6
passes over a client's 800 records), the averaging methods two passes; under privacy all have the same releases, and so
the same noise. The six counters are a fraction of the paper's. Rates are constant, as there are few rounds.
"""

from collections.abc import Mapping, Sequence

from understudy.papers.compared import compared
from understudy.papers.fedlap.criteria import MATCHING_CRITERIA
from understudy.papers.fedlap.pictures import HARDLY_NOISED, NEXT_TO_NONE, options, private
from understudy.papers.study import Changes, Scale, Shown, Study, at_scales
from understudy.papers.tuned import Comparison, Contender

PAIRS_ABOUT = "FedLAP beside FedAvg, FedProx, SCAFFOLD and FedDM on class pairs, learning rates tuned alike"
OPTIONS_ABOUT = "FedLAP: radius rules and images per class, all at one learning rate"
PRIVATE_ABOUT = "FedLAP-DP, DP-FedAvg and DP-FedProx at the same ε, learning rates tuned alike"

PAIRS: Changes = {"kind": "class-pairs", "pairs": "fedlap"}
MODEL: Changes = {"name": "small-convnet", "width": 16, "fast": "eager"}
INLINE: Changes = {"name": "inline"}
QUICK: Changes = {"method.rounds": 1, "data.limit": 200, "model.width": 2}
QUICK_MATCHING: Changes = {"method.real_batches": 1, "method.image_steps": 1, "method.server_epochs": 2}
SEEDS = (0, 1, 2)

# ---- FedLAP beside its baselines

ON_PAIRS: Changes = {
    "data": {"name": "mnist-5k", "size": 14, "clients": 5, "split": PAIRS},
    "model": MODEL,
    "method": {"name": "fedavg", "rounds": 4},
    "engine": INLINE,
}
LOCAL: Changes = {"method.local.epochs": 2, "method.local.batch": 32}
DM: Changes = {
    "method.name": "feddm",
    "method.steps": 100,
    "method.real_batch": 64,
    "method.ipc": 10,
    "method.server.epochs": 100,
}
LAP: Changes = {
    "method.name": "fedlap",
    "method.stages": 5,
    "method.real_batches": 2,
    "method.image_steps": 5,
    "method.path_epochs": 0,
    "method.batch": 128,
    "method.ipc": 10,
    "method.server_epochs": 50,
    "method.schedule": "constant",
    "method.flip": False,
}
AVERAGING: Mapping[str, Changes] = {
    "fedavg": {},
    "fedprox": {"method.name": "fedprox", "method.mu": 0.1},
    "scaffold": {"method.name": "scaffold"},
}


def _pairs(
    averaging: Changes, means: Changes, gradients: Changes, rates: Sequence[float], seeds: Sequence[int]
) -> Comparison:
    contenders = [
        *(Contender(label, {**LOCAL, **change, **averaging}) for label, change in AVERAGING.items()),
        Contender("feddm", {**DM, **means}, "method.server.lr"),
        Contender("fedlap", {**LAP, **gradients}, "method.lr"),
    ]
    panels = {"class pairs": {one.label: one.label for one in contenders}}
    return Comparison("fedlap-pairs", PAIRS_ABOUT, ON_PAIRS, rates, seeds, contenders, panels=panels)


QUICK_DM: Changes = {**QUICK, "method.steps": 1, "method.server.epochs": 2}
PAIRS_PLANS: Mapping[Scale, Comparison] = {
    "smoke": _pairs(QUICK, QUICK_DM, {**QUICK, **QUICK_MATCHING}, (0.1,), (0,)),
    "desk": _pairs({}, {}, {}, (0.03, 0.1, 0.3, 1.0), SEEDS),
}

# ---- what matters

FEWER: Changes = {"data.limit": 2000, "method.rounds": 3, "method.batch": 64}  # 1.6 passes, as before
RULES = ("min", "max", "median", "fixed")
IMAGES = (2, 5, 10, 20)


def _options(changes: Changes, rates: Sequence[float], seeds: Sequence[int]) -> Comparison:
    """Each differs in one thing from FedLAP as published, with ten images and the smallest radius."""
    by_rule = {rule: f"{rule}, 10 images" for rule in RULES}
    by_images = {images: f"min, {images} images" for images in IMAGES}
    differing: dict[str, Changes] = {label: {"method.radius_rule": rule} for rule, label in by_rule.items()}
    differing |= {label: {"method.ipc": images} for images, label in by_images.items()}
    contenders = [Contender(label, {**LAP, **change, **changes}, "method.lr") for label, change in differing.items()]
    panels = {
        "radius rules, ten images per class": dict(by_rule),
        "images per class, smallest radius": {f"{images} images": label for images, label in by_images.items()},
    }
    return Comparison("fedlap-options", OPTIONS_ABOUT, ON_PAIRS, rates, seeds, contenders, panels=panels)


OPTIONS_PLANS: Mapping[Scale, Comparison] = {
    "smoke": _options({**QUICK, **QUICK_MATCHING}, (0.1,), (0,)),
    "desk": _options(FEWER, (0.1,), SEEDS),
}

# ---- with privacy

IN_PRIVATE: Changes = {
    "data": {"name": "fashion-mnist", "size": 14, "clients": 5, "split": PAIRS},
    "model": {**MODEL, "width": 8},
    "method": {"name": "dp-fedavg", "rounds": 2, "noise": None, "clip": 1.0},
    "privacy": {"delta": 1e-5, "records": 12_000, "public": ["labels"]},
    "engine": INLINE,
}
STEPS: Changes = {"method.local.steps": 16, "method.local.batch": 256, "method.local.schedule": "constant"}
LAP_DP: Changes = {
    "method.name": "fedlap-dp",
    "method.restarts": 2,
    "method.stages": 4,
    "method.real_batches": 2,  # 16 releases per round, as many as the others have steps
    "method.image_steps": 5,
    "method.path_epochs": 1,
    "method.batch": 256,
    "method.ipc": 10,
    "method.labels": "owned",
    "method.server_epochs": 25,
    "method.schedule": "constant",
    "method.flip": False,
}
PRIVATE: Mapping[str, tuple[Changes, str]] = {  # with the setting tuned
    "fedlap-dp": (LAP_DP, "method.lr"),
    "dp-fedavg": (STEPS, "method.local.lr"),
    "dp-fedprox": ({"method.name": "dp-fedprox", "method.mu": 0.1, **STEPS}, "method.local.lr"),
}
AVERAGED, ON_IMAGES = (0.3, 1.0, 3.0, 10.0), (0.01, 0.03, 0.1, 0.3)  # rates: steps are clipped, image gradients are not


def _private(
    epsilons: Sequence[float],
    steps: Changes,
    matching: Changes,
    rates: tuple[Sequence[float], Sequence[float]],
    seeds: Sequence[int],
) -> Comparison:
    averaged, on_images = rates
    contenders, panels = [], {}
    for epsilon in epsilons:
        panels[f"ε = {epsilon:g}"] = {name: f"{name} ε={epsilon:g}" for name in PRIVATE}
        for name, (changes, rate) in PRIVATE.items():
            lap = name == "fedlap-dp"
            more = {"privacy.epsilon": epsilon, **(matching if lap else steps)}
            tried = on_images if lap else averaged
            contenders.append(Contender(f"{name} ε={epsilon:g}", {**changes, **more}, rate, tried))
    hardly = {**LAP_DP, "method.noise": NEXT_TO_NONE, **matching}
    contenders.append(Contender(HARDLY_NOISED, hardly, "method.lr", (0.1,)))  # not tuned
    return Comparison("fedlap-dp", PRIVATE_ABOUT, IN_PRIVATE, averaged, seeds, contenders, panels=panels)


HERE: Changes = {**QUICK, "data.name": "mnist-5k"}  # images that need no download
QUICK_STEPS: Changes = {**HERE, "method.local.steps": 8}
PRIVATE_PLANS: Mapping[Scale, Comparison] = {
    "smoke": _private((3.0,), QUICK_STEPS, {**HERE, **QUICK_MATCHING}, ((0.1,), (0.1,)), (0,)),
    "desk": _private((0.3, 1.0, 3.0, 10.0), {}, {}, (AVERAGED, ON_IMAGES), SEEDS),
}

STUDIES = (
    Study(
        "fedlap-pairs",
        PAIRS_ABOUT,
        at_scales(compared, PAIRS_PLANS),
        Shown("4000 MNIST images at 14×14, small ConvNet, 5 clients with class pairs, 4 rounds", r"(?P<method>\w+)"),
    ),
    Study("fedlap-options", OPTIONS_ABOUT, at_scales(options, OPTIONS_PLANS)),
    Study(
        "fedlap-dp",
        PRIVATE_ABOUT,
        at_scales(private, PRIVATE_PLANS),
        Shown(
            "Fashion-MNIST at 14×14, small ConvNet, 5 clients with class pairs, 2 rounds, ε {}",
            r"(?P<method>[\w-]+) ε=(?P<more>[\d.]+)",
        ),
    ),
    MATCHING_CRITERIA,
)
