"""Every link of the documentation leads to a file of the clone, and to a heading where it names one."""

from pathlib import Path

import pytest

from written_pages import ROOT, anchors, dead_links, pages


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_or_picture_leads_nowhere(page: Path) -> None:
    assert dead_links(page) == []


def test_anchors_are_those_that_github_makes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# What held, and `what` did *not*\n\n## σ at the end?\n\n## Twice\n\n## Twice\n\n```\n# no\n```\n")
    assert anchors(page) == {"what-held-and-what-did-not", "σ-at-the-end", "twice", "twice-1"}


def test_what_is_not_there_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "there.md").write_text("# Here\n")
    (tmp_path / "curve.png").write_bytes(b"")
    page = tmp_path / "README.md"
    good = "[a](docs/there.md#here) ![b](curve.png) [`c`](https://example.org/x) [d](#end)\n\n# End\n"
    page.write_text(f"{good}\n`[code](no.md)`\n\n    [code](no.md)\n")
    assert dead_links(page, tmp_path) == []
    wrong = "[a](docs/there.md#gone) [b](docs/gone.md) ![c](gone.png) [d](#gone) [e](docs) [f](../outside.md)"
    worse = tmp_path / "worse.md"
    worse.write_text(wrong)
    (tmp_path.parent / "outside.md").write_text("# Outside\n")
    assert dead_links(worse, tmp_path) == [
        "docs/there.md#gone",
        "docs/gone.md",
        "gone.png",
        "#gone",
        "docs",
        "../outside.md",
    ]
