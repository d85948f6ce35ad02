"""FedLAP's claims in pictures: every seed of every option, accuracy against ε, and the images that leave at each ε."""

import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from understudy.config.resolve import resolve
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.data.settings import DataSettings, load_dataset
from understudy.papers.fedlap.studies import HARDLY_NOISED, NEXT_TO_NONE, PRIVATE
from understudy.papers.tuned import Comparison, Standing
from understudy.runs.folder import RunFolder
from understudy.view.canvas import FAINT, INK, PALETTE, SOFT, empty_figure, save_figure
from understudy.view.mosaic import lay_out, paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

APART = 0.11  # between the dots of two methods at one ε
A_CELL = 4  # images of a class
LETTERS_AN_INCH = 10.5  # of a title
MEASURED = "accuracy after the last round (%)"
REAL, NO_LIMIT = "real records", f"σ = {NEXT_TO_NONE:g}"

Picture = Callable[[Comparison, Sequence[Standing], Path], None]


def show_options(plan: Comparison, standings: Sequence[Standing], out: Path) -> None:
    save_figure(options_figure(plan, standings), out / "options.png")


def show_privacy(plan: Comparison, standings: Sequence[Standing], out: Path) -> None:
    (out / "epsilon.md").write_text(epsilon_table(plan, standings, out))
    save_figure(epsilon_figure(plan, standings), out / "epsilon.png")
    save_figure(images_figure(plan, standings, out), out / "images.png")


PICTURES: Mapping[str, Picture] = {"fedlap-options": show_options, "fedlap-dp": show_privacy}


# ---- options: a panel for each kind


def options_figure(plan: Comparison, standings: Sequence[Standing]) -> "Figure":
    found = {one.label: one for one in standings}
    figure = empty_figure(9.0, 3.4)
    places = figure.subplots(1, len(plan.panels), sharey=True)
    for axes, (heading, lines) in zip(places, plan.panels.items(), strict=True):
        for at, contender in enumerate(lines.values()):
            _seeds(axes, at, found[contender].accuracies, PALETTE[0])
        axes.set_xticks(range(len(lines)), list(lines))
        axes.set_xlim(-0.5, len(lines) - 0.5)
        _dress(axes, heading)
        axes.set_ylabel("")
    places[0].set_ylabel(MEASURED, color=INK, fontsize=9)
    _head(figure, f"{plan.about} (dot: seed, bar: mean)")
    figure.subplots_adjust(left=0.075, right=0.985, wspace=0.08, bottom=0.1, top=0.8)
    return figure


# ---- accuracy against ε


def epsilon_figure(plan: Comparison, standings: Sequence[Standing]) -> "Figure":
    found = {one.label: one for one in standings}
    figure = empty_figure(7.2, 4.0)
    axes = figure.subplots()
    for number, name in enumerate(PRIVATE):
        row = [found[lines[name]] for lines in plan.panels.values()]
        places = [at + (number - 1) * APART for at in range(len(row))]
        axes.plot(places, [100 * one.mean for one in row], color=PALETTE[number], linewidth=1.4, alpha=0.6)
        for at, one in zip(places, row, strict=True):
            _seeds(axes, at, one.accuracies, PALETTE[number], name if one is row[0] else "")
    ceiling = 100 * found[HARDLY_NOISED].mean
    axes.axhline(ceiling, color=SOFT, linestyle="--", linewidth=1.2, label=f"{HARDLY_NOISED}, {ceiling:.1f} %")
    axes.set_xticks(range(len(plan.panels)), list(plan.panels))
    figure.legend(loc="lower center", ncols=len(PRIVATE) + 1, frameon=False, fontsize=9, labelcolor=INK)
    _dress(axes, "")
    _head(figure, f"{plan.about} (dot: seed, bar: mean)")
    figure.subplots_adjust(left=0.09, right=0.985, bottom=0.17, top=0.87)
    return figure


