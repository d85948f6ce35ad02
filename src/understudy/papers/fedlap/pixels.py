"""Figures 11 to 13 of "FedLAP-DP: Federated Learning by Sharing Differentially Private Loss Approximations": how the
pixels of synthetic images are distributed, by round and client, what the images look like, and the same with privacy.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from understudy.config.read import read
from understudy.config.resolve import resolve
from understudy.data.assemble import load_dataset
from understudy.data.examples import Examples
from understudy.papers.carrying_out import PlayedLines
from understudy.papers.cells import tabulated
from understudy.papers.claims import PaperClaim, above, at_least
from understudy.papers.comparison import Comparison, Contender
from understudy.papers.fedlap.images import images_by_round
from understudy.papers.fedlap.setups import DESK_MNIST, LAP, QUICK_LAP, PairedGround, as_published, smoke
from understudy.papers.printed import LAP as PAPER
from understudy.papers.published import FromRuns, Published, Study
from understudy.papers.study import Drawing, Findings, Mosaic, Panel, TableCell, Trace
from understudy.runs.folder import RunFolder

ABOUT = "Pixels of FedLAP's images, from the first rounds to the last"
OPEN, PRIVATE = "FedLAP", "FedLAP-DP"
EARLY, LATE = "standard deviation of pixels, early", "late"
APART = "clients apart (%)"
BINS = torch.linspace(-4, 4, 41)
SHOWN = 5  # rounds in a picture


def spread_of(images: Mapping[str, Examples]) -> float:
    """The standard deviation of all pixels, of all clients."""
    return float(torch.cat([one.x.flatten() for one in images.values()]).std())


def histogram(x: Tensor) -> list[float]:
    """Shares of pixels, those beyond the ends in the outermost bins."""
    counted = torch.histogram(x.flatten().clamp(-4, 4), BINS).hist
    return [float(share) for share in counted / counted.sum()]


def clients_apart(images: Mapping[str, Examples]) -> float:
    """How much of their pixels' distributions two clients do not share, in percent, in the mean over pairs."""
    shares = [torch.tensor(histogram(one.x)) for one in images.values()]
    pairs = [(a, b) for at, a in enumerate(shares) for b in shares[:at]]
    return 100 * statistics.fmean(float((a - b).abs().sum()) / 2 for a, b in pairs)


def over_rounds(plan: Comparison) -> FromRuns:
    def tell(lines: PlayedLines) -> Findings:
        runs = {name: seen_in(plan, name, lines) for name in (OPEN, PRIVATE)}
        measured = {name: _measured(by_round) for name, by_round in runs.items() if by_round}
        kept: dict[str, Any] = {**lines.numbers.get("pixels", {}), **measured}
        values: dict[TableCell, list[float]] = {}
        for name, one in kept.items():
            values |= {
                (name, EARLY): [one["spread"][0]],
                (name, LATE): [one["spread"][-1]],
                (name, APART): [one["apart"][-1]],
            }
        found = tabulated(ABOUT, [plan], {}, lines)
        pictures = {**found.pictures, **({"pixels": drawing(kept)} if kept else {})}
        mosaics = {f"images-{name.lower()}": mosaic(plan, name, some) for name, some in runs.items() if some}
        return replace(found, values=values, numbers={"pixels": kept}, pictures=pictures, mosaics=mosaics)

    return FromRuns([plan], tell)


def seen_in(plan: Comparison, name: str, lines: PlayedLines) -> dict[int, dict[str, Examples]]:
    """Of the first seed, whose transcript is kept."""
    folder = lines.folders.get((name, plan.seeds[0]))
    return {} if folder is None else images_by_round(RunFolder(folder))


def _measured(by_round: Mapping[int, Mapping[str, Examples]]) -> dict[str, Any]:
    """What is kept of the images: numbers by round, and histograms of some rounds, of the clients and of all."""
    some = shown_of(list(by_round))
    together = {number: torch.cat([one.x.flatten() for one in by_round[number].values()]) for number in some}
    return {
        "rounds": list(by_round),
        "spread": [spread_of(images) for images in by_round.values()],
        "apart": [clients_apart(images) for images in by_round.values()],
        "histograms": {str(number): histogram(x) for number, x in together.items()},
        "clients": {client: histogram(one.x) for client, one in by_round[some[-1]].items()},
    }


def shown_of(rounds: Sequence[int]) -> list[int]:
    """From the first to the last, evenly."""
    most = min(SHOWN, len(rounds))
    return sorted({rounds[round(at * (len(rounds) - 1) / max(1, most - 1))] for at in range(most)})


