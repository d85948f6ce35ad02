"""What pyproject.toml cannot say: the README and the links as a package index shows them.

The README's links lead to files beside it, which an index does not have. UNDERSTUDY_SOURCE holds the address of the
repository (https://HOST/OWNER/NAME); its links then lead to the files of this version there, at the tag vVERSION.
Without an address, links become plain text and pictures are left out.
"""

import os
import re
from pathlib import Path

HERE = Path(__file__).parent
RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)\s]+)\)")
FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def version() -> str:
    found = re.search(r'^__version__ = "(.+)"$', (HERE / "src/understudy/__init__.py").read_text("utf-8"), re.MULTILINE)
    assert found is not None, "src/understudy/__init__.py has no line __version__ = ..."
    return found[1]


def for_an_index(text: str, source: str, tag: str) -> str:
    """``text`` in Markdown, without links to files beside it; code blocks stay as they are."""

    def elsewhere(link: re.Match[str]) -> str:
        picture, words, path = link.groups()
        if source:
            return f"{picture}[{words}]({source.rstrip('/')}/{'raw' if picture else 'blob'}/{tag}/{path})"
        return "" if picture else words

    parts = FENCED.split(text)
    return "".join(part if part.startswith("```") else RELATIVE.sub(elsewhere, part) for part in parts)


def urls(source: str, tag: str) -> dict[str, str]:
    changes = f"{source.rstrip('/')}/blob/{tag}/CHANGELOG.md"
    return {"Source": source, "Issues": f"{source.rstrip('/')}/issues", "Changelog": changes} if source else {}


if __name__ == "__main__":
    from setuptools import setup

    source, tag = os.environ.get("UNDERSTUDY_SOURCE", ""), f"v{version()}"
    setup(
        long_description=for_an_index((HERE / "README.md").read_text("utf-8"), source, tag),
        long_description_content_type="text/markdown",
        project_urls=urls(source, tag),
    )
