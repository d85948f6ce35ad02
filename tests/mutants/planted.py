"""The list of planted bugs: data in the .toml files beside this one, a table for each.

[scaffold-correction-sign]
file = "methods/scaffold.py"              # below src/understudy
old = 'c - c_k, pieces'                   # stands there exactly once
new = 'c_k - c, pieces'
tests = ["methods/test_scaffold.py"]      # below tests: files, or single tests as file.py::test_name
about = "the correction of a step has the wrong sign"
"""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


class Stale(Exception):
    """A bug that cannot be planted any more, or whose tests are gone."""


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    about: str

    def planted(self, root: Path = ROOT) -> str:
        """The text of its file with the bug in it."""
        path = root / "src" / "understudy" / self.file
        text = path.read_text() if path.exists() else ""
        times = text.count(self.old)
        if times != 1:
            raise Stale(f"{self.name}: its old text stands {times} times in {self.file}, not once: {self.old!r}")
        if self.old == self.new:
            raise Stale(f"{self.name}: its new text is the old one")
        return text.replace(self.old, self.new)

    def check_tests(self, root: Path = ROOT) -> None:
        if not self.tests:
            raise Stale(f"{self.name}: no test is named")
        for test in self.tests:
            file, _, function = test.partition("::")
            path = root / "tests" / file
            text = path.read_text() if path.exists() else ""
            wanted = rf"^def {function}\(" if function else "^def test_"
            if not re.search(wanted, text, re.MULTILINE):
                raise Stale(f"{self.name}: there is no test {test}")


def load(folder: Path = HERE) -> list[Mutant]:
    found: dict[str, Mutant] = {}
    for path in sorted(folder.glob("*.toml")):
        for name, words in tomllib.loads(path.read_text()).items():
            if name in found:
                raise Stale(f"{name}: two bugs have this name")
            found[name] = Mutant(name, **{**words, "tests": tuple(words["tests"])})
    return list(found.values())


def named(mutants: Sequence[Mutant], wanted: Sequence[str]) -> list[Mutant]:
    """Those whose names begin with one of the words; all of them without any."""
    unknown = [word for word in wanted if not any(mutant.name.startswith(word) for mutant in mutants)]
    if unknown:
        raise Stale(f"no bug has a name that begins with '{unknown[0]}'")
    return [mutant for mutant in mutants if not wanted or mutant.name.startswith(tuple(wanted))]
