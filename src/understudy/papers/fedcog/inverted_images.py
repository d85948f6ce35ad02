"""Figure 5: what a client generates, over the steps of the inversion; and figure 4, how the records are split."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from understudy.config.build import build_data
from understudy.config.resolve import resolve
from understudy.data.federation import Federation
from understudy.data.problem import Problem
from understudy.papers.carrying_out import PlayedLines
from understudy.papers.claims import PaperClaim, above, all_of, at_least, at_most
from understudy.papers.comparison import Contender
from understudy.papers.fedcog.cells import ValueCells
from understudy.papers.fedcog.main_experiment import CIFAR10, DESK, PAPER, SMOKE, Group, Setting, compared, split_of
from understudy.papers.published import FromRuns, Published, Study
from understudy.papers.study import Findings, Mosaic, StudyTable
from understudy.runs.compare import read_config
from understudy.runs.regenerated import Generated, generated

ABOUT = "what a client generates over the steps of the inversion, and how the records are split"
STEPS = (0, 10, 100, 500)
IMAGES = 200
RECOGNISED = "recognised by the global model"
LIKENESS, NEAREST = "likeness to the class", "likeness to a private record"
LINE = "FedAvg + FedCOG for 1 more"  # as in table 3


def _lines(setting: Setting) -> list[Contender]:
    stopped = setting.stopped_at(setting.averaged + 1)
    return [stopped.continued(LINE, {"with": [setting.cog("balanced")]}, kept=True)]


def _tell(groups: Sequence[Group], images: int, lines: PlayedLines) -> Findings:
    (setting,) = [one for group in groups for one in group if split_of(one) == "NIID-1"]
    folder = lines.folders.get((setting.label(LINE), setting.seeds[0]))
    every = list(lines.values())
    if folder is None:
        stored: Mapping[str, Any] = lines.numbers.get("images", {})
        values: ValueCells = {(row, column): [value] for row, of in stored.items() for column, value in of.items()}
        return Findings(ABOUT, every, values=values, numbers=lines.numbers)
    data = build_data(resolve(read_config(folder)))
    made = {_said(steps): _made(folder, steps, images) for steps in STEPS}
    values = {cell: value for column, one in made.items() for cell, value in _measured(column, one, data).items()}
    numbers: dict[str, dict[str, float]] = {}
    for (row, column), (value,) in values.items():
        numbers.setdefault(row, {})[column] = value
    sets = {column: one.examples for column, one in made.items()}
    names = [str(label) for label in range(data.problem.classes)]
    mosaics = {"images": Mosaic(ABOUT, sets, data.problem, names)} if len(data.problem.shape) == 3 else {}
    return Findings(
        ABOUT, every, {"split": [_split_table(data)]}, mosaics=mosaics, values=values, numbers={"images": numbers}
    )


def _said(steps: int) -> str:
    return f"{steps} steps"


def _made(folder: Path, steps: int, images: int) -> Generated:
    return generated(folder, changes={"steps": steps, "images": images, "labels": "uniform"})


def _measured(column: str, made: Generated, data: Federation) -> ValueCells:
    records = torch.cat([data.problem.scale(holding.own.x) for holding in data.sites.values()]).flatten(1)
    labels = torch.cat([holding.own.y for holding in data.sites.values()])
    x, y = made.examples.x.flatten(1), made.examples.y
    alike = _cosine(_class_means(x, y, data.problem), _class_means(records, labels, data.problem)).diagonal()
    own = data.problem.scale(data.sites[made.client].own.x).flatten(1)
    nearest = _cosine(x - x.mean(1, keepdim=True), own - own.mean(1, keepdim=True)).amax(1)
    return {
        (RECOGNISED, column): [100 * made.obeyed],
        (LIKENESS, column): [100 * float(alike.mean())],
        (NEAREST, column): [100 * float(nearest.mean())],
    }


def _class_means(x: Tensor, y: Tensor, problem: Problem) -> Tensor:
    """What sets each class apart: its mean, without the mean of all classes."""
    present = [x[y == label].mean(0) if (y == label).any() else x.mean(0) for label in range(problem.classes)]
    means = torch.stack(present)
    return means - means.mean(0)


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    return torch.nn.functional.normalize(a, dim=1) @ torch.nn.functional.normalize(b, dim=1).T


def _split_table(data: Federation) -> StudyTable:
    classes = data.problem.classes
    rows = [[name, *map(str, holding.own.label_counts(classes).tolist())] for name, holding in data.sites.items()]
    return StudyTable(["client", *(f"class {label}" for label in range(classes))], rows, "figure 4: records by class")


def _inverted(groups: Sequence[Group], images: int = IMAGES) -> FromRuns:
    return FromRuns(compared("fedcog-fig5", ABOUT, groups, _lines, split="NIID-1"), partial(_tell, groups, images))


STUDY = Study(
    "fedcog-fig5",
    ABOUT,
    {"smoke": _inverted(SMOKE, 20), "desk": _inverted(DESK), "paper": _inverted(CIFAR10[:1])},
    published=Published(
        PAPER,
        "figure 5",
        {},
        [
            PaperClaim(
                "Without steps the images are noise, which the global model does not take for what was asked.",
                at_most((RECOGNISED, _said(0)), 30.0),
            ),
            PaperClaim(
                "After 100 steps the global model takes them for what was asked.",
                at_least((RECOGNISED, _said(100)), 90.0),
            ),
            PaperClaim(
                "With more steps, images of a class share patterns of that class.",
                all_of(
                    [
                        above((LIKENESS, _said(100)), (LIKENESS, _said(0))),
                        above((LIKENESS, _said(500)), (LIKENESS, _said(0))),
                    ]
                ),
            ),
            PaperClaim(
                "The images do not show private records in detail.",
                all_of(at_most((NEAREST, _said(steps)), 50.0) for steps in STEPS),
            ),
        ],
        remarks=[
            "The paper shows pictures only; the three rows put what it says about them in numbers. Likeness is a "
            "correlation in %: of what sets the mean image of a class apart from all others, generated against real, "
            "and of a single image with the most similar record of its client. None of this is sent.",
            f"{IMAGES} images, equally many per class, of the first client after the first round with FedCOG, on the "
            "Dirichlet split. At desk scale 6000 images of Fashion-MNIST at 16×16.",
        ],
    ),
)
