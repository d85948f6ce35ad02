"""Words that came from another machine, or from a program's log, made fit for a terminal."""

import re

MOST = 300  # characters of a sentence
LONGEST_NAME = 200  # characters
COLOURS = re.compile("\x1b\\[[0-9;]*m")


def printable(words: str, most: int = MOST) -> str:
    """One line; no control characters and no change of direction, which could move the cursor or mislead the eye."""
    begin = COLOURS.sub("", words[: 10 * most])
    plain = "".join(letter if letter.isprintable() else " " for letter in begin)
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def is_short_line(name: str) -> bool:
    """Fit to be shown as it is."""
    return len(name) <= LONGEST_NAME and name.isprintable()
