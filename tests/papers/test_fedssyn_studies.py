"""Fedssyn's studies: how rounds are counted, that generators are trained once, and each study at its smallest."""

from pathlib import Path
from typing import Any

import pytest
import torch

from understudy.config.build import build_data, build_method
from understudy.config.resolve import resolve
from understudy.papers.fedssyn import plans
from understudy.papers.fedssyn.controls import SHUFFLED, _heterogeneity_note
from understudy.papers.fedssyn.rounds_to_target import METHODS, RoundsNeeded, rounds_to, speed_up
from understudy.papers.study import Study, StudyLine
from understudy.papers.trained_once import TrainedOnce
from understudy.papers.tuned import TUNING_SEED, Comparison, Contender, compare_tuned
from understudy.runs.folder import RunFolder
from understudy.runs.measure import Measured
from understudy.runs.play import play
from understudy.runs.quantities import Shuffled, dealt_examples
from understudy.runs.watching import Observer
from understudy.view.findings import write_findings
from understudy.view.panels import drawing_figure

GENERATOR = {**plans.TINY_VAE, "checkpoints": [1]}


# ---- rounds to a target


def curve(*seeds: list[float]) -> StudyLine:
    return StudyLine("some", [seed[-1] for seed in seeds], rounds=range(len(seeds[0])), values=seeds)


def test_rounds_are_counted_to_the_first_one_at_the_target() -> None:
    found = rounds_to(curve([0.1, 0.8, 0.7], [0.1, 0.2, 0.9]), 0.8)
    assert found.to_target == [1, 2]
    assert (found.mean, found.at_least, str(found)) == (1.5, False, "1.5")


def test_a_seed_that_does_not_get_there_counts_as_one_round_more_and_says_so() -> None:
    found = rounds_to(curve([0.1, 0.8, 0.8], [0.1, 0.2, 0.3]), 0.8)
    assert found.to_target == [1, None]
    assert str(found) == "> 2.0"  # (1 + 3) / 2


@pytest.mark.parametrize(
    ("without", "shuffled", "said"),
    [([8, 10], [2, 4], "3.0×"), ([8, None], [2, 4], "> 4.8×"), ([8, 10], [2, None], "< 0.8×"), ([None], [None], "–")],
)
def test_the_speed_up_is_a_bound_where_a_side_did_not_get_there(without: Any, shuffled: Any, said: str) -> None:
    # Of 20 rounds, so one not reached counts 21: 18 / 6 = 3; (8 + 21) / 6 = 4.83; 18 / (2 + 21) = 0.78.
    assert speed_up(RoundsNeeded(without, 20), RoundsNeeded(shuffled, 20)) == said


# ---- generators that are trained once


def once(home: Path) -> TrainedOnce:
    return TrainedOnce(plans.TINY, home, Observer())


def test_every_run_of_a_seed_samples_from_the_same_generators(tmp_path: Path) -> None:
    shuffling = once(tmp_path / "generators").shuffling("vae", GENERATOR)
    dealt = []
    for method in ("fedavg", "scaffold"):
        config = resolve(dict(plans.TINY), {"method.name": method, **shuffling(0), "seed": 0})
        play(config, tmp_path / method)
        data, state = build_data(config), RunFolder(tmp_path / method).newest_state()
        dealt.append(dealt_examples(build_method(config, data), state, data))
    assert [path.name for path in (tmp_path / "generators").iterdir()] == ["vae-seed-0"]
    for name, images in dealt[0].items():
        assert len(images)
        assert torch.equal(images.x, dealt[1][name].x)


def test_for_tuning_generators_do_not_see_the_validation_records(tmp_path: Path) -> None:
    shuffling = once(tmp_path).shuffling("vae", GENERATOR)
    for seed in (0, TUNING_SEED):
        shuffling(seed)
    kept = {path.name: RunFolder(path).config()["data"]["validation"] for path in tmp_path.iterdir()}
    assert kept == {"vae-seed-0": 0.0, f"vae-seed-{TUNING_SEED}": 0.2}


