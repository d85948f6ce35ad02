"""Where a call from Python shows how far it is: in a terminal, in a notebook, or, anywhere else, not at all.

Something is shown before torch is imported, which takes seconds.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from understudy import patience
from understudy.api.notebook import NotebookPlace, in_notebook

if TYPE_CHECKING:
    from understudy.runs.watching import Observer


@contextmanager
def shown(observer: "Observer | None", progress: bool | None) -> Iterator[Callable[[], "Observer"]]:
    """Gives what makes the observer, once torch may be imported. ``progress`` None: where somebody looks."""
    if observer is not None:
        yield lambda: observer
    elif progress is not False and in_notebook():
        with _waiting(NotebookPlace("Starting …")) as place:
            yield lambda: _on_page(place)
    elif progress or (progress is None and sys.stderr.isatty()):
        with _waiting(None):
            yield from _in_terminal()
    else:
        yield _quiet


@contextmanager
def _waiting(place: NotebookPlace | None) -> Iterator[NotebookPlace]:
    patience.doing("Loading torch")
    patience.begin(None if place is None else place.says)
    try:
        yield place  # type: ignore[misc]
    finally:
        patience.over()
        if place is not None:
            place.tidy()


def _on_page(place: NotebookPlace) -> "Observer":
    from understudy.api.notebook_progress import NotebookProgress

    return NotebookProgress(place)


def _in_terminal() -> Iterator[Callable[[], "Observer"]]:
    made = []

    def make() -> "Observer":
        from understudy.view.progress import RichProgress

        made.append(RichProgress())
        return made[0]

    try:
        yield make
    finally:
        for one in made:
            one.close()


def _quiet() -> "Observer":
    from understudy.runs.watching import Aloud

    return Aloud()
