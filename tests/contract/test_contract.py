"""The contract suite over every registered method, alone and with every add-on that joins it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from contract_checks import CHECKS, Case

from understudy.config.describe import describe_methods
from understudy.errors import UserError
from understudy.federation import registry

# Settings that keep a method quick; a method that is not listed runs with its defaults.
SURROGATE = {
    "stages": 2,
    "real_batches": 2,
    "image_steps": 2,
    "path_epochs": 1,
    "ipc": 3,
    "lr": 0.05,
    "image_lr": 5,
    "server_epochs": 20,
    "schedule": "constant",
}
CONDENSING = {"ipc": 2, "outer": 2, "inner": 2, "real_batch": 8, "server": {"epochs": 20, "lr": 0.05}}
QUICK: dict[str, dict[str, Any]] = {
    "fedavg": {"local": {"epochs": 2, "batch": 4, "lr": 0.1}},
    "fedpvr": {"local": {"epochs": 2, "batch": 4, "lr": 0.1}},
    "moon": {"local": {"epochs": 2, "batch": 4, "lr": 0.1}, "projection": 6},
    "fedntd": {"local": {"epochs": 2, "batch": 4, "lr": 0.1}},
    "fedadagrad": {"server_lr": 0.05, "local": {"epochs": 2, "batch": 4, "lr": 0.1}},
    "fedadam": {"server_lr": 0.05, "local": {"epochs": 2, "batch": 4, "lr": 0.1}},
    "fedyogi": {"server_lr": 0.05, "local": {"epochs": 2, "batch": 4, "lr": 0.1}},
    "fedsam": {"local": {"epochs": 2, "batch": 4, "lr": 0.1}},
    "feddecorr": {"local": {"epochs": 2, "batch": 4, "lr": 0.1}},
    "fedreg": {"local": {"epochs": 2, "batch": 4, "lr": 0.1}, "climbs": 3},
    "scaffold": {"local": {"epochs": 2, "batch": 4, "lr": 0.1}},
    "fedsgd": {"local": {"batch": 4, "lr": 0.1}},
    "fedavgm": {"server_momentum": 0.5, "damping": "fedcog", "local": {"epochs": 2, "batch": 4, "lr": 0.1}},
    "fedlc": {"local": {"epochs": 2, "batch": 4, "lr": 0.1}},
    "fedprox": {"mu": 0.1, "local": {"epochs": 2, "batch": 4, "lr": 0.1}},
    "fednova": {"local": {"epochs": 2, "batch": 4, "lr": 0.05, "momentum": 0.5}},
    "fedexp": {"preset": "authors", "local": {"epochs": 2, "batch": 4, "lr": 0.05}},
    "feddyn": {"alpha": 0.1, "scale_alpha": True, "local": {"epochs": 2, "batch": 4, "lr": 0.05}},
    "fedrep": {"local": {"epochs": 4, "batch": 4, "lr": 0.1}, "head_parts": 1, "tuning_epochs": 2},
    "ditto": {"local": {"epochs": 2, "batch": 4, "lr": 0.1}},
    "vhl": {"local": {"epochs": 2, "batch": 4, "lr": 0.1}, "noise_images": 8, "noise_batch": 8},
    "fedgen": {"local": {"epochs": 2, "batch": 4, "lr": 0.1}, "hidden": 8, "generator_steps": 3, "label_weight": 1},
    "dense": {
        "pre_rounds": 2,
        "student_init": "server",
        "local": {"epochs": 2, "batch": 4, "lr": 0.1},
        "alone": {"epochs": 2, "batch": 4, "lr": 0.1},
        "epochs": 2,
        "images": 8,
        "generator_steps": 2,
        "student": {"epochs": 1, "batch": 8, "lr": 0.005},
    },
    "feddm": {"ipc": 2, "steps": 3, "real_batch": 8, "min_class_records": 2, "server": {"epochs": 5, "lr": 0.05}},
    "fedlap": {**SURROGATE, "batch": 8},
    "fedlap-dp": {**SURROGATE, "restarts": 2, "batch": 12, "noise": 0.2},
    "real": {"ipc": 3, "min_class_records": 2, "server": {"epochs": 5, "lr": 0.05}},
    "central": {"local": {"epochs": 2, "batch": 4, "lr": 0.1}},
    "dc": {**CONDENSING, "iterations": 6, "image_lr": 5},
    "psg": {**CONDENSING, "iterations": 8, "batches": 2, "noise": 0.2, "image_lr": 5},
    "understudy": {
        "generator": {"name": "diffusion", "width": 4, "groups": 2, "head": 4, "least_steps": 2, "sampling_steps": 2},
        "sound_only": False,
        "min_class_records": 2,
        "server_updates": 3,
        "server": {"epochs": 7, "lr": 0.05, "augment": ["warp"]},
    },
    "moments": {"frequencies": 4, "axes": 3, "ipc": 20, "noise": 0.05, "server": {"epochs": 5, "lr": 0.05}},
    "dp-fedavg": {
        "local": {"steps": 6, "batch": 12, "lr": 0.2, "schedule": "constant"},
        "clip": 1.0,
        "noise": 0.2,
    },
    "dp-fedprox": {
        "local": {"steps": 6, "batch": 12, "lr": 0.2, "schedule": "constant"},
        "clip": 1.0,
        "noise": 0.2,
    },
    "fedcog": {"kd_weighting": "balanced", "images": 10, "steps": 3},
    "fedssyn": {
        "generator": {"name": "vae", "epochs": 2, "width": 4, "hidden": 8, "least_steps": 0},
        "sound_only": False,
    },
}

# A term is a method as well; as an add-on it leaves the training to the method that it joins, and can be milder.
MILDER: dict[str, dict[str, Any]] = {"vhl": {"noise_weight": 0.3, "alignment": 0.1}}


def quick_add_on(name: str) -> dict[str, Any]:
    """Those of its quick settings that an add-on has."""
    known = registry.entry(name, "add-on").settings.model_fields
    quick = {key: value for key, value in QUICK.get(name, {}).items() if key in known}
    return {"name": name, **quick, **MILDER.get(name, {})}


# What a private method must be told; the noise can be repeated, or no run would equal another.
PRIVATE = {"delta": 1e-5, "records": 12, "test_noise": True}
PRIVACY: dict[str, dict[str, Any]] = dict.fromkeys(("dp-fedavg", "dp-fedprox", "fedlap-dp", "moments", "psg"), PRIVATE)
PRIVATE_FEDDM = {**QUICK["feddm"], "min_class_records": None, "dp": "stat", "noise": 0.2}
NOISED_COUNTS = {**PRIVATE_FEDDM, "count_noise": 0.01, "min_class_records": 2, "image_lr": 10}
# What the frontier needs: images from a generator, in bytes, in a pool that is kept.
KEPT_POOL = {"keep_pool": 2, "keep_weight": 0.5}
GENERATED_FEDDM = {**QUICK["feddm"], **KEPT_POOL, "init": "generator", "pixels": "uint8"}
GENERATED_FEDDM["generator"] = QUICK["fedssyn"]["generator"]
# Images of a Gaussian, as they are drawn, and a server that warps them.
DRAWN_FEDDM = {**QUICK["feddm"], "init": "generator", "generator": {"name": "gaussian"}, "pixels": "uint8", "steps": 0}
DRAWN_FEDDM["server"] = {"epochs": 5, "lr": 0.05, "augment": ["warp"]}
ONE_EXCHANGE = {**QUICK["understudy"], "generator": QUICK["fedssyn"]["generator"], "exchanges": 1, "looks": None}
PRIVATE_FEDSSYN = {
    "name": "fedssyn",
    "generator": {**QUICK["fedssyn"]["generator"], "batch": 4, "conditional": True, "spread": "prior"},
    "sound_only": False,
    "dp": {"scope": "all", "noise": 1.0, "labels": "noised"},
}

ONE_SHOT = ("central", "dc", "psg")  # each client is asked once, in the first round if it is there
HELD_OUT = {"fedrep": 0.25}  # part of the model stays at home, so clients must score it


def cases() -> dict[str, Case]:
    found = {}
    for about in describe_methods():
        if about["role"] != "method":
            continue
        name = about["name"]
        kept_back = HELD_OUT.get(name, 0.0)
        privacy, lost = PRIVACY.get(name), 1 if name in ONE_SHOT else 2
        found[name] = Case(name, QUICK.get(name, {}), held_out=kept_back, privacy=privacy, drops_in=lost)
        for add_on in about["joins"]:
            joined = (quick_add_on(add_on),)
            found[f"{name}+{add_on}"] = Case(name, QUICK.get(name, {}), joined, kept_back, privacy, lost)
    both = tuple(map(quick_add_on, ("fedssyn", "fedcog")))
    found["feddm privately"] = Case("feddm", PRIVATE_FEDDM, privacy=PRIVATE)
    found["understudy in one exchange"] = Case("understudy", ONE_EXCHANGE, drops_in=1)
    found["feddm privately, counts noised"] = Case("feddm", NOISED_COUNTS, privacy=PRIVATE)
    found["feddm from a generator, pool kept"] = Case("feddm", GENERATED_FEDDM)
    found["feddm from a gaussian, warped"] = Case("feddm", DRAWN_FEDDM)
    found["real, pool kept"] = Case("real", {**QUICK["real"], **KEPT_POOL})
    found["dp-fedavg+fedssyn privately"] = Case("dp-fedavg", QUICK["dp-fedavg"], (PRIVATE_FEDSSYN,), privacy=PRIVATE)
    warm = {**quick_add_on("fedssyn"), "veto": "flag", "warm_start": {"epochs": 3, "batch": 8, "lr": 0.05}}
    for name in ("fedavg", "feddyn"):
        found[f"{name}+fedssyn, warm"] = Case(name, QUICK[name], (warm,))
    return {**found, "scaffold+fedssyn+fedcog": Case("scaffold", QUICK["scaffold"], both)}


CASES = cases()


# With add-ons first what they could break: where clients run, resumption, a client that drops out. The rest is slow.
FIRST = ("check_same_bits_wherever", "check_same_bits_after", "check_a_dropped")
METHODS = {entry.name for entry in registry.entries() if entry.role == "method"}
IN_EVERY_STEP = {*METHODS, "published-noise"}  # add-ons that act in local steps: terms, and noise
PAIRS = [name for name in CASES if "+" in name and name.split("+")[1] in IN_EVERY_STEP]


def first_checks(name: str) -> tuple[str, ...]:
    """Of a method with such an add-on, which are many, one: the next pair has the next."""
    return FIRST if name not in PAIRS else FIRST[PAIRS.index(name) % 3 :][:1]


TRIED = [
    pytest.param(
        name,
        check,
        marks=pytest.mark.slow if "+" in name and not check.__name__.startswith(first_checks(name)) else (),
    )
    for name in CASES
    for check in CHECKS
]


@pytest.mark.parametrize(
    ("name", "check"), TRIED, ids=lambda part: part if isinstance(part, str) else part.__name__.removeprefix("check_")
)
def test_every_method_keeps_the_contract(name: str, check: Callable[[Case, Path], None], tmp_path: Path) -> None:
    check(CASES[name], tmp_path)


def test_every_registered_method_and_add_on_is_in_the_suite() -> None:
    covered = {part for name in CASES for part in name.split("+")}
    assert covered >= {entry.name for entry in registry.entries()}


def test_an_add_on_that_makes_no_sense_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="fedcog joins methods in which clients train"):
        Case("feddm", QUICK["feddm"], ({"name": "fedcog", **QUICK["fedcog"]},)).play(tmp_path / "run")


def test_the_order_of_add_ons_is_free(tmp_path: Path) -> None:
    add_ons = CASES["scaffold+fedssyn+fedcog"].add_ons
    results = [
        Case("scaffold", QUICK["scaffold"], order).play(tmp_path / str(at))
        for at, order in enumerate((add_ons, add_ons[::-1]))
    ]
    assert (tmp_path / "0/model.safetensors").read_bytes() == (tmp_path / "1/model.safetensors").read_bytes()
    assert results[0].summary["finished"]


def test_generators_of_the_suite_really_make_images(tmp_path: Path) -> None:
    """Where all of them failed, the run would go on without, and every check of the add-on would be empty."""
    result = CASES["fedavg+fedssyn"].play(tmp_path / "run", rounds=1)
    assert result.metrics[0]["failures"] == []
    assert {path.stem for path in (tmp_path / "run/synthetic").iterdir()} == {"ash", "beech", "cedar"}
