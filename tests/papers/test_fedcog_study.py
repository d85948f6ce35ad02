"""The study of FedCOG on Fashion-MNIST, at its smallest and on digits."""

import shutil
from pathlib import Path

from understudy.papers.fedcog import SMOKE, CogPlan, fedcog_study
from understudy.runs.folder import RunFolder
from understudy.runs.play import play
from understudy.runs.watching import Observer


def test_each_goes_on_from_the_same_rounds_as_if_it_had_run_alone(tmp_path: Path) -> None:
    found = fedcog_study(SMOKE, tmp_path / "study", Observer())
    curves = [one.values[0] for one in found.lines if one.label.endswith("two labels per client")]
    assert len(curves) == 3
    assert len({curve[1] for curve in curves}) == 1  # the round that all begin with
    for variant in ("fedavg", "balanced"):
        alone = play(SMOKE.config("groups", variant, 2), tmp_path / variant)
        branched = RunFolder(tmp_path / "study/groups" / variant)
        assert (branched.path / "model.safetensors").read_bytes() == (alone.folder / "model.safetensors").read_bytes()
        assert branched.config()["with"] == RunFolder(alone.folder).config()["with"]
    assert "two labels per client: FedCOG, fixed weighting" in [row[0] for row in found.tables["table"][0].rows]


def test_it_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    first = fedcog_study(SMOKE, tmp_path, Observer())
    shutil.rmtree(tmp_path / "groups/fixed")
    again = fedcog_study(SMOKE, tmp_path, Observer())
    assert [one.values for one in again.lines] == [one.values for one in first.lines]


def test_at_full_scale_it_is_the_papers() -> None:
    config = CogPlan().config("dirichlet", "fixed", 70)
    assert (config.plan.rounds, config.add_ons[0].settings.model_dump()["from_round"]) == (70, 51)
