"""The demo as a person sees it: five runs, one table, three pictures, and what they show in words."""

import time
from pathlib import Path

from rich.console import Console

from understudy.config.build import build_data
from understudy.config.read import read
from understudy.config.resolve import resolve
from understudy.runs.compare import Row, compare, rounds_to
from understudy.runs.demo import ACTS, PRESET, clear, play_demo
from understudy.runs.folder import RunFolder
from understudy.view.curves import draw_curves
from understudy.view.progress import RichProgress
from understudy.view.sheet import draw_sheets
from understudy.view.split import draw_split
from understudy.view.tables import print_comparison

INTRO = """\
Four clients want one model that reads digits, and no picture may leave home. Client 0 has only 0 and 1, client 1
only 2, 3 and 4, client 2 only 5 and 6, client 3 only 7, 8 and 9: 4000 real MNIST images in all, 1000 more to test."""


def show_demo(out: Path) -> None:
    began = time.perf_counter()
    console = Console(highlight=False)
    clear(out)
    console.print(INTRO, soft_wrap=True)
    with RichProgress() as progress:
        folders = [result.folder for _, result in play_demo(out, progress)]
    named = dict(zip([act.name for act in ACTS], folders, strict=True))
    one_exchange = compare([named["feddm"]], after=(1,))[0].accuracy_after[1]
    rows = compare(folders, target=one_exchange, after=(1, 3))
    console.print()
    print_comparison(rows, console)
    console.print()
    for sentence in _story(rows, named, one_exchange or 0.0):
        console.print(sentence, soft_wrap=True)
    pictures = {
        "how accuracy grows with rounds and with megabytes": draw_curves(
            folders, out / "curves.png", "Four clients, no digit in common"
        ),
        "what left each client": draw_sheets(
            [named["feddm"], named["fedavg+fedssyn"]], out / "synthetic.png", per_class=4
        ),
        "who holds what": draw_split(build_data(resolve(read(PRESET))), out / "split.png"),
    }
    console.print()
    for what, file in pictures.items():
        console.print(f"{file}  {what}", soft_wrap=True)
    console.print(f"{out / 'runs'}  every run: config, metrics, model, ledger of what left each client", soft_wrap=True)
    console.print(f"The whole demo took {time.perf_counter() - began:.0f} s.")


def _story(rows: list[Row], named: dict[str, Path], one_exchange: float) -> list[str]:
    metrics = RunFolder(named["fedavg"]).metrics()
    reached = rounds_to(metrics, one_exchange)
    averaging = (
        f"needs {reached} rounds for that" if reached else f"does not get there in {metrics[-1]['round']} rounds"
    )
    by_name = {act.name: row for act, row in zip(ACTS, rows, strict=True)}
    after = {name: 100 * (row.accuracy_after[3] or 0.0) for name, row in by_name.items()}
    first_line = RunFolder(named["feddm"]).metrics()[1]
    return [
        f"One exchange of synthetic pictures (FedDM, {first_line['bytes_up'] / 1e6:.2f} MB up) gives "
        f"{100 * one_exchange:.1f} %; averaging weights {averaging}.",
        f"After 3 rounds FedDM is {after['feddm'] - after['fedavg']:+.1f} and Fedssyn "
        f"{after['fedavg+fedssyn'] - after['fedavg']:+.1f} points from FedAvg.",
        "None of these runs is private by proof (ε –). FedDM's pictures begin as real records and after so few steps "
        "still resemble them; look at synthetic.png.",
    ]
