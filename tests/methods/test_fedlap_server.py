"""FedLAP: the radius of trust, and what the server learns from the pool."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from fedlap_toys import SITES, method, still  # noqa: F401
from stage import Stage, bound, coin, image_net, play, records, sigmoid

from understudy.data.examples import Examples
from understudy.federation.message import Message
from understudy.learning.pool import learn_from_pool
from understudy.methods.fedlap import FedLap, fedlap

# ---- the radius of trust

# One image x = 1 of class 0 moves w by +(1 − σ(w)) an epoch at rate 1: 0.5, 0.8775, 1.1712, … for ever upwards.
# Three real records like it and one of class 1 have the mean loss (3·ln(1+e^−w) + ln(1+e^w))/4, least at
# σ(w) = 3/4, w = ln 3 = 1.0986; of the places visited, 1.1712 is the best.
COIN: dict[str, Any] = {"lr": 1.0, "dsa": False, "ipc": 1, "batch": 100}
IMAGE = records([1], [0])
MIXED = records([1, 1, 1, 1], [0, 0, 0, 1])


def visited(epochs: int) -> list[float]:
    w, places = 0.0, []
    for _ in range(epochs):
        w += 1 - sigmoid(w)
        places.append(w)
    return places


def real_loss(w: float) -> float:
    return (3 * math.log(1 + math.exp(-w)) + math.log(1 + math.exp(w))) / 4


def trusted(chosen: FedLap) -> float:
    stage = Stage(bound(chosen, coin()), {"a": MIXED})
    return chosen.radius_of_trust(stage.client("a", 1), coin().initial(), IMAGE)


def test_the_radius_is_the_distance_at_the_least_real_loss() -> None:
    places = visited(10)
    best = min(places, key=real_loss)
    assert best == places[2] == pytest.approx(1.1712, abs=1e-4)
    assert trusted(method(**COIN, server_epochs=10)) == pytest.approx(best, rel=1e-5)
    # Two epochs do not get there.
    assert trusted(method(**COIN, server_epochs=2)) == pytest.approx(places[1], rel=1e-5)


def test_it_is_never_above_the_configured_one() -> None:
    assert trusted(method(**COIN, server_epochs=10, radius=0.7)) == 0.7


def test_the_search_goes_on_beyond_the_radius() -> None:
    # It stops nowhere: the least loss is found at 1.1712 although r = 0.7 was passed before.
    seen: list[float] = []
    chosen = method(**COIN, server_epochs=10, radius=0.7)

    def watched(net: Any, w: Any, pool: Any, descent: Any, watch: Callable[[int, float], None]) -> Any:
        def both(epoch: int, distance: float) -> None:
            seen.append(distance)
            watch(epoch, distance)

        return learn_from_pool(net, w, pool, descent, watch=both)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fedlap, "learn_from_pool", watched)
        trusted(chosen)
    assert seen == pytest.approx(visited(10), rel=1e-5)


# ---- on the server

ONE = {"a": IMAGE}


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"radius_rule": "constant", "radius": 0.6}, 1),  # 0.8775: the first epoch that ends at 0.6 or more
        ({"radius_rule": "constant", "radius": 0.6, "strict": True}, 0),  # the step across is taken back
        ({"radius_rule": "constant", "radius": 0.4999}, 0),
        ({"radius_rule": "fixed", "radius": 0.6}, 4),  # all five epochs
    ],
)
@pytest.mark.usefixtures("still")
def test_the_server_stops_at_the_radius(given: dict[str, Any], place: int) -> None:
    state = play(method(**{**COIN, "server_epochs": 5, **given}), coin(), ONE, 1)
    assert state["model"].item() == pytest.approx(visited(5)[place], rel=1e-5)


@pytest.mark.parametrize(
    ("rule", "radius", "steps"), [("min", 0.1, 1), ("max", 0.9, 3), ("median", 0.35, 1), ("mean", 0.425, 1)]
)
@pytest.mark.usefixtures("still")
def test_radius_rules(rule: str, radius: float, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Four clients measure 0.1, 0.3, 0.4 and 0.9: between the middle two lies 0.35, and 1.7/4 = 0.425. The first step
    # goes 0.5 far; 0.9 is left behind in the third.
    told = dict(zip("abcd", (0.3, 0.9, 0.1, 0.4), strict=True))
    monkeypatch.setattr(FedLap, "radius_of_trust", lambda self, client, w, made: told[client.id])
    chosen = method(**COIN, radius_rule=rule)
    state = play(chosen, coin(), {**dict.fromkeys("abcd", IMAGE), "empty": IMAGE.none()}, 1)
    assert state["radius"].item() == pytest.approx(radius)
    assert chosen.metrics(state) == {
        "radius": pytest.approx(radius),
        "moved": pytest.approx(abs(state["model"].item())),
        "server_steps": steps,
    }


# At w = 0 the slopes are −½ for (1, class 0), 1 for (2, class 1) and 2 for (4, class 1). Client a has six records and
# two images, client b two records and one image.
WEIGHED = {"a": records([1, 1, 1, 2, 2, 2], [0, 0, 0, 1, 1, 1]), "b": records([4, 4], [1, 1])}


@pytest.mark.parametrize(
    ("weights", "slope"),
    [
        ("pool", (-0.5 + 1 + 2) / 3),
        ("uniform", ((-0.5 + 1) / 2 + 2) / 2),
        ("size", (6 * (-0.5 + 1) / 2 + 2 * 2) / 8),
    ],
)
@pytest.mark.usefixtures("still")
def test_weights_of_clients(weights: str, slope: float) -> None:
    given = {**COIN, "server_epochs": 1, "lr": 0.1, "radius_rule": "fixed", "weights": weights}
    state = play(method(**given), coin(), WEIGHED, 1)
    assert state["model"].item() == pytest.approx(-0.1 * slope, rel=1e-5)


@pytest.mark.usefixtures("still")
def test_the_rate_falls_along_a_cosine_over_the_rounds() -> None:
    # (1 + cos(π(m−1)/(M−1)))/2 of round 2 of 3 is ½, and the last round has the least rate there is, 1e-6.
    given = {**COIN, "server_epochs": 1, "radius_rule": "fixed", "schedule": "cosine"}
    stage = Stage(bound(method(**given), coin(), rounds=3), ONE)
    state, places = stage.method.start(stage), [0.0]
    for round in (1, 2, 3):
        stage.begin(round)
        state = stage.method.round(stage, state)
        places.append(state["model"].item())
    expected = [0.5, 0.5 + 0.5 * (1 - sigmoid(0.5))]
    assert places[1:3] == pytest.approx(expected, rel=1e-5)
    assert places[3] == pytest.approx(places[2], abs=1e-6)


def test_a_reply_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = FedLap._reply

    def other_shape(self: FedLap, made: Examples) -> Message:
        reply = plain(self, made)
        return reply.but(x=reply["x"][:, :, :3]) if reply["y"].tolist()[0] == 1 else reply

    monkeypatch.setattr(FedLap, "_reply", other_shape)  # client b holds class 1 only
    alone = play(method(), image_net(), {"a": SITES["a"]}, 1)["model"]
    assert torch.equal(play(method(), image_net(), SITES, 1)["model"], alone)
