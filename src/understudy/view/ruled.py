"""The look all tables share: a rule under the headings, words left, numbers right."""

from collections.abc import Callable, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

Columns = Mapping[str, str]  # by heading: words, whole (words that are never wrapped) or number


def ruled(gap: int = 2) -> Table:
    """``gap``: blanks between columns."""
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0), header_style="bold")


def words(table: Table, heading: str, *, whole: bool = False) -> None:
    """Words are wrapped where necessary; with ``whole`` never."""
    table.add_column(Text(heading), no_wrap=whole, overflow="fold", vertical="top")


def number(table: Table, heading: str) -> None:
    table.add_column(Text(heading, justify="right"), justify="right", no_wrap=True, vertical="top")


def filled(columns: Columns, rows: Sequence[Sequence[str]], gap: int = 2) -> Table:
    table = ruled(gap)
    for heading, kind in columns.items():
        number(table, heading) if kind == "number" else words(table, heading, whole=kind == "whole")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def print_rows(console: Console, columns: Columns, rows: Sequence[Sequence[str]]) -> None:
    print_table(console, lambda gap: filled(columns, rows, gap))


def print_table(console: Console, build: Callable[[int], Table]) -> None:
    """With room between the columns, or tighter if the window is narrow."""
    table = build(2)
    if Measurement.get(console, console.options.update(max_width=1000), table).maximum > console.width:
        table = build(1)
    console.print(table)


def print_notes(console: Console, notes: Sequence[str]) -> None:
    if notes:
        console.print()
    for note in notes:
        console.print(Text(note, style="dim"))
