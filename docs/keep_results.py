"""Takes results into the repository: ``python docs/keep_results.py STORE SCALE NAME...`` after `understudy reproduce`.

Lines that the store has take the place of stored ones; stored lines that it lacks stay, with the commit that made them.
Writes docs/papers/NAME/SCALE.json and its pictures (docs/studies/NAME for our own studies); then run make_pages.py.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

from understudy.papers.carrying_out import PlayedLines, played_lines
from understudy.papers.published import Experiment, FromRuns, Later, Study
from understudy.papers.reproduce import STUDIES
from understudy.papers.stored import ran_by, read_table, write_table
from understudy.papers.study import Findings, Scale
from understudy.papers.telling import told
from understudy.runs.made_by import made_by
from understudy.runs.run_store import RunStore
from understudy.view.canvas import save_figure
from understudy.view.findings import write_findings
from understudy.view.mosaic import mosaic_figure
from understudy.view.panels import drawing_figure

HERE = Path(__file__).parent


def found_in(store: RunStore, study: Study, scale: Scale, file: Path) -> Findings:
    experiment: Experiment = study.scales[scale]
    if isinstance(experiment, Later):
        experiment = experiment.make()
    if not isinstance(experiment, FromRuns):
        return read_table(store.root / f"{study.name}-{scale}" / "table.json")
    there = played_lines(experiment.comparisons, store)
    if not file.exists():
        return experiment.tell(there)
    before = read_table(file)
    lines = {line.label: replace(line, made_by=line.made_by or before.made_by) for line in before.lines}
    return experiment.tell(PlayedLines({**lines, **there}, there.folders, before.numbers))


def keep(store: RunStore, scale: Scale, name: str) -> None:
    study = STUDIES[name]
    if study.published is None:
        folder = HERE / "studies" / name
        found = found_in(store, study, scale, folder / "table.json")
        write_table(folder / "table.json", name, scale, found, ran_by(found, made_by()))
        write_findings(found, folder)
        return
    folder = HERE / "papers" / name
    found = found_in(store, study, scale, folder / f"{scale}.json")
    write_table(folder / f"{scale}.json", name, scale, found, ran_by(found, made_by()))
    for stem, drawing in told(study, found, scale).pictures.items():
        save_figure(drawing_figure(drawing), folder / f"{scale}-{stem}.png")
    for stem, mosaic in found.mosaics.items():
        save_figure(mosaic_figure(mosaic), folder / f"{scale}-{stem}.png")


if __name__ == "__main__":
    _, where, at, *names = sys.argv
    for each in names:
        keep(RunStore(Path(where)), cast(Scale, at), each)
