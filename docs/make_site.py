"""Builds the documentation site from README, docs/ and the pages beside them: ``make docs`` writes it to site/.

Pages are written for GitHub and linked as files there. Here they are copied to build/docs with links to where each page
goes in the site. A link to a file that is not part of it (code) becomes plain text, or leads to the repository where
UNDERSTUDY_SOURCE holds its address (https://HOST/OWNER/NAME). Navigation and looks are in docs/site.toml. Nothing is
fetched while building or reading.
"""

import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PLAN = ROOT / "docs" / "site.toml"
BESIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")  # of the root
CARRIED = (".md", ".png", ".json", ".js", ".css")  # of docs/
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")
CODE = re.compile(r"`[^`\n]+`")
HEADING = re.compile(r"^# (.+)$", re.MULTILINE)


def site_files() -> list[str]:
    """What the site is made from, as paths in the repository."""
    found = [file for file in (ROOT / "docs").rglob("*") if file.suffix in (*CARRIED, ".ipynb")]
    return [*BESIDE, *sorted(file.relative_to(ROOT).as_posix() for file in found)]


def place(file: str) -> str:
    """Where a file of the repository goes among the site's pages."""
    if file in BESIDE:
        return "index.md" if file == "README.md" else file.lower()
    inside = file.removeprefix("docs/")
    folder, _, name = inside.rpartition("/")
    name = "index.md" if name == "README.md" else name.replace(".ipynb", ".md")
    return f"{folder}/{name}" if folder else name


def for_the_site(text: str, file: str, known: Sequence[str], source: str = "") -> str:
    """The page ``file`` with links as the site needs them; code stays as it is."""

    def elsewhere(link: re.Match[str]) -> str:
        picture, words, path, anchor = link.groups()
        target = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
        if target in known:
            there = posixpath.relpath(place(target), posixpath.dirname(place(file)) or ".")
            return f"{picture}[{words}]({there}{anchor or ''})"
        return f"[{words}]({source.rstrip('/')}/blob/main/{target})" if source else words

    parts = re.split(r"(^ *```.*?^ *```$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(
        part if part.lstrip().startswith("```") else CODE.sub(_without_escapes, LINK.sub(elsewhere, part))
        for part in parts
    )


def _without_escapes(code: re.Match[str]) -> str:
    r"""`a \| b` in a cell: GitHub drops the backslash, the site tool would show it."""
    return code[0].replace("\\|", "|")


def notebook_page(notebook: Mapping[str, Any], file: str) -> str:
    """A notebook to read; its outputs are not kept."""
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    head, *rest = parts
    return "\n\n".join([head, f"*To run it: `{file}` in the clone. A test runs it too.*", *rest]) + "\n"


def page_of(file: str) -> str:
    text = (ROOT / file).read_text("utf-8")
    return notebook_page(json.loads(text), file) if file.endswith(".ipynb") else with_heading(text, file)


def with_heading(text: str, file: str) -> str:
    """A study's table.md has none: it is named for its folder, as several are called table."""
    return text if HEADING.search(text) else f"# {Path(file).parent.name}: {Path(file).stem}\n\n{text}"


def title_of(file: str) -> str:
    found = HEADING.search(page_of(file))
    return re.sub(r"[`*]", "", found[1]) if found else Path(file).stem


def entries(name: str, files: Sequence[str]) -> list[tuple[str, str]]:
    """Titles and places of one page, or of a folder's pages, the one that introduces them first."""
    if not name.endswith("/"):
        return [(title_of(name), place(name))]
    pages = [file for file in files if file.startswith(name) and file.endswith((".md", ".ipynb"))]
    return [(title_of(file), place(file)) for file in sorted(pages, key=_introducing_first)]


def _introducing_first(file: str) -> tuple[bool, list[Any]]:
    """Then by name, numbers by size: fig2 before fig12."""
    parts = [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", file.rpartition(".")[0])]
    return (file.count("/") > 2 or not file.endswith("README.md"), parts)


def navigation(plan: Mapping[str, Any], files: Sequence[str]) -> str:
    """As the site tool reads it: TOML on one line."""
    sections = []
    for heading, names in plan.items():
        if isinstance(names, str):
            sections.append(_pair(heading, json.dumps(place(names))))
            continue
        found = [entry for name in names for entry in entries(name, files)]
        listed = [
            json.dumps(there)
            if there.count("/") == 1 and there.endswith("/index.md")
            else _pair(title, json.dumps(there))
            for title, there in found
        ]
        sections.append(_pair(heading, f"[{', '.join(listed)}]"))
    return f"nav = [{', '.join(sections)}]"


def _pair(title: str, value: str) -> str:
    return f"{{ {json.dumps(title, ensure_ascii=False)} = {value} }}"


def gather(into: Path) -> Path:
    """Copies everything to ``into`` and gives the site tool's config there."""
    shutil.rmtree(into, ignore_errors=True)
    files, source = site_files(), os.environ.get("UNDERSTUDY_SOURCE", "")
    for file in files:
        there = into / "pages" / place(file)
        there.parent.mkdir(parents=True, exist_ok=True)
        if file.endswith((".md", ".ipynb")):
            there.write_text(for_the_site(page_of(file), file, files, source), "utf-8")
        else:
            shutil.copyfile(ROOT / file, there)
    plan = PLAN.read_text("utf-8")
    own = f'[project]\ndocs_dir = "pages"\nsite_dir = "site"\n{navigation(tomllib.loads(plan)["navigation"], files)}\n'
    config = into / "zensical.toml"
    config.write_text(plan.replace("[project]\n", own), "utf-8")
    return config


def main(into: Path = ROOT / "site", workshop: Path = ROOT / "build" / "docs") -> None:
    config = gather(workshop)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", config.name]
    if code := subprocess.run(command, cwd=workshop, check=False, env={**os.environ, "NO_COLOR": "1"}).returncode:
        sys.exit(code)
    shutil.rmtree(into, ignore_errors=True)
    shutil.move(workshop / "site", into)
    (into / "404.html").unlink()  # it looks for its style at the root of a server; a server's own is better than that
    print(f"Open {into / 'index.html'}")


if __name__ == "__main__":
    main()
