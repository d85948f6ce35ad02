"""Figures 3 and 12 of "FedDM: Iterative Distribution Matching for Communication-Efficient Federated Learning":
ResNet-18 in place of the ConvNet, CIFAR-10, Dirichlet 0.5. At the desk an eighth of its width, on MNIST at 16×16."""

from dataclasses import replace
from typing import Any

from understudy.papers.carrying_out import PlayedLines
from understudy.papers.cells import percent, tabulated
from understudy.papers.claims import PaperClaim, row_above
from understudy.papers.feddm.partitions import DEFAULT, SAME, labelled, on
from understudy.papers.feddm.setups import BASELINES, DESK_MNIST, DM_ROWS, STAND_INS, Ground, published, smoke
from understudy.papers.printed import DM
from understudy.papers.published import FromRuns, Published, Study
from understudy.papers.study import Findings, TableCell

RESNET, ABOUT = "ResNet-18", "FedDM beside averaging with ResNet-18"


def with_resnet(ground: Ground, **settings: Any) -> Ground:
    return ground.but(config={**ground.config, "model": {"name": "resnet18", **settings}})


SIXTEEN = with_resnet(DESK_MNIST, width=8, fast="eager")
DESK = SIXTEEN.but(
    config={**SIXTEEN.config, "data": {**SIXTEEN.config["data"], "size": 16, "limit": 2000}},
    feddm={**SIXTEEN.feddm, "steps": 20, "server": {**SIXTEEN.feddm["server"], "epochs": 30}},
    real={**SIXTEEN.real, "server": {**SIXTEEN.real["server"], "epochs": 30}},
    rates=(0.1, 0.3),
    server_rates=(0.03, 0.1),
)
TINY = with_resnet(smoke("CIFAR10"), width=2, fast="eager")
SMOKE = TINY.but(config={**TINY.config, "data": {**TINY.config["data"], "name": "mnist-5k", "size": 16, "limit": 60}})


def on_resnet(ground: Ground) -> FromRuns:
    plan = on(ground, (DEFAULT,))

    def tell(lines: PlayedLines) -> Findings:
        return replace(tabulated(ABOUT, [plan], {}, lines), values=values_of(ground, lines))

    return FromRuns([plan], tell)


def values_of(ground: Ground, lines: PlayedLines) -> dict[TableCell, list[float]]:
    mine = {row: lines[label] for row in DM_ROWS if (label := labelled(row, ground, DEFAULT)) in lines}
    found = {(row, RESNET): percent(line.accuracies) for row, line in mine.items()}
    if "FedDM" in mine and mine["FedDM"].values:
        budget = min(line.sent_by_round[-1] for row, line in mine.items() if row != "REAL" and line.values)
        found |= {(row, SAME): percent(line.within(budget)) for row, line in mine.items() if line.values}
    return found


FIG3 = Study(
    "feddm-fig3",
    "the same comparison with ResNet-18",
    {
        "smoke": on_resnet(SMOKE),
        "desk": on_resnet(DESK),
        "paper": on_resnet(with_resnet(published("CIFAR10"))),
    },
    published=Published(
        DM,
        "figures 3 and 12",
        {},
        [
            PaperClaim(
                "FedDM works well with a larger network, too: it ends above all baselines.",
                row_above("FedDM", BASELINES, [RESNET]),
            ),
            PaperClaim(
                "It is more efficient with larger networks: for the same megabytes it is above them.",
                row_above("FedDM", BASELINES, [SAME]),
            ),
        ],
        stand_ins=STAND_INS,
        remarks=[
            "The paper does not say how its ResNet-18 normalises; here GroupNorm of two groups.",
            f"“{SAME}”: within the megabytes, up and down, of whichever of the paper's methods sent least.",
            "At the desk: 2000 MNIST images at 16×16, an eighth of the width (175 000 weights), five rounds.",
        ],
    ),
)
