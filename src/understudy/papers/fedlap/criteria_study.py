"""The matching criteria of FedLAP's analysis at one client, as a study with a table and a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

from understudy.papers.fedlap.criteria import REAL, CriteriaPlan, Walk, criteria_on_digits
from understudy.papers.study import Drawing, Findings, Panel, StudyTable, Style, Trace
from understudy.runs.watching import Observer

ABOUT = "matching criteria (cosine, cosine + MSE, MSE, calibrated) at a single client of FedLAP"
HEADINGS = ("criterion", "first gain", "last loss", "cosine, first", "last", "length, first", "last")


def criteria_study(seeds: Sequence[int], plan: CriteriaPlan, _: Path, observer: Observer) -> Findings:
    walks: dict[str, list[Walk]] = {}
    for seed in seeds:
        observer.says(f"seed {seed}")
        for one in criteria_on_digits(plan=plan, seed=seed):
            walks.setdefault(one.label, []).append(one)
    return _findings(walks)


def _findings(walks: Mapping[str, Sequence[Walk]]) -> Findings:
    rows = [[label, *(f"{value:.3f}" for value in _summary(some))] for label, some in walks.items()]
    headings = {"loss": "mean loss on the records", "cosine": "cosine with the real gradient", "length": "its length"}
    panels = [Panel(said, "step", said, [_trace(walks, at, part) for at in walks]) for part, said in headings.items()]
    numbers = {label: [asdict(one) for one in some] for label, some in walks.items()}
    tables = {"table": [StudyTable(HEADINGS, rows)]}
    return Findings(ABOUT, (), tables, {"table": Drawing(ABOUT, panels)}, numbers={"walks": numbers})


def _summary(some: Sequence[Walk]) -> tuple[float, ...]:
    ends = ((w.first_gain, w.loss[-1], w.cosine[0], w.cosine[-1], w.length[0], w.length[-1]) for w in some)
    return tuple(fmean(values) for values in zip(*ends, strict=True))


def _trace(walks: Mapping[str, Sequence[Walk]], label: str, part: str) -> Trace:
    mean = [fmean(values) for values in zip(*(getattr(one, part) for one in walks[label]), strict=True)]
    style: Style = "dashed" if label == REAL else "line"
    return Trace(label, range(len(mean)), mean, look=list(walks).index(label), style=style)