def drawing(kept: Mapping[str, Mapping[str, Any]]) -> Drawing:
    middle = ((BINS[1:] + BINS[:-1]) / 2).tolist()
    panels = []
    for name, one in kept.items():
        by_round = [Trace(f"round {n}", middle, y, look) for look, (n, y) in enumerate(one["histograms"].items())]
        by_client = [Trace(client, middle, y, look) for look, (client, y) in enumerate(one["clients"].items())]
        panels.append(Panel(f"{name}: all clients, by round", "pixel, scaled", "share", by_round, log_y=False))
        panels.append(Panel(f"{name}: clients in the last round", "pixel, scaled", "share", by_client))
    return Drawing(ABOUT, panels, across=2)


def mosaic(plan: Comparison, name: str, by_round: Mapping[int, Mapping[str, Examples]]) -> Mosaic:
    """Four images of each class, at a few rounds."""
    sets = {}
    for number in shown_of(list(by_round)):
        parts = list(by_round[number].values())
        sets[f"round {number}"] = Examples(torch.cat([one.x for one in parts]), torch.cat([one.y for one in parts]))
    config = resolve(dict(plan.config), next(one.changes for one in plan.contenders if one.label == name))
    assert config.data is not None
    dataset = load_dataset(config.data, plan.seeds[0])
    return Mosaic(f"{name}: images that left, by round", sets, dataset.problem, dataset.label_names)


def _plan(
    ground: PairedGround, lap: Mapping[str, Any], private: Mapping[str, Any] | None = None, private_rate: float = 0.1
) -> Comparison:
    contenders = [Contender(OPEN, {"method": {"name": "fedlap", **lap}}, "method.lr", audited="quick")]
    if private is not None:
        contenders.append(Contender(PRIVATE, private, "method.lr", (private_rate,), audited="quick"))
    return Comparison("fedlap", ABOUT, ground.config, (ground.rates[-1],), ground.seeds[:1], contenders)


# The gradient of a mean over a client's images, so at the desk's 20 of them a rate of 20 moves each as far per step as
# the published 100 moves each of 100.
AS_FAR_PER_IMAGE = {"image_lr": 20.0}


def _desk() -> Comparison:
    config = {**DESK_MNIST.config, "method": {"name": "fedavg", "rounds": 12}}
    rates = replace(DESK_MNIST, config=config, rates=(0.1,))
    method = {**LAP, "restarts": 2, "stages": 4, "path_epochs": 1, "labels": "owned", "noise": None}
    promise = {"epsilon": 10.0, "delta": 1e-4, "records": 800, "public": ["labels"]}
    return _plan(rates, {**LAP, **AS_FAR_PER_IMAGE}, {"method": {"name": "fedlap-dp", **method}, "privacy": promise})


def _smoke() -> Comparison:
    ground = replace(smoke(""), config={**smoke("").config, "method": {"name": "fedavg", "rounds": 2}})
    return _plan(ground, QUICK_LAP)


def _published() -> Comparison:
    ground, preset = as_published("CIFAR-10"), read("fedlap-dp-cifar10")
    return _plan(ground, ground.lap, {"method": preset["method"], "privacy": preset["privacy"]}, 0.002)


FIG12 = Study(
    "fedlap-fig12",
    "pixels of synthetic images by round and client, the images, and both with privacy",
    {"smoke": over_rounds(_smoke()), "desk": over_rounds(_desk()), "paper": over_rounds(_published())},
    published=Published(
        PAPER,
        "figures 11 to 13",
        {},
        [
            PaperClaim(
                "Early images have a wider range of pixels, which concentrates around zero as training goes on.",
                above((OPEN, EARLY), (OPEN, LATE)),
                likely_cause=(
                    "No turn was seen in twelve rounds; the figure goes from epoch 5 to 195, where the network has "
                    "converged. Images begin as scaled records in every round, with a spread of about 1. Most of the "
                    "growth was the image rate: the gradient is of a mean over a client's images, so the published "
                    "100, meant for 100 of them, moves each of the desk's 20 five times as far. At 100 the spread went "
                    "from 1.2 to 5.8 here, at 20 from 0.9 to 1.7, and accuracy ends at 93.3 instead of 89.9 %."
                ),
            ),
            PaperClaim(
                "Within a round, clients' distributions are distinct: two of them do not share a tenth or more.",
                at_least((OPEN, APART), 10.0),
                scales=("desk", "paper"),
            ),
        ],
        unit="of pixels as the network sees them, or % where said",
        grain=0.01,
        stand_ins=(OPEN, PRIVATE),
        remarks=[
            "The paper prints no numbers. “Clients apart”: the share of the distribution of pixels (40 bins from −4 "
            "to 4) that two clients do not have in common, in the mean over pairs, in the last round.",
            "Without privacy, images start as records in every round; with privacy they start as noise and are kept.",
            "At the desk: MNIST at 14×14, 12 rounds, one seed; image rate 20 without privacy; with privacy ε = 10 over "
            "all rounds.",
        ],
    ),
)
