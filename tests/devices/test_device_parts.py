"""Networks, generators and settings that the short runs of methods leave out, on a device that is not the processor."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from on_both import CLOSE, DEVICE, assert_same_on_both, pictures, run_words
from test_contract import PRIVATE, PRIVATE_FEDDM, PRIVATE_FEDSSYN, QUICK
from torch import Tensor, nn

from second_device import without_doubles
from understudy.config.build import build_data, choose_fast_path, method_with_add_ons
from understudy.config.resolve import resolve
from understudy.config.schema import Live
from understudy.data.federation import Federation
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.models import zoo as registry
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.privacy.gradients import clipped_gradient_sum
from understudy.privacy.sgd import _clipped_piece
from understudy.randomness import generator
from understudy.runs.measure import measure
from understudy.runs.play import play
from understudy.runs.rounds import RunResult
from understudy.runs.watching import Observer

FEDAVG = {"name": "fedavg", "rounds": 2, **QUICK["fedavg"]}


def assert_same(words: dict[str, Any], folder: Path, close: float = CLOSE, data: Federation | None = None) -> RunResult:
    return assert_same_on_both(lambda out, device: run_words(words, out, device, data), folder, close)


# ---- networks; compiled ones are left out, since torch can compile for no device but real ones

NETWORKS: dict[str, tuple[dict[str, Any], int]] = {  # with the side of an image
    "softmax": ({}, 8),
    "mlp": ({}, 8),
    "small-convnet": ({}, 8),
    "convnet": ({"width": 16}, 8),
    "simple-cnn": ({}, 16),
    "cifar100-cnn": ({}, 22),
    "vgg11": ({}, 32),
    "resnet18": ({}, 16),
    "resnet18, batch norm": ({"norm": "batch"}, 16),
}
OF_OTHER_KINDS = {"convnet-1d", "embedding-bag"}  # which take no pictures; tests/models try them


@pytest.mark.slow
@pytest.mark.parametrize("what", NETWORKS)
def test_every_network_trains(what: str, tmp_path: Path) -> None:
    settings, side = NETWORKS[what]
    model = {"name": what.partition(",")[0], "fast": "eager", **settings}
    local = {"steps": 2, "batch": 6, "lr": 0.01}
    words = {"model": model, "method": {"name": "fedavg", "rounds": 1, "local": local}}
    assert_same(words, tmp_path, data=pictures(side))


def test_the_networks_above_are_all_there_are() -> None:
    assert {what.partition(",")[0] for what in NETWORKS} | OF_OTHER_KINDS == set(registry.names())


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["average", "local"])
def test_running_statistics(policy: str, tmp_path: Path) -> None:
    model = {"name": "resnet18", "norm": "batch"}
    method = {"name": "scaffold", "rounds": 1, "local": {"steps": 2, "batch": 6, "lr": 0.01}, "buffers": policy}
    assert_same({"model": model, "method": method}, tmp_path, data=pictures(16))


def test_a_fast_path_is_the_processors() -> None:
    def chosen(name: str, fast: str, device: str) -> str:
        words = {"model": {"name": name, "fast": fast}, "method": {**FEDAVG, "rounds": 10**6}, "device": device}
        config = resolve(words, {}, Live(data=pictures(16)))
        return choose_fast_path(config, build_data(config), method_with_add_ons(config))

    assert chosen("simple-cnn", "auto", "cpu") == "batch-last"
    assert chosen("small-convnet", "auto", "cpu") == "compiled"
    assert chosen("simple-cnn", "auto", DEVICE) == chosen("small-convnet", "auto", DEVICE) == "eager"
    assert chosen("small-convnet", "compiled", DEVICE) == "compiled"
    with pytest.raises(UserError, match="only works on the CPU"):
        chosen("simple-cnn", "batch-last", DEVICE)


@pytest.mark.parametrize(("device", "passes"), [("cpu", [16, 16, 16]), (DEVICE, [40])])
def test_a_compiled_network_is_cut_into_passes_on_the_processor_alone(device: str, passes: list[int]) -> None:
    problem = Problem(shape=(1, 32, 32), classes=3)
    net = Network(lambda: Classifier(nn.Flatten(), nn.Linear(1024, 3)), problem, device=device)
    seen: list[int] = []

    def compiled(x: Tensor) -> Any:
        seen.append(len(x))
        return net._whole(x)

    net._compiled = compiled
    assert len(net(torch.zeros(40, 1, 32, 32))[1]) == 40
    assert seen == passes


# ---- generators

VAE = QUICK["fedssyn"]["generator"]
GAN = {"name": "gan", "epochs": 2, "batch": 8, "width": 4, "hidden": 8, "latent": 4}
DIFFUSION = {
    "name": "diffusion",
    "epochs": 2,
    "batch": 8,
    "least_steps": 0,
    "sampling_steps": 3,
    "width": 8,
    "head": 8,
}
GENERATORS: dict[str, dict[str, Any]] = {
    "vae": VAE,
    "vae, class": {**VAE, "spread": "class"},
    "vae, prior": {**VAE, "conditional": True, "spread": "prior"},
    "gan": GAN,
    "gan, consistency": {**GAN, "variant": "consistency"},
    "gan, negative": {**GAN, "variant": "negative", "loss": "hinge"},
    "diffusion": DIFFUSION,
    "diffusion, dropout": {**DIFFUSION, "flip": True, "dropout": 0.1, "predicts": "noise"},
    "diffusion, dpm-solver": {**DIFFUSION, "sampler": "dpm-solver"},
    "diffusion, ddim": {**DIFFUSION, "sampler": "ddim"},
}


@pytest.mark.slow
@pytest.mark.parametrize("what", GENERATORS)
def test_every_generator_makes_the_same_images(what: str, tmp_path: Path) -> None:
    add_on = {"name": "fedssyn", "generator": GENERATORS[what], "sound_only": False, "veto": "flag"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of numpy, in diffusers
        # Images are bytes: a last bit can move a pixel by one level, and with it the training.
        assert_same({"method": FEDAVG, "with": [{**add_on, "veto_space": "features"}]}, tmp_path, close=0.05)
    for name in ("ash", "beech"):
        ours, theirs = (
            np.load(tmp_path / where / "synthetic" / f"{name}.npz")["x"].astype(int)
            for where in ("device", "processor")
        )
        assert np.abs(ours - theirs).max() <= 1  # a pixel may be rounded the other way


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vae", "gan", "diffusion"])
def test_every_generator_learns_privately(kind: str, tmp_path: Path) -> None:
    made = {"vae": PRIVATE_FEDSSYN["generator"], "gan": {**GAN, "batch": 4}, "diffusion": {**DIFFUSION, "batch": 4}}
    add_on = {**PRIVATE_FEDSSYN, "generator": made[kind]}
    method = {"name": "dp-fedavg", "rounds": 1, **QUICK["dp-fedavg"]}
    assert_same({"method": method, "with": [add_on], "privacy": PRIVATE}, tmp_path)


# ---- settings of methods

FEDDM, FEDLAP = QUICK["feddm"], QUICK["fedlap"]
LOCAL = {"epochs": 2, "batch": 4, "lr": 0.05}
OPTIONS: dict[str, dict[str, Any]] = {
    "everything local": {
        "name": "fedavg",
        "local": {**LOCAL, "augment": ["flip", "crop"], "momentum": 0.9, "clip": 1.0, "weight_decay": 0.01},
        "score_local": True,
    },
    "decay of matrices": {"name": "fedprox", "local": {**LOCAL, "weight_decay": 0.1, "decay_on": "weights"}},
    "scaffold, option I": {"name": "scaffold", "local": LOCAL, "option": "I"},
    "ditto, scored at home": {"name": "ditto", "local": LOCAL, "score_local": True},
    "vhl, gaussian": {"name": "vhl", **QUICK["vhl"], "noise": "gaussian"},
    "fedreg, masked": {"name": "fedreg", **QUICK["fedreg"], "mask": True},
    "feddm, augmented": {"name": "feddm", **FEDDM, "dsa": True, "weights": "size"},
    "feddm, at the border": {"name": "feddm", **FEDDM, "radius": 0.05, "server": {"epochs": 8, "lr": 0.5}},
    "feddm, published noise": {"name": "feddm", **FEDDM, "min_class_records": None, "dp": "paper", "noise": 1.0},
    "feddm, few releases": {"name": "feddm", **PRIVATE_FEDDM, "stat_releases": 2},
    "fedlap, some images": {"name": "fedlap", **FEDLAP, "pool_batch": 5},
    "fedlap, strict": {"name": "fedlap", **FEDLAP, "dsa": False, "weights": "size", "strict": True, "radius": 0.5},
    "dc, augmented": {"name": "dc", **QUICK["dc"], "dsa": True, "iterations": 3},
    "dc, from real": {"name": "dc", **QUICK["dc"], "init": "real", "iterations": 3},
    "psg, augmented": {"name": "psg", **QUICK["psg"], "dsa": True, "iterations": 3},
    "dp-fedavg, augmented": {
        "name": "dp-fedavg",
        **QUICK["dp-fedavg"],
        "local": {**QUICK["dp-fedavg"]["local"], "augment": ["flip", "crop"]},
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("what", OPTIONS)
def test_settings_of_methods(what: str, tmp_path: Path) -> None:
    method = {"rounds": 2, **OPTIONS[what]}
    private = method["name"] in ("psg", "dp-fedavg") or method.get("dp") is not None
    found = assert_same({"method": method, "privacy": PRIVATE if private else None}, tmp_path)
    if method.get("score_local"):
        assert found.metrics[-1]["local_accuracy"] is not None


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"targets": "hard"}, {"source": "noise"}, {"generator": "network"}])
def test_settings_of_fedcog(settings: dict[str, Any], tmp_path: Path) -> None:
    # Adam's first steps go by the sign of a slope, and with BatchNorm some slopes are nothing but rounding.
    close = 1e-2 if settings.get("generator") == "network" else CLOSE
    assert_same({"method": FEDAVG, "with": [{"name": "fedcog", **QUICK["fedcog"], **settings}]}, tmp_path, close)


# ---- private gradients


class Odd(nn.Module):
    """A layer that no rule is known for."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(64))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) * self.scale


