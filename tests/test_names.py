"""One name, one thing: a reader of this code learns every word once."""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "understudy"
FILES = sorted(PACKAGE.rglob("*.py"))


def module(path: Path) -> str:
    return ".".join(("understudy", *path.relative_to(PACKAGE).with_suffix("").parts))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def classes_and_aliases(path: Path) -> Iterator[str]:
    """Classes, and types that are given a name: ``Kit = Mapping[str, Tensor]``."""
    for node in parsed(path).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name[0].isupper() and not name.isupper():
                yield name


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("understudy"):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_no_class_and_no_type_has_the_name_of_another() -> None:
    times = Counter(name for path in FILES for name in classes_and_aliases(path))
    assert [name for name, count in times.items() if count > 1] == []


def test_nobody_imports_two_modules_of_one_name() -> None:
    known = {module(path) for path in FILES}
    for path in FILES:
        read = {module(path)} | (imported(path) & known)
        last = Counter(name.rpartition(".")[2] for name in read if not name.endswith("__init__"))
        twice = [name for name, count in last.items() if count > 1]
        assert twice == [], f"{module(path)} reads two modules called {twice[0]}"
