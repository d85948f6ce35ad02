"""A tuned comparison as a picture: every seed a dot, the mean a bar, best on top."""

import json
import textwrap
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from understudy.errors import UserError
from understudy.papers.experiment import Experiment
from understudy.papers.reproduce import Scale, study
from understudy.papers.seed_curves import panel_table, panels
from understudy.papers.tuned import Standing, compare_tuned, markdown
from understudy.view.canvas import FAINT, INK, PALETTE, SOFT, empty_figure, save_figure
from understudy.view.claims import draw_claims
from understudy.view.experiment import show_experiment
from understudy.view.lap_claims import PICTURES
from understudy.view.progress import RichProgress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LETTERS_A_LINE = 80
DOT, MEAN = PALETTE[0], PALETTE[1]


def show_study(name: str, scale: str, out: Path, *, quiet: bool = False) -> dict[str, Any]:
    """Runs a study, writes its table and picture into ``out``, and prints the table unless ``quiet``."""
    if scale not in typing.get_args(Scale):
        raise UserError(f"There is no scale '{scale}'; there are smoke, desk and paper.")
    plan = study(name, cast(Scale, scale))
    if isinstance(plan, Experiment):
        return show_experiment(plan, out, quiet=quiet)
    with RichProgress() as progress:
        standings = compare_tuned(plan, out, progress)
    (out / "table.md").write_text(markdown(standings))
    draw_standings(standings, out / "table.png", plan.about)
    if plan.panels:
        curves = panels(plan, standings, out)
        (out / "curves.md").write_text(panel_table(curves))
        draw_claims(curves, out / "curves.png", plan.about)
    if name in PICTURES:
        PICTURES[name](plan, standings, out)
    if not quiet:
        print(f"\n{markdown(standings)}\n{out / 'table.png'}")
    table: dict[str, Any] = json.loads((out / "table.json").read_text())
    return table


def draw_standings(standings: Sequence[Standing], file: Path, title: str) -> Path:
    return save_figure(standings_figure(standings, title), file)


def standings_figure(standings: Sequence[Standing], title: str) -> "Figure":
    ordered = sorted(standings, key=lambda one: one.mean)
    figure = empty_figure(8.0, 1.2 + 0.3 * len(ordered))
    axes = figure.subplots()
    for at, one in enumerate(ordered):
        axes.plot(
            [100 * value for value in one.accuracies], [at] * len(one.accuracies), "o", color=DOT, ms=5, alpha=0.7
        )
        axes.plot([100 * one.mean], [at], "|", color=MEAN, ms=13, mew=2)
    axes.set_yticks(range(len(ordered)), [one.label for one in ordered], color=INK, fontsize=9)
    axes.set_ylim(-0.7, len(ordered) - 0.3)
    axes.set_xlabel("accuracy after the last round (%): a dot a seed, bar at the mean", color=INK, fontsize=9)
    axes.grid(axis="x", color=FAINT)
    axes.set_axisbelow(True)
    axes.tick_params(colors=SOFT, length=0, labelsize=9)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    wrapped = "\n".join(textwrap.wrap(title, LETTERS_A_LINE))
    figure.suptitle(wrapped, color=INK, fontsize=11, fontweight="bold", x=0.02, ha="left")
    figure.tight_layout()
    return figure
