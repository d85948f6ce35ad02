"""Fedssyn's warm start: the server trains on the pool before round 1."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from painted import LOCAL, SITES, add, opened, painted, staged
from stage import Stage, bound, coin, image_net, records, sigmoid
from test_fedssyn_runs import LABELS, run, sites

from understudy.config.build import method_with_add_ons
from understudy.config.resolve import resolve
from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.message import labels_from_wire
from understudy.federation.method import Method
from understudy.federation.server import Reply
from understudy.learning.local import Local
from understudy.learning.loop import Descent
from understudy.learning.pool import PoolFeed, learn_from_pool
from understudy.methods.dc import DC, DCSettings
from understudy.methods.fedavg import fedavg
from understudy.methods.feddyn import FedDynSettings, feddyn
from understudy.methods.fedssyn.fedssyn import POOL_X, POOL_Y, Fedssyn
from understudy.methods.fedssyn.settings import FedssynSettings
from understudy.methods.scaffold import ScaffoldSettings, scaffold
from understudy.methods.shared.averaging import AveragingSettings
from understudy.randomness import generator

WARM: dict[str, Any] = {"epochs": 3, "batch": 4, "lr": 0.1}


@pytest.fixture(autouse=True)
def _painted() -> Iterator[None]:
    with painted():
        yield


def test_one_step_on_two_images_by_hand() -> None:
    # Real records as the pool: at w = 0 the slope of (x=1, class 0) is −½ and that of (x=2, class 1) is 1; a step of
    # 0.1 on their mean gives −0.025. The second pass begins there.
    def warm(epochs: int) -> float:
        words = {"source": "real", "warm_start": {"epochs": epochs, "batch": 9, "lr": 0.1}}
        chosen = Fedssyn(FedssynSettings.model_validate(words), fedavg(AveragingSettings(local=LOCAL)))
        return opened(Stage(bound(chosen, coin()), {"a": records([1], [0]), "b": records([2], [1])}))["model"].item()

    assert warm(1) == pytest.approx(-0.025)
    w = -0.025
    assert warm(2) == pytest.approx(w - 0.1 * ((sigmoid(w) - 1) + 2 * sigmoid(2 * w)) / 2)


def test_it_is_training_on_the_shuffled_pool_from_the_first_weights() -> None:
    stage = staged(add(warm_start=WARM))
    state, net = opened(stage), stage.method.net
    pool = Examples(state[POOL_X], labels_from_wire(state[POOL_Y]))
    feed = PoolFeed(pool, generator(0, 0, "server", "fedssyn warm start"))
    wanted = learn_from_pool(net, net.initial(), feed, Descent(Local(**WARM))).model
    assert torch.equal(state["model"], wanted)
    assert not torch.equal(wanted, net.initial())


def test_clients_begin_with_it_and_no_byte_is_added() -> None:
    cold, warm = staged(add()), staged(add(warm_start=WARM))
    for stage in (cold, warm):
        stage.play(1)
    began = [brief["model"] for round, _, brief in warm.briefs if round == 1]
    assert torch.equal(began[0], opened(staged(add(warm_start=WARM)))["model"])
    sizes = [
        [(round, name, message.nbytes) for round, name, message in (*stage.briefs, *stage.replies)]
        for stage in (cold, warm)
    ]
    assert sizes[0] == sizes[1]


def test_everything_else_in_the_first_state_stays() -> None:
    inner = scaffold(ScaffoldSettings(local=LOCAL))
    cold, warm = (opened(staged(add(inner, warm_start=given))) for given in (None, WARM))
    assert set(cold) == set(warm)
    assert {part for part in cold if not torch.equal(cold[part], warm[part])} == {"model"}
    assert torch.isfinite(staged(add(inner, warm_start=WARM)).play(2)["model"]).all()


def test_feddyn_scores_its_mean_which_is_the_warm_model_too() -> None:
    stage = staged(add(feddyn(FedDynSettings(local=LOCAL)), warm_start=WARM))
    state = opened(stage)
    assert torch.equal(stage.method.result(state), state["model"])
    assert torch.equal(state["model"], opened(staged(add(warm_start=WARM)))["model"])


def test_where_nobody_made_an_image_it_begins_as_usual() -> None:
    stage = staged(add(warm_start=WARM), {"c": SITES["c"]})
    assert torch.equal(opened(stage)["model"], stage.method.net.initial())


def test_it_is_scored_as_round_0(tmp_path: Path) -> None:
    lines = [
        run(tmp_path / str(at), sites({"ash": LABELS["ash"]}), rounds=1, warm_start=given).metrics
        for at, given in enumerate((None, WARM))
    ]
    assert lines[0][0]["round"] == lines[1][0]["round"] == 0
    assert lines[1][0]["loss"] != lines[0][0]["loss"]
    assert lines[1][0]["bytes_up"] == lines[0][0]["bytes_up"]


def test_records_that_make_it_diverge_are_refused_and_the_others_count() -> None:
    words = {"source": "real", "warm_start": {"epochs": 3, "batch": 9, "lr": 0.1}}
    chosen = Fedssyn(FedssynSettings.model_validate(words), fedavg(AveragingSettings(local=LOCAL)))
    own = {"a": records([1], [0]), "b": records([2], [1]), "c": records([1e30], [0])}
    stage, refused = Stage(bound(chosen, coin()), own), dict[str, str]()
    plain = stage.ask

    def noted(reply: Reply) -> Reply:
        return Reply(reply.client, reply, lambda why: refused.update({reply.client: why}))

    stage.ask = lambda *given, **more: map(noted, plain(*given, **more))  # type: ignore[method-assign]
    state = opened(stage)
    assert set(refused) == {"c"}
    assert sorted(state[POOL_X].flatten().tolist()) == [1, 2]
    assert torch.isfinite(state["model"]).all()


# ---- where it cannot work


def test_own_images_are_not_at_the_server() -> None:
    with pytest.raises(ValueError, match="the server gets no images to train on"):
        add(deal="own", warm_start=WARM)


def test_with_heads_at_home_the_server_has_no_whole_model() -> None:
    words = {"name": "fedrep", "local": {"epochs": 2, "batch": 4}, "head_parts": 1}
    config = resolve({"method": words, "with": [{"name": "fedssyn", "generator": "painted", "warm_start": WARM}]})
    with pytest.raises(UserError, match=r"with.fedssyn.warm_start: part of every model stays with its client"):
        method_with_add_ons(config).bind(image_net(), 1)


def test_where_networks_are_drawn_anew_it_would_not_be_used() -> None:
    inner: Method = DC(DCSettings())
    with pytest.raises(UserError, match=r"warm_start: the underlying method trains freshly drawn networks"):
        add(inner, warm_start=WARM).bind(image_net(), 1)
