"""Parts of an experiment that is worked out directly, kept as they are done, so that one that was stopped goes on."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.errors import UserError
from understudy.files import write_whole
from understudy.reading import json_of, text_of
from understudy.runs.made_by import made_by


@dataclass(frozen=True)
class KeptPart:
    result: Any  # as JSON has it
    made_by: str  # version and commit of the code that worked it out


def part(folder: Path, of: Mapping[str, Any], work: Callable[[], Any]) -> KeptPart:
    """What ``work`` gave earlier for the same ``of``, or gives now. A file that is not as it was written is not
    trusted: the part is done again."""
    file = folder / f"{_digest(of)}.json"
    if (found := _there(file)) is not None:
        return found
    done = KeptPart(json.loads(json.dumps(work())), made_by())
    folder.mkdir(parents=True, exist_ok=True)
    words = {"of": of, "made_by": done.made_by, "sha256": _digest(done.result), "result": done.result}
    write_whole(file, (json.dumps(words, default=list) + "\n").encode())
    return done


def _there(file: Path) -> KeptPart | None:
    try:
        words = json_of(text_of(file), str(file)) if file.exists() else None
    except UserError:
        return None
    if not isinstance(words, dict) or words.get("sha256") != _digest(words.get("result")):
        return None
    return KeptPart(words["result"], str(words.get("made_by", "")))


def _digest(words: Any) -> str:
    return hashlib.sha256(json.dumps(words, sort_keys=True, default=list).encode()).hexdigest()[:20]
