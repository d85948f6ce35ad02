"""What makes an accelerator wait: a value that the processor reads back. More steps must not mean more of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from on_both import DEVICE, pictures, run_words
from test_contract import PRIVATE, QUICK
from torch import Tensor, nn

from second_device import reads_back, uploads
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.federation import registry
from understudy.learning.ahead import ahead
from understudy.learning.dsa import ALL
from understudy.learning.local import Local
from understudy.learning.pool import PerImage, learn_near
from understudy.methods.averaging import Averaging
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.randomness import generator
from understudy.studies.catalogue import _built
from understudy.synthesis.generator import entry
from understudy.synthesis.matching import into_ball, match_distributions

METHODS = {one.name: _built(one) for one in registry.entries() if one.role == "method"}
# Of the averaging family all but FedSGD, whose rounds are single steps.
TRAINING = [name for name, method in METHODS.items() if isinstance(method, Averaging) and name != "fedsgd"]


def waits(work: Callable[[], object]) -> int:
    before = reads_back()
    work()
    return reads_back() - before


def sends(work: Callable[[], object]) -> int:
    before = uploads()
    work()
    return uploads() - before


def reads_of(words: dict[str, Any], folder: Path, privacy: dict[str, Any] | None = None) -> int:
    def work() -> None:
        result = run_words({**words, "privacy": privacy}, folder, DEVICE)
        assert result.metrics[-1]["failures"] == []

    return waits(work)


@pytest.mark.parametrize("name", TRAINING)
def test_local_training_reads_nothing_back_in_a_step(name: str, tmp_path: Path) -> None:
    def words(steps: int) -> dict[str, Any]:
        local = {**QUICK[name]["local"], "epochs": None, "steps": steps, "augment": ["flip", "crop"]}
        more = {"alone": {"steps": steps}} if name == "dense" else {}
        return {"method": {"name": name, "rounds": 1, **QUICK[name], "local": local, **more}}

    private = PRIVATE if METHODS[name].private else None
    few, many = (reads_of(words(steps), tmp_path / str(steps), private) for steps in (3, 6))
    assert many == few, f"{many - few} more for 3 more steps"


def made_by(name: str, **settings: Any) -> dict[str, Any]:
    return {"method": {**QUICK[name], "name": name, "rounds": 1, **settings}}


def with_fedcog(**settings: Any) -> dict[str, Any]:
    return {**made_by("fedavg"), "with": [{"name": "fedcog", **QUICK["fedcog"], **settings}]}


WORK: dict[str, Callable[[int], dict[str, Any]]] = {
    "feddm's images": lambda n: made_by("feddm", steps=n),
    "feddm's augmented images": lambda n: made_by("feddm", steps=n, dsa=True),
    "feddm's server in its ball": lambda n: made_by("feddm", radius=0.01, server={"epochs": n, "lr": 0.5}),
    "fedlap's real batches": lambda n: made_by("fedlap", real_batches=n),
    "fedlap's image steps": lambda n: made_by("fedlap", image_steps=n),
    "dc's networks on images": lambda n: made_by("dc", iterations=1, inner=n),
    "fedcog's images": lambda n: with_fedcog(steps=n),
    "fedcog's image network": lambda n: with_fedcog(steps=n, generator="network"),
    "fedgen's generator": lambda n: made_by("fedgen", generator_steps=n),
    "dense's images": lambda n: made_by("dense", pre_rounds=0, generator_steps=n),
}


@pytest.mark.parametrize("what", WORK)
def test_synthesis_reads_nothing_back_in_a_step(what: str, tmp_path: Path) -> None:
    few, many = (reads_of(WORK[what](steps), tmp_path / str(steps)) for steps in (3, 6))
    assert many == few, f"{many - few} more for 3 more steps"


@pytest.mark.parametrize("name", ["fedlap-dp", "psg"])
def test_private_gradients_read_nothing_back(name: str, tmp_path: Path) -> None:
    more = {"fedlap-dp": "real_batches", "psg": "batches"}[name]
    few, many = (
        reads_of({"method": {**QUICK[name], "name": name, "rounds": 1, more: n}}, tmp_path / str(n), PRIVATE)
        for n in (2, 4)
    )
    assert many == few


GENERATORS: dict[str, dict[str, Any]] = {
    "vae": {"width": 4, "hidden": 8},
    "gan": {"width": 4, "hidden": 8},
    "gan, negative": {"width": 4, "hidden": 8, "variant": "negative"},
    "diffusion": {"width": 8, "head": 8, "least_steps": 0},
}


@pytest.mark.parametrize("what", GENERATORS)
def test_generators_read_nothing_back_in_a_step(what: str) -> None:
    kind = entry(what.partition(",")[0])
    data = pictures()

    def fit(epochs: int) -> None:
        maker = kind.build(kind.settings.model_validate({**GENERATORS[what], "epochs": epochs, "batch": 8}))
        maker.device = torch.device(DEVICE)
        maker.fit(data.sites["beech"].own, data.problem, generator("fit"))

    fit(1)  # the first step makes what lasts
    assert waits(lambda: fit(2)) == waits(lambda: fit(4))


# ---- what is sent


PROBLEM = Problem(shape=(1, 8, 8), classes=3)


def small_net() -> Network:
    def build() -> nn.Module:
        return Classifier(nn.Flatten(), nn.Linear(64, 3))

    return Network(build, PROBLEM, device=DEVICE)


def records() -> Examples:
    return Examples(torch.randn(12, 1, 8, 8, generator=generator("x")), torch.arange(12) % 3)


def test_the_draws_of_all_steps_go_over_together() -> None:
    net, local = small_net(), Local(steps=1, batch=4)

    def train(steps: int) -> None:
        changes = PerImage(ALL, generator("dsa"))
        learn_near(
            net,
            net.initial(),
            records(),
            local.model_copy(update={"steps": steps, "augment": ("flip", "crop")}),
            rate=0.1,
            order=generator("order"),
            rng=generator("augment"),
            augment=changes,
        )

    assert sends(lambda: train(4)) == sends(lambda: train(8))


def test_points_of_the_sphere_go_over_together() -> None:
    net = small_net()

    def match(steps: int) -> None:
        match_distributions(
            *(net, net.initial(), records(), torch.zeros(6, 1, 8, 8), [0, 1, 2]),
            radius=1.0,
            steps=steps,
            real_size=4,
            lr=0.1,
            momentum=0.5,
            rng=generator("matching"),
        )

    assert sends(lambda: match(3)) == sends(lambda: match(6))


def test_what_goes_over_together_is_bounded_in_bytes_and_drawn_in_order() -> None:
    def drawn(rng: torch.Generator, count: int) -> list[Tensor]:
        return [torch.rand(5 + i, generator=rng) for i in range(count)]

    rng, most = generator("ahead"), 100
    held: list[int] = []
    found: list[Tensor] = []
    waiting = (torch.rand(5 + i, generator=rng) for i in range(9))

    def noted(one: Tensor) -> list[Tensor]:
        held.append(one.nbytes)
        return [one]

    before = uploads()
    for _, (there,) in ahead(waiting, noted, torch.device(DEVICE), most=most):
        assert there.device.type == "second"
        # Drawn so far and not used yet: less than what goes over at once, and the draw that makes it full.
        assert sum(held) - sum(one.nbytes for one in found) < most + held[-1]
        found.append(there.cpu())
    assert all(map(torch.equal, found, drawn(generator("ahead"), 9)))
    assert 1 < uploads() - before < 9


def test_a_ball_needs_no_answer() -> None:
    centre = torch.zeros(70_000, device=DEVICE)
    for length in (0.5, 3.0):
        w = torch.full((70_000,), length / 70_000**0.5).to(DEVICE)
        assert waits(lambda: into_ball(w, centre, 1.0)) == 0  # noqa: B023
        assert w.cpu().norm().item() == pytest.approx(min(length, 1.0), rel=1e-4)
