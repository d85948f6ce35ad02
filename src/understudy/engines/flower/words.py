"""Words that came from another machine, or from a program's log, made fit for a terminal."""

MOST = 300  # characters


def printable(words: str, most: int = MOST) -> str:
    """One line; no control characters, which could move the cursor or colour the rest."""
    cut = words[: most + 1]
    plain = "".join(letter if letter.isprintable() else " " for letter in cut)
    return plain if len(cut) <= most else plain[: most - 1] + "…"
