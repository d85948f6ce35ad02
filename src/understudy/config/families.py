"""A method in one line: its family, what a client sends, the command that runs it. Most of it follows from what the
method declares and sends; the rest is in its registration."""

from collections.abc import Collection

from understudy.federation.registry import Entry

PICTURES, AVERAGING = "pictures travel, the server learns", "averaging"
PRIVATE = ", private"
# In the order of README's table; families not listed come last.
FAMILIES = (
    PICTURES,
    PICTURES + PRIVATE,
    "pictures teach, clients learn",
    AVERAGING,
    AVERAGING + PRIVATE,
    "a generator on the server",
    "personal models",
    "the server sees only sums",
    "no federation, to compare with",
)
WORDS = {"examples": "images", "weights": "its change", "keys": "keys"}  # kinds that are more than a few numbers
PROMISE = "'privacy={delta: 1e-4, records: 140}'"  # fits the preset digits-skewed


def family(entry: Entry, kinds: Collection[str], private: bool) -> str:
    """An add-on that declares no family adds a term, and belongs to the family it joins."""
    if entry.family:
        return entry.family
    return (PICTURES if "examples" in kinds else AVERAGING) + (PRIVATE if private else "")


def sent(entry: Entry, kinds: Collection[str], private: bool) -> str:
    """Per round, besides a few numbers; for an add-on, besides what its method sends."""
    words = entry.sends or " and ".join(said for kind, said in WORDS.items() if kind in kinds)
    return f"{words or 'nothing more'}{', at a stated ε' if private else ''}"


def command(entry: Entry, private: bool) -> str:
    """The command that runs it on a preset, with only the settings it requires."""
    name = f"with={entry.name}" if entry.role == "add-on" else f"method={entry.name}"
    needs = entry.needs or (PROMISE if private and entry.role == "method" else "")
    return f"understudy run digits-skewed {name} {needs}".rstrip()
