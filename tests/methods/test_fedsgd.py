"""FedSGD: one batch, one step."""

import numpy as np
import numpy_rules as slow
import pytest
import torch
from stage import Stage, batchnorm_net, bound, cloud, coin, play, records, softmax_net

from understudy.config.resolve import resolve
from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.methods.fedavg import fedavg
from understudy.methods.fedsgd import FedSgdSettings, fedsgd
from understudy.methods.shared.averaging import AveragingSettings

SITES = {"a": records([1], [0]), "b": records([2, 2, 2], [1, 1, 1])}


def settings(**local: object) -> FedSgdSettings:
    return FedSgdSettings.model_validate({"local": local})


def test_one_round_by_hand() -> None:
    # At w = 0: a's slope is (½−1)·1 = −0.5, b's is ½·2 = 1 whichever of its equal records are drawn.
    # Steps at 0.1: +0.05 and −0.1; weighted 1 to 3: (0.05 − 0.3) / 4 = −0.0625.
    after = play(fedsgd(settings(batch=2, lr=0.1)), coin(), SITES, 1)
    assert after["model"].item() == pytest.approx(-0.0625)


def test_the_step_itself_is_sent_for_one_batch_only() -> None:
    # Of 40 records one batch of 4 is drawn: the change is −η times its gradient, the model is sent down alone.
    stage = Stage(bound(fedsgd(settings(batch=4, lr=0.1)), softmax_net()), {"a": cloud("a", 40)})
    stage.play(1)
    assert {part: t.numel() for part, t in stage.replies[0][2].items()} == {"change": 12, "weight": 1}
    assert {part: t.numel() for part, t in stage.briefs[0][2].items()} == {"model": 12}


def test_three_rounds_equal_a_slow_version_in_numpy() -> None:
    net, local = softmax_net(), Local(steps=1, batch=4, lr=0.2)
    by_hand = slow.fedsgd(slow.SITES, net.initial().double().numpy(), slow.COHORTS, local)
    fast = play(fedsgd(FedSgdSettings(local=local)), net, slow.SITES, 3, slow.COHORTS)
    np.testing.assert_allclose(fast["model"].numpy(), by_hand, atol=1e-6)


def test_it_is_fedavg_with_one_step_to_the_last_bit() -> None:
    one = Local(steps=1, batch=4, lr=0.2)
    mine = play(fedsgd(settings(batch=4, lr=0.2)), batchnorm_net(), slow.SITES, 3, slow.COHORTS)
    theirs = play(fedavg(AveragingSettings(local=one)), batchnorm_net(), slow.SITES, 3, slow.COHORTS)
    assert torch.equal(mine["model"], theirs["model"])


def test_a_batch_as_large_as_the_clients_is_the_gradient_over_all_records() -> None:
    # Weighted by records, the mean of the clients' mean gradients is the gradient over all records in one place.
    own = {"a": cloud("a", 5), "b": cloud("b", 9)}
    apart = play(fedsgd(settings(batch=100, lr=0.3)), softmax_net(), own, 2)
    together = play(fedsgd(settings(batch=100, lr=0.3)), softmax_net(), {"all": own["a"].and_also(own["b"])}, 2)
    assert torch.allclose(apart["model"], together["model"], atol=1e-6)


def test_one_step_need_not_be_written() -> None:
    config = resolve({"method": {"name": "fedsgd", "local": {"lr": 0.3}}})
    assert isinstance(config.method.settings, FedSgdSettings)
    assert config.method.settings.local == Local(steps=1, lr=0.3)
    assert FedSgdSettings().local.steps == 1


@pytest.mark.parametrize(("local", "said"), [({"epochs": 1}, "epochs 1"), ({"steps": 3}, "steps 3")])
def test_more_than_one_step_is_refused(local: dict[str, int], said: str) -> None:
    with pytest.raises(UserError, match=f"fedsgd: method.local has {said}.*use fedavg"):
        fedsgd(settings(**local))


def test_momentum_that_would_do_nothing_is_refused() -> None:
    with pytest.raises(UserError, match=r"fedsgd: method\.local\.momentum would do nothing.*fedavgm"):
        fedsgd(settings(momentum=0.9))
