"""What methods cost beside FedAvg: what their mathematics costs, and no more.

A term in closed form, or one on features that are there already, should be nearly free. A second pass, frozen networks
and generated images cost what such passes cost: each is measured by itself in the same run, and added to FedAvg's time.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.report import Row
from benchmarks.timing import Turn, take_turns
from benchmarks.training import LR, SIMPLE, Case, Ours, holdings, network
from understudy.engines.inline import Inline
from understudy.federation.registry import entry as method_named
from understudy.heap import keep_freed_memory
from understudy.methods.shared.averaging import Averaging
from understudy.models.network import Network
from understudy.models.zoo import entry
from understudy.randomness import generator
from understudy.synthesis.inversion import Inversion, invert
from understudy.threads import one_thread

CASE = Case(SIMPLE.model, SIMPLE.problem, SIMPLE.by_hand, clients=2, a_turn=2)
EPOCHS = 3
LOCAL = {"epochs": EPOCHS, "batch": CASE.batch, "lr": LR}
FREE, ALLOWED = 0.85, 1 / 1.15  # of FedAvg's pace; of the pace that the passes allow
IMAGES, STEPS = 64, 5  # of FedCOG, fewer than published so that training counts as well


def built(name: str, **settings: object) -> Averaging:
    found = method_named(name, "method")
    method = found.build(found.settings.model_validate({"local": LOCAL, **settings}))
    assert isinstance(method, Averaging)
    return method


def with_fedcog() -> Averaging:
    found = method_named("fedcog", "add-on")
    method = found.build(
        found.settings.model_validate({"kd_weighting": "fixed", "images": IMAGES, "steps": STEPS}), built("fedavg")
    )
    assert isinstance(method, Averaging)
    return method


def methods() -> dict[str, Averaging]:
    named = {name: built(name) for name in ("fedavg", "fedprox", "scaffold", "feddecorr", "fedsam")}
    return {**named, "moon": built("moon", projection=None), "fedavg+fedcog": with_fedcog()}


def passes(net: Network) -> dict[str, Callable[[], object]]:
    """The extra passes by themselves, over the records of one turn."""
    every = [own.x for _, own in holdings(CASE)]

    def look() -> None:
        with net.scoring():
            for x in every:
                for some in torch.split(x, CASE.batch):
                    net(some)

    def generate() -> None:
        labels = torch.arange(IMAGES) % 10
        for _ in every:
            how = Inversion(STEPS, lr=0.01, disagreement=0.1)
            invert(net, labels, generator("b"), net.twin(net.vector, "b"), how)

    return {"one look": look, "generating": generate}


def rows() -> list[Row]:
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder, one_thread():
        net = network(CASE.model, CASE.problem, entry(CASE.model).fast)
        ours = {name: Ours(CASE, net, Inline, Path(folder) / name, method) for name, method in methods().items()}
        for each in ours.values():
            each.round()  # MOON and FedCOG need a last local model
        amount = CASE.a_turn * CASE.records * EPOCHS
        work: dict[str, Callable[[], object]] = {name: each.round for name, each in ours.items()}
        turns = {name: Turn(each, amount) for name, each in {**work, **passes(net)}.items()}
        take_turns(turns, 1)
        pace = {name: found.a_second for name, found in take_turns(turns, CASE.turns).items()}
    return _rows(pace)


def _rows(pace: dict[str, float]) -> list[Row]:
    def together(*parts: str) -> float:
        """Samples a second if these were done one after the other."""
        return 1 / sum(1 / pace[part] for part in parts)

    free = [
        Row(f"{name} / fedavg", "samples/s", pace[name], pace["fedavg"], FREE)
        for name in ("fedprox", "scaffold", "feddecorr")
    ]
    needed = {
        "fedsam": ("fedavg", "fedavg"),
        "moon": ("fedavg", "one look", "one look"),
        "fedavg+fedcog": ("fedavg", "fedavg", "generating"),
    }
    costly = [
        Row(f"{name} / {' + '.join(parts)}", "samples/s", pace[name], together(*parts), ALLOWED)
        for name, parts in needed.items()
    ]
    return [*free, *costly]
