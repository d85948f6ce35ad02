"""What makes an accelerator wait: a value that the processor reads back, and draws that come one step at a time.

More steps must not mean more of either, as long as what they draw goes over at once (64 MB).
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from on_both import DEVICE, pictures, run_words
from test_contract import PRIVATE, QUICK
from torch import Tensor, nn

from second_device import reads_back, uploads
from understudy.config.describe import _built
from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.data.problem import Problem
from understudy.federation import registry
from understudy.learning.ahead import ahead
from understudy.learning.ball import into_ball
from understudy.learning.dsa import ALL
from understudy.learning.evaluate import evaluate, tally
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Step
from understudy.learning.pool import PerImage, PoolFeed, learn_from_pool
from understudy.methods.shared.averaging import Averaging
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.privacy.gradients import clipped_gradient_sum_with
from understudy.privacy.sgd import PrivateSteps
from understudy.randomness import generator
from understudy.synthesis.generator import entry
from understudy.synthesis.matching import ImageSteps, Neighbourhood, RealClasses, match_distributions

METHODS = {one.name: _built(one) for one in registry.entries() if one.role == "method"}
# Of the averaging family all but FedSGD, whose rounds are single steps.
TRAINING = [name for name, method in METHODS.items() if isinstance(method, Averaging) and name != "fedsgd"]


@dataclass(frozen=True)
class Traffic:
    reads_back: int
    uploads: int


def traffic(work: Callable[[], object]) -> Traffic:
    before = Traffic(reads_back(), uploads())
    work()
    return Traffic(reads_back() - before.reads_back, uploads() - before.uploads)


def traffic_of(words: dict[str, Any], folder: Path, privacy: dict[str, Any] | None = None) -> Traffic:
    def work() -> None:
        result = run_words({**words, "privacy": privacy}, folder, DEVICE)
        assert result.metrics[-1]["failures"] == []

    return traffic(work)


@pytest.mark.parametrize("name", TRAINING)
def test_a_step_of_local_training_neither_sends_nor_reads_back(name: str, tmp_path: Path) -> None:
    def words(steps: int) -> dict[str, Any]:
        local = {**QUICK[name]["local"], "epochs": None, "steps": steps, "augment": ["flip", "crop"]}
        more = {"alone": {"steps": steps}} if name == "dense" else {}
        return {"method": {"name": name, "rounds": 1, **QUICK[name], "local": local, **more}}

    private = PRIVATE if METHODS[name].private else None
    few, many = (traffic_of(words(steps), tmp_path / str(steps), private) for steps in (3, 6))
    assert many == few


# What acts in local steps without being a method of the family.
JOINED: dict[str, dict[str, Any]] = {
    "published-noise": {"noise": 0.5},
    "fedcog": QUICK["fedcog"],
    "fedssyn": {"source": "real"},
}


@pytest.mark.parametrize("name", JOINED)
def test_nor_does_one_with_an_add_on(name: str, tmp_path: Path) -> None:
    def words(steps: int) -> dict[str, Any]:
        local = {"steps": steps, "batch": 4, "lr": 0.1}
        return {"method": {"name": "fedavg", "rounds": 1, "local": local}, "with": [{"name": name, **JOINED[name]}]}

    few, many = (traffic_of(words(steps), tmp_path / str(steps)) for steps in (3, 6))
    assert many == few


@pytest.mark.parametrize("augment", [[], ["flip", "crop", "warp"]])
@pytest.mark.parametrize("name", ["fedavg", "fedprox", "scaffold", "fednova", "feddyn"])
def test_nor_does_one_of_clients_that_train_together(name: str, augment: list[str], tmp_path: Path) -> None:
    def words(steps: int) -> dict[str, Any]:
        local = {"steps": steps, "batch": 4, "lr": 0.05, "clip": 1.0, "augment": augment}
        local |= {} if name == "scaffold" else {"momentum": 0.5}
        method = {"name": name, "rounds": 1, **QUICK[name], "local": local}
        return {"method": method, "engine": {"name": "inline", "together": 2}}

    few, many = (traffic_of(words(steps), tmp_path / str(steps)) for steps in (3, 6))
    assert many == few


def test_more_clients_in_a_group_are_not_sent_one_by_one(tmp_path: Path) -> None:
    """Two sites and four, in one group: their records, rows and weights go over stacked, and come back so."""

    def words(together: int) -> dict[str, Any]:
        local = {"steps": 3, "batch": 4, "lr": 0.05}
        return {
            "method": {"name": "fedavg", "rounds": 2, "local": local},
            "engine": {"name": "inline", "together": together},
        }

    def of(sites: int) -> Traffic:
        rng = np.random.default_rng(1)
        made = {f"s{i}": (rng.integers(0, 255, (9, 1, 8, 8)).astype(np.uint8), np.arange(9) % 3) for i in range(sites)}
        data = Federation.from_arrays(made, classes=3)
        return traffic(lambda: run_words(words(sites), tmp_path / str(sites), DEVICE, data))

    assert of(2) == of(4)


def made_by(name: str, **settings: Any) -> dict[str, Any]:
    return {"method": {**QUICK[name], "name": name, "rounds": 1, **settings}}


def with_fedcog(**settings: Any) -> dict[str, Any]:
    return {**made_by("fedavg"), "with": [{"name": "fedcog", **QUICK["fedcog"], **settings}]}


WORK: dict[str, Callable[[int], dict[str, Any]]] = {
    "feddm's images": lambda n: made_by("feddm", steps=n),
    "feddm's augmented images": lambda n: made_by("feddm", steps=n, dsa=True),
    "feddm's server in its ball": lambda n: made_by("feddm", radius=0.01, server={"epochs": n, "lr": 0.5}),
    "feddm's published noise": lambda n: made_by("feddm", steps=n, min_class_records=None, dp="paper", noise=0.2),
    "fedlap's real batches": lambda n: made_by("fedlap", real_batches=n),
    "fedlap's image steps": lambda n: made_by("fedlap", image_steps=n),
    "fedlap's parts of its images": lambda n: made_by(
        "fedlap", real_batches=n, ipc=4, pool_batch=5, radius_rule="fixed"
    ),
    "dc's networks on images": lambda n: made_by("dc", iterations=1, inner=n),
    "fedcog's images": lambda n: with_fedcog(steps=n),
    "fedcog's image network": lambda n: with_fedcog(steps=n, generator="network"),
    "fedgen's generator": lambda n: made_by("fedgen", generator_steps=n),
    "dense's images": lambda n: made_by("dense", pre_rounds=0, generator_steps=n),
}


@pytest.mark.parametrize("what", WORK)
def test_a_step_of_synthesis_neither_sends_nor_reads_back(what: str, tmp_path: Path) -> None:
    few, many = (traffic_of(WORK[what](steps), tmp_path / str(steps)) for steps in (3, 6))
    assert many == few


RELEASES: dict[str, Callable[[int], dict[str, Any]]] = {
    "feddm": lambda n: made_by("feddm", steps=n, min_class_records=None, dp="stat", noise=0.2),
    "fedlap-dp": lambda n: made_by("fedlap-dp", real_batches=n),
    "psg": lambda n: made_by("psg", batches=n),
}


@pytest.mark.parametrize("what", RELEASES)
def test_a_private_release_neither_sends_nor_reads_back(what: str, tmp_path: Path) -> None:
    few, many = (traffic_of(RELEASES[what](n), tmp_path / str(n), PRIVATE) for n in (2, 4))
    assert many == few


GENERATORS: dict[str, dict[str, Any]] = {
    "vae": {"width": 4, "hidden": 8, "conditional": True, "spread": "prior"},
    "gan": {"width": 4, "hidden": 8},
    "gan, plain": {"width": 4, "hidden": 8, "variant": "plain"},
    "gan, consistency": {"width": 4, "hidden": 8, "variant": "consistency"},
    "gan, negative": {"width": 4, "hidden": 8, "variant": "negative", "judge_steps": 2},
    "diffusion": {"width": 8, "head": 8, "least_steps": 0},
}


def private_steps(steps: int) -> PrivateSteps:
    return PrivateSteps(0.5, steps, 1.0, 1.0, 4.0, *(generator("private", i) for i in range(3)))


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("what", GENERATORS)
def test_a_step_of_a_generator_neither_sends_nor_reads_back(what: str, private: bool) -> None:
    kind = entry(what.partition(",")[0])
    data = pictures()

    def fit(epochs: int) -> None:
        maker = kind.build(kind.settings.model_validate({**GENERATORS[what], "epochs": epochs, "batch": 8}))
        maker.device = torch.device(DEVICE)
        steps = private_steps(3 * epochs) if private else None
        maker.fit(data.sites["beech"].own, data.problem, generator("fit"), steps)

    fit(1)  # the first step makes what lasts
    assert traffic(lambda: fit(2)) == traffic(lambda: fit(4))


def test_a_gaussian_is_made_and_drawn_from_on_the_processor() -> None:
    kind, data = entry("gaussian"), pictures()
    maker = kind.build(kind.settings())
    maker.device = torch.device(DEVICE)

    def work() -> None:
        learnt = maker.fit(data.sites["beech"].own, data.problem, generator("fit"))
        maker.sample(learnt, torch.arange(6) % 3, data.problem, generator("draw"))

    assert traffic(work) == Traffic(0, 0)


@pytest.mark.parametrize("sampler", ["ancestral", "dpm-solver", "ddim"])
def test_a_step_of_a_diffusion_sampler_reads_nothing_back(sampler: str) -> None:
    data = pictures()

    def drawn(steps: int) -> Traffic:
        kind = entry("diffusion")
        settings = {**GENERATORS["diffusion"], "epochs": 1, "batch": 8, "sampler": sampler, "sampling_steps": steps}
        maker = kind.build(kind.settings.model_validate(settings))
        maker.device = torch.device(DEVICE)
        learnt = maker.fit(data.sites["beech"].own, data.problem, generator("fit"))
        return traffic(lambda: maker.sample(learnt, torch.arange(6) % 3, data.problem, generator("draw")))

    few, many = drawn(3), drawn(6)
    assert many.reads_back == few.reads_back
    # The ancestral sampler draws its noise inside `diffusers`, step by step.
    assert many.uploads - few.uploads == (3 if sampler == "ancestral" else 0)


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
        pool = PoolFeed(records(), generator("order"), generator("augment"), augment=changes)
        longer = local.model_copy(update={"steps": steps, "augment": ("flip", "crop")})
        learn_from_pool(net, net.initial(), pool, Descent(longer, 0.1))

    assert traffic(lambda: train(4)) == traffic(lambda: train(8))


def test_points_of_the_sphere_go_over_together() -> None:
    net = small_net()

    def match(steps: int) -> None:
        match_distributions(
            net,
            torch.zeros(6, 1, 8, 8),
            RealClasses(records(), [0, 1, 2]),
            4,
            Neighbourhood(net.initial(), 1.0, steps, generator("matching")),
            ImageSteps(lr=0.1, momentum=0.5),
        )

    assert traffic(lambda: match(3)) == traffic(lambda: match(6))


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
        assert there.untyped_storage().nbytes() <= most  # of all that came with it
        # Drawn so far and not used yet: no more than what goes over at once, and the draw that had no room in it.
        assert sum(held) - sum(one.nbytes for one in found) <= most + held[-1]
        found.append(there.cpu())
    assert all(map(torch.equal, found, drawn(generator("ahead"), 9)))
    assert 1 < uploads() - before < 9


def test_a_step_that_draws_more_goes_alone() -> None:
    sizes, most = [10, 200, 10, 10, 300], 100
    before = uploads()
    came = [there for _, (there,) in ahead(map(torch.zeros, sizes), lambda one: [one], torch.device(DEVICE), most=most)]
    assert [len(one) for one in came] == sizes
    assert uploads() - before == 4
    assert [one.untyped_storage().nbytes() // 4 for one in came] == [10, 200, 20, 20, 300]


def test_a_private_gradient_with_a_loss_of_its_own_sends_nothing() -> None:
    net = small_net()
    net.load(net.initial())
    there = records().to(net.device)

    def total(size: int) -> None:
        step = Step(net, there.x[:size], there.y[:size], 0, None, torch.arange(size, device=net.device))
        clipped_gradient_sum_with(net, step, [], 1.0)

    total(1)  # the first makes what lasts
    assert traffic(lambda: total(3)) == traffic(lambda: total(6))


def test_a_ball_needs_no_answer() -> None:
    centre = torch.zeros(70_000, device=DEVICE)
    for length in (0.5, 3.0):
        w = torch.full((70_000,), length / 70_000**0.5).to(DEVICE)
        assert traffic(lambda: into_ball(w, centre, 1.0)).reads_back == 0  # noqa: B023
        assert w.cpu().norm().item() == pytest.approx(min(length, 1.0), rel=1e-4)


def test_scores_are_read_back_once() -> None:
    net = small_net()
    net.load(net.initial())
    for scored in (evaluate, tally):
        few, many = (traffic(lambda: scored(net.logits, records(), PROBLEM, batch=size)) for size in (6, 2))  # noqa: B023
        assert (few.reads_back, many.reads_back) == (1, 1)
