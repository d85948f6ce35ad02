"""What an experiment tracker does with a run; each has a file of its own beside this one."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.data.tiling import Tile

FOLDER = "tracking"  # in the run's folder: what trackers write there, and what they were told
PROJECT = "understudy"  # what trackers call a project or an experiment, if the user names none


@dataclass(frozen=True)
class TrackedRun:
    name: str  # for people
    id: str  # unique
    folder: Path
    words: Mapping[str, Any]  # its config


class Tracker(ABC):
    """Everything stays on this machine unless the user has set up the tracker to send it elsewhere."""

    @abstractmethod
    def begin(self, run: TrackedRun, known_as: str | None) -> str:
        """What the tracker knows the run as; a resumed run is ``known_as`` what this returned before."""

    @abstractmethod
    def numbers(self, round: int, values: Mapping[str, float]) -> None: ...

    @abstractmethod
    def picture(self, round: int, pixels: Tile) -> None:
        """The synthetic images that have left, in one picture."""

    @abstractmethod
    def file(self, path: Path) -> None:
        """A file of the run's folder, to keep beside the numbers."""

    @abstractmethod
    def end(self, finished: bool) -> None:
        """``finished``: after its last round; otherwise it stopped and may be resumed."""


def flat(words: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """A config by dotted names, as on the command line; lists stay whole."""
    found: dict[str, str] = {}
    for key, value in words.items():
        found |= flat(value, f"{above}{key}.") if isinstance(value, Mapping) else {f"{above}{key}": str(value)}
    return found
