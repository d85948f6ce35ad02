"""`understudy measure`, the same numbers in metrics, and what a run cost beside the formula."""

import json
from pathlib import Path

import pytest
import torch

import understudy as us
from understudy.cli.words import app
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.studies.cost import cost_of
from understudy.studies.folder import RunFolder
from understudy.studies.measure import measure
from understudy.studies.run import Result
from understudy.view.measure import measured_notes, measured_table

# Real records are shuffled, so that no generator is trained.
WORDS = {
    "data": {"name": "digits", "clients": 2, "limit": 90, "split": {"kind": "label-groups", "labels_per_client": 5}},
    "model": {"name": "softmax"},
    "method": {"name": "fedavg", "rounds": 2, "local": {"epochs": 1}},
    "with": [{"name": "fedssyn", "source": "real"}],
    "engine": {"name": "inline"},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return us.run(WORDS, out=tmp_path_factory.mktemp("measure") / "run", measure=2)


def test_metrics_have_the_quantities_every_so_many_rounds(run: Result) -> None:
    assert ["zeta2" in line for line in run.metrics] == [True, False, True]
    last = run.metrics[-1]
    assert last["zeta2_shuffled"] < last["zeta2"]
    assert last["smoothness"] > 0


def test_measuring_changes_nothing(run: Result, tmp_path: Path) -> None:
    us.run(WORDS, out=tmp_path / "other")
    name = "model.safetensors"
    assert (tmp_path / "other" / name).read_bytes() == (run.folder / name).read_bytes()


def test_the_command_says_what_the_metrics_say(run: Result) -> None:
    found, last = measure(str(run.folder)), run.metrics[-1]
    assert (found.zeta2, found.sigma2) == (last["zeta2"], last["sigma2"])
    assert found.shuffled is not None
    assert (found.shuffled.zeta2, found.shuffled.sigma2) == (last["zeta2_shuffled"], last["sigma2_shuffled"])
    # As many dealt as own, p = 1/2 but for one record; the pool is all own records, so δ² is next to nothing.
    assert found.shuffled.images == 90
    assert found.shuffled.p == pytest.approx(0.5, abs=0.01)
    assert found.shuffled.zeta2_bound == pytest.approx((1 - found.shuffled.p) ** 2 * found.zeta2)
    assert found.shuffled.delta2 < 0.01 * found.zeta2


def test_the_cost_is_the_formula_but_for_envelopes(run: Result) -> None:
    cost = measure(str(run.folder)).cost
    assert cost is not None
    # 65·10 numbers of 4 bytes; 45 images of 64 pixels and a label.
    assert (cost.model, cost.images, cost.rounds) == (2600, 45 * 65, 2)
    assert cost.formula == 2 * 2925 + 2 * 2 * 2600
    assert cost.images_up == pytest.approx(2925, rel=0.1)
    assert cost.images_down == pytest.approx(2925, rel=0.1)
    assert cost.measured == pytest.approx(cost.formula, rel=0.1)


def test_images_down_are_what_the_first_brief_is_longer_by(tmp_path: Path) -> None:
    # Client a: briefs of 150 and 100 bytes, so 50; b: first briefed in round 2, 180 and 110, so 70. Mean 60; up 90/2.
    lines = [
        {"round": 0, "bytes_up": 90, "bytes_down": 0, "bytes_by_client": {"a": [45, 0], "b": [45, 0]}},
        {"round": 1, "bytes_up": 10, "bytes_down": 150, "bytes_by_client": {"a": [10, 150]}},
        {"round": 2, "bytes_up": 20, "bytes_down": 280, "bytes_by_client": {"a": [10, 100], "b": [10, 180]}},
        {"round": 3, "bytes_up": 10, "bytes_down": 110, "bytes_by_client": {"b": [10, 110]}},
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    one = Examples(torch.zeros(3, 1, 2, 2, dtype=torch.uint8), torch.zeros(3, dtype=torch.int64))
    cost = cost_of(RunFolder(tmp_path), 7, {"a": one, "b": one}, Problem((1, 2, 2), 2))
    assert cost is not None
    assert (cost.images_up, cost.images_down, cost.rounds, cost.images) == (45, 60, 2, 15)
    assert cost.measured == (90 + 10 + 150 + 20 + 280 + 10 + 110) / 2


def test_rounds_to_a_target_and_the_speed_up_against_another_run(tmp_path: Path, run: Result) -> None:
    plain = us.run(WORDS, out=tmp_path / "plain", changes={"with": [], "rounds": 1})
    goal = min(run.metrics[-1]["accuracy"], plain.metrics[-1]["accuracy"])
    found = measure(str(run.folder), target=goal, against=plain.folder).speed
    assert found is not None
    assert found.against == "fedavg"
    assert found.speed_up == (found.rounds_against or 0) / (found.rounds or 1)


def test_a_config_is_measured_at_its_initial_model_before_any_run() -> None:
    found = measure("digits-skewed", ["model=softmax", "data.limit=60", "data.clients=2"])
    assert found.at == "initial"
    assert (found.shuffled, found.cost, found.speed) == (None, None, None)
    assert [column.header.plain for column in measured_table(found).columns][1:] == ["own records"]  # type: ignore[union-attr]


def test_the_table_and_the_notes(run: Result) -> None:
    found = measure(str(run.folder), at="initial")
    assert measured_table(found).row_count == 3
    notes = " ".join(measured_notes(found))
    assert "p = 0.5" in notes
    assert "2·M_s + 2·R·M_c" in notes


def test_what_cannot_be_measured_is_said(run: Result, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--at is 'half'"):
        measure(str(run.folder), at="half")
    with pytest.raises(UserError, match="has its settings already; leave out seed=1"):
        measure(str(run.folder), ["seed=1"])
    with pytest.raises(UserError, match="name a run folder, not a config"):
        measure("digits-skewed", target=0.5)
    with pytest.raises(UserError, match="no run folder"):
        measure(str(tmp_path))
    with pytest.raises(UserError, match="measure looks at all clients' records"):
        us.run(WORDS, out=tmp_path / "private", measure=1, changes={"with": [], "privacy": {"epsilon": 1.0}})


def test_the_command_prints_one_json_document(run: Result, capsys: pytest.CaptureFixture[str]) -> None:
    import understudy.cli  # noqa: F401

    app(["measure", str(run.folder), "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["shuffled"]["images"] == 90
