"""Makes text from another machine, or from a program's log, safe to print on a terminal."""

import re

MOST = 300  # characters of a sentence
LONGEST_NAME = 200  # characters
COLOURS = re.compile("\x1b\\[[0-9;]*m")


def printable(words: str, most: int = MOST) -> str:
    """One line, without control characters or changes of writing direction, which could move the cursor or mislead."""
    begin = COLOURS.sub("", words[: 10 * most])
    plain = "".join(letter if letter.isprintable() else " " for letter in begin)
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def is_short_line(name: str) -> bool:
    """Safe to show as it is."""
    return len(name) <= LONGEST_NAME and name.isprintable()
