"""What a federation of 10,000 sites would need: constants measured here, papers' sizes, and arithmetic.

``python -m benchmarks scale`` prints it; ``python -m benchmarks.scale --page docs/scale.md`` writes the tables into the
page.
"""

import argparse
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.link_costs import SITES as LINKED
from benchmarks.link_costs import LinkCosts, measured_link
from benchmarks.report import Row, machine
from benchmarks.round_simulated import MethodFamily, World, simulate
from benchmarks.server_costs import MB, SMALL, ServerCosts, measured, seconds_of_a_sum
from understudy.config.read import read
from understudy.config.resolve import resolve
from understudy.methods.shared.averaging import Averaging
from understudy.papers.feddm.message_sizes import FEDAVG, MORE_THAN_WEIGHTS, uploads, weights_up
from understudy.papers.study import Changes

NEIGHBOURS, BITS = 30, 48  # of secure aggregation, by default
PIXELS = 3 * 32 * 32


def rows() -> list[Row]:
    """Nothing here is a ratio with a goal: it prints its tables."""
    print("\n\n".join(tables().values()))
    return []


def families() -> list[MethodFamily]:
    """At the papers' sizes on CIFAR-10; numbers are float32, Fedssyn's images bytes."""
    resnet = {"model": {"name": "resnet18", "norm": "group"}}
    return [
        _averaging("FedAvg, FedCOG: SimpleCNN", "fedcog-cifar10", FEDAVG),
        _averaging("FedAvg: ConvNet", "feddm-cifar10", FEDAVG),
        _averaging("SCAFFOLD: ConvNet", "feddm-cifar10", MORE_THAN_WEIGHTS["SCAFFOLD"]),
        _averaging("FedAvg: ResNet-18", "feddm-cifar10", {**FEDAVG, **resnet}),
        _averaging("Fedssyn, a round: VGG-11", "fedssyn-cifar10", {**FEDAVG, "with": []}),
        _opening("Fedssyn, its opening: images", "fedssyn-cifar10"),
        _pooled("FedDM: 10 images per class", "feddm-cifar10"),
        _surrogate("FedLAP-DP: images of 2 classes", "fedlap-dp-cifar10"),
    ]


def _averaging(name: str, preset: str, changes: Changes) -> MethodFamily:
    method = uploads(preset, changes).method
    assert isinstance(method, Averaging)
    up = 4.0 * weights_up(method)
    return MethodFamily(name, up, up)  # what comes back is as large: SCAFFOLD's control variate too


def _pooled(name: str, preset: str) -> MethodFamily:
    """The mean of the paper's ten clients, some of which lack classes."""
    found = uploads(preset, {})
    return MethodFamily(name, 4.0 * found.floats(0) / 10, 4.0 * found.method.net.size, summed=False)


def _surrogate(name: str, preset: str) -> MethodFamily:
    """ConvNet down, and each client's two classes up."""
    ipc, down = resolve(read(preset)).method.settings.model_dump()["ipc"], uploads("feddm-cifar10", {}).method.net.size
    return MethodFamily(name, 4.0 * 2 * ipc * PIXELS, 4.0 * down, summed=False)


def _opening(name: str, preset: str) -> MethodFamily:
    """Each site sends its images and is dealt as many."""
    (fedssyn,) = resolve(read(preset)).add_ons
    size = float(fedssyn.settings.model_dump()["images"]) * PIXELS
    return MethodFamily(name, size, size, summed=False)


def tables() -> dict[str, str]:
    costs, link, world = measured(), measured_link(), World()
    return {
        "machine": _machine(),
        "constants": _constants(costs, link),
        "server": _linear(costs),
        "families": _needs(costs, link, world),
        "rounds": _rounds(costs, world),
        "secure": _secure(costs, world),
    }


def _machine() -> str:
    here = machine()
    return (
        f"Measured on {here['cores']} cores ({here['processor']}), Python {here['python']}, torch {here['torch']}, one "
        f"thread, load {here['load']}; processor seconds, the best of three."
    )


