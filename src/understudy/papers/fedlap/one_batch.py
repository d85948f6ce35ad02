"""Figure 7 as a study, with figures 6 (lengths of gradients) and 2 (where images stop standing in for records)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import torch

from understudy.data.dataset import Dataset
from understudy.data.examples import Examples
from understudy.data.sets import load
from understudy.models.convnet import ConvNetSettings, SmallConvNetSettings, convnet, small_convnet
from understudy.models.network import Network
from understudy.papers.claims import PaperClaim, above, all_of, below, row_above
from understudy.papers.combined_claims import close_together
from understudy.papers.fedlap.criteria import (
    BASELINE,
    CALIBRATION,
    MSE,
    REGULARIZATION,
    VANILLA,
    WAYS,
    CriteriaPlan,
    Fitted,
    as_numbers,
    fitted,
)
from understudy.papers.fedlap.trust import Descended, descended, matched_images
from understudy.papers.printed import LAP
from understudy.papers.published import Direct, Published, Study
from understudy.papers.study import Drawing, Findings, Panel, Scale, TableCell, Trace
from understudy.runs.watching import Observer
from understudy.threads import one_thread

ABOUT = "Following the gradient of images that were matched to one batch after another"
ACCURACY, COSINE, OFF = "test accuracy (%)", "cosine with the real gradient", "length off (%)"
REAL, MADE, TURNING, END = "loss on real records", "loss on synthetic images", "at r_k", "at the end"
PAIR = (5, 6)  # classes of the client in figure 2
CLOSE = 2.0  # points


@dataclass(frozen=True)
class OneBatchPlan:
    data: str
    width: int  # 0: the paper's ConvNet
    seeds: Sequence[int]
    fitting: CriteriaPlan
    batches: int  # of figure 2's matching
    descent: int  # steps of figure 2

    def network(self, dataset: Dataset, seed: int) -> Network:
        problem, small = dataset.problem, SmallConvNetSettings(width=self.width or 1)
        if self.width:
            return Network(lambda: small_convnet(problem, small), problem, seed=seed)
        where = "cuda" if torch.cuda.is_available() else "cpu"
        return Network(lambda: convnet(problem, ConvNetSettings()), problem, seed=seed, device=where)


def one_batch(plan: OneBatchPlan) -> Direct:
    def work(_: Path, observer: Observer) -> Findings:
        dataset = load(plan.data)
        own = torch.isin(dataset.train.y, torch.tensor(PAIR))
        pair = Examples(dataset.train.x[own], dataset.train.y[own])
        found: dict[str, list[Fitted]] = {way: [] for way in WAYS}
        paths = []
        with one_thread():
            for seed in plan.seeds:
                net = plan.network(dataset, seed)
                for way in WAYS:
                    observer.says(f"seed {seed}: {way}")
                    found[way].append(fitted(net, dataset, way, plan.fitting, seed))
                made = matched_images(net, pair, plan.batches, plan.fitting, seed)
                paths.append(descended(net, pair, made, plan.descent, plan.fitting.lr))
        return findings(found, paths)

    return Direct(work, about_seconds=0.02 * plan.fitting.steps * len(WAYS) * len(plan.seeds))


def findings(found: Mapping[str, Sequence[Fitted]], paths: Sequence[Descended]) -> Findings:
    values: dict[TableCell, list[float]] = {}
    for way, some in found.items():
        values[way, ACCURACY] = [100 * one.accuracy[-1] for one in some]
        if way != BASELINE:
            values |= {(way, COSINE): [fmean(one.cosine) for one in some], (way, OFF): [one.off for one in some]}
    values |= {
        (REAL, TURNING): [path.real[path.turning] for path in paths],
        (REAL, END): [path.real[-1] for path in paths],
        (MADE, TURNING): [path.synthetic[path.turning] for path in paths],
        (MADE, END): [path.synthetic[-1] for path in paths],
        ("r_k", TURNING): [path.radius for path in paths],
        ("r_k", END): [path.distance[-1] for path in paths],
    }
    numbers = {"fitted": as_numbers(found), "descended": [asdict(path) for path in paths]}
    pictures = {"table": _curves(found), "lengths": _lengths(found[VANILLA][0]), "radius": _radius(paths[0])}
    return Findings(ABOUT, pictures=pictures, numbers=numbers, values=values)


def _curves(found: Mapping[str, Sequence[Fitted]]) -> Drawing:
    traces = [
        Trace(way, some[0].steps, [100 * fmean(at) for at in zip(*(one.accuracy for one in some), strict=True)], look)
        for look, (way, some) in enumerate(found.items())
    ]
    return Drawing(ABOUT, [Panel("", "step", f"{ACCURACY}, mean over seeds", traces)])


def _lengths(one: Fitted) -> Drawing:
    panels = [
        Panel(
            name,
            "step",
            "length of the gradient",
            [Trace("real", one.steps, real, 0), Trace("synthetic", one.steps, one.made_by_tensor[name], 1)],
        )
        for name, real in one.real_by_tensor.items()
    ]
    return Drawing("Lengths of real and synthetic gradients, matched by angles alone", panels, legend="below")


def _radius(path: Descended) -> Drawing:
    traces = [Trace("real records", path.distance, path.real, 0), Trace("synthetic", path.distance, path.synthetic, 1)]
    panel = Panel(f"r_k = {path.radius:.2f}", "distance from the broadcast model", "mean loss", traces)
    return Drawing("Descending on the images of one client", [panel])


PUBLISHED = OneBatchPlan("cifar10", 0, (0, 1, 2), CriteriaPlan(ipc=50), 200, 100)
DESK = OneBatchPlan("digits", 16, (0, 1, 2), CriteriaPlan(ipc=5, batch=64, steps=150, looks=15), 20, 100)
SMOKE = OneBatchPlan("digits", 2, (0,), CriteriaPlan(ipc=1, image_steps=1, batch=16, steps=2, looks=1), 1, 2)
JUDGED: Sequence[Scale] = ("desk", "paper")
FIG7 = Study(
    "fedlap-fig7",
    "criteria for matching gradients, lengths of gradients, and the radius r_k",
    {"smoke": one_batch(SMOKE), "desk": one_batch(DESK), "paper": one_batch(PUBLISHED)},
    published=Published(
        LAP,
        "figures 7, 6 and 2",
        {},
        [
            PaperClaim(
                f"Regularization remains close to Calibration: within {CLOSE:g} points.",
                close_together([(REGULARIZATION, ACCURACY), (CALIBRATION, ACCURACY)], CLOSE),
                JUDGED,
            ),
            PaperClaim(
                "With the lengths put right, angles alone do better: Calibration is above Vanilla.",
                above((CALIBRATION, ACCURACY), (VANILLA, ACCURACY)),
                JUDGED,
            ),
            PaperClaim(
                "MSE alone improves over Vanilla, but falls behind Calibration and Regularization.",
                all_of(
                    [
                        row_above(MSE, [VANILLA], [ACCURACY]),
                        above((CALIBRATION, ACCURACY), (MSE, ACCURACY)),
                        above((REGULARIZATION, ACCURACY), (MSE, ACCURACY)),
                    ]
                ),
                JUDGED,
            ),
            PaperClaim(
                "Matched by angles alone, gradients have the wrong length, more than with Regularization (figure 6).",
                below((REGULARIZATION, OFF), (VANILLA, OFF)),
                JUDGED,
            ),
            PaperClaim(
                "On the images the loss goes on falling, while on the records it rises again beyond r_k (figure 2).",
                all_of([above((REAL, END), (REAL, TURNING)), below((MADE, END), (MADE, TURNING))]),
                JUDGED,
                likely_cause=(
                    "On digits with two classes per client the images start as records and stay good stand-ins to the "
                    "end of the walk: the loss on records is still falling at its last step, so the turning point was "
                    "not reached. It needs a longer walk or harder records."
                ),
            ),
        ],
        unit="as said",
        grain=0.01,
        remarks=[
            "The figures print no numbers, and the paper does not name the data set; here CIFAR-10, as in its "
            "ablations, and digits at the desk.",
            "Images start as noise and are kept from batch to batch. In figure 2 a client has two classes, and its "
            "images start as records.",
            "“Length off”: how far the length of the gradient followed is from that of the batch, in the mean over "
            "steps.",
        ],
    ),
)
