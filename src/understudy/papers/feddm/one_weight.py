"""Figure 1 and appendix C of "FedDM: Iterative Distribution Matching for Communication-Efficient Federated Learning": a
loss with one weight, its surrogate, and its tangent.

100 records x ~ N(0, 1) with label [x ≥ 0], one in ten turned round; the prediction is sigmoid(w·x). Twenty synthetic
records, ten of each label, begin at random and learn to stand in for them around w = 0, with FedDM's 1000 steps at rate
1 and weights drawn from N(0, 1) clipped at ρ = 5. The appendix says "match the objective", as in equation 7, while the
method and the caption match means of features and logits (equation 9; here the feature is x and the logit w·x). Both
are run. ``papers.feddm.two_clients`` goes on to what a server can do with surrogates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from understudy.papers.claims import PaperClaim, all_of, at_least, below
from understudy.papers.feddm.two_clients import AVERAGED, SUMMED, two_clients
from understudy.papers.printed import DM
from understudy.papers.published import Direct, Published, Study
from understudy.papers.study import Drawing, Findings, Panel, TableCell, Trace
from understudy.randomness import generator
from understudy.runs.watching import Observer
from understudy.threads import one_thread

RECORDS, SYNTHETIC, TURNED, RADIUS, STEPS, RATE = 100, 20, 0.1, 5.0, 1000, 1.0
BY_MEANS, BY_OBJECTIVE, TANGENT = "surrogate (equation 9)", "surrogate (equation 7)", "tangent"
MEAN_GAP, LARGEST_GAP, GAINED = "mean gap", "largest gap within ρ", "share of the possible decrease (%)"
SERVER = "two clients, excess loss"
WEIGHTS_AT_ONCE = 16  # for equation 7, whose squares are noisy
GRID = torch.linspace(-RADIUS, RADIUS, 1001, dtype=torch.float64)


@dataclass(frozen=True)
class LabelledNumbers:
    x: Tensor  # (n,)
    y: Tensor  # (n,), 0 or 1


def loss(records: LabelledNumbers, w: Tensor) -> Tensor:
    """(…,): equation 12 at each weight."""
    logits = w[..., None] * records.x
    return functional.binary_cross_entropy_with_logits(logits, records.y.expand_as(logits), reduction="none").mean(-1)


def drawn(seed: int) -> LabelledNumbers:
    """Equation 11."""
    rng = generator("one weight", "records", seed)
    x = torch.randn(RECORDS, generator=rng, dtype=torch.float64)
    turned = torch.rand(RECORDS, generator=rng, dtype=torch.float64) < TURNED
    return LabelledNumbers(x, ((x >= 0) != turned).to(torch.float64))


def off_by_means(real: LabelledNumbers, made: LabelledNumbers, w: Tensor) -> Tensor:
    """Equation 9 for the classes in turn; the mean over weights."""
    off = torch.zeros(len(w), dtype=torch.float64)
    for label in (0, 1):
        apart = real.x[real.y == label].mean() - made.x[made.y == label].mean()
        off = off + apart.square() + (w * apart).square()
    return off.mean()


def off_by_objective(real: LabelledNumbers, made: LabelledNumbers, w: Tensor) -> Tensor:
    """Equation 7."""
    return (loss(real, w) - loss(made, w)).square().mean()


Discrepancy = Callable[[LabelledNumbers, LabelledNumbers, Tensor], Tensor]
RULES: Mapping[str, tuple[Discrepancy, int]] = {  # with how many weights are drawn per step
    BY_MEANS: (off_by_means, 1),
    BY_OBJECTIVE: (off_by_objective, WEIGHTS_AT_ONCE),
}


def learnt(real: LabelledNumbers, rule: Discrepancy, weights: int, steps: int, seed: int) -> LabelledNumbers:
    rng = generator("one weight", "surrogate", seed)
    x = torch.randn(SYNTHETIC, generator=rng, dtype=torch.float64).requires_grad_()
    y = torch.arange(2).repeat_interleave(SYNTHETIC // 2).to(torch.float64)
    for _ in range(steps):
        w = torch.randn(weights, generator=rng, dtype=torch.float64).clamp(-RADIUS, RADIUS)
        (slope,) = torch.autograd.grad(rule(real, LabelledNumbers(x, y), w), x)
        x = (x - RATE * slope).detach().requires_grad_()
    return LabelledNumbers(x.detach(), y)


def tangent(real: LabelledNumbers) -> Tensor:
    """At w = 0, over the grid."""
    at = torch.zeros((), dtype=torch.float64, requires_grad=True)
    value = loss(real, at)
    (slope,) = torch.autograd.grad(value, at)
    return value.detach() + slope * GRID


def judged(true: Tensor, stand_in: Tensor) -> dict[str, float]:
    """How far it is off, and what minimising it within the ball gains of what can be gained."""
    apart, drawn_how_often = (true - stand_in).abs(), torch.exp(-GRID.square() / 2)
    begin, lowest = float(true[len(GRID) // 2]), float(true.min())
    return {
        MEAN_GAP: float((apart * drawn_how_often).sum() / drawn_how_often.sum()),
        LARGEST_GAP: float(apart.max()),
        GAINED: 100 * (begin - float(true[stand_in.argmin()])) / (begin - lowest),
    }


def stand_ins(real: LabelledNumbers, steps: int, seed: int) -> dict[str, Tensor]:
    """By name, over the grid."""
    found = {name: loss(learnt(real, rule, weights, steps, seed), GRID) for name, (rule, weights) in RULES.items()}
    return {**found, TANGENT: tangent(real)}


def one_weight(seeds: Sequence[int], steps: int, rounds: int) -> Direct:
    def work(_: Path, observer: Observer) -> Findings:
        values: dict[TableCell, list[float]] = {}
        panels = []
        with one_thread():
            for seed in seeds:
                observer.says(f"draw {seed}")
                real = drawn(seed)
                true, found = loss(real, GRID), stand_ins(real, steps, seed)
                for name, curve in found.items():
                    for column, value in judged(true, curve).items():
                        values.setdefault((name, column), []).append(value)
                if seed == seeds[0]:
                    panels.append(panel(true, found))
            observer.says("two clients")
            server = two_clients(steps, rounds)
        return joined(values, panels, server)

    return Direct(work, about_seconds=3.0 * len(seeds))


def panel(true: Tensor, found: Mapping[str, Tensor]) -> Panel:
    x = GRID.tolist()
    traces = [Trace("original", x, true.tolist(), 0)]
    traces += [Trace(name, x, curve.tolist(), look, "dashed") for look, (name, curve) in enumerate(found.items(), 1)]
    top = 1.05 * float(max(true.max(), *(found[name].max() for name in RULES)))
    return Panel("one client, matched around w = 0", "w", "loss", traces, ylim=(0.0, top))


def joined(values: Mapping[TableCell, Sequence[float]], panels: Sequence[Panel], server: Findings) -> Findings:
    """Figure 1, and below it the two clients."""
    excess = {
        (way, SERVER): [losses[-1] - server.numbers["lowest"]] for way, losses in server.numbers["losses"].items()
    }
    drawing = server.pictures["table"]
    return replace(
        server,
        about="A loss with one weight, its surrogate and its tangent; two clients and their surrogates",
        pictures={"table": Drawing(drawing.title, [*panels, *drawing.panels], across=2)},
        values={**values, **excess},
    )


FIG1 = Study(
    "feddm-fig1",
    "a loss with one weight: its surrogate follows it, its tangent does not",
    {
        "smoke": one_weight((0,), 20, 1),
        "desk": one_weight(range(10), STEPS, 4),
        "paper": one_weight(range(10), STEPS, 4),
    },
    published=Published(
        DM,
        "figure 1",
        {},
        [
            PaperClaim(
                "The surrogate matches the original accurately, compared with the tangent.",
                all_of(below((BY_MEANS, column), (TANGENT, column)) for column in (MEAN_GAP, LARGEST_GAP)),
                scales=("desk", "paper"),
            ),
            PaperClaim(
                "Minimising it leads to a satisfactory solution: nine tenths of what can be gained.",
                at_least((BY_MEANS, GAINED), 90.0),
                scales=("desk", "paper"),
            ),
            PaperClaim(
                "Both hold if the objective itself is matched, as equation 7 has it.",
                all_of(
                    [
                        *(below((BY_OBJECTIVE, column), (TANGENT, column)) for column in (MEAN_GAP, LARGEST_GAP)),
                        at_least((BY_OBJECTIVE, GAINED), 90.0),
                    ]
                ),
                scales=("desk", "paper"),
            ),
            PaperClaim(
                "A server with surrogates of two clients sees more of the loss than one that averages their models.",
                below((SUMMED, SERVER), (AVERAGED, SERVER)),
                scales=("desk", "paper"),
            ),
        ],
        unit="loss, or % where said",
        grain=0.005,
        remarks=[
            "The figure prints no numbers. Gaps are differences of mean loss, averaged as weights are drawn, or the "
            "largest within ρ = 5.",
            "Appendix C matches the objective, the caption means of features and logits; both are here.",
            "The two clients are ours: features sin(wx) and cos(wx), logit 4·sin(wx), 200 records and four synthetic "
            "ones each, within ρ = 0.5 of w = 0.7, four rounds.",
        ],
    ),
    more=[
        "The surrogates' own optimum is not the true one, since matching means of logits does not match losses.",
        "An average of two trained models does not know that one client's optimum is narrow and the other's wide and "
        "far away.",
    ],
)
