"""The tables and figures of FedCOG's paper: what they run, and what they printed."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from understudy.config.build import build_method
from understudy.data.federation import Federation
from understudy.data.problem import Problem
from understudy.data.sets import SOURCES
from understudy.papers.carrying_out import carry_out, counted_runs, played_lines
from understudy.papers.claims import in_print
from understudy.papers.fedcog import STUDIES
from understudy.papers.fedcog.main_experiment import BALANCED, FEDAVG, papers_settings, smoke_settings
from understudy.papers.fedcog.twelve_methods import compared_in, tell
from understudy.papers.published import Study
from understudy.papers.run_store import RunStore
from understudy.runs.play import play
from understudy.runs.watching import Observer

BY_NAME = pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)


@BY_NAME
def test_every_config_of_every_scale_resolves(study: Study, tmp_path: Path) -> None:
    for experiment in study.scales.values():
        for run in experiment.runs(RunStore(tmp_path)):
            assert run.run.digest


@BY_NAME
def test_the_papers_own_numbers_bear_out_its_claims(study: Study) -> None:
    assert study.published is not None
    words = {claim.sentence: in_print(claim, study.published.cells).word for claim in study.published.claims}
    assert set(words.values()) == {"holds"}, words


@BY_NAME
def test_what_runs_at_the_papers_scale_can_be_built(study: Study, tmp_path: Path) -> None:
    built = set()
    for one in study.scales["paper"].runs(RunStore(tmp_path)):
        config = one.run.config
        assert config.data is not None
        key = (config.method.name, config.model.name, *(chosen.name for chosen in config.add_ons))
        if key in built:
            continue
        built.add(key)
        source = SOURCES[config.data.name]
        problem = Problem(source.shape, source.classes)
        build_method(config, cast(Federation, SimpleNamespace(problem=problem)), "eager")


def test_variants_go_on_from_the_same_rounds_as_if_they_had_run_alone(tmp_path: Path) -> None:
    setting, store = smoke_settings()[1], RunStore(tmp_path / "store")
    plan = setting.comparison("test", "", [setting.baseline(FEDAVG), setting.variant(BALANCED, "balanced")])
    carry_out([plan], store, Observer(), 1)
    for contender in plan.contenders:
        (branched,) = counted_runs(plan, contender, 0.05, store)
        alone = play(branched.run.config, tmp_path / contender.label)
        weights = "model.safetensors"
        assert (store.folder(branched.run) / weights).read_bytes() == (alone.folder / weights).read_bytes()
    curves = [line.values[0] for line in played_lines([plan], store).values()]
    assert curves[0][:2] == curves[1][:2]


def test_table_1_has_the_average_once_all_columns_are_there() -> None:
    setting = smoke_settings()[1]
    assert len(compared_in(setting).contenders) == 13
    assert [one.column for one in papers_settings()][-1] == "CIFAR-100 NIID-2"
    assert not tell(1, played_lines([], RunStore(Path("nowhere")))).values