def _constants(costs: ServerCosts, link: LinkCosts | None) -> str:
    found = [
        ("server: a reply, whatever its size (decoded, checked, noted, added up)", f"{1e3 * costs.reply:.2f} ms"),
        ("server: each MB of it", f"{1e3 * costs.megabyte:.2f} ms"),
        ("ledger: a line", f"{1e6 * costs.line:.0f} µs, {costs.line_bytes:.0f} bytes"),
        ("ledger: a line with a charge, waiting for the disk (by the clock)", f"{1e3 * costs.durable_line:.1f} ms"),
        ("secure aggregation, client: a neighbour (keys, shares, boxes)", f"{1e3 * costs.pair:.2f} ms"),
        ("secure aggregation, client: a neighbour's mask, each MB", f"{1e3 * costs.pair_megabyte:.2f} ms"),
        ("secure aggregation, server: a client's secret, from 19 shares", f"{1e3 * costs.secret:.1f} ms"),
        ("secure aggregation, server: a client's numbers and mask, each MB", f"{1e3 * costs.own_mask_megabyte:.2f} ms"),
    ]
    if link is not None:
        found += [
            ("SuperLink: one site that polls, each second", f"{1e3 * link.waiting:.1f} ms"),
            ("SuperLink: a request and its reply, empty", f"{1e3 * link.message:.0f} ms"),
            ("SuperLink: each MB of either", f"{1e3 * link.megabyte:.1f} ms"),
            (f"Flower: an empty exchange with {LINKED} sites on this machine (by the clock)", f"{link.phase:.1f} s"),
        ]
    return _table(("what", "measured"), found)


def _linear(costs: ServerCosts) -> str:
    lines = []
    for clients in (1_000, 10_000):
        with tempfile.TemporaryDirectory() as folder:
            taken = seconds_of_a_sum(clients, SMALL, Path(folder))
        expected = clients * (costs.reply + costs.megabyte * 4 * SMALL / MB)
        lines.append((f"{clients:,}", f"{taken:.2f}", f"{expected:.2f}"))
    return _table(("replies of 10 kB, summed", "measured, s", "by the constants, s"), lines)


def _needs(costs: ServerCosts, link: LinkCosts | None, world: World) -> str:
    head = ["a round with 10,000 sites", "up per site, MB", "in and out at the server, GB", "10 Gbit/s link, s"]
    head += ["server's core, s", "SuperLink's core, s", "held at the server, MB"]
    lines = []
    for family in families():
        both = family.up + family.down
        core = world.sites * (costs.reply + costs.megabyte * family.up / MB)
        linked = "–" if link is None else f"{world.sites * (link.message + link.megabyte * both / MB):,.0f}"
        held = 2 * family.up if family.summed else world.sites * family.up  # a sum is in float64
        lines.append(
            (
                family.name,
                f"{family.up / MB:.2f}",
                f"{world.sites * both / 1e9:,.1f}",
                f"{world.sites * both / world.server_link:,.0f}",
                f"{core:,.0f}",
                linked,
                f"{held / MB:,.0f}" if held >= 10 * MB else f"{held / MB:.1f}",
            )
        )
    return _table(tuple(head), lines)


def _rounds(costs: ServerCosts, world: World) -> str:
    about = (
        f"Assumed: sites at 100 Mbit/s down and 20 up, {world.work:.0f} s of work each (median; log-normal with "
        f"σ = {world.spread}), asking for work every {world.poll:.0f} s; servers with one core and 10 Gbit/s."
    )
    lines = []
    for family in families():
        found = simulate(family, world, costs)
        lines.append((family.name, *(f"{seconds:,.0f}" for seconds in vars(found).values())))
    head = ("simulated round, s", "server without limits", "one server", "100 servers under one")
    return f"{about}\n\n{_table(head, lines)}"


def _secure(costs: ServerCosts, world: World) -> str:
    lines = []
    for family in families():
        if not family.summed:
            continue
        size = family.up / MB
        client = NEIGHBOURS * costs.pair + (NEIGHBOURS + 1) * costs.pair_megabyte * size
        server = world.sites * (4 * costs.reply + costs.secret + costs.own_mask_megabyte * size)
        up = family.up * BITS / 32
        regional = math.sqrt(world.sites) * (4 * costs.reply + costs.secret + costs.own_mask_megabyte * size)
        lines.append((family.name, f"{up / MB:.2f}", f"{client:.2f}", f"{server:,.0f}", f"{regional:,.1f}"))
    head = ("under masks, 10,000 sites", "up per site, MB", "a client, s", "the server, s", "one of 100 servers, s")
    return _table(head, lines)


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    first, *others = ("| " + " | ".join(cells) + " |" for cells in (head, *lines))
    return "\n".join([first, "|---|" + "--:|" * (len(head) - 1), *others])


def write_into(page: str, found: dict[str, str]) -> str:
    """The page with each table between its marks."""
    for name, text in found.items():
        begin, end = f"<!-- measured: {name} -->\n", "\n<!-- end -->"
        before, mark, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not mark or not closed:
            raise SystemExit(f"the page has no place for '{name}'")
        page = f"{before}{begin}\n{text}\n{end}{after}"
    return page


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument("--page", type=Path, help="write the tables into this page")
    asked = parser.parse_args()
    made = tables()
    print("\n\n".join(made.values()))
    if asked.page is not None:
        asked.page.write_text(write_into(asked.page.read_text(), made))
