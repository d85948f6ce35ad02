"""The papers' tables and figures: all 46 by name, at every scale, with claims that their printed numbers can turn."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import typer

from understudy.cli.studies import reproduce
from understudy.config.read import read
from understudy.config.resolve import resolve
from understudy.errors import UserError
from understudy.papers import planning
from understudy.papers.beside_printed import beside_printed, measured, number, verdict_lines
from understudy.papers.claims import PaperClaim, above, as_printed
from understudy.papers.comparison import Comparison
from understudy.papers.published import Direct, FromRuns, Later, Published, Study
from understudy.papers.reproduce import ARTEFACTS, STUDIES, experiment
from understudy.papers.scoreboard import packaged, scores, stored_at, summary
from understudy.papers.stored import write_table
from understudy.papers.study import Findings, StudyLine
from understudy.papers.telling import told
from understudy.runs.run_store import RunStore
from understudy.runs.watching import Observer
from understudy.view.findings import write_findings
from understudy.view.papers_listed import scoreboard_text

PAPERS = Path(__file__).parents[2] / "docs" / "papers"
NAMES = [
    *(f"fedssyn-{place}" for place in ("table1", "fig2", "fig3", "fig4a", "fig4b", "fig4c", "table2", "fig5", "fig6")),
    *(f"fedssyn-{place}" for place in ("figA1", "figA2", "figA3", "tableA2", "figA5", "figA8", "figA9")),
    *(f"feddm-{place}" for place in ("fig1", "fig2", "table1", "ipc", "fig3", "real", "table2", "fig4", "curves")),
    *(f"feddm-{place}" for place in ("images", "table4")),
    *(f"fedcog-{place}" for place in ("table1", "table2", "table3", "fig2", "table4", "fig3", "table5", "table6")),
    *(f"fedcog-{place}" for place in ("fig5", "table7", "table8", "tables9-11", "fig6")),
    *(f"fedlap-{place}" for place in ("table1", "table2", "fig5", "table3", "fig7", "fig12")),
]


def test_all_46_are_there_in_the_order_of_the_papers() -> None:
    assert len(NAMES) == 46
    assert list(ARTEFACTS) == NAMES


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(UserError, match=r"There is no study 'feddm-tabel1'\. Did you mean 'feddm-table1'"):
        experiment("feddm-tabel1", "desk")
    with pytest.raises(UserError, match="There is no scale 'large'; choose smoke, desk or paper"):
        experiment("feddm-table1", "large")
    with pytest.raises(UserError, match="cannot be run at scale paper; choose smoke or desk"):
        experiment("averaging-family", "paper")


@pytest.mark.parametrize("name", NAMES)
def test_every_artefact_has_three_scales_a_claim_and_configs_that_resolve(name: str, tmp_path: Path) -> None:
    study = ARTEFACTS[name]
    assert study.published is not None
    assert set(study.scales) == {"smoke", "desk", "paper"}
    assert study.published.claims
    for asked in study.scales.values():
        made = asked.make() if isinstance(asked, Later) else asked
        assert isinstance(made, FromRuns | Direct)
        if isinstance(made, FromRuns):  # one seed and one rate of every line: its config resolves
            assert replace(made, comparisons=[thinned(plan) for plan in made.comparisons]).runs(RunStore(tmp_path))


def thinned(plan: Comparison) -> Comparison:
    lines = [replace(one, seeds=plan.seeds_of(one)[:1], rates=plan.rates_of(one)[:1]) for one in plan.contenders]
    return replace(plan, contenders=lines)


def each_claim() -> Iterator[tuple[str, PaperClaim]]:
    for name, study in ARTEFACTS.items():
        assert study.published is not None
        yield from ((name, claim) for claim in study.published.claims)


def test_claims_are_sentences_that_numbers_decide() -> None:
    for name, claim in each_claim():
        assert claim.sentence.endswith("."), f"{name}: {claim.sentence}"
        assert claim.sentence[0].isupper() or not claim.sentence[0].isalpha(), f"{name}: {claim.sentence}"


# ---- by hand

CLAIMS = [
    PaperClaim("Ours is above theirs.", above(("a", "x"), ("b", "x"))),
    PaperClaim("As printed.", as_printed([("b", "x")], 1.0)),
]
SMALL = Study(
    "some", "a table", {}, published=Published("A title", "table 1", {("a", "x"): 80.0, ("b", "x"): 70.5}, CLAIMS)
)
FOUND = Findings(
    "about", [StudyLine("a, x", [0.8], leak=0.171)], values={("a", "x"): [81.0, 79.5], ("b", "x"): [70.0, 71.5]}
)


def test_ours_stand_beside_the_printed_numbers() -> None:
    assert SMALL.published is not None
    table = beside_printed(replace(SMALL.published, stand_ins=["a", "c"]), FOUND)
    assert table.columns == ["table 1 (%)", "x, printed", "x, ours", "leak"]
    assert table.rows == [["a", "80", "80.2 ± 1.1", "17.1 %"], ["b", "70.5", "70.8 ± 1.1", "–"]]
    assert [number(value) for value in (635_040.0, 0.0123, 69.66)] == ["635 040", "0.0123", "69.66"]
    assert measured([]) == "–"


def test_a_line_with_the_whole_name_of_a_row_leaks_for_that_row_alone() -> None:
    assert SMALL.published is not None
    published = replace(SMALL.published, stand_ins=["a", "REAL, a"])
    lines = [StudyLine("FedDM, a", [0.8], leak=0.2), StudyLine("REAL, a", [0.8], leak=0.3)]
    values = {("a", "x"): [81.0], ("REAL, a", "x"): [80.0]}
    table = beside_printed(published, replace(FOUND, lines=lines, values=values))
    assert {row[0]: row[-1] for row in table.rows if row[0] != "b"} == {"a": "20.0 %", "REAL, a": "30.0 %"}


def test_a_printed_number_changed_on_purpose_turns_its_verdict_on_the_scoreboard(tmp_path: Path) -> None:
    write_table(tmp_path / "some" / "desk.json", "some", "desk", FOUND)
    (score,) = scores({"some": SMALL}, tmp_path)
    assert [claim.verdicts["desk"] for claim in score.claims] == ["holds", "holds"]
    assert [claim.verdicts["paper"] for claim in score.claims] == ["not run", "not run"]
    assert summary([score]).startswith("Of 2 published claims tried at desk scale, 2 hold, 0 do not")
    assert SMALL.published is not None
    wrong = replace(SMALL, published=replace(SMALL.published, cells={("a", "x"): 80.0, ("b", "x"): 75.0}))
    (score,) = scores({"some": wrong}, tmp_path)
    assert [claim.verdicts["desk"] for claim in score.claims] == ["holds", "does not hold"]


# ---- as stored


def test_the_scoreboard_of_the_package_is_that_of_the_stored_numbers() -> None:
    assert [asdict(one) for one in packaged()] == json.loads(
        json.dumps([asdict(one) for one in scores(ARTEFACTS, PAPERS)])
    )


def test_stand_ins_show_what_they_give_away() -> None:
    for one in packaged():
        published = ARTEFACTS[one.name].published
        assert published is not None
        assert bool(published.stand_ins) == bool(one.leak), one.name


def test_stored_results_are_of_this_study() -> None:
    for name in NAMES:
        for scale, found in stored_at(PAPERS, name).items():
            assert ARTEFACTS[name].scales[scale]
            assert found.values or found.tables, f"{name} at {scale}"
            assert found.made_by or all(line.made_by for line in found.lines), f"{name} at {scale}"


def test_the_list_has_a_line_per_artefact(capsys: pytest.CaptureFixture[str]) -> None:
    reproduce()
    said = capsys.readouterr().out
    assert all(any(line.startswith(name) for line in said.splitlines()) for name in [*NAMES, "  frontier"])
    assert scoreboard_text(packaged()) in said
    reproduce(as_json=True)
    content = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in content["papers"]] == NAMES
    assert set(content["ours"]) == set(STUDIES) - set(NAMES)


def test_a_plan_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reproduce("feddm-table1", "paper", tmp_path, plan=True)
    said = capsys.readouterr().out
    assert "samples through the network" in said
    assert "samples per second, timed here" in said
    assert list(tmp_path.iterdir()) == []


def test_a_plan_of_what_is_worked_out_directly_says_how_long_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reproduce("fedssyn-figA3", "paper", tmp_path, plan=True)
    assert "without runs of a federation; takes 1.0 hours of one process" in capsys.readouterr().out
    reproduce("fedssyn-figA3", "smoke", tmp_path, plan=True)
    assert "takes less than a minute of one process" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_plan_on_a_processor_counts_its_time_and_not_that_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    # The clock on the wall runs a thousand times as fast: as if this process had a thousandth of a core.
    wall = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: 1000 * wall())
    config = resolve(read("digits-skewed"), {"model": {"name": "softmax"}})
    assert planning.samples_per_second(config) > 5000


WITH_ARITHMETIC = ("fedssyn-fig6", "fedssyn-figA2", "fedssyn-tableA2")  # some claims there are about formulas


@pytest.mark.parametrize("name", [name for name in STUDIES if not isinstance(STUDIES[name].scales["smoke"], Direct)])
def test_a_study_of_which_nothing_was_run_is_shown_empty(name: str, tmp_path: Path) -> None:
    found = experiment(name, "smoke").read(RunStore(tmp_path / "store"))
    assert found is not None
    shown = told(STUDIES[name], found, "smoke")
    write_findings(shown, tmp_path)
    assert not any(line.accuracies for line in shown.lines)
    published = STUDIES[name].published
    if published is not None:
        words = {verdict.word for verdict in published.verdicts(found, "smoke")}
        assert words == {"not run"} or ("not run" in words and name in WITH_ARITHMETIC)


def test_what_is_there_is_shown_without_running_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reproduce("feddm-real", "smoke", tmp_path, only=["FedDM"])
    before = sorted(tmp_path.glob("runs/*"))
    capsys.readouterr()
    reproduce("feddm-real", "smoke", tmp_path, draw=True)
    said = capsys.readouterr().out
    assert sorted(tmp_path.glob("runs/*")) == before
    assert "FedDM" in said
    assert "**not run**" in said
    with pytest.raises(UserError, match="feddm-fig1 is worked out as a whole and has no runs to show; leave out --dr"):
        reproduce("feddm-fig1", "smoke", tmp_path, draw=True)
    with pytest.raises(UserError, match="--draw shows all that is there; leave out --plan and --only"):
        reproduce("feddm-real", "smoke", tmp_path, draw=True, only=["FedDM"])


def test_a_reproduction_that_is_stopped_says_how_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(FromRuns, "run", stopped)
    with pytest.raises(typer.Exit) as ended:
        reproduce("feddm-real", "smoke", tmp_path)
    assert ended.value.exit_code == 130
    assert "Stopped. Finished runs are kept: the same command goes on from there" in capsys.readouterr().err


# ---- the path of every artefact


@pytest.fixture(scope="session")
def smoke_store(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """Runs are shared, so the second artefact that needs one finds it."""
    return RunStore(tmp_path_factory.mktemp("smoke"))


@pytest.mark.parametrize("name", NAMES)
def test_every_artefact_runs_as_a_smoke_test(name: str, smoke_store: RunStore) -> None:
    found = experiment(name, "smoke").run(smoke_store, Observer(), 1)
    published = ARTEFACTS[name].published
    assert published is not None
    assert found.values or found.mosaics or found.pictures
    words = {verdict.word for verdict in published.verdicts(found, "smoke")}
    assert words <= {"holds", "does not hold", "not settled", "not run"}
    if len(os.environ.get("PYTEST_XDIST_WORKER", "")) == 0 and found.values:
        assert any(found.values.values()), name


def test_a_claim_that_does_not_hold_names_its_likely_cause() -> None:
    silent = []
    for name, study in ARTEFACTS.items():
        assert study.published is not None
        for scale, found in stored_at(PAPERS, name).items():
            verdicts = study.published.verdicts(found, scale)
            silent += [
                f"{name}, {scale}: {claim.sentence}"
                for claim, verdict in zip(study.published.claims, verdicts, strict=True)
                if verdict.word == "does not hold" and not claim.likely_cause.endswith(".")
            ]
    assert silent == []


def test_the_likely_cause_stands_only_where_a_claim_does_not_hold() -> None:
    assert SMALL.published is not None
    claim = PaperClaim("Theirs is above ours.", above(("b", "x"), ("a", "x")), likely_cause="Too few rounds.")
    lost = replace(SMALL.published, claims=[claim])
    (said,) = verdict_lines(lost, lost.verdicts(FOUND, "desk"))
    assert said.endswith("Too few rounds.")
    held = replace(SMALL.published, claims=[replace(claim, test=above(("a", "x"), ("b", "x")))])
    (said,) = verdict_lines(held, held.verdicts(FOUND, "desk"))
    assert "Too few rounds" not in said
