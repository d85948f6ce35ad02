"""One run with canaries on the smallest configs: an alarm where noise is missing, none where it is not."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from contract_checks import Case
from numpy.typing import NDArray
from rich.console import Console
from smallest import HONEST, PROMISE, PUBLISHED, TRAINING, config_of
from test_contract import QUICK
from torch import Tensor
from typer.testing import CliRunner

from understudy.audits.claims import canary_run
from understudy.audits.claims.audit_canaries import audit_canaries, numbers_of_guesses
from understudy.audits.claims.canary_run import fair_coins
from understudy.audits.claims.findings import ClaimsAudit
from understudy.audits.claims.one_run import cap
from understudy.audits.claims.repetitions import HowLong
from understudy.cli.app import app
from understudy.errors import UserError
from understudy.privacy import mechanism
from understudy.privacy.mechanism import gaussian
from understudy.view.claims_audited import print_claims_audit

BRIEFLY = HowLong(seconds=5, workers=2)
CANARIES = 160
QUICKEST = ("moments", "feddm, dp: stat, stat_releases")
# Every record in every release, and a network in which 160 canaries have room.
TWO_STEPS = {"steps": 2, "batch": 12, "lr": 0.2, "schedule": "constant"}
EVERY_RECORD = Case("dp-fedavg", {**TRAINING, "local": TWO_STEPS}, privacy={**PROMISE, "records": 12})


def audited(canaries: int = CANARIES) -> ClaimsAudit:
    return audit_canaries(config_of(EVERY_RECORD, model={"name": "mlp", "hidden": [32]}), canaries, how_long=BRIEFLY)


def no_noise() -> Any:
    def drawn(shape: Sequence[int], **named: Any) -> Tensor:
        return 1e-3 * gaussian(shape, **named)

    return patch.object(mechanism, "gaussian", drawn)


def test_missing_noise_is_refuted_by_two_runs_with_coins_of_their_own() -> None:
    thrown: list[NDArray[np.bool_]] = []

    def noted(number: int) -> NDArray[np.bool_]:
        thrown.append(fair_coins(number))
        return thrown[-1]

    with no_noise(), patch.object(canary_run, "fair_coins", noted):
        audit = audited()
    (mechanism_found,) = audit.mechanisms
    first = next(row for row in mechanism_found.canaries if row.what == "first release")
    assert audit.word == "refuted"
    assert first.refuted
    assert first.run.guesses.right > 0.95 * first.run.guesses.made
    assert audit.sentence.startswith(f"refuted ({CANARIES} canaries in one run, by ")
    assert len(thrown) == 2
    assert 0.3 < float((thrown[0] == thrown[1]).mean()) < 0.7


def test_as_much_noise_as_claimed_is_not_refuted_and_the_cap_is_told() -> None:
    audit = audited()
    (found,) = audit.mechanisms
    assert audit.word == "not refuted"
    assert audit.sentence == f"not refuted (these runs could have shown up to ε = {found.reach:.1f})"
    looked_at = [(row.what, row.steps, row.rate) for row in found.canaries]
    assert looked_at == [("releases", 2, 1.0), ("first release", 1, 1.0)]
    for row in found.canaries:
        assert row.whole
        assert row.run.level == pytest.approx(0.01 / 2 / 3)  # two rows, three numbers of guesses
        assert row.run.cap == cap(CANARIES, row.run.level, 1e-5, made=128)
        assert row.run.epsilon_lower < row.epsilon
    words = json.loads(json.dumps(audit.as_dict(), allow_nan=False))
    row = words["mechanisms"][0]["canaries"][1]
    assert row["run"]["guesses"]["canaries"] == CANARIES
    assert row["run"]["cap"] == pytest.approx(found.canaries[1].run.cap)
    console = Console(width=200, record=True)
    print_claims_audit(audit, console)
    text = console.export_text()
    assert "all 2 releases" in text
    assert f"the cap for {CANARIES} canaries" in text
    assert f"{found.canaries[1].run.cap:.2f}" in text


def test_where_records_are_sampled_only_high_scores_count() -> None:
    assert numbers_of_guesses(1000, 1.0) == ((800, 250, 62), 0.5)
    assert numbers_of_guesses(1000, 0.2) == ((250, 62, 15), 1.0)
    assert numbers_of_guesses(10, 0.2) == ((2, 1), 1.0)


def test_releases_of_few_numbers_are_left_out_with_a_reason() -> None:
    audit = audit_canaries(config_of(HONEST["moments"]), 60, how_long=BRIEFLY)
    assert audit.mechanisms[0].left_out == {"releases of 52 numbers": "52 numbers cannot tell 60 canaries apart."}
    assert audit.mechanisms[0].canaries == ()
    console = Console(width=200, record=True)
    print_claims_audit(audit, console)
    assert "Not run, releases of 52 numbers: 52 numbers cannot tell 60 canaries apart." in console.export_text()


@pytest.mark.parametrize(
    "name",
    [name if name in QUICKEST else pytest.param(name, marks=pytest.mark.slow) for name in HONEST],
)
def test_every_charged_mechanism_can_be_looked_at(name: str) -> None:
    audit = audit_canaries(config_of(HONEST[name]), 20, how_long=BRIEFLY)
    rows = [row for one in audit.mechanisms for row in one.canaries]
    assert rows
    assert audit.word == "not refuted"
    assert all(row.run.guesses.canaries == 20 for row in rows)


def test_a_published_claim_is_looked_at_as_well() -> None:
    audit = audit_canaries(config_of(PUBLISHED), 20, how_long=BRIEFLY)
    assert not audit.mechanisms[0].claimed.charged
    assert [row.what for row in audit.mechanisms[0].canaries] == ["releases", "first release"]


@pytest.mark.parametrize(
    ("canaries", "said"),
    [(0, "canaries: 0 show nothing; ask for at least 10"), (100_000, "canaries: 100000 would take 298 GB of memory")],
)
def test_too_few_and_too_many_canaries(canaries: int, said: str) -> None:
    with pytest.raises(UserError, match=said):
        audited(canaries)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (Case("fedavg", QUICK["fedavg"]), "no claim: fedavg charges nothing, and no claim is published for it."),
        (
            Case("dp-fedavg", TRAINING, privacy={**PROMISE, "test_noise": True}),
            "no claim: privacy.test_noise makes the noise repeatable, so no guarantee holds.",
        ),
    ],
)
def test_a_config_without_a_claim_says_so(case: Case, why: str) -> None:
    audit = audit_canaries(config_of(case), CANARIES)
    assert (audit.word, audit.sentence) == ("no claim", why)


def test_canaries_are_no_attack_on_a_folder(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["audit", str(tmp_path), "--canaries", "100"])
    assert found.exit_code
    assert "leave it out" in str(found.exception)
