"""The tables and figures of FedCOG's paper: what they run, and what they printed."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from printed_numbers import TEXTS

from understudy.config.build import build_method, method_with_add_ons
from understudy.data.federation import Federation
from understudy.data.problem import Problem
from understudy.data.sets import SOURCES
from understudy.papers.beside_printed import number
from understudy.papers.carrying_out import PlayedLines, carry_out, counted_runs, played_lines
from understudy.papers.claims import Evidence, in_print, wider
from understudy.papers.fedcog import STUDIES
from understudy.papers.fedcog.inverted_images import STUDY as IMAGES
from understudy.papers.fedcog.main_experiment import BALANCED, CIFAR10, DESK, FASHION, FEDAVG, SMOKE
from understudy.papers.fedcog.twelve_methods import COLUMNS, every_line, tell
from understudy.papers.planning import samples_of
from understudy.papers.published import FromRuns, Study
from understudy.papers.study import StudyLine
from understudy.runs.play import play
from understudy.runs.run_store import RunStore
from understudy.runs.watching import Observer

BY_NAME = pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
TEXT = TEXTS / "fedcog.txt"
DERIVED = {"fedcog-table4": "% of FedAvg's", "fedcog-table8": "% of local training"}  # quotients of printed numbers


@BY_NAME
def test_every_printed_number_stands_in_the_paper(study: Study) -> None:
    if not TEXT.exists():
        pytest.skip("the paper's text is not here; UNDERSTUDY_PAPERS names the folder")
    there = {float(word) for word in re.findall(r"\d+(?:\.\d+)?", TEXT.read_text())}
    assert study.published is not None
    for (row, column), value in study.published.cells.items():
        assert value in there or DERIVED.get(study.name) in (row, column), (row, column, number(value))


@BY_NAME
def test_the_papers_own_numbers_bear_out_its_claims_or_are_not_printed(study: Study) -> None:
    assert study.published is not None
    words = {claim.sentence: in_print(claim, study.published.cells).word for claim in study.published.claims}
    assert set(words.values()) <= {"holds", "not run"}, words


@BY_NAME
def test_what_runs_at_the_papers_scale_can_be_built(study: Study, tmp_path: Path) -> None:
    built = set()
    for one in study.scales["paper"].runs(RunStore(tmp_path)):
        config = one.run.config
        assert config.data is not None
        key = (config.method.name, config.model.name, *(chosen.name for chosen in config.add_ons))
        if key in built or config.model.name == "resnet18":  # 11 million weights: only what is small
            continue
        built.add(key)
        source = SOURCES[config.data.name]
        problem = Problem(source.shape, source.classes)
        build_method(config, cast(Federation, SimpleNamespace(problem=problem, scale=None)), "eager")


def test_variants_go_on_from_the_same_rounds_as_if_they_had_run_alone(tmp_path: Path) -> None:
    setting, store = SMOKE[0][0], RunStore(tmp_path / "store")
    plan = setting.comparison("test", "", [setting.baseline(FEDAVG), setting.variant(BALANCED, "balanced")])
    carry_out([plan], store, Observer(), 1)
    for contender in plan.contenders:
        (branched,) = counted_runs(plan, contender, 0.05, store)
        alone = play(branched.run.config, tmp_path / contender.label)
        weights = "model.safetensors"
        assert (store.folder(branched.run) / weights).read_bytes() == (alone.folder / weights).read_bytes()
    curves = [line.values[0] for line in played_lines([plan], store).values()]
    assert curves[0][:2] == curves[1][:2]


def test_at_the_papers_scale_fedavg_and_fedcog_share_fifty_rounds(tmp_path: Path) -> None:
    (setting,) = CIFAR10[0]
    plan, store = setting.comparison("test", "", every_line(setting)), RunStore(tmp_path)
    runs = {one.label: counted_runs(plan, one, 0.01, store)[0].run for one in plan.contenders}
    shared = {run.first.digest for run in runs.values() if run.first is not None}
    assert len(runs) == 13
    assert len(shared) == 1
    assert runs[setting.label("SCAFFOLD")].first is None
    rounds = {run.config.plan.rounds for run in runs.values()}
    assert rounds == {70}


def test_table_1_has_the_average_once_all_columns_are_there() -> None:
    lines = {f"{FEDAVG}, {column}": StudyLine(f"{FEDAVG}, {column}", [at / 10]) for at, column in enumerate(COLUMNS)}
    assert list(tell(50, PlayedLines(lines, {})).values[FEDAVG, "Avg."]) == pytest.approx([25.0])
    del lines[f"{FEDAVG}, {COLUMNS[0]}"]
    assert (FEDAVG, "Avg.") not in tell(50, PlayedLines(lines, {})).values


def test_images_of_a_run_that_is_gone_are_told_as_they_were_stored() -> None:
    experiment = IMAGES.scales["smoke"]
    assert isinstance(experiment, FromRuns)
    stored = {"images": {"recognised by the global model": {"100 steps": 97.0}}}
    found = experiment.tell(PlayedLines({}, {}, stored))
    assert found.values == {("recognised by the global model", "100 steps"): [97.0]}


def test_a_plan_counts_the_images_and_only_a_branchs_own_rounds(tmp_path: Path) -> None:
    (setting,) = FASHION[0]
    plan, store = setting.comparison("test", "", every_line(setting)), RunStore(tmp_path)
    runs = {one.label: counted_runs(plan, one, 0.01, store)[0].run for one in plan.contenders}
    # Ten clients, 20 rounds of 400 steps of 64; FedCOG: 256 images, 100 steps, two networks, and 64 images per step.
    assert samples_of(runs[setting.label(FEDAVG)]) == 10 * 20 * 400 * 64
    assert samples_of(runs[setting.label(BALANCED)]) == 10 * 20 * (400 * 64 + 100 * 256 * 2 + 400 * 64)
    assert samples_of(runs[setting.label("VHL")]) == 10 * 70 * 400 * (64 + 128)
    config = runs[setting.label(BALANCED)].config
    assert method_with_add_ons(config).effort(6000, 10) == 400 * 64  # decides on compiling, as before


def test_a_gap_is_wider_than_another() -> None:
    cells = {("a", "x"): [5.0, 6.0], ("b", "x"): [1.0, 2.5], ("a", "y"): [3.0, 3.5], ("b", "y"): [2.0, 2.0]}
    gap, other = (("a", "x"), ("b", "x")), (("a", "y"), ("b", "y"))
    assert wider(gap, other)(Evidence(cells, {})).word == "holds"
    assert wider(other, gap)(Evidence(cells, {})).word == "does not hold"
    assert wider(gap, (("a", "z"), ("b", "y")))(Evidence(cells, {})).word == "not run"


def test_fedsam_has_the_papers_radius_at_its_scale_and_a_smaller_one_at_the_desk() -> None:
    # With 0.5 it takes more rounds than the desk has before it learns at all.
    found = {}
    for scale, setting in (("paper", FASHION[0][0]), ("desk", DESK[0][0])):
        line = setting.baseline("FedSAM")
        run = counted_runs(setting.comparison("", "", [line]), line, 0.01, RunStore(Path()))[0].run
        found[scale] = run.config.method.settings.model_dump()["rho"]
    assert found == {"paper": 0.5, "desk": 0.05}
