"""`understudy measure`, the same numbers in metrics, and what a run cost beside the formula."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import understudy as us
from understudy.cli.app import app
from understudy.config.build import build_method
from understudy.config.resolve import resolve
from understudy.config.schema import Config, Live
from understudy.data.federation import Arrays, Federation
from understudy.errors import UserError
from understudy.learning.heterogeneity import slopes, smoothness
from understudy.randomness import generator, numpy_generator
from understudy.runs.folder import RunFolder
from understudy.runs.measure import Cost, Measured, Speed, _final, measure
from understudy.runs.play import play
from understudy.runs.quantities import Shuffled, dealt_examples
from understudy.runs.rounds import RunResult
from understudy.view.measured import measured_notes, measured_table

# Real records are shuffled, so that no generator is trained.
WORDS = {
    "data": {"name": "digits", "clients": 2, "limit": 90, "split": {"kind": "label-groups", "labels_per_client": 5}},
    "model": {"name": "softmax"},
    "method": {"name": "fedavg", "rounds": 2, "local": {"epochs": 1}},
    "with": [{"name": "fedssyn", "source": "real"}],
    "engine": {"name": "inline"},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return us.run(WORDS, out=tmp_path_factory.mktemp("measure") / "run", measure=2)


def test_metrics_have_the_quantities_every_so_many_rounds(run: RunResult) -> None:
    assert ["zeta2" in line for line in run.metrics] == [True, False, True]
    last = run.metrics[-1]
    assert last["zeta2_shuffled"] < last["zeta2"]
    assert last["smoothness"] > 0


def test_before_the_first_round_a_pool_counts_as_it_will_be_dealt(run: RunResult) -> None:
    first = run.metrics[0]
    assert first["zeta2_shuffled"] < 0.5 * first["zeta2"]
    share = first["share_shuffled"]
    assert share == pytest.approx(0.5, abs=0.01)
    # Lemma 1, by hand from the line's own numbers.
    assert first["zeta2_bound"] == pytest.approx((1 - share) ** 2 * first["zeta2"])
    mixed = (1 - share) * first["sigma2"] + share * first["sigma2_pool"]
    between = share * (1 - share) * (first["zeta2"] + first["delta2"])
    assert first["sigma2_bound"] == pytest.approx(mixed + between)
    assert first["smoothness_shuffled"] > 0


def test_clients_that_were_not_asked_yet_count_with_their_part(tmp_path: Path) -> None:
    words = {**WORDS, "method": {**WORDS["method"], "cohort": 1, "rounds": 1}}  # type: ignore[dict-item]
    found = measure(str(us.run(words, out=tmp_path / "run").folder))
    assert found.shuffled is not None
    assert found.shuffled.images == 90
    assert found.shuffled.p == pytest.approx(0.5, abs=0.01)
    assert found.cost is not None
    assert found.cost.images_dealt == pytest.approx(found.cost.images / 2, rel=0.05)


def test_measuring_changes_nothing(run: RunResult, tmp_path: Path) -> None:
    us.run(WORDS, out=tmp_path / "other")
    name = "model.safetensors"
    assert (tmp_path / "other" / name).read_bytes() == (run.folder / name).read_bytes()


def test_the_command_says_what_the_metrics_say(run: RunResult) -> None:
    found, last = measure(str(run.folder)), run.metrics[-1]
    assert (found.zeta2, found.sigma2) == (last["zeta2"], last["sigma2"])
    assert found.shuffled is not None
    assert (found.shuffled.zeta2, found.shuffled.sigma2) == (last["zeta2_shuffled"], last["sigma2_shuffled"])
    # As many dealt as own, p = 1/2 but for one record; the pool is all own records, so δ² is next to nothing.
    assert found.shuffled.images == 90
    assert found.shuffled.p == pytest.approx(0.5, abs=0.01)
    assert found.shuffled.zeta2_bound == pytest.approx((1 - found.shuffled.p) ** 2 * found.zeta2)
    assert found.shuffled.delta2 < 0.01 * found.zeta2


def test_the_cost_is_the_formula_but_for_envelopes(run: RunResult) -> None:
    cost = measure(str(run.folder)).cost
    assert cost is not None
    # 65·10 numbers of 4 bytes; 45 images of 64 pixels and a label.
    assert (cost.model, cost.images, cost.images_dealt, cost.rounds) == (2600, 45 * 65, 45 * 65, 2)
    assert cost.formula == 2 * 2925 + 2 * 2 * 2600
    assert cost.measured == pytest.approx(cost.formula, rel=0.1)


@pytest.mark.parametrize(
    "method", [{"name": "fednova"}, {"name": "feddyn", "scale_alpha": True, "weights": "uniform"}, {"name": "fedgen"}]
)
def test_images_are_counted_whatever_travels_with_them(method: dict[str, Any], tmp_path: Path) -> None:
    # FedNova and FedDyn ask in the opening already, so that images go down before the first round; FedGen has a
    # generator in later briefs too, so that the first one is no longer than those by its images alone.
    words = {**WORDS, "method": {**method, "rounds": 2, "local": {"epochs": 1}}}
    cost = measure(str(us.run(words, out=tmp_path / "run").folder)).cost
    assert cost is not None
    assert (cost.images, cost.images_dealt) == (45 * 65, 45 * 65)


def test_clients_that_were_not_asked_have_not_got_their_images(tmp_path: Path) -> None:
    result = us.run(WORDS, out=tmp_path / "run", changes={"rounds": 1, "cohort": 1})
    found = measure(str(result.folder))
    assert found.cost is not None
    assert (found.cost.images, found.cost.images_dealt) == (45 * 65, 45 * 65 / 2)
    assert "Of M_s only 1.5 kB went down" in " ".join(measured_notes(found))


def points(labels: list[int], name: str) -> Arrays:
    x = numpy_generator("points", name).normal(size=(len(labels), 3)).astype(np.float32)
    return x, np.array(labels, dtype=np.int64)


def live_run(out: Path, sites: dict[str, Arrays]) -> tuple[Measured, Config, Federation]:
    data = Federation.from_arrays(sites, test=points([0, 1], "test"), classes=2)
    config = resolve({key: value for key, value in WORDS.items() if key != "data"}, {}, Live(data=data))
    play(config, out)
    return measure(str(out), live=Live(data=data)), config, data


def test_records_in_floats_take_four_bytes_a_number(tmp_path: Path) -> None:
    # Six records of three numbers and a label, over two clients: 6·(12 + 1)/2.
    found, *_ = live_run(tmp_path / "run", {"a": points([0, 1, 0, 1], "a"), "b": points([1, 1], "b")})
    assert found.cost is not None
    assert (found.cost.images, found.cost.images_dealt) == (39, 39)


def test_a_client_without_records_counts_neither_before_nor_after(tmp_path: Path) -> None:
    sites = {"a": points([0, 1, 0, 1], "a"), "b": points([1, 1], "b"), "nobody": points([], "nobody")}
    found, config, data = live_run(tmp_path / "run", sites)
    assert (found.clients, found.records) == (2, 6)
    assert found.shuffled is not None
    # Two of six records are dealt to each: shares 2/6 and 2/4. The pool is all of them, also what went to nobody.
    assert found.shuffled.p == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert found.shuffled.images == 6
    # ζ² of two clients is a quarter of the squared distance of their gradients.
    method = build_method(config, data, "eager")
    dealt, net = dealt_examples(method, RunFolder(tmp_path / "run").newest_state(), data), method.net
    assert [len(part) for part in dealt.values()] == [2, 2, 2]
    w = _final(RunFolder(tmp_path / "run"), net)
    a, b = (slopes(net, w, data.sites[name].own.and_also(dealt[name])).mean for name in "ab")
    assert found.shuffled.zeta2 == pytest.approx(float((a - b).square().sum()) / 4)
    assert found.shuffled.smoothness == pytest.approx(
        smoothness(net, w, [data.sites[name].own.and_also(dealt[name]) for name in "ab"], generator("smoothness"))
    )


def test_the_cost_of_the_paper_by_hand() -> None:
    """5000 images of 32×32×3 bytes are 15.36 MB; with a model of 37.2 MB, 4 rounds instead of 88 save 95.0 %, and ten
    clients send and get 30 070 MB in 40 rounds (with the paper's 15.5 MB for the images)."""
    images, model = 5000 * 3 * 32 * 32, 37_200_000
    assert images == 15_360_000
    quick, slow = Cost(4, model, images, images, 0), Cost(88, model, 0, 0, 0)
    assert 1 - quick.formula / slow.formula == pytest.approx(0.950, abs=5e-4)
    assert 10 * Cost(40, model, 15.5e6, 15.5e6, 0).formula == pytest.approx(30_070e6, rel=1e-4)


def test_own_images_are_no_pool_and_were_not_sent(tmp_path: Path) -> None:
    changes = {"with": [{"name": "fedssyn", "source": "real", "deal": "own"}]}
    found = measure(str(us.run(WORDS, out=tmp_path / "run", changes=changes).folder))
    assert found.shuffled is None
    assert found.cost is not None
    assert (found.cost.images, found.cost.formula) == (0, 2 * 2 * 2600)
    assert found.cost.measured == pytest.approx(found.cost.formula, rel=0.1)
    notes = " ".join(measured_notes(found))
    assert "Pool" not in notes
    assert "M_s" not in notes


def test_the_speed_up_is_how_many_times_more_rounds_the_other_run_needs(tmp_path: Path, run: RunResult) -> None:
    # 70 % is reached after 4 rounds, and after 10 by the other one: 2.5 times as many.
    climbing = {"quick": [0.1, 0.3, 0.5, 0.69, 0.7], "slow": [0.1, *[0.6] * 9, 0.75, 0.5]}
    for name, accuracies in climbing.items():
        shutil.copytree(run.folder, tmp_path / name)
        lines = [{**run.metrics[-1], "round": at, "accuracy": found} for at, found in enumerate(accuracies)]
        (tmp_path / name / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = measure(str(tmp_path / "quick"), target=0.7, against=tmp_path / "slow")
    assert found.speed == Speed(0.7, 4, "fedavg + fedssyn", 10)
    assert found.speed.speed_up == 2.5
    assert "Rounds to 70.0 %: 4; fedavg + fedssyn needs 10, 2.5 times as many." in measured_notes(found)
    back = measure(str(tmp_path / "slow"), target=0.72, against=tmp_path / "quick").speed
    assert back == Speed(0.72, 10, "fedavg + fedssyn", None)
    assert back.speed_up is None


def test_a_config_is_measured_at_its_initial_model_before_any_run() -> None:
    found = measure("digits-skewed", ["model=softmax", "data.limit=60", "data.clients=2"])
    assert found.at == "initial"
    assert (found.shuffled, found.cost, found.speed) == (None, None, None)
    assert [column.header.plain for column in measured_table(found).columns][1:] == ["own records"]  # type: ignore[union-attr]


def mixed(zeta2: float, sigma2: float) -> Shuffled:
    """Bounds of 2 for ζ² and 10 for σ²."""
    return Shuffled(0.5, 10, 1.0, 0.0, zeta2, sigma2, zeta2_bound=2.0, sigma2_bound=10.0, smoothness=1.0)


@pytest.mark.parametrize(
    ("zeta2", "sigma2", "holds", "said"),
    [
        (2.0, 10.0, True, "Both are within the bounds"),
        (2.1, 9.0, False, "ζ² is 5.0 % above its bound: the lemma assumes the whole pool"),
        (3.0, 11.0, False, "ζ² is 50.0 % above its bound and σ² is 10.0 % above its bound"),
    ],
)
def test_the_json_gives_the_cause_that_the_table_gives(zeta2: float, sigma2: float, holds: bool, said: str) -> None:
    found = Measured("fedavg", "final", 2, 8, 10, 8.0, 20.0, 3.0, mixed(zeta2, sigma2), None, None)
    words = json.loads(json.dumps(found.as_dict()))["shuffled"]
    assert words["holds"] is holds
    assert said in words["verdict"]
    assert words["verdict"] in measured_notes(found)


def test_l_is_called_approximate_in_the_json_and_below_the_table() -> None:
    found = Measured("fedavg", "final", 2, 8, 10, 8.0, 20.0, 3.0, None, None, None)
    assert "approximate, from below" in found.as_dict()["smoothness_is"]
    assert any(note.startswith("L is approximate") for note in measured_notes(found))


def test_a_row_of_the_table_by_hand(run: RunResult) -> None:
    # Of ζ² = 8 a quarter is left with the synthetic records, of σ² = 2 half as much again is there, of L all.
    found = measure(str(run.folder), at="initial")
    assert found.shuffled is not None
    mixed = replace(found.shuffled, zeta2=2.0, sigma2=3.0, smoothness=5.0, zeta2_bound=4.0, sigma2_bound=6.0)
    table = measured_table(replace(found, zeta2=8.0, sigma2=2.0, smoothness=5.0, shuffled=mixed))
    rows = zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True)
    assert list(rows) == [
        ("ζ²", "8", "2", "4", "× 0.250"),
        ("σ²", "2", "3", "6", "× 1.500"),
        ("L", "5", "5", "", "× 1.000"),
    ]


def test_the_table_and_the_notes(run: RunResult) -> None:
    found = measure(str(run.folder), at="initial")
    assert measured_table(found).row_count == 3
    notes = " ".join(measured_notes(found))
    assert "p = 0.5" in notes
    assert "2·M_s + 2·R·M_c" in notes


def test_what_cannot_be_measured_is_said(run: RunResult, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="at is 'half'"):
        measure(str(run.folder), at="half")
    with pytest.raises(UserError, match="settings are fixed; leave out seed=1"):
        measure(str(run.folder), ["seed=1"])
    with pytest.raises(UserError, match="name a run folder, not a config"):
        measure("digits-skewed", target=0.5)
    with pytest.raises(UserError, match="not a run folder"):
        measure(str(tmp_path))
    with pytest.raises(UserError, match="measure reads all clients' records"):
        us.run(WORDS, out=tmp_path / "private", measure=1, changes={"with": [], "privacy": {"epsilon": 1.0}})


def test_the_command_prints_one_json_document(run: RunResult, capsys: pytest.CaptureFixture[str]) -> None:
    import understudy.cli  # noqa: F401

    app(["measure", str(run.folder), "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["shuffled"]["images"] == 90