def test_a_contender_may_differ_by_seed_and_tuning_may_be_shorter(tmp_path: Path) -> None:
    contender = Contender("one", {}, by_seed=lambda seed: {"method.local.batch": 10 + seed})
    config = {**plans.TINY, "method": {"name": "fedavg", "rounds": 2}}
    plan = Comparison("n", "a", config, (0.1, 0.2), (0, 3), [contender], tuning={"method.rounds": 1})
    (found,) = compare_tuned(plan, tmp_path, Observer())
    runs = {path.name: RunFolder(path).config()["method"] for path in (tmp_path / "runs" / "one").iterdir()}
    tuned, counted = f"rate-{found.rate:g}", f"rate-{found.rate:g}-seed-3"
    assert (runs[tuned]["rounds"], runs[tuned]["local"]["batch"]) == (1, 10 + TUNING_SEED)
    assert (runs[counted]["rounds"], runs[counted]["local"]["batch"]) == (2, 13)


# ---- what is compared


def test_every_setting_of_the_desk_plans_is_known() -> None:
    for changes in METHODS.values():
        resolve(dict(plans.SMALL), changes)
    for changes in plans.PEERS.values():
        resolve(dict(plans.CONV), changes)
    for generator in [*plans.KINDS.values(), *(_sampled(*how) for how in plans.SAMPLERS)]:
        resolve(dict(plans.DIGITS), {"with": [{"name": "fedssyn", "generator": dict(generator)}]})
    for label, generator in plans.PRIVATE.generators.items():
        dp = {"scope": "exchange", "clip": plans.PRIVATE.clips[label]}
        private = {"name": "fedssyn", "generator": dict(generator), "dp": dp}
        resolve(dict(plans.PRIVATE.config), {"with": [private], "privacy": dict(plans.PRIVATE.privacy)})


def _sampled(sampler: str, steps: int) -> dict[str, Any]:
    return {**plans.DIFFUSION, "sampler": sampler, "sampling_steps": steps}


# ---- what is written below the tables


def measured(before: tuple[float, float], after: tuple[float, float], bound: float) -> Measured:
    """(ζ², σ²) before and after, and what the lemma allows of ζ²."""
    pool = Shuffled(0.5, 10, 1.0, 0.0, *after, zeta2_bound=bound, sigma2_bound=9.0, smoothness=1.0)
    return Measured("fedavg", "final", 2, 8, 10, *before, 3.0, pool, None, None)


def test_what_is_said_of_heterogeneity_follows_from_what_was_measured() -> None:
    # Of ζ² 2/8 = 0.25 and 3/8 are left at the first model (mean 0.31), 4/8 and 4/8 at the last; the lemma allows 0.25.
    first = [measured((8, 10), (2, 12), 2.0), measured((8, 10), (3, 12), 2.0)]
    last = [measured((8, 10), (4, 5), 2.0)] * 2
    seeds = [{"initial": one, "final": other} for one, other in zip(first, last, strict=True)]
    said = _heterogeneity_note({SHUFFLED: seeds})
    assert "ζ² falls to 0.31 of its value at the first model and to 0.50 at the last" in said
    assert "(1 − p)², 0.25 here; 2 of 2 mean ratios lie above it, by at most 0.25" in said
    assert "single seeds are off by +0.00 to +0.25" in said
    assert "multiplies σ² by 1.20 to 1.20 at the first model and by 0.50 to 0.50" in said


# ---- each of them at its smallest


@pytest.mark.parametrize("study", plans.STUDIES, ids=lambda study: study.name)
def test_each_fedssyn_study_at_its_smallest(study: Study, tmp_path: Path) -> None:
    found = study.scales["smoke"](tmp_path, Observer())
    assert write_findings(found, tmp_path) == (tmp_path / "table.md").read_text()
    drawn = [axes for axes in drawing_figure(found.pictures["table"]).axes if axes.get_visible()]
    headings = [one.heading for one in found.pictures["table"].panels]
    assert [axes.get_title(loc="left").replace("\n", " ") for axes in drawn] == headings
