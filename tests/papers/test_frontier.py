"""The frontier: accuracy beside what was given away, and which stand-in is near the goal."""

from dataclasses import replace
from pathlib import Path

from understudy.audits.measures import Interval, Reached
from understudy.audits.result import AttackRow, Audit
from understudy.papers.carrying_out import PlayedLines
from understudy.papers.frontier.plan import FrontierPlan, Point
from understudy.papers.frontier.points import POINTS
from understudy.papers.frontier.standings import Stand, findings, frontier
from understudy.papers.reproduce import experiment
from understudy.papers.study import StudyLine
from understudy.runs.run_store import RunStore
from understudy.runs.watching import Observer
from understudy.view.findings import write_findings

PLAN = FrontierPlan("frontier", "about", {}, {"α": {}}, (), (0.1,), (0, 1))


def reached(caught: float, auc: float) -> Reached:
    return Reached(1000, 1000, Interval(auc, auc, auc), Interval(caught, caught, caught))


def stand(
    label: str,
    accuracy: float,
    caught: float,
    auc: float,
    small: Reached | None = None,
    null_small: Reached | None = None,
) -> Stand:
    row = AttackRow("distance", "", reached(caught, auc), reached(0.011, 0.5), small, null_small)
    audit = Audit(label, [row], None, 1000, 1000, 1000, 10, 1000, False, True, None)
    line = StudyLine(f"{label}, α", [accuracy, accuracy], rate=0.1, megabytes=1.0, rounds=[1])
    return Stand(Point(label, "family", {}), "α", line, audit)


def test_the_most_accurate_stand_in_that_hardly_leaks_is_named() -> None:
    loud, near, quiet = stand("loud", 0.95, 0.3, 0.65), stand("near", 0.94, 0.021, 0.5), stand("quiet", 0.9, 0.02, 0.52)
    (note,) = findings(PLAN, [loud, near, quiet]).notes
    assert "family: quiet is the most accurate, with 90.0 ± 0.0 %, 5.0 points below family: loud." in note
    (note,) = findings(PLAN, [loud, near]).notes
    assert note == "α: no stand-in stays at or below 2 % caught and 0.02 above chance in AUC."


def test_a_single_seed_is_told_as_one_in_the_table_and_in_the_sentence() -> None:
    once = stand("once", 0.917, 0.01, 0.5)
    found = findings(PLAN, [replace(once, line=replace(once.line, accuracies=[0.917]))])
    assert found.tables["table"][0].rows[0][2] == "91.7, one seed"
    assert "family: once is the most accurate, with 91.7 %, one seed, more than any other." in found.notes[0]


def test_small_classes_count_as_much_as_all_others() -> None:
    exposed = stand("exposed", 0.93, 0.01, 0.5, reached(0.2, 0.5))
    by_auc = stand("by auc", 0.93, 0.01, 0.5, reached(0.01, 0.6))
    for one in (exposed, by_auc):
        (note,) = findings(PLAN, [one, stand("quiet", 0.8, 0.01, 0.5)]).notes
        assert "family: quiet is the most accurate" in note


def test_small_classes_are_held_against_the_chance_of_small_classes() -> None:
    # A hundred records of which nothing was sent have an AUC of 0.56 by luck, under the null as under the attack.
    lucky = stand("lucky", 0.9, 0.01, 0.5, reached(0.01, 0.56), reached(0.01, 0.56))
    loud = stand("loud", 0.95, 0.01, 0.5, reached(0.01, 0.59), reached(0.01, 0.56))
    (note,) = findings(PLAN, [lucky, loud]).notes
    assert "family: lucky is the most accurate" in note


def test_rows_stand_by_accuracy_and_hold_what_the_audit_found() -> None:
    low, high = stand("low", 0.8, 0.171, 0.6), stand("high", 0.9, 0.3, 0.65)
    (table,) = findings(PLAN, [low, high]).tables["table"]
    assert [row[1] for row in table.rows] == ["family: high", "family: low"]
    assert table.rows[1][5:9] == ["17.1 % (17.1–17.1), distance", "1.1 %", "–", "0.600"]


def test_the_picture_frames_the_goal_a_point_below_feddm_from_real_records() -> None:
    matched, quiet = stand("40 steps", 0.94, 0.3, 0.65), stand("quiet", 0.9, 0.001, 0.5)
    (panel,) = findings(PLAN, [matched, quiet]).pictures["table"].panels
    assert panel.goal == (2.0, 93.0, "the goal")
    assert [(trace.label, trace.family) for trace in panel.traces] == [("40 steps", "family"), ("quiet", "family")]
    assert [trace.x[0] for trace in panel.traces] == [30, 0.5]  # what is less than the axis shows stands at its end
    (panel,) = findings(PLAN, [quiet]).pictures["table"].panels
    assert panel.goal is None


def test_a_stand_in_that_one_seed_gives_away_is_not_quiet() -> None:
    lucky, other = stand("lucky", 0.9, 0.01, 0.51), stand("other", 0.8, 0.01, 0.51)
    told = replace(lucky, others={1: stand("", 0.9, 0.015, 0.53).audit})
    quietest, by_seed = findings(PLAN, [told, other]).notes
    assert "family: other is the most accurate" in quietest
    assert by_seed == (
        "family: lucky, α, seed by seed: 1.0 (chance 1.1), 1.5 (chance 1.1) % caught; 0.010, 0.030 above chance in AUC."
    )


def test_a_point_takes_the_rate_of_another_that_is_tuned() -> None:
    tuned = {point.label for point in POINTS if not point.like}
    assert all(point.like in tuned for point in POINTS if point.like)
    assert sum(point.decides for point in POINTS) == 7  # six as asked for, and our own


def test_a_smoke_run_attacks_every_point_once(tmp_path: Path) -> None:
    store, asked = RunStore(tmp_path), experiment("frontier", "smoke")
    found = asked.run(store, Observer(), 2)
    write_findings(found, tmp_path)
    assert {line.label.split(",")[0] for line in found.lines} == {"REAL 10", "40 steps", "FedAvg"}
    audits = sorted(tmp_path.glob("runs/*/audit.json"))
    assert len(audits) == 3
    before = [path.stat().st_mtime_ns for path in audits]
    again = asked.run(store, Observer(), 2)
    assert [path.stat().st_mtime_ns for path in audits] == before  # what was audited is not attacked again
    assert again.tables == found.tables
    sent = {row[1]: row[5] for row in found.tables["table"][0].rows}
    assert float(sent["real records: REAL 10"].split()[0]) > 20


def test_a_point_whose_run_is_not_here_keeps_the_audit_that_was_stored_with_it() -> None:
    kept = replace(stand("kept", 0.9, 0.2, 0.6), others={1: stand("", 0.9, 0.1, 0.6).audit})
    plan = replace(PLAN, points=[replace(kept.point, splits=("α",))])
    numbers = findings(plan, [kept]).numbers
    found = frontier(plan, PlayedLines({kept.line.label: kept.line}, {}, numbers))
    assert found.tables == findings(plan, [kept]).tables
    assert found.numbers == numbers
    assert frontier(plan, PlayedLines({kept.line.label: kept.line}, {})).lines == []
