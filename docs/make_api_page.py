"""Writes docs/api.md: the public names of ``understudy``, with their signatures and docstrings as they are in the code.

Signatures are read from the source, so they say what the author wrote; a comment behind a field is its meaning, as with
settings. ``python docs/make_pages.py`` calls this too.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import understudy
from understudy.base_settings import comments_behind

PAGE = Path(__file__).parent / "api.md"
SECTIONS = {
    "api": "Runs",
    "runs": "Runs",
    "data": "Data",
    "models": "Networks",
    "federation": "Writing a method",
    "base_settings": "Writing a method",
    "errors": "Errors",
}
INTRODUCTION = """\
# Python

Everything that `import understudy as us` offers, from the docstrings. Names that a page or an example imports from
further inside (`understudy.learning.local`, …) are described in [the architecture](architecture.md).
"""


def api_page() -> str:
    sections: dict[str, list[str]] = {}
    for name in understudy.__all__:
        room = _home(name).split(".")[1]
        sections.setdefault(SECTIONS.get(room, "More"), []).append(name)
    order = sorted(sections, key=[*dict.fromkeys(SECTIONS.values()), "More"].index)
    parts = [INTRODUCTION.strip()]
    for section in order:
        parts.append(f"## {section}")
        parts += [described(name) for name in sections[section]]
    return "\n\n".join(parts) + "\n"


def _home(name: str) -> str:
    return str(inspect.getmodule(getattr(understudy, name)).__name__)  # type: ignore[union-attr]


def described(name: str) -> str:
    found = getattr(understudy, name)
    if found.__name__ != name:  # State is another name of Message
        return f"### us.{name}\n\nThe same class as [us.{found.__name__}](#us{found.__name__.lower()})."
    return class_described(found, name) if inspect.isclass(found) else _function(found, name)


def _function(found: object, name: str) -> str:
    node = _parsed(found)
    assert isinstance(node, ast.FunctionDef)
    return "\n\n".join([f"### us.{name}", _code(_signature(node, f"us.{name}")), *_prose(node)])


def class_described(found: type, name: str) -> str:
    node = _parsed(found)
    assert isinstance(node, ast.ClassDef)
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    parts = [f"### us.{name}", _code(f"class {name}({bases})" if bases else f"class {name}"), *_about(node, found)]
    fields = list(_fields(node, comments_behind(found)))
    if fields:
        parts.append("\n".join(["| field | type | meaning |", "|---|---|---|", *fields]))
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and not part.name.startswith("_"):
            parts += [f"#### {name}.{part.name}", _code(_signature(part, part.name)), *_prose(part)]
    return "\n\n".join(parts)


def _parsed(found: object) -> ast.stmt:
    return ast.parse(textwrap.dedent(inspect.getsource(found))).body[0]  # type: ignore[arg-type]


def _signature(node: ast.FunctionDef, name: str) -> str:
    """As written, on one line if it fits; a property has neither brackets nor self."""
    marks = {ast.unparse(mark) for mark in node.decorator_list}
    returned = f" -> {ast.unparse(node.returns)}".replace("'", "") if node.returns else ""
    if marks & {"property", "functools.cached_property", "cached_property"}:
        return f"{name}{returned.replace(' -> ', ': ')}"
    listed = [one for one in _arguments(node.args) if one not in ("self", "cls")]
    listed = listed[1:] if listed[:1] == ["/"] else listed  # nothing but self was before it
    line = f"{name}({', '.join(listed)}){returned}"
    if len(line) <= 100:
        return line
    return f"{name}(\n" + "".join(f"    {one},\n" for one in listed) + f"){returned}"


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    """One by one, with their defaults."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + [*arguments.defaults]
    for at, (one, default) in enumerate(zip(positional, defaults, strict=True), start=1):
        yield _argument(one, default)
        if at == len(arguments.posonlyargs):
            yield "/"
    if arguments.vararg:
        yield f"*{ast.unparse(arguments.vararg)}"
    elif arguments.kwonlyargs:
        yield "*"
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _argument(one, default)
    if arguments.kwarg:
        yield f"**{ast.unparse(arguments.kwarg)}"


def _argument(one: ast.arg, default: ast.expr | None) -> str:
    equals = " = " if one.annotation else "="
    later = isinstance(one.annotation, ast.Constant) and isinstance(one.annotation.value, str)  # in quotes
    written = f"{one.arg}: {one.annotation.value}" if later else ast.unparse(one)  # type: ignore[union-attr]
    return written + (f"{equals}{_value(default)}" if default is not None else "")


def _value(default: ast.expr) -> str:
    return (
        f'"{default.value}"'
        if isinstance(default, ast.Constant) and isinstance(default.value, str)
        else ast.unparse(default)
    )


def _fields(node: ast.ClassDef, meanings: dict[str, str]) -> Iterator[str]:
    for part in node.body:
        name, kind = (
            (ast.unparse(part.target), ast.unparse(part.annotation)) if isinstance(part, ast.AnnAssign) else ("_", "")
        )
        if not name.startswith("_") and "ClassVar" not in kind:
            cells = [f"`{name}`", f"`{kind}`", meanings.get(name, "")]
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells).rstrip() + " |"


def _about(node: ast.ClassDef, found: type) -> list[str]:
    """A class that is its file needs no docstring: the file has one."""
    module = inspect.getmodule(found)
    alone = module is not None and Path(str(module.__file__)).stem == node.name.lower()
    return _prose(node) or ([inspect.cleandoc(module.__doc__ or "")] if alone else [])


def _prose(node: ast.ClassDef | ast.FunctionDef) -> list[str]:
    """The docstring as Markdown: ``x`` is code, and so is `x`; examples are blocks of code, as typed."""
    parts = (ast.get_docstring(node) or "").split("\n\n")
    return [
        f"```pycon\n{part}\n```" if part.startswith(">>>") else re.sub(r"``(.+?)``", r"`\1`", part)
        for part in parts
        if part
    ]


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


if __name__ == "__main__":
    PAGE.write_text(api_page(), "utf-8")
    print(f"{len(understudy.__all__)} names in {PAGE.name}")
