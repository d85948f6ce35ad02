"""What a server can do with surrogates, after the one-dimensional picture of "FedDM: Iterative Distribution Matching
for Communication-Efficient Federated Learning".

Near the broadcast model a few learnt records stand in for a client's loss, farther away they do not; and a server that
sums such surrogates gets closer to the common optimum than one that averages trained models.

A network with a single weight: a record is a number x, its features are sin(wx) and cos(wx), its logit 4·sin(wx), the
loss the logistic one. As in FedDM, a client learns m records per class so that the class means of features and logits
agree at weights drawn within ρ of w_r, and the server minimises the sum of the surrogates within that ball.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from understudy.papers.study import Drawing, Findings, Panel, StudyTable, Trace
from understudy.randomness import generator

SUMMED, AVERAGED, TRUE_SUM = "sum of surrogates", "average of trained models", "true sum, in the ball"
ABOUT = "One weight, two clients: surrogates of four learnt records per client, near the broadcast weight and elsewhere"
START, RADIUS, SYNTHETIC = 0.7, 0.5, 2  # w_r, ρ, m
LOW, HIGH, POINTS = -0.5, 4.0, 901
# Where the classes of each client lie: (centre of class 0, of class 1, spread), equally many records of each. The
# first client's loss is steep around its optimum, the second one's flat, with its optimum far away.
PLACES = ((-1.7, 1.5, 0.5), (-0.5, 0.6, 0.2))
RECORDS = 100


@dataclass(frozen=True)
class Records:
    x: Tensor  # (n,)
    y: Tensor  # (n,), 0 or 1


def outputs(x: Tensor, w: Tensor) -> Tensor:
    """(…, n, 3): both features and the logit of each record at each weight."""
    turn = w[..., None] * x
    return torch.stack([turn.sin(), turn.cos(), 4 * turn.sin()], -1)


def losses(client: Records, w: Tensor) -> Tensor:
    """(…,): mean loss at each weight."""
    logits = outputs(client.x, w)[..., 2]
    return functional.binary_cross_entropy_with_logits(logits, client.y.expand_as(logits), reduction="none").mean(-1)


def drawn() -> list[Records]:
    found = []
    for number, (zero, one, spread) in enumerate(PLACES):
        noise = spread * torch.randn(2 * RECORDS, generator=generator("surrogate", number), dtype=torch.float64)
        y = torch.arange(2).repeat_interleave(RECORDS).to(torch.float64)
        found.append(Records(torch.where(y == 0, zero, one) + noise, y))
    return found


def surrogate(client: Records, near: float, radius: float, rng: torch.Generator, *, steps: int, lr: float) -> Records:
    """Records learnt to have the class means of the client's, at weights within ``radius`` of ``near``."""
    begun = [client.x[client.y == label][:SYNTHETIC] for label in (0, 1)]
    x = torch.cat(begun).clone().requires_grad_()
    y = torch.arange(2).repeat_interleave(SYNTHETIC).to(client.y.dtype)
    for _ in range(steps):
        w = near + radius * (2 * torch.rand(16, generator=rng, dtype=torch.float64) - 1)
        off = torch.zeros((), dtype=torch.float64)
        for label in (0, 1):
            real, made = (outputs(one[owner == label], w).mean(-2) for one, owner in ((client.x, client.y), (x, y)))
            off = off + (real - made).square().sum(-1).mean()
        (slope,) = torch.autograd.grad(off, x)
        x = (x - lr * slope).detach().requires_grad_()
    return Records(x.detach(), y)


def trained(client: Records, start: float, *, steps: int = 400, lr: float = 0.05) -> float:
    """Where gradient descent on the client's own loss ends."""
    w = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    for _ in range(steps):
        (slope,) = torch.autograd.grad(losses(client, w), w)
        w = (w - lr * slope).detach().requires_grad_()
    return float(w.detach())


def best_within(clients: Sequence[Records], near: float, radius: float) -> float:
    grid = near + radius * torch.linspace(-1, 1, 401, dtype=torch.float64)
    return float(grid[total(clients, grid).argmin()])


def total(clients: Sequence[Records], w: Tensor) -> Tensor:
    return torch.stack([losses(one, w) for one in clients]).mean(0)


def two_clients(steps: int, rounds: int) -> Findings:
    """Their surrogates at the first weight, and where the server goes with them."""
    clients = drawn()
    first = _surrogates(clients, START, 0, steps)
    return _findings(clients, first, _rounds(clients, rounds, steps))


def _surrogates(clients: Sequence[Records], near: float, round: int, steps: int) -> list[Records]:
    return [
        surrogate(one, near, RADIUS, generator("surrogate", "round", round, number), steps=steps, lr=0.05)
        for number, one in enumerate(clients)
    ]


