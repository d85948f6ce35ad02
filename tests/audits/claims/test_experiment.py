"""One repetition: the public seed fixed, noise fresh, charges nowhere but in memory."""

from pathlib import Path

import pytest
import torch
from smallest import HONEST, config_of

from understudy.audits.claims.claimed import claimed_by
from understudy.audits.claims.experiment import Trial, nudged
from understudy.audits.claims.pairs import PairMaker
from understudy.config.build import build_method
from understudy.federation.message import Message


def trial_of(name: str, rounds: int = 1) -> tuple[Trial, PairMaker]:
    case = HONEST[name]
    config, data = config_of(case), case.federation()
    (task, *_) = claimed_by(config, data).tasks
    briefs = tuple((task.asked.round + more, task.asked.brief) for more in range(rounds))
    return Trial(build_method(config, data, "eager"), config.top.privacy, 3, task.asked.task, briefs), task.pairs


def test_noise_is_fresh_in_every_repetition_and_shared_under_one_key() -> None:
    trial, pairs = trial_of("dp-fedavg")
    own = pairs.one_record().without
    noises = [trial.run(own, key).releases[0][0].noised for key in (None, None, "a", "a", "b")]
    assert not torch.equal(noises[0], noises[1])
    assert torch.equal(noises[2], noises[3])
    assert not torch.equal(noises[3], noises[4])


def test_the_difference_of_two_runs_with_one_key_is_the_clipped_gradient() -> None:
    trial, pairs = trial_of("dp-fedavg")
    pair = pairs.unbounded()
    both = [trial.run(own, "a").releases[0][0].noised for own in (pair.without, pair.with_record)]
    moved = both[1] - both[0]
    # q = 0.2, so one key may leave the record out; under "a" it is in the first release or not at all.
    assert float(moved.norm()) == pytest.approx(1.0, abs=1e-4) or float(moved.norm()) == 0.0


def test_charges_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trial, pairs = trial_of("dp-fedavg", rounds=2)
    outcome = trial.run(pairs.one_record().with_record)
    assert [(charge.round, charge.steps) for some in outcome.charges for charge in some] == [(1, 8), (2, 8)]
    assert list(tmp_path.iterdir()) == []


def test_a_task_that_is_ended_early_has_charged_and_sends_nothing() -> None:
    trial, pairs = trial_of("dp-fedavg")
    outcome = Trial(trial.method, trial.privacy, 3, trial.task, trial.briefs, most=3).run(pairs.one_record().without)
    assert [len(some) for some in outcome.releases] == [3]
    assert outcome.replies == (None,)
    assert outcome.charges[0][0].steps == 8


def test_the_second_round_has_another_model() -> None:
    brief = Message(model=torch.full((4,), 2.0), other=torch.ones(1))
    other = nudged(brief, seed=0)
    moved = (other["model"] - brief["model"]).abs()
    assert 0 < float(moved.max()) < 1.0  # a tenth of the model's size, times a few
    assert torch.equal(other["other"], brief["other"])
    assert torch.equal(nudged(brief, seed=0)["model"], other["model"])
