"""Whole audits on the smallest configs: faults are refuted, honest mechanisms are not."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_checks import Case
from faulty_mechanisms import FAULTS
from rich.console import Console
from smallest import HONEST, MATCHING, PROMISE, PUBLISHED, TRAINING, config_of, exchange, faulty
from test_contract import QUICK

import understudy as us
from understudy.audits.claims.audit_claims import ClaimsAudit, HowLong, audit_claims
from understudy.audits.claims.pairs import OUTSIDE
from understudy.audits.claims.stored import FILE
from understudy.config.resolve import resolve
from understudy.config.schema import Config, Live
from understudy.errors import UserError
from understudy.view.claims_audited import print_claims_audit

NOTHING, CANCEL, COUNT, COPIES = "nothing against", "records that cancel", "1 against 2", "copies against"
BRIEFLY = HowLong(runs=60, workers=2)
AT_LENGTH = HowLong(runs=80, workers=2)


def looked_at(config: Config, *pairs: str, **words: Any) -> ClaimsAudit:
    return audit_claims(config, how_long=BRIEFLY, only=pairs or None, **words)


@pytest.mark.parametrize(
    ("fault", "pair", "statistic"),
    [
        ("noise reused over steps", NOTHING, "difference of consecutive releases"),
        ("divisor by the batch that came", COUNT, ""),
        ("noise from the run's seed", NOTHING, ""),
    ],
)
def test_a_planted_fault_is_refuted(fault: str, pair: str, statistic: str) -> None:
    with FAULTS[fault]():
        audit = looked_at(faulty(fault), pair)
    assert audit.word == "refuted"
    row = next(row for row in audit.mechanisms[0].rows if row.refuted)
    assert row.pair.startswith(pair)
    assert row.what != "reply"
    assert row.confirmed is not None
    assert statistic in row.statistic
    assert audit.sentence.startswith(f"refuted ({pair}")


def test_without_a_fault_it_is_not_refuted_and_the_reach_is_told() -> None:
    audit = looked_at(config_of(HONEST["dp-fedavg"]), NOTHING, COUNT)
    assert audit.sentence == f"not refuted (these runs could have shown up to ε = {audit.mechanisms[0].reach:.1f})"
    assert 1.9 < audit.mechanisms[0].reach < 2.4  # of 60 runs per arm, at a sixth of one per cent each
    rows = [(row.what, row.rate, row.steps) for row in audit.mechanisms[0].rows]
    assert rows[:3] == [("releases", 0.2, 16), ("first release", 0.2, 1), ("reply", 0.2, 16)]
    assert rows[3:] == [("releases", 1.0, 4), ("first release", 1.0, 1), ("reply", 1.0, 4)]
    claimed = audit.mechanisms[0].claimed
    assert (claimed.rate, claimed.noise, claimed.clip, claimed.steps, claimed.charged) == (0.2, 1.0, 1.0, 8, True)


def test_the_published_claim_of_feddm_is_refuted_by_a_record_that_no_pixel_can_hold() -> None:
    audit = looked_at(config_of(PUBLISHED), COPIES)
    (mechanism,) = audit.mechanisms
    assert not mechanism.claimed.charged
    assert (mechanism.claimed.rate, mechanism.claimed.noise, mechanism.claimed.steps) == (1.0, 1.0, 6)
    assert audit.word == "refuted"
    assert OUTSIDE in audit.sentence


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (Case("fedavg", QUICK["fedavg"]), "no claim: fedavg charges nothing, and no claim is published for it."),
        (  # its generator fails on made-up records, which is no reason for a refusal
            Case("understudy", {**QUICK["understudy"], "sound_only": True}),
            "no claim: understudy charges nothing, and no claim is published for it.",
        ),
        (
            Case("dp-fedavg", TRAINING, privacy={**PROMISE, "test_noise": True}),
            "no claim: privacy.test_noise makes the noise repeatable, so no guarantee holds.",
        ),
    ],
)
def test_a_config_without_a_claim_says_so(case: Case, why: str) -> None:
    audit = audit_claims(config_of(case))
    assert (audit.word, audit.sentence) == ("no claim", why)
    assert audit.as_dict()["mechanisms"] == []


PUBLIC = {"delta": 1e-5, "public": ["counts", "labels"]}
WITH_PUBLIC_FACTS = {
    "feddm": Case("feddm", MATCHING, privacy=PUBLIC),
    "fedlap-dp": Case(
        "fedlap-dp", {**QUICK["fedlap-dp"], "noise": 1.0, "labels": "owned", "weights": "size"}, privacy=PUBLIC
    ),
}


@pytest.mark.parametrize("name", ["feddm", pytest.param("fedlap-dp", marks=pytest.mark.slow)])
def test_counts_and_labels_that_are_public_refute_nothing(name: str) -> None:
    audit = looked_at(config_of(WITH_PUBLIC_FACTS[name]), "some records")
    assert audit.word == "not refuted"
    assert [row.what for row in audit.mechanisms[0].rows] == ["releases", "first release", "reply"]
    assert all(row.verdict.within_reach for row in audit.mechanisms[0].rows)


def test_an_interrupted_audit_goes_on_from_what_it_has(tmp_path: Path) -> None:
    class Stopped(Exception): ...

    def stop_in_the_test_half(doing: str, done: int, _: int) -> None:
        if "test" in doing and done > 3:
            raise Stopped

    config, once = config_of(HONEST["dp-fedavg"]), HowLong(runs=20, workers=1)
    with pytest.raises(Stopped):
        audit_claims(config, out=tmp_path, how_long=once, only=[COUNT], progress=stop_in_the_test_half)
    doings: set[str] = set()
    audit = audit_claims(
        config,
        out=tmp_path,
        how_long=once,
        only=[COUNT],
        progress=lambda doing, done, _: doings.add(doing * bool(done)),
    )
    assert {doing.rpartition(", ")[2] for doing in doings if doing} == {"test"}  # the pilot was there
    json.dumps(audit.as_dict(), allow_nan=False)
    assert (tmp_path / FILE).read_text() == ""  # finished: the next audit of this config has fresh noise


def test_pairs_that_cannot_be_run_are_listed_with_their_reason() -> None:
    two_steps = config_of(exchange("vae", epochs=2))
    audit = audit_claims(two_steps, how_long=HowLong(runs=20, workers=2), only=[COUNT, COPIES])
    assert [one.claimed.mechanism for one in audit.mechanisms] == ["Gaussian", "sampled Gaussian"]
    assert [{row.steps for row in one.rows if row.what == "releases"} for one in audit.mechanisms] == [{1}, {2}]
    for one in audit.mechanisms:
        assert "uint8" in one.left_out["copies against one unbounded record"]
    with pytest.raises(UserError, match="None of the pairs could be run: generator"):
        audit_claims(config_of(HONEST["vae, noised label counts"]), only=[COPIES])


def test_the_table_names_pair_and_word() -> None:
    console = Console(width=200, record=True)
    with FAULTS["divisor by the true count"]():
        print_claims_audit(looked_at(faulty("divisor by the true count"), COUNT), console)
    text = console.export_text()
    assert "dp-fedavg: refuted (1 against 2, all alike, by " in text
    assert "C = 1, σ = 1, q = 0.2, T = 8; claims ε = 4.58 at δ = 1e-05 per round" in text


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_every_planted_fault_is_refuted(fault: str) -> None:
    with FAULTS[fault]():
        assert audit_claims(faulty(fault), how_long=AT_LENGTH).word == "refuted"


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_no_honest_mechanism_is_refuted(name: str) -> None:
    audit = audit_claims(config_of(HONEST[name]), how_long=AT_LENGTH)
    assert audit.word == "not refuted"
    assert all(one.rows for one in audit.mechanisms)


def test_sums_of_columns_are_named_as_not_tested() -> None:
    x, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    scale: dict[str, Any] = {"scale": "federated", "ranges": [(-3, 3)] * 3}
    for privacy, told in (({**PROMISE, "delta": 1e-3}, True), (None, False)):
        data = us.Federation.from_arrays({"a": (x, y)}, **(scale if told else {"scale": "federated"}))
        config = resolve({"model": "softmax", "method": "fedavg", "privacy": privacy}, live=Live(data=data))
        audit = audit_claims(config)
        assert audit.word == "no claim"
        said = Console(record=True, width=300, file=StringIO())
        print_claims_audit(audit, said)
        shown = "Not tested, the sums of columns in the opening (data.scale: federated)" in said.export_text()
        assert (shown, len(audit.as_dict().get("not_tested", []))) == (told, int(told))
