"""Figures 4 and 10 of "FedDM: Iterative Distribution Matching for Communication-Efficient Federated Learning": every
method with the published noise, which keeps no promise (`published-noise`, and FedDM's ``dp: paper``); and figures 14
to 17, what FedDM's images look like under it.

How legible images are is measured: the share that a network trained on all real records recognises.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from understudy.config.build import build_data, build_method
from understudy.config.resolve import resolve
from understudy.data.assemble import load_dataset
from understudy.data.examples import Examples
from understudy.learning.evaluate import tally
from understudy.models.network import Network
from understudy.papers.carrying_out import PlayedLines
from understudy.papers.cells import tabulated, tabulating
from understudy.papers.claims import PaperClaim, at_most, falling, row_above
from understudy.papers.combined_claims import falls_less
from understudy.papers.comparison import Comparison, Contender
from understudy.papers.feddm.partitions import ALPHA
from understudy.papers.feddm.setups import BASELINES, DESK_MNIST, FEDDM, Ground, published, smoke
from understudy.papers.printed import DM
from understudy.papers.published import FromRuns, Published, Study
from understudy.papers.study import Changes, Findings, Mosaic, TableCell
from understudy.runs.compare import read_config
from understudy.runs.folder import RunFolder
from understudy.threads import one_thread

NOISED = (*BASELINES, "FedDM")
LEVELS = (1.0, 3.0, 5.0)
CLIP = 5.0
DEFAULT_SPLIT: Changes = {ALPHA: 0.5}
# One size of batch for all, as published, since noise is divided by it.
DESK = DESK_MNIST.but(
    config={**DESK_MNIST.config, "method": {"name": "fedavg", "rounds": 5, "local": {"epochs": 2, "batch": 64}}},
    feddm={**FEDDM, "real_batch": 64},
    rates=(0.1, 0.3),
    server_rates=(0.1, 0.3),
)


def level(noise: float) -> str:
    return f"σ = {noise:g}"


def noised(ground: Ground, row: str, noise: float) -> Contender:
    if row == "FedDM":
        return ground.pooled(
            row,
            f"{row}, {level(noise)}",
            {**DEFAULT_SPLIT, "method.dp": "paper", "method.noise": noise, "method.clip": CLIP},
        )
    add_on = {"name": "published-noise", "noise": noise, "clip": CLIP}
    return ground.averaging(row, f"{row}, {level(noise)}", {**DEFAULT_SPLIT, "with": [add_on]})


# ---- figure 4

ABOUT_4 = "Every method with the published noise on its gradients"


def under_noise(ground: Ground, levels: Sequence[float] = LEVELS) -> FromRuns:
    contenders = [noised(ground, row, noise) for noise in levels for row in NOISED]
    panels = {level(noise): {row: f"{row}, {level(noise)}" for row in NOISED} for noise in levels}
    cells = {(row, level(noise)): f"{row}, {level(noise)}" for row in NOISED for noise in levels}
    plan = Comparison("feddm", ABOUT_4, ground.config, ground.rates, ground.seeds, contenders, panels=panels)
    return tabulating(ABOUT_4, [plan], cells)


FIG4 = Study(
    "feddm-fig4",
    "all methods under Gaussian noise of three levels (which keeps no promise)",
    {
        "smoke": under_noise(smoke("CIFAR10"), (5.0,)),
        "desk": under_noise(DESK),
        "paper": under_noise(published("CIFAR10")),
    },
    published=Published(
        DM,
        "figures 4 and 10",
        {},
        [
            PaperClaim(
                "Under the same noise FedDM is above all baselines, at each level.",
                row_above("FedDM", BASELINES, [level(noise) for noise in LEVELS]),
            ),
            PaperClaim(
                "FedDM is most resistant: from σ = 1 to σ = 5 it loses less than any of them.",
                falls_less("FedDM", BASELINES, level(1.0), level(5.0)),
            ),
        ],
        stand_ins=["FedDM"],
        remarks=[
            "The paper claims (ε, δ)-differential privacy for this noise. It does not hold: the gradient is clipped "
            "after it was averaged over the batch, so one record can move it by 2C, and the noise is too small by a "
            "factor of up to 2|B|. Rounds are not composed either. Nothing is charged, and the ledgers report no ε.",
            "At the desk: MNIST, Dirichlet 0.5, batches of 64 for all methods.",
        ],
    ),
)

# ---- figures 14 to 17

ABOUT_14 = "What one client's images look like, without noise and with more and more of it"
NO_NOISE, CENTRAL, RECOGNISED = "no noise", "all real records in one place", "recognised (%)"
SHOWN_LEVELS = (2.0, 3.0, 5.0)
ROWS = (NO_NOISE, *map(level, SHOWN_LEVELS))


def plan_of_images(ground: Ground) -> Comparison:
    by_noise = [
        ground.pooled("FedDM", f"FedDM, {NO_NOISE}", dict(DEFAULT_SPLIT)),
        *(noised(ground, "FedDM", noise) for noise in SHOWN_LEVELS),
    ]
    together = {"method": {"name": "central", "rounds": 3, "local": {"epochs": 5, "batch": 64}}, **DEFAULT_SPLIT}
    central = Contender(CENTRAL, together, rates=(0.1,), seeds=ground.seeds[:1])
    return Comparison("feddm", ABOUT_14, ground.config, ground.rates, ground.seeds, [*by_noise, central])


def recognised(net: Network, sent: Examples) -> float:
    """The share, in percent, that the network takes for the class they stand for."""
    return 100 * (tally(net.logits, sent, net.problem).accuracy or 0.0)


def pooled_images(run: RunFolder) -> Examples:
    sets = list(run.synthetic().values())
    return Examples(torch.cat([one.x for one in sets]), torch.cat([one.y for one in sets]))


def images(ground: Ground) -> FromRuns:
    plan = plan_of_images(ground)

    def tell(lines: PlayedLines) -> Findings:
        found = tabulated(ABOUT_14, [plan], {}, lines)
        seen = {**lines.numbers.get("recognised", {}), **legibility(plan, lines)}
        values: Mapping[TableCell, Sequence[float]] = {(row, RECOGNISED): seen[row] for row in ROWS if row in seen}
        return replace(found, values=values, numbers={"recognised": seen}, mosaics=mosaics(plan, lines))

    return FromRuns([plan], tell)


def legibility(plan: Comparison, lines: PlayedLines) -> dict[str, list[float]]:
    """By row and seed, of the runs that are there."""
    if (judge := lines.folders.get((CENTRAL, plan.seeds[0]))) is None:
        return {}
    with one_thread():
        config = resolve(read_config(judge))
        net = build_method(config, build_data(config), "eager").net
        net.load(net.vector_of(RunFolder(judge).weights()))
        runs = {row: [lines.folders.get((f"FedDM, {row}", seed)) for seed in plan.seeds] for row in ROWS}
        return {
            row: [recognised(net, pooled_images(RunFolder(folder))) for folder in some if folder is not None]
            for row, some in runs.items()
            if any(some)
        }


def mosaics(plan: Comparison, lines: PlayedLines) -> dict[str, Mosaic]:
    """Of the first client, as the paper shows one."""
    runs = {row: lines.folders.get((f"FedDM, {row}", plan.seeds[0])) for row in ROWS}
    sets = {
        row: next(iter(RunFolder(folder).synthetic().values())) for row, folder in runs.items() if folder is not None
    }
    if not sets:
        return {}
    data = resolve(dict(plan.config), DEFAULT_SPLIT).data
    assert data is not None
    dataset = load_dataset(data, plan.seeds[0])
    return {"images": Mosaic(ABOUT_14, sets, dataset.problem, dataset.label_names)}


IMAGES = Study(
    "feddm-images",
    "what FedDM's images look like under noise, and how many of them are recognised",
    {"smoke": images(smoke("CIFAR10")), "desk": images(DESK), "paper": images(published("CIFAR10"))},
    published=Published(
        DM,
        "figures 14 to 17",
        {},
        [
            PaperClaim(
                "Even without noise the images are illegible: a network trained on real records recognises at most "
                "half.",
                at_most((NO_NOISE, RECOGNISED), 50.0),
                scales=("desk", "paper"),
            ),
            PaperClaim(
                "As σ increases, images become harder to recognise.", falling([(row, RECOGNISED) for row in ROWS])
            ),
        ],
        stand_ins=ROWS,
        remarks=[
            "The paper shows images and does not measure; whether images are legible is decided here by a network "
            "trained on all real records.",
            "Figure 15 has σ = 2, while figures 4 and 10 have σ = 1.",
            "Without noise images begin as records; with noise they begin as noise.",
        ],
    ),
)
