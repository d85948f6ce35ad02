"""The presets of the papers' main experiments, number by number: data, split, network, rounds, optimiser, images.

What a paper prints is looked up in its text where this machine has it; the rest is its published code's.
"""

from typing import Any

import pytest
from printed_numbers import missing_from

from understudy.config.build import module_of
from understudy.config.read import read
from understudy.config.resolve import resolve
from understudy.data.problem import Problem
from understudy.runs.run_store import StoredConfig

CIFAR, MNIST = Problem((3, 32, 32), 10), Problem((1, 28, 28), 10)
PAIRS = {"kind": "class-pairs", "pairs": "fedlap"}
LAP = {"clients": 5, "split": PAIRS}
# By preset: the paper, what its text prints, the network's parameters and problem, and the sections of the config.
PRESETS: dict[str, tuple[str, list[float], int, Problem, dict[str, dict[str, Any]]]] = {
    "fedssyn-cifar10": (
        "fedssyn-journal.txt",
        [0.01, 256, 10, 0.0001, 1000, 500, 50000, 0.1],
        9_750_922,
        CIFAR,
        {
            "data": {"name": "cifar10", "clients": 10, "validation": 0.1},
            "split": {"kind": "dirichlet", "alpha": 0.01, "style": "fedssyn", "equalise": True},
            "method": {"name": "fedavg", "rounds": 100, "weights": "uniform", "cohort": 1.0},
            "local": {"epochs": 10, "batch": 256, "lr": 0.1, "momentum": 0.0, "weight_decay": 0.0},
            "with": {"name": "fedssyn", "records": 0.75, "images": 5000, "deal": "shuffled"},
            "generator": {"name": "diffusion", "epochs": 500, "batch": 256, "lr": 1e-4, "ema": 0.9995, "width": 64},
        },
    ),
    "feddm-cifar10": (
        "feddm.txt",
        [0.5, 10, 20, 1000, 256, 500, 0.01, 5, 320010],
        320_010,
        CIFAR,
        {
            "data": {"name": "cifar10", "clients": 10, "validation": 0.0},
            "split": {"kind": "dirichlet", "alpha": 0.5, "style": "niid-bench"},
            "method": {"name": "feddm", "rounds": 20, "ipc": 10, "radius": 5.0, "steps": 1000, "real_batch": 256}
            | {"image_lr": 1.0, "image_momentum": 0.5, "dsa": False, "weights": "pool"},
            "server": {"epochs": 500, "batch": 256, "lr": 0.01, "momentum": 0.9, "weight_decay": 5e-4},
        },
    ),
    "fedcog-cifar10": (
        "fedcog.txt",
        [0.1, 10, 70, 50, 20, 400, 0.01, 256],
        62_006,
        CIFAR,
        {
            "data": {"name": "cifar10", "clients": 10},
            "split": {"kind": "dirichlet", "alpha": 0.1, "style": "niid-bench"},
            "method": {"name": "fedavg", "rounds": 70, "weights": "size"},
            "local": {"steps": 400, "batch": 64, "lr": 0.01, "momentum": 0.9, "weight_decay": 1e-5},
            "with": {"name": "fedcog", "from_round": 51, "images": 256, "steps": 100, "lr": 0.01, "disagreement": 0.1}
            | {"kd_weighting": "fixed", "kd_weight": 0.01, "divergence": "exact", "labels": "complement"},
        },
    ),
    "fedlap-mnist": (
        "fedlap-dp.txt",
        [60, 0.01, 100, 50, 10, 5, 0.1],
        317_706,
        MNIST,
        {
            "data": {"name": "mnist", **LAP},
            "method": {"name": "fedlap", "rounds": 60, "restarts": 1, "stages": 5, "real_batches": 40}
            | {"image_steps": 5, "path_epochs": 0, "server_epochs": 100, "radius": 10.0, "radius_rule": "min"}
            | {"mse": 0.1, "ipc": 50, "init": "real", "image_lr": 100.0, "batch": 256, "lr": 0.01}
            | {"schedule": "cosine", "labels": "owned", "rows": "mean", "flip": False},
        },
    ),
    "fedlap-dp-mnist": (
        "fedlap-dp.txt",
        [4, 2, 10, 1.5, 0.002, 100, 1.0, 2.79, 10.18],
        317_706,
        MNIST,
        {
            "data": {"name": "mnist", **LAP},
            "method": {"name": "fedlap-dp", "rounds": 30, "restarts": 4, "stages": 5, "real_batches": 10}
            | {"image_steps": 5, "path_epochs": 2, "server_epochs": 100, "radius": 1.5, "mse": 0.0, "ipc": 10}
            | {"init": "noise", "image_lr": 100.0, "batch": 256, "lr": 0.002, "schedule": "cosine"}
            | {"clip": 1.0, "noise": 1.0},
            "privacy": {"delta": 1e-5, "records": 10000, "accountant": "rdp"},
        },
    ),
}


def section(words: dict[str, Any], name: str) -> dict[str, Any]:
    places = {
        "split": lambda: words["data"]["split"],
        "local": lambda: words["method"]["local"],
        "server": lambda: words["method"]["server"],
        "with": lambda: words["with"][0],
        "generator": lambda: words["with"][0]["generator"],
    }
    found: dict[str, Any] = places.get(name, lambda: words[name])()
    return found


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_the_papers_main_experiment(preset: str) -> None:
    _, _, parameters, problem, sections = PRESETS[preset]
    config = resolve(read(preset), {})
    words = StoredConfig(config)._words()
    for name, wanted in sections.items():
        found = section(words, name)
        assert {key: found[key] for key in wanted} == wanted, name
    assert sum(each.numel() for each in module_of(config, problem).parameters()) == parameters


@pytest.mark.parametrize("preset", PRESETS)
def test_its_numbers_stand_in_the_papers_text(preset: str) -> None:
    file, printed, *_ = PRESETS[preset]
    assert missing_from(file, printed) == []