def few_places() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 40, 7), nn.ReLU(), nn.Conv2d(40, 40, 2), nn.Flatten())


@pytest.mark.parametrize(
    ("body", "features"), [(nn.Flatten, 64), (Odd, 64), (few_places, 40)], ids=["linear", "torch.func", "convolution"]
)
def test_a_record_whose_gradient_is_not_finite_counts_for_nothing(body: Any, features: int) -> None:
    problem = Problem(shape=(1, 8, 8), classes=3)
    x, y = torch.randn(5, 1, 8, 8, generator=generator("x")), torch.tensor([0, 1, 2, 0, 1])
    spoilt = x.clone()
    spoilt[2, 0, 3, 3], spoilt[4] = torch.inf, 1e38
    sound = [0, 1, 3]
    sums = []
    for device in ("cpu", DEVICE):
        net = Network(lambda: Classifier(body(), nn.Linear(features, 3)), problem, device=device)
        with without_doubles():
            found = clipped_gradient_sum(net, spoilt.to(device), y.to(device), 0.5)
            wanted = clipped_gradient_sum(net, x[sound].to(device), y[sound].to(device), 0.5)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)
        sums.append(found.cpu())
    torch.testing.assert_close(sums[0], sums[1], rtol=1e-4, atol=1e-6)


