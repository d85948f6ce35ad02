"""The page on Python says what the code says, and is up to date."""

from pathlib import Path

import understudy
from make_api_page import api_page, class_described

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


class Drawer:
    """Holds ``things``."""

    width: int  # in millimetres
    open: bool = False
    _key: int = 0

    def put(self, thing: "str", /, where: str = "front", *, again: bool = False) -> "Drawer":
        """Puts ``thing`` there.

        >>> Drawer().put("spoon")
        <Drawer>
        """
        return self

    @property
    def full(self) -> bool:
        return False

    def _rattle(self) -> None: ...


def test_a_class_is_described_by_its_fields_and_methods_as_written() -> None:
    # Worked by hand: no self, one pair of backticks, no brackets behind a property, nothing that begins with _.
    assert class_described(Drawer, "Drawer").splitlines() == [
        "### us.Drawer",
        "",
        "```python",
        "class Drawer",
        "```",
        "",
        "Holds `things`.",
        "",
        "| field | type | meaning |",
        "|---|---|---|",
        "| `width` | `int` | in millimetres |",
        "| `open` | `bool` | |",
        "",
        "#### Drawer.put",
        "",
        "```python",
        'put(thing: str, /, where: str = "front", *, again: bool = False) -> Drawer',
        "```",
        "",
        "Puts `thing` there.",
        "",
        "```pycon",
        '>>> Drawer().put("spoon")',
        "<Drawer>",
        "```",
        "",
        "#### Drawer.full",
        "",
        "```python",
        "full: bool",
        "```",
    ]


def test_the_page_is_what_the_docstrings_give() -> None:
    assert PAGE.read_text() == api_page(), "api.md is out of date; run python docs/make_pages.py"


def test_every_public_name_has_its_heading() -> None:
    lines = PAGE.read_text().splitlines()
    assert [name for name in understudy.__all__ if f"### us.{name}" not in lines] == []


def test_runs_come_first_and_every_name_has_a_section() -> None:
    headings = [line for line in PAGE.read_text().splitlines() if line.startswith("## ")]
    assert headings == ["## Runs", "## Data", "## Networks", "## Writing a method", "## Errors"]
