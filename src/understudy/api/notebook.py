"""A place on the page of a notebook that is written again and again. It needs IPython only where IPython runs."""

import sys
from html import escape
from typing import Any


def in_notebook() -> bool:
    """Whether a kernel runs this code: something that shows HTML, unlike IPython in a terminal."""
    shell = _shell()
    return shell is not None and hasattr(shell, "kernel")


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


class NotebookPlace:
    def __init__(self, text: str):
        from IPython.display import display

        self._shown: Any = display(_bundle(text, ""), raw=True, display_id=True)
        self._waiting = True  # only the wait has been told of so far

    def says(self, text: str) -> None:
        """About the wait."""
        self._shown.update(_bundle(text, ""), raw=True)

    def shows(self, text: str, html: str) -> None:
        self._waiting = False
        self._shown.update(_bundle(text, html), raw=True)

    def tidy(self) -> None:
        """Above an error that came first, nothing goes on "Starting …"."""
        if self._waiting:
            self.says("")


def _bundle(text: str, html: str) -> dict[str, str]:
    return {"text/plain": text, "text/html": html or f"<span>{escape(text)}</span>"}