def test_nor_does_it_in_a_generator() -> None:
    rows = torch.tensor([[3.0, 4.0], [torch.inf, 1.0], [torch.nan, 0.0], [0.3, 0.4]])
    for device in ("cpu", DEVICE):
        assert _clipped_piece([rows.to(device)], 1.0).tolist() == pytest.approx([0.9, 1.2])  # (3, 4)/5 + (0.3, 0.4)


# ---- around a run


@pytest.mark.slow
def test_scores_at_clients(tmp_path: Path) -> None:
    found = assert_same({"method": FEDAVG}, tmp_path, data=pictures(test=False))
    assert found.metrics[-1]["scored_at"] == "clients"


def test_metrics_and_measured_quantities(tmp_path: Path) -> None:
    add_on = {"name": "fedssyn", "source": "real"}
    words = {"model": {"name": "softmax"}, "method": FEDAVG, "measure": 1, "with": [add_on]}
    found = assert_same(words, tmp_path)
    expected = [run_words(words, tmp_path / "again", "cpu").metrics[-1], found.metrics[-1]]
    for part in ("accuracy", "loss", "zeta2", "sigma2", "smoothness", "zeta2_shuffled", "delta2"):
        assert expected[1][part] == pytest.approx(expected[0][part], rel=1e-3), part
    with without_doubles():
        live = Live(data=pictures())
        assert measure(str(tmp_path / "device"), live=live).zeta2 == pytest.approx(found.metrics[-1]["zeta2"], rel=1e-3)


