"""The same model to the last bit, in one process and on a federation of processes with TLS and keys."""

from pathlib import Path
from typing import Any

import pytest

import understudy as us
from understudy.engines.flower.proxy import nginx
from understudy.runs.folder import RunFolder

pytestmark = pytest.mark.skipif(nginx() is None, reason="nginx is not installed")

VAE = {"name": "vae", "epochs": 60, "batch": 16, "lr": 2e-3, "gamma": 1.0, "capacity": 0.0, "width": 8, "hidden": 32}
QUICK = {"steps": 3, "batch": 16, "lr": 0.1}
LAP = {"restarts": 1, "stages": 1, "real_batches": 2, "image_steps": 1, "server_epochs": 3, "ipc": 2, "batch": 20}


def config(sites: int, method: dict[str, Any], add: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "data": {"name": "digits", "clients": sites, "limit": 200, "split": {"kind": "dirichlet", "alpha": 0.5}},
        "model": {"name": "small-convnet"},
        "method": {"rounds": 2, **method},
        "with": add or [],
        **more,
    }


def same_everywhere(folder: Path, words: dict[str, Any], engines: tuple[str, ...]) -> None:
    for engine in engines:
        us.run({**words, "engine": {"name": engine, "timeout": 300}}, out=folder / engine)
    assert len({(folder / engine / "model.safetensors").read_bytes() for engine in engines}) == 1
    sent = [[(line["bytes_up"], line["bytes_down"]) for line in RunFolder(folder / one).metrics()] for one in engines]
    assert all(one == sent[0] and len(one) == 3 for one in sent)


def test_memory_an_opening_and_images_go_through_flower_unchanged(tmp_path: Path) -> None:
    scaffold = {"name": "scaffold", "local": QUICK}
    words = config(2, scaffold, [{"name": "fedssyn", "generator": VAE, "images": 20}])
    same_everywhere(tmp_path, words, ("inline", "flower"))


SIX = {
    "fedavg": config(5, {"name": "fedavg", "local": QUICK}),
    "scaffold": config(5, {"name": "scaffold", "local": QUICK}),
    "feddm": config(5, {"name": "feddm", "steps": 3, "ipc": 2, "server": {"epochs": 2}}),
    "fedlap-dp": config(
        5,
        {"name": "fedlap-dp", **LAP},
        privacy={"delta": 1e-3, "records": 40, "test_noise": True},
    ),
    "fedavg+fedcog": config(
        5, {"name": "fedavg", "local": QUICK}, [{"name": "fedcog", "kd_weighting": "fixed", "steps": 3}]
    ),
    "fedavg+fedssyn": config(
        5, {"name": "fedavg", "local": QUICK}, [{"name": "fedssyn", "generator": VAE, "images": 20}]
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SIX)
def test_six_protocols_on_five_sites_give_the_same_model_on_every_engine(tmp_path: Path, name: str) -> None:
    same_everywhere(tmp_path, SIX[name], ("inline", "workers", "flower"))
