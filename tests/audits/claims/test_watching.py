"""The one hook: it sees every release of an experiment, is not there in a run, and changes no bit."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from contract_checks import Case, model_bytes
from smallest import HONEST, PUBLISHED, TRAINING, config_of
from torch import Tensor

from understudy.audits.claims.claimed import claimed_by
from understudy.audits.claims.experiment import Trial
from understudy.audits.claims.watching import EnoughSeen, watching
from understudy.config.build import build_method
from understudy.privacy import mechanism
from understudy.privacy.mechanism import WATCHER, NoisyMeans, released, with_noise
from understudy.randomness import generator


def mean_of(total: Tensor) -> NoisyMeans:
    return NoisyMeans(total, clip=0.5, noise=2.0, expected=4.0, releases=3, rng=generator("noise"))


def test_the_watcher_sees_the_noised_sum_its_divisor_its_clip_and_sigma() -> None:
    total = torch.tensor([1.0, 2.0])
    with watching() as seen:
        mean = mean_of(total)(total)
        counts = with_noise(total, clip=1.0, noise=3.0, rng=generator("counts"))
    assert [(one.divisor, one.clip, one.noise) for one in seen] == [(4.0, 0.5, 2.0), (1.0, 1.0, 3.0)]
    assert torch.equal(seen[0].noised / 4, mean)
    assert torch.equal(seen[1].noised, counts)


def test_watched_or_not_the_bits_are_the_same() -> None:
    total = torch.tensor([1.0, 2.0])
    alone = mean_of(total)(total)
    with watching():
        watched = mean_of(total)(total)
    assert torch.equal(alone, watched)


def test_the_task_is_ended_at_the_release_that_is_enough() -> None:
    mean = mean_of(torch.zeros(2))
    with watching(2) as seen:
        mean(torch.zeros(2))
        with pytest.raises(EnoughSeen):
            mean(torch.zeros(2))
    assert len(seen) == 2
    assert WATCHER.get() is None


def test_of_large_releases_only_the_first_are_kept() -> None:
    total, counts = torch.zeros(2), torch.zeros(3)
    with watching(kept=2) as seen:
        mean = mean_of(total)
        released_sums = [mean(total) for _ in range(3)]
        with_noise(counts, clip=1.0, noise=3.0, rng=generator("counts"))
    assert [len(one.noised) for one in seen] == [2, 2, 3]
    assert torch.equal(seen[1].noised / 4, released_sums[1])


def test_in_a_run_nobody_watches_and_a_watched_run_has_the_same_bits(tmp_path: Path) -> None:
    watchers: list[Any] = []

    def noting(noised: Tensor, **words: Any) -> Tensor:
        watchers.append(WATCHER.get())
        return released(noised, **words)

    case = Case("dp-fedavg", TRAINING, privacy={"delta": 1e-5, "records": 12, "test_noise": True})
    with patch.object(mechanism, "released", noting):
        plain = model_bytes(case.play(tmp_path / "plain", rounds=1))
    assert len(watchers) == 4 * 8  # four sites, eight steps each
    assert set(watchers) == {None}
    with watching() as seen:
        assert model_bytes(case.play(tmp_path / "watched", rounds=1)) == plain
    assert len(seen) == 4 * 8


@pytest.mark.parametrize("name", [*HONEST, "feddm, dp: paper"])
def test_every_release_that_is_charged_passes_the_hook(name: str) -> None:
    case = PUBLISHED if name == "feddm, dp: paper" else HONEST[name]
    config, data = config_of(case), case.federation()
    (task, *_) = claimed_by(config, data).tasks
    method = build_method(config, data, "eager")
    trial = Trial(method, config.top.privacy, 3, task.asked.task, ((task.asked.round, task.asked.brief),))
    outcome = trial.run(data.sites["beech"].own)
    charged = [charge.steps for charge in outcome.charges[0]] or [task.longest.steps]
    assert not outcome.refusal
    assert len(outcome.releases[0]) == sum(charged)


def test_a_task_can_be_led_along_the_releases_of_another_run() -> None:
    with watching() as seen:
        with_noise(torch.tensor([1.0, 2.0]), clip=1.0, noise=3.0, rng=generator("other"))
    with watching(instead=seen) as own:
        mean = mean_of(torch.zeros(2))
        followed, alone = mean(torch.zeros(2)), mean(torch.zeros(2))
    assert torch.equal(followed, seen[0].noised)  # over its own divisor, 1
    assert not torch.equal(own[0].noised, seen[0].noised)  # what the task made of its own records is still seen
    assert torch.equal(alone, own[1].noised / 4)  # there was one to follow
    with watching(instead=seen):
        other_shape = with_noise(torch.zeros(3), clip=1.0, noise=3.0, rng=generator("counts"))
    assert other_shape.shape == (3,)