def test_a_run_stopped_and_resumed_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    def run(name: str, rounds: int, resume: bool = False) -> RunResult:
        method = {"name": "scaffold", "local": LOCAL, "rounds": rounds}
        words = {"method": method, "with": [{"name": "fedcog", **QUICK["fedcog"]}]}
        return run_words(words, tmp_path / name, DEVICE, resume=resume)

    straight = run("straight", 2)
    run("resumed", 1)
    resumed = run("resumed", 2, resume=True)
    files = [result.folder / "model.safetensors" for result in (straight, resumed)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_workers_are_asked_for_in_vain(tmp_path: Path) -> None:
    """Forks share an accelerator badly: there clients run one after another, with the same result."""
    plain = run_words({"method": FEDAVG}, tmp_path / "plain", DEVICE)
    asked = run_words({"method": FEDAVG, "engine": {"name": "workers", "workers": 2}}, tmp_path / "asked", DEVICE)
    assert (plain.folder / "model.safetensors").read_bytes() == (asked.folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        (1, "On second:0 the clients run one after another in this process."),
        (2, "and another device stays idle; `engine: ray` with engine.gpus: 1 uses all 2."),
        (4, "and 3 other devices stay idle; `engine: ray` with engine.gpus: 1 uses all 4."),
    ],
)
def test_workers_are_told_how_several_devices_are_used(
    devices: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    class Listening(Observer):
        def says(self, sentence: str) -> None:
            told.append(sentence)

    monkeypatch.setattr(torch.get_device_module("second"), "device_count", lambda: devices)
    words = {"method": {**FEDAVG, "rounds": 0}, "model": {"name": "softmax"}, "engine": {"name": "workers"}}
    play(resolve({**words, "device": DEVICE}, {}, Live(data=pictures())), tmp_path / "run", observer=Listening())
    assert any(sentence.endswith(said) for sentence in told), told


def test_several_labels_a_record(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    sites = {
        name: (rng.integers(0, 255, (12, 1, 8, 8)).astype(np.uint8), rng.integers(0, 2, (12, 3)).astype(np.float32))
        for name in ("ash", "beech")
    }
    data = Federation.from_arrays(sites, test=sites["ash"])
    words = {"method": {**FEDAVG, "score_local": True}, "with": [{"name": "fedcog", **QUICK["fedcog"]}]}
    found = assert_same({**words, "model": {"name": "mlp", "hidden": [8]}}, tmp_path, data=data)
    assert found.metrics[-1]["accuracy"] is not None
