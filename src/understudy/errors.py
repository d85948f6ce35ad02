"""Errors that the user can do something about."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class UserError(Exception):
    """One sentence for the person who has to act: what was wrong, where, and what to write instead.

    >>> import understudy as us
    >>> try:
    ...     us.run("digits-skewed", method="fedvag")
    ... except us.UserError as error:
    ...     print(str(error)[:54])
    There is no method 'fedvag'. Did you mean 'fedavg'? Th
    """

    code: ClassVar[str] = "failed"  # all that a server learns of an error at a site: federation/failures.py


TOO_LITTLE_MEMORY = "This machine has too little memory for that; use a smaller network, batch or data set."


def no_memory(error: BaseException) -> bool:
    """On the CPU, torch has no exception class for it."""
    words = ("allocate memory", "out of memory", "size calculation overflowed", "multiplication overflow")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def missing_extra(what: str, extra: str) -> UserError:
    """``what`` needs packages from one of our extras."""
    return UserError(
        f"{what} needs more packages; in the clone of understudy: pip install -c constraints.txt '.[{extra}]'."
    )


_on_a_command_line = False


@contextmanager
def speaking_to_a_command_line() -> Iterator[None]:
    """Messages name options as typed on the command line; elsewhere as written in Python."""
    global _on_a_command_line
    before, _on_a_command_line = _on_a_command_line, True
    try:
        yield
    finally:
        _on_a_command_line = before


def option(name: str, in_python: str = "") -> str:
    """``--out`` on a command line, ``out`` in Python; ``in_python`` if Python needs more than the name."""
    return f"--{name}" if _on_a_command_line else in_python or name


def command(words: str, in_python: str) -> str:
    """``understudy run`` in backticks on a command line, and the call that does the same in Python."""
    return f"`understudy {words}`" if _on_a_command_line else in_python


def in_python(words: str) -> str:
    """Only said to somebody who calls from Python."""
    return "" if _on_a_command_line else words


def resuming() -> str:
    return option("resume", "resume=True")
