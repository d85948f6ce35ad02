"""The demo as people read it: the data, then one table, three pictures and what they show."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from understudy.data.federation import Federation
from understudy.runs.compare import Row, compare, rounds_to
from understudy.runs.folder import RunFolder
from understudy.view.curves import draw_curves
from understudy.view.sheet import draw_sheets
from understudy.view.split import draw_split
from understudy.view.tables import print_comparison

INTRO = """\
Four clients want one model that reads digits, and no picture may leave home. Client 0 has only 0 and 1, client 1
only 2, 3 and 4, client 2 only 5 and 6, client 3 only 7, 8 and 9: 4000 real MNIST images in all, 1000 more to test."""


def print_story(folders: Mapping[str, Path], data: Federation, out: Path, console: Console) -> None:
    """``folders`` of the finished runs, by act; pictures go into ``out``."""
    one_exchange = compare([folders["feddm"]], after=(1,))[0].accuracy_after[1]
    rows = compare(list(folders.values()), target=one_exchange, after=(1, 3))
    console.print()
    print_comparison(rows, console)
    console.print()
    for sentence in story(rows, folders, one_exchange or 0.0):
        console.print(sentence, soft_wrap=True)
    console.print()
    for what, file in draw_pictures(folders, data, out).items():
        console.print(f"{file}  {what}", soft_wrap=True)
    console.print(f"{out / 'runs'}  every run: config, metrics, model, ledger of what left each client", soft_wrap=True)


def draw_pictures(folders: Mapping[str, Path], data: Federation, out: Path) -> dict[str, Path]:
    """Keyed by what each shows."""
    title, sheets = "Four clients, no digit in common", [folders["feddm"], folders["fedavg+fedssyn"]]
    return {
        "how accuracy grows with rounds and with megabytes": draw_curves(
            list(folders.values()), out / "curves.png", title
        ),
        "what left each client": draw_sheets(sheets, out / "synthetic.png", per_class=4),
        "who holds what": draw_split(data, out / "split.png"),
    }


def story(rows: Sequence[Row], folders: Mapping[str, Path], one_exchange: float) -> list[str]:
    metrics = RunFolder(folders["fedavg"]).metrics()
    reached = rounds_to(metrics, one_exchange)
    averaging = (
        f"needs {reached} rounds for that" if reached else f"does not reach that in {metrics[-1]['round']} rounds"
    )
    by_name = dict(zip(folders, rows, strict=True))
    after = {name: 100 * (row.accuracy_after[3] or 0.0) for name, row in by_name.items()}
    first_line = RunFolder(folders["feddm"]).metrics()[1]
    return [
        f"One exchange of synthetic pictures (FedDM, {first_line['bytes_up'] / 1e6:.2f} MB up) gives "
        f"{100 * one_exchange:.1f} %; averaging weights {averaging}.",
        f"After 3 rounds FedDM is {after['feddm'] - after['fedavg']:+.1f} and Fedssyn "
        f"{after['fedavg+fedssyn'] - after['fedavg']:+.1f} points from FedAvg.",
        *_given_away(by_name),
        "None of these runs has a privacy guarantee (ε –). Look at what left each client: synthetic.png.",
    ]


def _given_away(rows: Mapping[str, Row]) -> list[str]:
    """What the pictures cost those who sent them."""
    images = {"feddm": "FedDM's", "fedavg+fedssyn": "Fedssyn's"}
    caught = {whose: rows[name].leak for name, whose in images.items()}
    said = [f"{100 * leak.caught:.0f} % by {whose} pictures" for whose, leak in caught.items() if leak is not None]
    if not said:
        return []
    return [
        f"What they give away: an attacker recognises {' and '.join(said)} of the records behind them, where 1 % would "
        "be chance. FedDM's pictures start as real records, and after so few steps they still are."
    ]
