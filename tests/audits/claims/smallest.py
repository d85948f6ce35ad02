"""The smallest configs with a claim: 8×8 pictures of three classes, a network of 547 numbers, few steps."""

from typing import Any

from contract_checks import Case
from test_contract import PRIVATE_FEDDM, PRIVATE_FEDSSYN, QUICK
from test_secret_streams import GENERATORS as QUICK_GENERATORS

from understudy.config.schema import Config

PROMISE = {"delta": 1e-5, "records": 60}
TRAINING = {"local": {"steps": 8, "batch": 12, "lr": 0.2, "schedule": "constant"}, "clip": 1.0, "noise": 1.0}
MATCHING = {**PRIVATE_FEDDM, "noise": 1.0, "steps": 6, "ipc": 1}

# A repetition in a few hundredths of a second: one in five records is in each of five steps, and networks are tiny.
GENERATORS: dict[str, dict[str, Any]] = {
    "vae": {**QUICK_GENERATORS["vae"], "epochs": 1, "batch": 12},
    "gan": {**QUICK_GENERATORS["gan"], "batch": 12, "width": 2, "hidden": 8, "latent": 4},
    "diffusion": {
        **QUICK_GENERATORS["diffusion"],
        "batch": 12,
        "draws_per_record": 1,
        "attention": (1, 1),
        "sampling_steps": 1,
    },
}
CONDENSING = {**QUICK["psg"], "noise": 1.0, "iterations": 2, "ipc": 1, "outer": 1, "inner": 1}
SURROGATE = {**QUICK["fedlap-dp"], "noise": 1.0, "stages": 1, "ipc": 1}


def exchange(generator: str, **changes: Any) -> Case:
    """Only the opening, with noised label counts."""
    dp = {"scope": "exchange", "noise": 1.0, "labels": "noised", "label_noise": 2.0}
    add_on = {**PRIVATE_FEDSSYN, "generator": {**GENERATORS[generator], **changes}, "dp": dp}
    return Case("fedavg", {**QUICK["fedavg"], "rounds": 0}, (add_on,), privacy=PROMISE)


HONEST: dict[str, Case] = {
    "dp-fedavg": Case("dp-fedavg", TRAINING, privacy=PROMISE),
    "dp-fedprox": Case("dp-fedprox", TRAINING, privacy=PROMISE),
    "feddm, dp: stat": Case("feddm", MATCHING, privacy=PROMISE),
    "feddm, dp: stat, stat_releases": Case("feddm", {**MATCHING, "stat_releases": 3}, privacy=PROMISE),
    "fedlap-dp": Case("fedlap-dp", SURROGATE, privacy=PROMISE),
    "psg": Case("psg", CONDENSING, privacy=PROMISE),
    "moments": Case("moments", {**QUICK["moments"], "noise": 1.0}, privacy=PROMISE),
    "vae, noised label counts": exchange("vae"),
    "gan, noised label counts": exchange("gan"),
    "diffusion, noised label counts": exchange("diffusion"),
}
PUBLISHED = Case("feddm", {**MATCHING, "dp": "paper", "real_batch": 64})


def config_of(case: Case, **changes: Any) -> Config:
    return case.config(case.federation(), **changes)


def faulty(fault: str) -> Config:
    """DP-FedAvg with settings under which the fault is one: with C < 1, noise without C is too much noise."""
    settings: dict[str, Any] = {**TRAINING}
    promise: dict[str, Any] = {**PROMISE}
    if fault == "noise without C":
        settings["clip"] = 3.0
    if fault == "sampling from the public seed":  # a rare record in many steps: most of the claim is its being rare
        settings["noise"] = 0.7
        settings["local"] = {**TRAINING["local"], "steps": 24}  # type: ignore[dict-item]
        promise["records"] = 240
    return config_of(Case("dp-fedavg", settings, privacy=promise))
