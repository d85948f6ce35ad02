"""The papers' texts, where this machine has them: numbers typed into the package are looked up there."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

TEXTS = Path(os.environ.get("UNDERSTUDY_PAPERS", "/nowhere"))


def numbers_of(file: str) -> set[float]:
    """Every number in a paper's text; the test that asks is skipped where it is absent."""
    path = TEXTS / file
    if not path.is_file():
        pytest.skip(f"UNDERSTUDY_PAPERS names no folder with {file}")
    return {float(found) for found in re.findall(r"(?<![\d.])\d+(?:\.\d+)?", path.read_text(encoding="utf-8"))}


def missing_from(file: str, printed: Iterable[float]) -> list[float]:
    there = numbers_of(file)
    return [value for value in printed if value not in there]
