"""``python -m understudy.new method NAME``, in a clone: the skeleton of a method, with its test, its settings in the
contract suite and a planted bug. With ``--term`` it is a term of the averaging family.
"""

import argparse
import keyword
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from understudy.errors import UserError
from understudy.skeletons import METHOD, METHOD_BUG, METHOD_TEST, QUICK, TERM, TERM_BUG, TERM_TEST

CONTRACT, BUGS = "tests/contract/test_contract.py", "tests/mutants/averaging.toml"
NEEDED = ("src/understudy/methods", "tests/methods", CONTRACT, BUGS)
GOOD_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
IMPORTS = re.compile(r"(^from understudy\..*\n)+", re.MULTILINE)  # the place of the new one depends on its name
TABLE = re.compile(r"^QUICK: .*?^(?=\})", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Skeleton:
    name: str
    term: bool

    @property
    def module(self) -> str:
        return self.name.replace("-", "_")

    @property
    def title(self) -> str:
        """The prefix of its class names."""
        return "".join(part.capitalize() for part in self.name.split("-"))

    def fill(self, text: str) -> str:
        filled = text.replace("NAME", self.name).replace("MODULE", self.module).replace("Title", self.title)
        return IMPORTS.sub(lambda lines: "".join(sorted(lines[0].splitlines(keepends=True))), filled)

    def new_files(self) -> dict[str, str]:
        method, test = (TERM, TERM_TEST) if self.term else (METHOD, METHOD_TEST)
        return {
            f"src/understudy/methods/{self.module}.py": self.fill(method),
            f"tests/methods/test_{self.module}.py": self.fill(test),
        }

    def changed_files(self, root: Path) -> dict[str, str]:
        suite, bugs = (root / CONTRACT).read_text(), (root / BUGS).read_text()
        place = TABLE.search(suite)
        if place is None:
            raise UserError(f"{CONTRACT} no longer has a table QUICK; tell src/understudy/new.py where settings go.")
        bug = self.fill(TERM_BUG if self.term else METHOD_BUG)
        return {CONTRACT: suite[: place.end()] + self.fill(QUICK) + suite[place.end() :], BUGS: bugs.rstrip() + bug}


def write(skeleton: Skeleton, root: Path) -> list[str]:
    """Writes the files and returns their paths, relative to the clone."""
    _check(skeleton, root)
    texts = {**skeleton.changed_files(root), **skeleton.new_files()}
    for path, text in texts.items():
        (root / path).write_text(text)
    return sorted(texts)


def _check(skeleton: Skeleton, root: Path) -> None:
    name, title = skeleton.name, skeleton.title
    if not all((root / path).exists() for path in NEEDED):
        raise UserError("This is not a clone of understudy; change to its folder, the one with the Makefile.")
    if not GOOD_NAME.fullmatch(name) or keyword.iskeyword(skeleton.module):
        raise UserError(f"'{name}' cannot be a method's name; use lower-case letters and digits, such as fed-new2.")
    there = re.compile(rf'@(method|add_on|term)\(\s*"{name}"|^class {title}(Settings|Term)?\b', re.MULTILINE)
    taken = [file for file in sorted((root / "src/understudy").rglob("*.py")) if there.search(file.read_text())]
    taken += [root / f"src/understudy/methods/{skeleton.module}", *(root / path for path in skeleton.new_files())]
    for path in taken:
        if path.exists():
            raise UserError(f"'{name}' is taken by {path.relative_to(root)}; choose another name.")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m understudy.new", description="The skeleton of a method.")
    parser.add_argument("what", choices=["method"])
    parser.add_argument("name", help="as typed in a config")
    parser.add_argument("--term", action="store_true", help="a term of the averaging family")
    given = parser.parse_args()
    try:
        written = write(Skeleton(given.name, given.term), Path.cwd())
    except UserError as error:
        sys.exit(str(error))
    print("\n".join(["Written:", *(f"  {path}" for path in written)]))
    name, add = given.name, "understudy run digits-skewed --out runs"
    print(f"""Fill them in, then:
  pytest tests/methods/test_{name.replace("-", "_")}.py
  pytest tests/contract/test_contract.py -k "{name}-" -m "not slow"
  {add}/{name} method={name} && {add}/fedavg && understudy compare runs/{name} runs/fedavg
  python docs/make_pages.py && make test && make mutants ARGS={name}""")


if __name__ == "__main__":
    main()
