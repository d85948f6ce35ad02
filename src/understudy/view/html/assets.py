"""Scripts and styles of all pages: as files to be served, or inlined into a page that stands alone.

Both work under a strict Content-Security-Policy: there is no inline handler, no inline style and no eval; values reach
the scripts in JSON blocks. A page that stands alone carries such a policy itself: it cannot ask anybody for anything.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markupsafe import Markup

STATIC = Path(__file__).parent / "static"
STYLES = ("uplot/uPlot.min.css", "understudy.css")
SCRIPTS = ("uplot/uPlot.iife.min.js", "shared.js", "lines.js", "cells.js", "tables.js", "target.js", "start.js")


@dataclass(frozen=True)
class Asset:
    """Either ``text`` to inline or an address to load it from."""

    text: Markup | None = None
    address: str | None = None


@dataclass(frozen=True)
class Assets:
    styles: Sequence[Asset]
    scripts: Sequence[Asset]  # in this order
    policy: str = ""  # to put into the page; empty: the server sends its own


@cache
def inlined() -> Assets:
    """For a page that stands alone."""
    styles, scripts = ([Asset(text=_text(name)) for name in names] for names in (STYLES, SCRIPTS))
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(_digest(asset) for asset in scripts),
        "style-src": " ".join(_digest(asset) for asset in styles),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return Assets(styles, scripts, "; ".join(f"{name} {allowed}" for name, allowed in rules.items()))


def linked(prefix: str, more: Sequence[str] = ()) -> Assets:
    """For a page that is served, with ``STATIC`` below ``prefix``; ``more`` names further scripts, loaded last."""
    return Assets(
        [Asset(address=f"{prefix}/{name}") for name in STYLES],
        [Asset(address=f"{prefix}/{name}") for name in (*SCRIPTS, *more)],
    )


def _text(name: str) -> Markup:
    return Markup(STATIC.joinpath(name).read_text(encoding="utf-8"))


def _digest(asset: Asset) -> str:
    digest = hashlib.sha256(str(asset.text).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
