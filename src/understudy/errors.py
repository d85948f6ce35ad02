"""What a person is told when something that they can mend is wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class UserError(Exception):
    """One sentence for the person who has to act: what was wrong, where, and what to write instead."""

    code: ClassVar[str] = "failed"  # all that a server hears of it if it happens at a site: federation/failures.py


TOO_LITTLE_MEMORY = "This machine has too little memory for that; take a smaller network, batch or data set."


def no_memory(error: BaseException) -> bool:
    """Torch has no exception of its own for it on the CPU."""
    words = ("allocate memory", "out of memory", "size calculation overflowed", "multiplication overflow")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def missing_extra(what: str, extra: str) -> UserError:
    """``what`` needs packages that come with an extra of ours."""
    return UserError(
        f"{what} needs further packages; in the clone of understudy: pip install -c constraints.txt '.[{extra}]'."
    )


_on_a_command_line = False


@contextmanager
def speaking_to_a_command_line() -> Iterator[None]:
    """Sentences name options as they are typed there; elsewhere they speak Python."""
    global _on_a_command_line
    before, _on_a_command_line = _on_a_command_line, True
    try:
        yield
    finally:
        _on_a_command_line = before


def option(name: str, in_python: str = "") -> str:
    """``--out`` on a command line, ``out`` in Python; ``in_python`` where that is more than the name."""
    return f"--{name}" if _on_a_command_line else in_python or name


def resuming() -> str:
    return option("resume", "resume=True")
