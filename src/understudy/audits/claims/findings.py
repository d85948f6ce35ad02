"""What an audit of claims found, as plain values."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from understudy.audits.claims.one_run import OneRun
from understudy.audits.claims.verdict import RowVerdict

ClaimWord = Literal["refuted", "not refuted", "no claim"]


@dataclass(frozen=True)
class ClaimedMechanism:
    """A mechanism as the config uses it in one round."""

    task: str
    mechanism: str
    charged: bool  # false: published, and never charged
    rate: float  # q
    noise: float  # σ, in units of the clip
    steps: int  # T
    clip: float  # C
    delta: float
    epsilon: float  # of one round, by loss distributions


@dataclass(frozen=True)
class JudgedRow:
    """One pair at one level, with the statistic that the pilot chose."""

    pair: str
    what: str  # releases, first release, or reply
    statistic: str
    rate: float  # of the releases that were tested; the largest
    steps: int
    epsilon: float  # that these releases claim
    runs: int  # per arm, in the test half
    verdict: RowVerdict
    confirmed: RowVerdict | None = None  # the second pass, with fresh noise and the same cuts

    @property
    def refuted(self) -> bool:
        return self.verdict.refuted and self.confirmed is not None and self.confirmed.refuted

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "refuted": self.refuted}


@dataclass(frozen=True)
class CanaryRow:
    """One run with many canaries: what guesses of their coins showed."""

    what: str  # releases, or first release
    rate: float  # of the releases that were looked at; the largest
    steps: int  # how many of them
    epsilon: float  # that these releases claim
    whole: bool  # the run went on to its end, whether or not all of its releases were looked at
    run: OneRun
    confirmed: OneRun | None = None  # the second run, with fresh noise and fresh coins

    @property
    def refuted(self) -> bool:
        return self.run.refuted and self.confirmed is not None and self.confirmed.refuted

    @property
    def sentence(self) -> str:
        guesses = self.run.guesses
        return (
            f"{guesses.canaries} canaries in one run, by {self.what}, {guesses.right} of {guesses.made} guesses right"
        )

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "refuted": self.refuted}


@dataclass(frozen=True)
class AuditedMechanism:
    claimed: ClaimedMechanism
    rows: tuple[JudgedRow, ...]
    left_out: Mapping[str, str]  # pairs or releases that could not be tested, and why
    canaries: tuple[CanaryRow, ...] = ()

    @property
    def word(self) -> ClaimWord:
        found = [row.refuted for row in self.rows] + [row.refuted for row in self.canaries]
        return "refuted" if any(found) else "not refuted"

    @property
    def reach(self) -> float:
        """The largest ε that these runs could have shown."""
        reached = [row.verdict.ceiling for row in self.rows] + [row.run.cap for row in self.canaries]
        return max(reached, default=0.0)

    @property
    def sentence(self) -> str:
        shown = [row for row in self.canaries if row.refuted]
        if shown:
            return f"refuted ({max(shown, key=lambda row: row.run.epsilon_lower).sentence})"
        if self.word == "refuted":
            best = max((row for row in self.rows if row.refuted), key=_persuades)
            note = f"; {best.verdict.note}" if best.verdict.note else ""
            return f"refuted ({best.pair}, by {best.what}, {best.statistic}{note})"
        return f"not refuted (these runs could have shown up to ε = {self.reach:.1f})"

    def as_dict(self) -> dict[str, Any]:
        return {
            "claimed": asdict(self.claimed),
            "verdict": self.word,
            "sentence": self.sentence,
            "reach": self.reach,
            "rows": [row.as_dict() for row in self.rows],
            "canaries": [row.as_dict() for row in self.canaries],
            "left_out": dict(self.left_out),
        }


@dataclass(frozen=True)
class ClaimsAudit:
    """Of one config."""

    method: str
    mechanisms: tuple[AuditedMechanism, ...]
    why_none: str = ""  # one sentence, where there is no claim
    level: float = 0.01
    seconds: float = 0.0
    not_tested: tuple[str, ...] = ()  # what else the config releases, one sentence each

    @property
    def word(self) -> ClaimWord:
        if not self.mechanisms:
            return "no claim"
        return "refuted" if any(one.word == "refuted" for one in self.mechanisms) else "not refuted"

    @property
    def sentence(self) -> str:
        if not self.mechanisms:
            return f"no claim: {self.why_none}"
        if self.word == "refuted":
            return next(one.sentence for one in self.mechanisms if one.word == "refuted")
        return f"not refuted (these runs could have shown up to ε = {max(one.reach for one in self.mechanisms):.1f})"

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which has no infinity."""
        found = {
            "method": self.method,
            "verdict": self.word,
            "sentence": self.sentence,
            "level": self.level,
            "seconds": self.seconds,
            "not_tested": list(self.not_tested),
            "mechanisms": [one.as_dict() for one in self.mechanisms],
        }
        return _finite(found)  # type: ignore[no-any-return]


def _persuades(row: JudgedRow) -> tuple[bool, float]:
    """A record that the data type can hold before one that it cannot."""
    return not row.verdict.note, row.verdict.epsilon_lower


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
