"""Figure A.5: what generators draw after more and more epochs, with forty clients, where each has few records.

A number beside the pictures: the share of images whose nearest test image, in pixels, is of their class.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from understudy.papers.carrying_out import PlayedLines
from understudy.papers.claims import PaperClaim, above, rising
from understudy.papers.comparison import Contender
from understudy.papers.fedssyn.generator_knobs import (
    BOTH,
    DESK_STAGES,
    EARLY,
    FEW_RECORDS,
    FORTY_SKEWED,
    LATE,
    MIDDLE,
    PAPER_STAGES,
    SMOKE_STAGES,
    TEN,
    TEN_SKEWED,
    stage_images,
    stage_label,
)
from understudy.papers.fedssyn.lines import SetupColumn, column
from understudy.papers.fedssyn.sent_images import recognised, sent_mosaic
from understudy.papers.printed import SSYN
from understudy.papers.published import FromRuns, Published, Study
from understudy.papers.study import Findings, StudyTable, TableCell

Stages = Mapping[str, int | None]


def _experiment(columns: Mapping[str, SetupColumn], epochs: Stages) -> FromRuns:
    comparisons = [
        one.comparison([one.with_shuffled("FedAvg"), *_stage_lines(one, epochs)]) for one in columns.values()
    ]
    return FromRuns(comparisons, partial(tell, columns, epochs))


def _stage_lines(one: SetupColumn, epochs: Stages) -> list[Contender]:
    """As in figure 4 (b), so the runs are the same."""
    like = one.label(BOTH)
    return [
        Contender(stage_label(one, stage, epoch), one.changes, like=like, images=stage_images(one, epoch))
        for stage, epoch in epochs.items()
        if epoch is not None
    ]


def tell(columns: Mapping[str, SetupColumn], epochs: Stages, lines: PlayedLines) -> Findings:
    about = "Images after more and more epochs of the generators"
    values: dict[TableCell, Sequence[float]] = {}
    mosaics, rows, mine = {}, [], []
    for row, one in columns.items():
        labels = {stage: stage_label(one, stage, epoch) for stage, epoch in epochs.items()}
        mine += [lines[label] for label in labels.values() if label in lines]
        runs = {
            stage: [lines.folders[label, seed] for seed in one.seeds if (label, seed) in lines.folders]
            for stage, label in labels.items()
        }
        for stage, folders in runs.items():
            stored = lines.numbers.get("recognised", {}).get(labels[stage], [])
            found = [share for folder in folders if (share := recognised(folder)) is not None] or stored
            if found:
                values[row, stage] = found
                rows.append([row, stage, ", ".join(f"{each:.1f}" for each in found)])
        shown = {f"{row}, {stage}": folders[0] for stage, folders in runs.items() if folders}
        if shown:
            mosaics[f"images-{row.split(' ')[0].replace('=', '')}"] = sent_mosaic(f"{about}: {row}", shown)
    table = StudyTable(["clients", "stage", "recognised by their nearest test image, % by seed"], rows, words=2)
    numbers = {"recognised": {_label_of(columns, epochs, cell): found for cell, found in values.items()}}
    return Findings(about, mine, {"table": [table]}, mosaics=mosaics, numbers=numbers, values=values)


def _label_of(columns: Mapping[str, SetupColumn], epochs: Stages, cell: TableCell) -> str:
    row, stage = cell
    return stage_label(columns[row], stage, epochs[stage])


FIGA5 = Study(
    "fedssyn-figA5",
    "images after more and more epochs of the generators, with ten clients and with forty",
    {
        "smoke": _experiment({TEN: column("smoke", TEN_SKEWED)}, SMOKE_STAGES),
        "desk": _experiment({TEN: column("desk", TEN_SKEWED), FEW_RECORDS: column("desk", FORTY_SKEWED)}, DESK_STAGES),
        "paper": _experiment(
            {TEN: column("paper", TEN_SKEWED), FEW_RECORDS: column("paper", FORTY_SKEWED)}, PAPER_STAGES
        ),
    },
    published=Published(
        SSYN,
        "figure A.5",
        {},
        [
            PaperClaim(
                "With many clients, the longer the generators are trained, the better the images.",
                rising([(FEW_RECORDS, stage) for stage in (EARLY, MIDDLE, LATE)]),
                likely_cause=(
                    "Our measure, not the images: the class of the nearest test image rewards what is typical. After "
                    "five epochs the desk's VAE draws smooth means of each class, which any neighbour recognises; "
                    "after twenty its images vary more, and 2 % more of them lie near another class. As food for "
                    "training they do get better: in figure 4 (b), from the same generators, 40 clients reach 81.9, "
                    "87.6 and 89.4 % with the three stages. The paper judges CIFAR-10 images of a diffusion model by "
                    "eye."
                ),
            ),
            PaperClaim(
                "With few clients the images of the early stage are already better than with many.",
                above((TEN, EARLY), (FEW_RECORDS, EARLY)),
            ),
        ],
        unit="% recognised by their nearest test image",
        stand_ins=[TEN, FEW_RECORDS],
        remarks=[
            "The figure shows images only; how good they are is measured here by the class of the nearest test image. "
            "The caption has 875 training images per client, the text 75 % of 1250 or of 1125.",
        ],
    ),
)
