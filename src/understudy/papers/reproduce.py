"""Studies by name: what a paper compares, at the scale that one has time for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from understudy.complaints import unknown_name
from understudy.errors import UserError
from understudy.papers import fedcog as fedcog_study
from understudy.papers.experiment import Experiment
from understudy.papers.feddm import (
    OPTIONS_ABOUT,
    SKEW_ABOUT,
    options_at_desk,
    options_smoke,
    skew_at_desk,
    skew_smoke,
)
from understudy.papers.fedlap import criteria_study
from understudy.papers.fedlap import studies as lap
from understudy.papers.fedlap.criteria import CriteriaPlan
from understudy.papers.fedssyn import studies as fedssyn_studies
from understudy.papers.theory import studies as theory_studies
from understudy.papers.tuned import Comparison, Contender

Scale = Literal["smoke", "desk", "paper"]


@dataclass(frozen=True)
class Study:
    name: str
    about: str
    scales: Mapping[Scale, Callable[[], Comparison | Experiment]]


def study(name: str, scale: Scale) -> Comparison | Experiment:
    if name not in STUDIES:
        raise unknown_name("study", name, STUDIES)
    found = STUDIES[name]
    if scale not in found.scales:
        raise UserError(f"{name} cannot be run at scale {scale}; choose {' or '.join(found.scales)}.")
    return found.scales[scale]()


# ---- the averaging family on one skewed split

SKEWED: Mapping[str, Any] = {
    "data": {"name": "mnist-5k", "size": 14, "clients": 10, "split": {"kind": "dirichlet", "alpha": 0.1}},
    "model": {"name": "mlp", "hidden": [64]},
    "method": {"name": "fedavg", "rounds": 20, "local": {"epochs": 1, "batch": 32, "lr": 0.05}},
    "engine": {"name": "inline"},
}
COG = {"name": "fedcog", "kd_weighting": "balanced", "from_round": 11, "images": 64, "steps": 30}
SSYN = {"name": "fedssyn", "generator": {"name": "vae", "epochs": 20, "batch": 64}}
FAMILY: Mapping[str, Mapping[str, Any]] = {
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


def _family(changes: Mapping[str, Any], rates: tuple[float, ...], seeds: tuple[int, ...]) -> Comparison:
    about = "Every averaging method on one split of 4000 MNIST images at 14×14 over ten clients, Dirichlet 0.1"
    contenders = [Contender(label, {**change, **changes}) for label, change in FAMILY.items()]
    return Comparison("averaging-family", about, SKEWED, rates, seeds, contenders)


# ---- models of one's own

PERSONAL: Mapping[str, Mapping[str, Any]] = {
    "fedavg+ft": {},
    "fedprox+ft": {"method.name": "fedprox", "method.mu": 0.1},
    "fedcog+ft": {"with": [COG]},
    "fedrep": {"method.name": "fedrep"},
    "ditto": {"method.name": "ditto"},
}


def _personal(changes: Mapping[str, Any], rates: tuple[float, ...], seeds: tuple[int, ...]) -> Comparison:
    about = "Personal models on each client's own held-out records: 4000 MNIST images at 14×14, Dirichlet 0.1"
    measure = "personal_held_out_accuracy"
    more = {"data.held_out": 0.2, "method.score_local": True, **changes}
    contenders = [Contender(label, {**change, **more}) for label, change in PERSONAL.items()]
    return Comparison("personal-models", about, SKEWED, rates, seeds, contenders, measure, measure)


# ---- matching at one client

CRITERIA: Mapping[Scale, Callable[[], Experiment]] = {
    "smoke": lambda: criteria_study.criteria_study((0,), CriteriaPlan(real_batches=1, steps=2)),
    "desk": lambda: criteria_study.criteria_study((0, 1, 2)),
}

# ---- the theory measured

THEORY: Mapping[str, Study] = {
    name: Study(name, about, scales) for name, (about, scales) in theory_studies.STUDIES.items()
}

FEDSSYN: Mapping[str, Study] = {
    name: Study(name, about, scales) for name, (about, scales) in fedssyn_studies.STUDIES.items()
}

STUDIES: Mapping[str, Study] = {
    "averaging-family": Study(
        "averaging-family",
        "all averaging methods on one skewed split, learning rates tuned alike",
        {
            "smoke": lambda: _family({"method.rounds": 1, "data.limit": 300}, (0.05,), (0,)),
            "desk": lambda: _family({}, (0.01, 0.03, 0.1, 0.3, 1.0), (0, 1, 2)),
        },
    ),
    "personal-models": Study(
        "personal-models",
        "how well each client's own model does on its own held-out records, learning rates tuned alike",
        {
            "smoke": lambda: _personal({"method.rounds": 1, "data.limit": 300}, (0.05,), (0,)),
            "desk": lambda: _personal({}, (0.01, 0.03, 0.1, 0.3), (0, 1, 2)),
        },
    ),
    "fedcog-fashion-mnist": Study(
        "fedcog-fashion-mnist",
        fedcog_study.ABOUT,
        {
            "smoke": lambda: fedcog_study.fedcog_study(fedcog_study.SMOKE),
            "paper": fedcog_study.fedcog_study,
        },
    ),
    "feddm-skew": Study("feddm-skew", SKEW_ABOUT, {"smoke": skew_smoke, "desk": skew_at_desk}),
    "feddm-options": Study("feddm-options", OPTIONS_ABOUT, {"smoke": options_smoke, "desk": options_at_desk}),
    "fedlap-pairs": Study("fedlap-pairs", lap.PAIRS_ABOUT, {"smoke": lap.pairs_smoke, "desk": lap.pairs_at_desk}),
    "fedlap-options": Study(
        "fedlap-options", lap.OPTIONS_ABOUT, {"smoke": lap.options_smoke, "desk": lap.options_at_desk}
    ),
    "fedlap-dp": Study("fedlap-dp", lap.PRIVATE_ABOUT, {"smoke": lap.private_smoke, "desk": lap.private_at_desk}),
    "matching-criteria": Study("matching-criteria", criteria_study.ABOUT, CRITERIA),
    **THEORY,
    **FEDSSYN,
}
