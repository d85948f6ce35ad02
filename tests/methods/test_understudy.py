"""Understudy: which classes a client sends images of, how the server learns from them, and what is refused."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from painted import Painted, PaintedSettings, painted
from stage import Stage, bound, image_net, pictures

import understudy as us
from understudy.base_settings import NoSettings
from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.message import labels_from_wire
from understudy.learning.local import Local
from understudy.methods.understudy import STOPPED_EARLY, Understudy, UnderstudySettings, cooling
from understudy.privacy.promise import PrivacySettings
from understudy.synthesis import generator as generators
from understudy.synthesis.generator import generator

SERVER = Local(epochs=7, batch=4, lr=0.05, augment=("warp",))


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    with painted():
        yield


def method(**given: object) -> Understudy:
    quick = {"generator": "painted", "min_class_records": 4, "records": 1.0, "exchanges": 1, "looks": None}
    quick["server"] = SERVER
    return Understudy(UnderstudySettings.model_validate({**quick, **given}))


def holding(counts: list[int]) -> Examples:
    return pictures([c for c, n in enumerate(counts) for _ in range(n)])


SITES = {"a": holding([8, 3]), "b": holding([0, 5]), "c": holding([2, 2])}


def on_stage(cohorts: list[list[str]] | None = None, **given: object) -> Stage:
    chosen = bound(method(**given), image_net())
    return Stage(chosen, SITES, cohorts or ())


def test_a_class_of_few_records_is_neither_learnt_nor_sent() -> None:
    stage = on_stage()
    stage.play(1)
    sent = {name: labels_from_wire(reply["y"]).tolist() for _, name, reply in stage.replies}
    assert sent == {"a": [0] * 8, "b": [1] * 5, "c": []}
    assert [some.y.tolist() for some in Painted.seen] == [[0] * 8, [1] * 5]


def test_a_generator_sees_its_share_and_images_are_as_many_as_records_or_as_asked_for() -> None:
    stage = on_stage(records=0.5)
    stage.play(1)
    assert [len(some) for some in Painted.seen] == [4]  # b's two records are too few for this generator
    assert [len(reply["y"]) for _, _, reply in stage.replies] == [8, 0, 0]
    stage = on_stage(images=3)
    stage.play(1)
    assert [len(reply["y"]) for _, _, reply in stage.replies] == [3, 3, 0]


def test_with_one_exchange_everybody_is_asked_once_and_gets_nothing() -> None:
    stage = on_stage()
    state = stage.play(3)
    assert [(round, name, len(brief)) for round, name, brief in stage.briefs] == [(1, n, 0) for n in "abc"]
    assert torch.equal(state["model"], on_stage().play(1)["model"])


def test_whoever_comes_late_is_asked_then_and_the_server_begins_anew() -> None:
    early = on_stage([["a"], ["a", "b", "c"]]).play(1)
    late = on_stage([["a"], ["a", "b", "c"]]).play(2)
    assert not torch.equal(early["model"], late["model"])
    assert len(late["understudy.b.y"]) == 5


TWICE: dict[str, Any] = {"exchanges": 2, "server_updates": 7, "generator": {"name": "painted", "least_steps": 3}}


def test_clients_begin_at_what_the_server_learnt_from_the_images_of_all() -> None:
    stage = on_stage(**TWICE)
    state = stage.play(3)
    assert [(round, name, sorted(brief)) for round, name, brief in stage.briefs] == [
        *((1, name, []) for name in "abc"),
        *((2, name, ["start.epoch", "start.some", "start.weight"]) for name in "abc"),
    ]
    assert Painted.updates == [3, 3, 7, 3, 3]  # a and b, the server, a and b
    first = [reply for round, _, reply in stage.replies if round == 1]
    assert torch.equal(Painted.seen[2].x, torch.cat([reply["x"] for reply in first]))
    assert Painted.seen[2].y.tolist() == [0] * 8 + [1] * 5
    second = {name: reply for round, name, reply in stage.replies if round == 2}
    assert all(torch.equal(state[f"understudy.{name}.x"], second[name]["x"]) for name in "abc")
    corner = second["a"]["x"][0, 0, 0, 0]  # its class, 0, and all epochs but one
    assert int(corner) == 1  # one epoch of the server's, one of its own


def test_the_second_generator_learns_from_the_same_records_as_the_first() -> None:
    on_stage(**TWICE, records=0.5).play(2)
    once, again = Painted.seen[0], Painted.seen[2]
    assert len(once) == 4
    assert torch.equal(once.x, again.x)


def test_records_are_seen_equally_often_whether_a_client_has_many_or_few() -> None:
    sites = {"many": holding([40, 0]), "few": holding([0, 8])}
    chosen = bound(method(looks=5, generator={"name": "painted", "least_steps": 20}), image_net())
    Stage(chosen, sites).play(1)
    assert Painted.batches == [10, 2]  # 20 updates of a quarter of the records are five looks at each
    assert Painted.updates == [20, 20]


def test_the_start_travels_in_sixteen_bits() -> None:
    stage = on_stage(**TWICE)
    stage.play(2)
    start = stage.briefs[-1][2]["start.weight"]
    assert start.dtype == torch.float16
    assert float(start) == pytest.approx(1 / 3, abs=1e-4)


def test_a_start_that_is_not_finite_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    learns = Painted.course

    def breaks(self: Painted, *given: Any) -> Iterator[Any]:
        for stage in learns(self, *given):
            yield replace(stage, state={**stage.state, "weight": torch.tensor([math.nan])})

    monkeypatch.setattr(Painted, "course", breaks)
    stage = on_stage(**TWICE)
    stage.play(2)
    assert [len(brief) for _, _, brief in stage.briefs] == [0] * 6


def test_the_last_round_trains_no_generator_that_nobody_begins_at() -> None:
    chosen = bound(method(**TWICE), image_net(), rounds=1)
    state = Stage(chosen, SITES).play(1)
    assert Painted.updates == [3, 3]
    assert not any(name.startswith("start.") for name in state)


def test_images_too_few_for_a_generator_leave_everybody_to_begin_anew() -> None:
    stage = on_stage(**TWICE, images=1)
    chosen = {"a": SITES["a"]}
    stage = Stage(stage.method, chosen)
    stage.play(2)
    assert Painted.updates == [3, 3]
    assert [len(brief) for _, _, brief in stage.briefs] == [0, 0]


def test_whoever_comes_late_begins_at_the_server_s_generator_and_is_asked_as_often() -> None:
    stage = on_stage([["a"], ["a", "b"], ["a", "b"], ["a", "b"]], **TWICE)
    stage.play(4)
    assert [(round, name, len(brief)) for round, name, brief in stage.briefs] == [
        (1, "a", 0),
        (2, "a", 3),
        (2, "b", 3),
        (3, "b", 3),
    ]


def test_a_generator_that_cannot_go_on_is_refused_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Painted, "goes_on", False)
    with pytest.raises(UserError, match=r"exchanges: generator 'painted' cannot go on .* set exchanges=1"):
        bound(method(**TWICE), image_net())
    bound(method(), image_net())


def test_looks_without_a_number_of_updates_are_refused() -> None:
    with pytest.raises(UserError, match=r"method\.looks: .* 'painted' has none; set generator.least_steps=100"):
        bound(method(looks=8), image_net())


def test_the_server_draws_a_fresh_network_and_warps_its_images() -> None:
    warped, plain = on_stage().play(1), on_stage(server=SERVER.model_copy(update={"augment": ()})).play(1)
    assert not torch.equal(warped["model"], plain["model"])
    untrained = on_stage(server=Local(epochs=0)).play(1)["model"]
    assert not torch.equal(untrained, image_net().initial())


def test_its_rate_falls_along_half_a_cosine_in_parts() -> None:
    parts = list(cooling(Local(epochs=8, lr=0.2)))
    assert [part.epochs for part, _ in parts] == [2, 2, 1, 1, 1, 1]
    wanted = [0.2 * (1 + math.cos(math.pi * at / 6)) / 2 for at in range(6)]
    assert [rate for _, rate in parts] == pytest.approx(wanted)
    assert wanted[3] == pytest.approx(0.1)
    assert [part.steps for part, _ in cooling(Local(steps=2, lr=1.0))] == [1, 1]


def test_the_default_generator_is_stopped_early() -> None:
    found = UnderstudySettings().generator
    assert {key: found[key] for key in STOPPED_EARLY} == STOPPED_EARLY
    assert (UnderstudySettings().min_class_records, UnderstudySettings().records) == (50, 0.75)


def test_no_epsilon_can_be_promised() -> None:
    chosen = method()
    chosen.privacy = PrivacySettings(epsilon=8, delta=1e-4)
    with pytest.raises(UserError, match=r"adds no noise .* choose moments"):
        bound(chosen, image_net())


def test_a_generator_named_in_part_is_the_usual_one_and_still_stopped_early() -> None:
    def found(**words: Any) -> dict[str, Any]:
        return UnderstudySettings.model_validate({"generator": words}).generator

    assert {"name": "diffusion", "epochs": 1, "least_steps": 200}.items() <= found(least_steps=200).items()
    assert STOPPED_EARLY.items() <= found(name="diffusion").items()
    assert STOPPED_EARLY.items() <= UnderstudySettings.model_validate({"generator": "diffusion"}).generator.items()
    assert found(name="vae")["epochs"] != 1


def test_vectors_get_their_usual_generator_without_a_setting() -> None:
    rng = torch.Generator().manual_seed(3)
    y = torch.arange(120) % 2
    x = torch.randn(120, 6, generator=rng) + 3 * y[:, None]
    sites = {"a": (x.numpy(), y.numpy())}
    result = us.run(method="understudy", rounds=2, data=us.Federation.from_arrays(sites, test=sites["a"], classes=2))
    assert result.summary["accuracy"] > 0.9
    assert result.ledger["clients"]["a"][0]["releases"] == 1


def test_a_few_records_are_not_seen_more_often_because_a_batch_holds_one_at_least() -> None:
    chosen = bound(method(looks=2, generator={"name": "painted", "least_steps": 20}), image_net())
    Stage(chosen, {"four": holding([4, 0]), "ten": holding([10, 0]), "many": holding([30, 0])}).play(1)
    assert Painted.batches == [1, 1, 3]
    assert Painted.updates == [8, 20, 20]


def test_more_passes_than_looks_are_refused() -> None:
    with pytest.raises(UserError, match=r"method\.looks: 9 epochs .* more than 8 times; set generator.epochs=1"):
        bound(method(looks=8, generator={"name": "painted", "least_steps": 3, "epochs": 9}), image_net())


class Short(Painted):
    """Has no settings at all."""

    def __init__(self, settings: NoSettings) -> None:
        super().__init__(PaintedSettings())


def test_a_generator_whose_length_cannot_be_set_makes_one_exchange() -> None:
    generator("short", settings=NoSettings)(Short)
    with pytest.raises(UserError, match=r"method\.exchanges: .* 'short' has no settings epochs and least_steps"):
        bound(method(exchanges=2, generator="short"), image_net())
    chosen = bound(method(generator="short"), image_net())
    assert len(Stage(chosen, SITES).play(1)["understudy.a.y"]) == 8


def test_it_says_so_if_no_client_has_enough_records_of_any_class() -> None:
    stage = on_stage(min_class_records=9)
    (why,) = stage.method.remarks(stage.play(1))
    assert "No images have come yet, so the model has learnt nothing" in why
    assert "classes of which it has 9 records or more" in why
    for stage in (on_stage(), on_stage(images=0)):
        assert not stage.method.remarks(stage.play(1))


def test_a_generator_that_failed_is_given_more_updates_not_more_epochs() -> None:
    stage = on_stage(generator={"name": "painted", "least_steps": 7, "flat": 0})
    with pytest.raises(UserError, match=r"not sent; try in generator more least_steps than 7; sound_only"):
        stage.play(1)


def test_images_of_another_kind_than_the_records_are_refused_however_many_send_them() -> None:
    class Floating(Painted):
        def sample(self, *given: Any) -> torch.Tensor:
            return super().sample(*given).float() * 1e30

    generators._entries["painted"] = replace(generators._entries["painted"], build=Floating)
    stage = on_stage(**TWICE, sound_only=False)
    state = stage.play(2)
    assert "understudy.a.y" not in state
    assert torch.equal(state["model"], image_net().initial())
    assert Painted.updates == [3] * 4  # nor does the server's generator learn from any of them