def epsilon_table(plan: Comparison, standings: Sequence[Standing], out: Path) -> str:
    """What was promised, the noise that it takes, what the ledgers say was spent, and what came of it."""
    found = {one.label: one for one in standings}
    lines = ["| method | ε spent | σ | rate | accuracy, mean ± spread |", "|---|--:|--:|--:|--:|"]
    for label in [*(label for panel in plan.panels.values() for label in panel.values()), HARDLY_NOISED]:
        one = found[label]
        ledgers = [RunFolder(one.run_folder(out, seed)).ledger() for seed in plan.seeds]
        spent = max(ledger["epsilon"] for ledger in ledgers)
        noise = min(charge["noise"] for ledger in ledgers for client in ledger["charges"].values() for charge in client)
        score = f"{100 * one.mean:.1f} ± {100 * one.spread:.1f}"
        lines.append(f"| {label.split(' ε=')[0]} | {spent:.4g} | {noise:.3g} | {one.rate:g} | {score} |")
    return "\n".join(lines) + "\n"


# ---- the images


def images_figure(plan: Comparison, standings: Sequence[Standing], out: Path) -> "Figure":
    """A row an ε, a column a class: pairs are disjoint, so each class comes from the one client that has it."""
    found = {one.label: one for one in standings}
    labels = {heading: lines["fedlap-dp"] for heading, lines in plan.panels.items()} | {NO_LIMIT: HARDLY_NOISED}
    runs = {heading: RunFolder(found[label].run_folder(out, plan.seeds[0])) for heading, label in labels.items()}
    dataset = load_dataset(_data(plan), plan.seeds[0])
    sets = {heading: _together(run) for heading, run in runs.items()} | {REAL: dataset.train}
    return mosaic_figure(sets, dataset.problem, dataset.label_names)


def mosaic_figure(sets: Mapping[str, Examples], problem: Problem, names: Sequence[str]) -> "Figure":
    layout = lay_out(sets, list(sets), problem, A_CELL)
    figure = empty_figure(9.0, 0.9 + 0.82 * len(sets))
    axes = figure.subplots()
    axes.imshow(paint(layout, problem), extent=(0, layout.columns, layout.rows, 0), aspect="auto")
    axes.set_xticks([column + 0.5 for column in range(layout.columns)], _columns(names, layout.columns))
    axes.set_yticks([row + 0.5 for row in range(layout.rows)], list(sets), color=INK)
    axes.tick_params(length=0, colors=SOFT, labelsize=8.5, top=False, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    _head(figure, "What FedLAP-DP's clients sent in the last round, by ε: four images of each class")
    height = figure.get_size_inches()[1]
    figure.subplots_adjust(left=0.095, right=0.99, bottom=0.1 / height, top=1 - 0.7 / height)
    return figure


def _columns(names: Sequence[str], classes: int) -> list[str]:
    return [names[c] if c < len(names) else str(c) for c in range(classes)]


def _together(run: RunFolder) -> Examples:
    sets = list(run.synthetic().values())
    return Examples(torch.cat([one.x for one in sets]), torch.cat([one.y for one in sets]))


# ---- what they share


def _data(plan: Comparison) -> DataSettings:
    data = resolve(dict(plan.config), plan.contenders[0].changes).data
    assert data is not None
    return data


def _seeds(axes: "Axes", at: float, accuracies: Sequence[float], colour: str, label: str = "") -> None:
    """A dot a seed, a bar at the mean."""
    values = [100 * value for value in accuracies]
    axes.plot([at] * len(values), values, "o", color=colour, markersize=4.5, alpha=0.55, label=label or None)
    axes.plot([at], [statistics.fmean(values)], "_", color=colour, markersize=13, markeredgewidth=2)


def _dress(axes: "Axes", heading: str) -> None:
    axes.set_title(heading, loc="left", color=INK, fontsize=9.5)
    axes.set_ylabel(MEASURED, color=INK, fontsize=9)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=SOFT, labelsize=9, length=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SOFT)


def _head(figure: "Figure", title: str) -> None:
    width, height = figure.get_size_inches()
    wrapped = "\n".join(textwrap.wrap(title, int(width * LETTERS_AN_INCH)))
    figure.text(0.12 / width, 1 - 0.1 / height, wrapped, fontsize=11, fontweight="bold", color=INK, va="top")
