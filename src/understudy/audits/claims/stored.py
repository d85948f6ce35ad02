"""What an interrupted audit has already: one line of JSON per pair and pass, under a digest of what was run."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy import __version__
from understudy.audits.claims.spread import Statistics
from understudy.config.schema import Config
from understudy.data.problem import Problem
from understudy.files import add_line, write_whole

FILE = "claims.jsonl"


def digest_of(config: Config, problem: Problem, *words: str | float | None) -> str:
    told = [config.words(__version__, problem, "eager", "cpu", ""), *words]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]


class StoredScores:
    """In ``folder``; None keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / FILE
        self._lines = self._read()
        self._mine: set[str] = set()  # asked for by this audit

    def get(self, digest: str, part: str) -> list[Statistics] | None:
        self._mine.add(digest)
        return self._lines.get((digest, part))

    def keep(self, digest: str, part: str, scores: list[Statistics]) -> None:
        self._lines[digest, part] = scores
        if self._path is not None:
            add_line(self._path, _line(digest, part, scores))

    def forget(self) -> None:
        """This audit is finished: the next one of the same config has fresh noise. Those of other configs stay."""
        if self._path is None or not self._path.exists():
            return
        others = {place: scores for place, scores in self._read().items() if place[0] not in self._mine}
        lines = [_line(digest, part, scores) for (digest, part), scores in others.items()]
        write_whole(self._path, b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    def _read(self) -> dict[tuple[str, str], list[Statistics]]:
        if self._path is None or not self._path.exists():
            return {}
        found = {}
        for line in self._path.read_bytes().splitlines():
            try:
                words: Mapping[str, Any] = json.loads(line)
                found[str(words["digest"]), str(words["part"])] = list(words["scores"])
            except (ValueError, KeyError, TypeError):  # a line that was cut off is run again
                continue
        return found


def _line(digest: str, part: str, scores: Sequence[Statistics]) -> dict[str, Any]:
    return {"digest": digest, "part": part, "scores": [dict(one) for one in scores]}
