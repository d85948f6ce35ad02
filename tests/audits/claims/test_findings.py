"""Three words, and when each is used."""

import json
import math
from dataclasses import replace

import pytest

from understudy.audits.claims.findings import AuditedMechanism, CanaryRow, ClaimedMechanism, ClaimsAudit, JudgedRow
from understudy.audits.claims.one_run import Guesses, OneRun
from understudy.audits.claims.pairs import OUTSIDE
from understudy.audits.claims.verdict import Cut, RowVerdict

CLAIMED = ClaimedMechanism("Task.work", "sampled Gaussian", True, 0.2, 1.0, 8, 1.0, 1e-5, math.inf)
YES = RowVerdict("a", True, 0.05, 0.05, 2.9, 2.9, True, 0.001, (Cut(0.0, True),))
NO = replace(YES, refuted=False, false_alarms=0.5, misses=0.6, epsilon_lower=0.0)
ROW = JudgedRow("1 against 2", "releases", "log size", 0.2, 8, 4.5, 80, NO)

ALARM = OneRun(Guesses(1000, 250, 249), 3.1, 3.7, True, True, 0.001, 1e-5)
SILENCE = replace(ALARM, guesses=Guesses(1000, 250, 130), epsilon_lower=0.0, refuted=False)
CANARIES = CanaryRow("first release", 1.0, 1, 2.4, True, ALARM)


def audit_of(*rows: JudgedRow) -> ClaimsAudit:
    return ClaimsAudit("dp-fedavg", (AuditedMechanism(CLAIMED, rows, {}),))


@pytest.mark.parametrize(
    ("row", "word"),
    [
        (ROW, "not refuted"),
        (replace(ROW, verdict=YES), "not refuted"),  # once is not enough
        (replace(ROW, verdict=YES, confirmed=NO), "not refuted"),
        (replace(ROW, verdict=YES, confirmed=YES), "refuted"),
    ],
)
def test_refuted_is_said_only_after_a_second_pass(row: JudgedRow, word: str) -> None:
    assert audit_of(ROW, row).word == word


def test_the_sentence_names_a_record_that_the_data_type_can_hold_where_there_is_one() -> None:
    outside = replace(YES, epsilon_lower=9.0, note=OUTSIDE)
    rows = replace(ROW, pair="far", verdict=outside, confirmed=outside), replace(ROW, verdict=YES, confirmed=YES)
    assert audit_of(*rows).sentence == "refuted (1 against 2, by releases, log size)"
    assert audit_of(rows[0]).sentence == f"refuted (far, by releases, log size; {OUTSIDE})"


def test_what_was_not_refuted_tells_how_far_the_runs_could_have_gone() -> None:
    assert audit_of(ROW).sentence == "not refuted (these runs could have shown up to ε = 2.9)"


def test_no_mechanism_is_no_claim() -> None:
    audit = ClaimsAudit("fedavg", (), "it charges nothing.")
    assert (audit.word, audit.sentence) == ("no claim", "no claim: it charges nothing.")


def test_an_infinite_epsilon_is_null_in_json() -> None:
    words = json.loads(json.dumps(audit_of(ROW).as_dict(), allow_nan=False))
    assert words["mechanisms"][0]["claimed"]["epsilon"] is None
    assert words["mechanisms"][0]["rows"][0]["refuted"] is False


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (CANARIES, "not refuted (these runs could have shown up to ε = 3.7)"),  # once is not enough
        (replace(CANARIES, confirmed=SILENCE), "not refuted (these runs could have shown up to ε = 3.7)"),
        (
            replace(CANARIES, confirmed=ALARM),
            "refuted (1000 canaries in one run, by first release, 249 of 250 guesses right)",
        ),
    ],
)
def test_canaries_refute_only_by_a_second_run(row: CanaryRow, sentence: str) -> None:
    found = ClaimsAudit("dp-fedavg", (AuditedMechanism(CLAIMED, (), {}, (row,)),))
    assert found.sentence == sentence
    assert found.as_dict()["mechanisms"][0]["canaries"][0]["refuted"] is row.refuted
