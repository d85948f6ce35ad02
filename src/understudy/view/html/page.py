"""Templates into pages. Everything is escaped unless a template says otherwise, and none does for what it is given."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape


def render(template: str, **values: Any) -> str:
    """A template of this package, or of ``understudy.web``, which may extend these."""
    return environment().get_template(template).render(**values)


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("understudy.view.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["json_block"] = json_block
    made.filters["zip"] = zip
    made.filters["coded"] = coded
    return made


def coded(sentence: str) -> Markup:
    """What stands in backticks is code, as in the sentences of commands, and what stands between two stars is bold."""
    return _marked(sentence, "`", "<code>{}</code>", lambda part: _marked(part, "**", "<strong>{}</strong>", escape))


def _marked(text: str, mark: str, inside: str, otherwise: Callable[[str], Markup]) -> Markup:
    parts = text.split(mark)
    if len(parts) % 2 == 0:  # a mark without its partner
        return otherwise(text)
    return Markup("").join(Markup(inside).format(part) if at % 2 else otherwise(part) for at, part in enumerate(parts))


def json_block(value: Any) -> Markup:
    """For the inside of ``<script type="application/json">``: nothing in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter, instead in (
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("&", "\\u0026"),
        ("\u2028", "\\u2028"),
        ("\u2029", "\\u2029"),
    ):
        text = text.replace(letter, instead)
    return Markup(text)
