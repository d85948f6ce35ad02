"""What a run's synthetic sets are worth, as measured by ``measure_quality`` and kept in ``quality.json``."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from understudy.audits.likeness import Likeness
from understudy.errors import UserError
from understudy.reading import json_of, text_of
from understudy.runs.compare import last_counted
from understudy.runs.folder import RunFolder

QUALITY_FILE = "quality.json"
SCHEMA = 1


@dataclass(frozen=True)
class LearntFrom:
    """The score on unseen records of a network that learnt from some set; None if it diverged."""

    records: int
    score: float | None


@dataclass(frozen=True)
class Quality:
    network: str  # in whose features
    score: str  # accuracy, or macro F1 if a record has several labels
    steps: int
    unseen: int  # records scored on
    synthetic: LearntFrom
    as_many: LearntFrom | None  # real records; None: there are no more of them than of synthetic ones
    all_records: LearntFrom
    compared: int  # synthetic images whose features were compared
    against: int  # with as many records
    images_like: Likeness | None  # None: too few
    unseen_like: Likeness | None  # the same for as many unseen records
    rounds: int  # that the run had then
    run: str  # its id
    seconds: float = 0.0


def write_quality(folder: Path, found: Quality) -> None:
    RunFolder(folder).write_json(QUALITY_FILE, {"schema": SCHEMA, **asdict(found)})


def read_quality(folder: Path) -> Quality | None:
    """None: not measured, or the run has gone on since."""
    file, run = folder / QUALITY_FILE, RunFolder(folder)
    if not file.exists():
        return None
    content = json_of(text_of(file), str(file))
    try:
        found = _quality(content)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"{file} is damaged or of another version; delete it, and it is measured again.") from None
    return found if found.rounds == last_counted(run.metrics()) and found.run == run.id else None


def _quality(content: Mapping[str, Any]) -> Quality:
    if content["schema"] != SCHEMA:
        raise ValueError("another version")
    plain = {key: value for key, value in content.items() if key != "schema"}
    learnt = {
        key: None if content[key] is None else LearntFrom(**content[key])
        for key in ("synthetic", "as_many", "all_records")
    }
    alike = {key: None if content[key] is None else Likeness(**content[key]) for key in ("images_like", "unseen_like")}
    return Quality(**{**plain, **learnt, **alike})