def _rounds(clients: Sequence[Records], rounds: int, steps: int) -> dict[str, list[float]]:
    """The server's weight after each round; the first is where all begin."""
    ways = {SUMMED: [START], AVERAGED: [START], TRUE_SUM: [START]}
    for round in range(rounds):
        summed, averaged, true = (way[-1] for way in ways.values())
        found = (
            best_within(_surrogates(clients, summed, round, steps), summed, RADIUS),
            sum(trained(one, averaged) for one in clients) / len(clients),
            best_within(clients, true, RADIUS),
        )
        for way, w in zip(ways.values(), found, strict=True):
            way.append(w)
    return ways


def _gaps(client: Records, made: Records, grid: Tensor) -> tuple[float, float]:
    """Largest gap between surrogate and loss within the ball, and between one and three radii from its centre."""
    off, far = (losses(made, grid) - losses(client, grid)).abs(), (grid - START).abs()
    return float(off[far <= RADIUS].max()), float(off[(far > RADIUS) & (far <= 3 * RADIUS)].max())


def _findings(clients: Sequence[Records], first: Sequence[Records], ways: dict[str, list[float]]) -> Findings:
    grid = torch.linspace(LOW, HIGH, POINTS, dtype=torch.float64)
    common = total(clients, grid)
    lowest = float(common.min())
    gaps = [_gaps(one, made, grid) for one, made in zip(clients, first, strict=True)]
    gap_table = StudyTable(
        ["client", f"largest gap within ρ = {RADIUS:g} of w = {START:g}", "from ρ to 3ρ"],
        [[str(number + 1), f"{near:.4f}", f"{far:.4f}"] for number, (near, far) in enumerate(gaps)],
    )
    values = {
        name: [float(total(clients, torch.tensor(w, dtype=torch.float64))) for w in way] for name, way in ways.items()
    }
    rounds = len(next(iter(ways.values())))
    way_table = StudyTable(
        ["server", *(f"w after {at}: loss" for at in range(rounds))],
        [
            [name, *(f"{w:.3f}: {value:.4f}" for w, value in zip(ways[name], values[name], strict=True))]
            for name in ways
        ],
    )
    numbers = {"gaps": gaps, "ways": ways, "losses": values, "lowest": lowest}
    panels = [
        *(
            _client_panel(number, one, made, grid)
            for number, (one, made) in enumerate(zip(clients, first, strict=True))
        ),
        _sum_panel(clients, first, ways, grid),
    ]
    notes = _notes(gaps, values, lowest)
    tables, pictures = {"table": [gap_table, way_table]}, {"table": Drawing(ABOUT, panels)}
    return Findings(ABOUT, (), tables, pictures, notes=notes, numbers=numbers)


def _client_panel(number: int, client: Records, made: Records, grid: Tensor) -> Panel:
    x = grid.tolist()
    traces = [
        Trace("its loss", x, losses(client, grid).tolist(), 0),
        Trace(f"surrogate, {len(made.y)} records", x, losses(made, grid).tolist(), 1, "dashed"),
    ]
    ball = (START - RADIUS, START + RADIUS)
    return Panel(f"client {number + 1}; grey: within ρ of the broadcast weight", "w", "loss", traces, shaded=ball)


def _sum_panel(
    clients: Sequence[Records], first: Sequence[Records], ways: dict[str, list[float]], grid: Tensor
) -> Panel:
    x, common = grid.tolist(), total(clients, grid)
    traces = [
        Trace("mean loss of both", x, common.tolist(), 0),
        Trace("mean of the surrogates", x, total(first, grid).tolist(), 1, "dashed"),
    ]
    for look, name in enumerate(ways, 2):
        at = torch.tensor(ways[name][1], dtype=torch.float64)
        traces.append(Trace(f"{name}: w = {float(at):.2f}", [float(at)], [float(total(clients, at))], look, "dots"))
    ball = (START - RADIUS, START + RADIUS)
    return Panel("both clients; dots: the server after one round", "w", "loss", traces, shaded=ball)


def _notes(gaps: Sequence[tuple[float, float]], values: dict[str, list[float]], lowest: float) -> list[str]:
    near, far = max(gap[0] for gap in gaps), max(gap[1] for gap in gaps)
    ends = ", ".join(f"{name} {way[-1]:.4f}" for name, way in values.items())
    return [
        f"Within ρ a surrogate is off by up to {near:.4f}, from ρ to 3ρ by {far:.4f}: {far / near:.1f} times as much.",
        f"Loss after the last round: {ends}; the lowest anywhere is {lowest:.4f}.",
    ]
