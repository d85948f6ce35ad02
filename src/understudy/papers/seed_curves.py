"""A contender of a tuned comparison on its way: its measure after every round, with every seed, and what was sent."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from understudy.papers.tuned import Comparison, Standing
from understudy.runs.compare import MEGABYTE, read_metrics
from understudy.runs.folder import Line

SCARCELY = 0.01  # of a budget: FedNova's step counts, a few bytes beside the model, are not to cost it a round


@dataclass(frozen=True)
class SeedCurve:
    """The scored rounds of one contender. Lists of lists: first by seed, then by round."""

    label: str
    rounds: list[int]
    megabytes: list[list[float]]  # up and down, all clients, from the opening to that round
    values: list[list[float]]  # between 0 and 1

    @property
    def mean(self) -> list[float]:
        return _means(self.values)

    @property
    def lowest(self) -> list[float]:
        return [min(of_round) for of_round in zip(*self.values, strict=True)]

    @property
    def highest(self) -> list[float]:
        return [max(of_round) for of_round in zip(*self.values, strict=True)]

    @property
    def sent(self) -> list[float]:
        """Mean over seeds: a seed has a split of its own, and with it surrogates of another size."""
        return _means(self.megabytes)

    def within(self, budget: float) -> list[float]:
        """Each seed's value after the last round for which no more than ``budget`` was sent, in the mean of seeds."""
        last = max(at for at, sent in enumerate(self.sent) if at == 0 or sent <= budget * (1 + SCARCELY))
        return [of_seed[last] for of_seed in self.values]


def seed_curve(plan: Comparison, standing: Standing, out: Path, label: str) -> SeedCurve:
    """Read from the runs that counted, below ``out``; ``label`` is what the picture calls it."""
    runs = [_points(read_metrics(standing.run_folder(out, seed)), plan.measure) for seed in plan.seeds]
    return SeedCurve(
        label,
        [round for round, _, _ in runs[0]],
        [[sent for _, sent, _ in run] for run in runs],
        [[value for _, _, value in run] for run in runs],
    )


def panels(plan: Comparison, standings: Sequence[Standing], out: Path) -> dict[str, list[SeedCurve]]:
    """By the heading of a panel: the curves that belong there, as ``plan.panels`` says."""
    found = {one.label: one for one in standings}
    return {
        heading: [seed_curve(plan, found[contender], out, label) for label, contender in lines.items()]
        for heading, lines in plan.panels.items()
    }


def panel_table(curves: dict[str, list[SeedCurve]]) -> str:
    """In each panel: after the last round, and for the megabytes of whoever needed least."""
    lines = [
        "| panel | method | last round | accuracy | MB | within | accuracy there |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for heading, panel in curves.items():
        budget = min(curve.sent[-1] for curve in panel)
        for curve in sorted(panel, key=lambda one: -one.mean[-1]):
            last = [of_seed[-1] for of_seed in curve.values]
            lines.append(
                f"| {heading} | {curve.label} | {curve.rounds[-1]} | {said(last)} | {curve.sent[-1]:.2f} "
                f"| {budget:.2f} | {said(curve.within(budget))} |"
            )
    return "\n".join(lines) + "\n"


def _points(metrics: Sequence[Line], measure: str) -> list[tuple[int, float, float]]:
    sent = accumulate((line["bytes_up"] + line["bytes_down"]) / MEGABYTE for line in metrics)
    scored = zip(metrics, sent, strict=True)
    return [(line["round"], total, line[measure]) for line, total in scored if line.get(measure) is not None]


def _means(by_seed: Sequence[Sequence[float]]) -> list[float]:
    return [statistics.fmean(of_round) for of_round in zip(*by_seed, strict=True)]


def said(values: Sequence[float]) -> str:
    """Shares in percent: mean ± standard deviation over seeds."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{100 * statistics.fmean(values):.1f} ± {100 * spread:.1f}"
