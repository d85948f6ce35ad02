"""What FedLAP's comparisons add to table and curves: every option, accuracy against ε, and what left at each ε."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from understudy.config.resolve import resolve
from understudy.data.assemble import load_dataset
from understudy.data.examples import Examples
from understudy.papers.compared import MEASURED, chosen, compared, seeds_trace
from understudy.papers.study import Drawing, Findings, Mosaic, Panel, StudyLine, StudyTable, plain, said
from understudy.papers.tuned import Comparison, counted_run
from understudy.runs.folder import RunFolder
from understudy.runs.watching import Observer

NEXT_TO_NONE = 0.01  # σ: stands in for no noise, which the method refuses
HARDLY_NOISED = f"fedlap-dp σ={NEXT_TO_NONE:g}"
APART = 0.11  # between the dots of two methods at one ε
SENT = "What FedLAP-DP's clients sent in the last round, by ε: four images of each class"


def options(plan: Comparison, out: Path, observer: Observer) -> Findings:
    found = compared(plan, out, observer)
    return replace(found, pictures={**found.pictures, "options": options_drawing(plan, found.lines)})


def private(plan: Comparison, out: Path, observer: Observer) -> Findings:
    found = compared(plan, out, observer)
    return replace(
        found,
        tables={**found.tables, "epsilon": [_epsilon_table(plan, found.lines, out)]},
        pictures={**found.pictures, "epsilon": epsilon_drawing(plan, found.lines)},
        mosaics={"images": _images(plan, found.lines, out)},
    )


def options_drawing(plan: Comparison, lines: Sequence[StudyLine]) -> Drawing:
    """One panel per kind of option."""
    panels: list[Panel] = []
    for heading, labels in plan.panels.items():
        dots = seeds_trace("", list(enumerate(chosen(lines, labels).values())))
        panels.append(Panel(heading, "", "" if panels else MEASURED, [dots], names=list(labels)))
    return Drawing(_titled(plan), panels, legend="none", same_height=True)


def epsilon_drawing(plan: Comparison, lines: Sequence[StudyLine]) -> Drawing:
    by_epsilon = [chosen(lines, labels) for labels in plan.panels.values()]
    middle = (len(by_epsilon[0]) - 1) / 2
    traces = [
        seeds_trace(
            name,
            [(at + (look - middle) * APART, methods[name]) for at, methods in enumerate(by_epsilon)],
            look,
            "joined seeds",
        )
        for look, name in enumerate(by_epsilon[0])
    ]
    ceiling = 100 * chosen(lines, {"": HARDLY_NOISED})[""].mean
    level = (f"{HARDLY_NOISED}, {ceiling:.1f} %", ceiling)
    return Drawing(
        _titled(plan), [Panel("", "", MEASURED, traces, names=list(plan.panels), level=level)], legend="below"
    )


def _titled(plan: Comparison) -> str:
    return f"{plan.about} (dot: seed, bar: mean)"


def _epsilon_table(plan: Comparison, lines: Sequence[StudyLine], out: Path) -> StudyTable:
    """What was promised, the noise it takes, what the ledgers report as spent, and the accuracy."""
    rows = []
    for labels in [*plan.panels.values(), {HARDLY_NOISED: HARDLY_NOISED}]:
        for name, one in chosen(lines, labels).items():
            ledgers = [RunFolder(counted_run(out, one, seed)).ledger() for seed in plan.seeds]
            spent = max(ledger["epsilon"] for ledger in ledgers)
            noise = min(charge["noise"] for ledger in ledgers for book in ledger["charges"].values() for charge in book)
            rows.append([name, f"{spent:.4g}", f"{noise:.3g}", plain(one.rate), said(one.accuracies)])
    return StudyTable(["method", "ε spent", "σ", "rate", "accuracy, mean ± spread"], rows)


def _images(plan: Comparison, lines: Sequence[StudyLine], out: Path) -> Mosaic:
    """By ε; pairs are disjoint, so each class comes from the one client that has it."""
    data = resolve(dict(plan.config), plan.contenders[0].changes).data
    assert data is not None
    dataset = load_dataset(data, plan.seeds[0])
    labels = {heading: names["fedlap-dp"] for heading, names in plan.panels.items()}
    runs = chosen(lines, labels | {f"σ = {NEXT_TO_NONE:g}": HARDLY_NOISED})
    sets = {heading: _together(RunFolder(counted_run(out, one, plan.seeds[0]))) for heading, one in runs.items()}
    return Mosaic(SENT, sets | {"real records": dataset.train}, dataset.problem, dataset.label_names)


def _together(run: RunFolder) -> Examples:
    sets = list(run.synthetic().values())
    return Examples(torch.cat([one.x for one in sets]), torch.cat([one.y for one in sets]))
