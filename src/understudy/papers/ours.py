"""Our own comparisons, which no paper has: all averaging methods on one skewed split, and personal models there."""

from collections.abc import Mapping, Sequence

from understudy.papers.compared import comparing
from understudy.papers.comparison import Comparison, Contender
from understudy.papers.published import Study
from understudy.papers.study import Changes, Shown

SKEWED: Changes = {
    "data": {"name": "mnist-5k", "size": 14, "clients": 10, "split": {"kind": "dirichlet", "alpha": 0.1}},
    "model": {"name": "mlp", "hidden": [64]},
    "method": {"name": "fedavg", "rounds": 20, "local": {"epochs": 1, "batch": 32, "lr": 0.05}},
    "engine": {"name": "inline"},
}
COG = {"name": "fedcog", "kd_weighting": "balanced", "from_round": 11, "images": 64, "steps": 30}
SSYN = {"name": "fedssyn", "generator": {"name": "vae", "epochs": 20, "batch": 64}}
FAMILY: Mapping[str, Changes] = {
    "fedavg": {},
    "fedsgd": {"method": {"name": "fedsgd", "rounds": 20, "local": {"steps": 1, "batch": 400}}},
    "fedavgm": {"method.name": "fedavgm", "method.server_momentum": 0.5},
    "fedprox": {"method.name": "fedprox", "method.mu": 0.1},
    "scaffold": {"method.name": "scaffold"},
    "fednova": {"method.name": "fednova"},
    "feddyn": {"method.name": "feddyn", "method.alpha": 0.1},
    "fedpvr": {"method.name": "fedpvr"},
    "moon": {"method.name": "moon"},
    "fedsam": {"method.name": "fedsam"},
    "feddecorr": {"method.name": "feddecorr"},
    "fedexp": {"method.name": "fedexp"},
    "fedreg": {"method.name": "fedreg"},
    "vhl": {"method.name": "vhl"},
    "fedgen": {"method.name": "fedgen"},
    "dense": {
        "method.name": "dense",
        "method.preset": "fedssyn",
        "method.alone.epochs": 20,
        "method.epochs_a_round": 1,
        "method.images": 64,
        "method.generator_steps": 10,
    },
    "fedavg+fedcog": {"with": [COG]},
    "fedavg+fedssyn": {"with": [SSYN]},
}


def _family(changes: Changes, rates: tuple[float, ...], seeds: tuple[int, ...]) -> Comparison:
    about = "Every averaging method on one split of 4000 MNIST images at 14×14 over ten clients, Dirichlet 0.1"
    contenders = [Contender(label, {**change, **changes}) for label, change in FAMILY.items()]
    return Comparison("averaging-family", about, SKEWED, rates, seeds, contenders)


# ---- personal models

PERSONAL: Mapping[str, Changes] = {
    "fedavg+ft": {},
    "fedprox+ft": {"method.name": "fedprox", "method.mu": 0.1},
    "fedcog+ft": {"with": [COG]},
    "fedrep": {"method.name": "fedrep"},
    "ditto": {"method.name": "ditto"},
}


def personal_models(
    changes: Changes | None = None, rates: Sequence[float] = (0.01, 0.03, 0.1, 0.3), seeds: Sequence[int] = (0, 1, 2)
) -> Comparison:
    about = "Personal models on each client's own held-out records: 4000 MNIST images at 14×14, Dirichlet 0.1"
    measure = "personal_held_out_accuracy"
    more = {"data.held_out": 0.2, "method.score_local": True, **(changes or {})}
    contenders = [Contender(label, {**change, **more}) for label, change in PERSONAL.items()]
    return Comparison("personal-models", about, SKEWED, rates, seeds, contenders, measure, measure)


QUICK: Changes = {"method.rounds": 1, "data.limit": 300}
STUDIES = (
    Study(
        "averaging-family",
        "all averaging methods on one skewed split, learning rates tuned alike",
        {
            "smoke": comparing(_family(QUICK, (0.05,), (0,))),
            "desk": comparing(_family({}, (0.01, 0.03, 0.1, 0.3, 1.0), (0, 1, 2))),
        },
        Shown(
            "4000 MNIST images at 14×14, MLP, 10 clients, Dirichlet 0.1, 20 rounds", r"(fedavg\+)?(?P<method>[\w-]+)"
        ),
    ),
    Study(
        "personal-models",
        "how well each client's own model does on its own held-out records, learning rates tuned alike",
        {
            "smoke": comparing(personal_models(QUICK, (0.05,), (0,))),
            "desk": comparing(personal_models()),
        },
        Shown(
            "4000 MNIST images at 14×14, MLP, 10 clients, Dirichlet 0.1, 20 rounds, own models on own held-out records",
            r"(?P<method>fedrep|ditto)",
        ),
    ),
)
