"""Table 2 of "FedDM: Iterative Distribution Matching for Communication-Efficient Federated Learning": how many floats
all clients together upload in a round.

As the paper counts: weights or pixels only, towards the server only; the model that goes down each round is left out.
Counted with the networks and methods of this library. What FedDM sends depends on the split, and the paper has one
draw of it; here there are ten. A split needs no images, so this runs without the data sets.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from understudy.config.build import method_with_add_ons, module_of
from understudy.config.read import read
from understudy.config.resolve import resolve
from understudy.config.schema import Config
from understudy.data.dataset import Dataset
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.data.sets import SOURCES
from understudy.data.splits.make import make_split
from understudy.errors import UserError
from understudy.federation.method import Method
from understudy.methods.shared.averaging import Averaging
from understudy.methods.shared.pooled import Pooled
from understudy.models.network import Network
from understudy.papers.claims import PaperClaim, above, all_of, as_printed, below, drawn_like, times
from understudy.papers.printed import DM
from understudy.papers.published import Direct, Published, Study
from understudy.papers.study import Changes, Findings, TableCell
from understudy.runs.watching import Observer

PRESETS = {"MNIST": "feddm-mnist", "CIFAR10": "feddm-cifar10", "CIFAR100": "feddm-cifar100"}
MNIST_CLASSES = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)  # training records; CIFAR's are all alike
ALPHAS = {"Dir₁₀(0.5)": 0.5, "Dir₁₀(0.1)": 0.1, "Dir₁₀(0.01)": 0.01}
BASELINE, FIFTY, BASELINE_OF_FIFTY, RESNET = "Baseline", "Dir₅₀(0.5)", "Baseline, 50 clients", "Baseline, ResNet-18"
FEDAVG: Changes = {"method": {"name": "fedavg", "rounds": 20}}
MORE_THAN_WEIGHTS: Mapping[str, Changes] = {
    "SCAFFOLD": {"method": {"name": "scaffold", "rounds": 20}},
    "FedNova": {"method": {"name": "fednova", "rounds": 20}},
}

PRINTED: Mapping[TableCell, float] = {
    ("Dir₁₀(0.5)", "MNIST"): 635040,
    ("Dir₁₀(0.5)", "CIFAR10"): 2672640,
    ("Dir₁₀(0.5)", "CIFAR100"): 10045440,
    ("Dir₁₀(0.1)", "MNIST"): 368480,
    ("Dir₁₀(0.1)", "CIFAR10"): 1351680,
    ("Dir₁₀(0.1)", "CIFAR100"): 4761600,
    ("Dir₁₀(0.01)", "MNIST"): 109760,
    ("Dir₁₀(0.01)", "CIFAR10"): 460800,
    ("Dir₁₀(0.01)", "CIFAR100"): 2135040,
    (BASELINE, "MNIST"): 3177060,
    (BASELINE, "CIFAR10"): 3200100,
    (BASELINE, "CIFAR100"): 5044200,
    (FIFTY, "CIFAR10"): 3.1e6,  # these three are rounded, and stand in the text beside the table
    (BASELINE_OF_FIFTY, "CIFAR10"): 1.6e7,
    (RESNET, "CIFAR10"): 1.1e8,
}


@dataclass(frozen=True)
class Uploads:
    """One set-up of which sizes are counted."""

    config: Config
    method: Method  # bound to its network

    def floats(self, seed: int) -> int:
        """Of all clients in one round, with the split that this seed gives."""
        data = self.config.data
        assert data is not None
        if isinstance(self.method, Averaging):
            return int(data.clients) * weights_up(self.method)
        if not isinstance(self.method, Pooled):
            raise UserError(
                f"{self.config.plan.name} sends neither weights nor images, so there are no floats to count."
            )
        labels = without_images(data.name, self.method.net.problem)
        split = make_split(labels, data.split, clients=int(data.clients), seed=seed)
        return sum(images_up(self.method, labels.train.y[own]) for own in split.clients.values())


def uploads(preset: str, changes: Changes) -> Uploads:
    config = resolve(read(preset), changes)
    assert config.data is not None
    source = SOURCES[config.data.name]
    problem = Problem(source.shape, source.classes)
    method = method_with_add_ons(config)
    method.bind(Network(lambda: module_of(config, problem), problem), config.plan.rounds)
    return Uploads(config, method)


def weights_up(method: Averaging) -> int:
    """Numbers of a reply that are weights or of their size; the few others (a count, a step number) are one each."""
    return sum(math.prod(shape) for part, shape in method.reply_shapes().items() if part != "weight")


def images_up(method: Pooled, labels: Tensor) -> int:
    """Pixels of the images that a client with these labels sends, for the classes it owns."""
    own = Examples(torch.empty(len(labels), 0), labels)
    return len(method.owned(own)) * method.settings.ipc * math.prod(method.net.problem.shape)


def without_images(name: str, problem: Problem) -> Dataset:
    """The training labels of a data set, beside images without storage: splits look at labels alone."""
    records = SOURCES[name].records[0]
    sizes = MNIST_CLASSES if name == "mnist" else [records // problem.classes] * problem.classes
    y = torch.arange(problem.classes).repeat_interleave(torch.tensor(sizes))
    x = torch.zeros(1, dtype=torch.uint8).expand(len(y), *problem.shape)
    return Dataset(name, problem, Examples(x, y), None)


def counted(seeds: Sequence[int], columns: Sequence[str]) -> Mapping[TableCell, Sequence[float]]:
    found: dict[TableCell, Sequence[float]] = {}
    for column in columns:
        preset = PRESETS[column]
        for row, alpha in ALPHAS.items():
            feddm = uploads(preset, {"data.split.alpha": alpha})
            found[row, column] = [feddm.floats(seed) for seed in seeds]
        found[BASELINE, column] = [uploads(preset, FEDAVG).floats(0)]
        for name, changes in MORE_THAN_WEIGHTS.items():
            found[name, column] = [uploads(preset, changes).floats(0)]
    if "CIFAR10" in columns:
        found |= beside_the_table(seeds)
    return found


def beside_the_table(seeds: Sequence[int]) -> Mapping[TableCell, Sequence[float]]:
    """What the text says about fifty clients and about ResNet-18."""
    many, resnet = {"data.clients": 50}, {"model": {"name": "resnet18", "norm": "group"}}
    fifty = uploads("feddm-cifar10", {**many, "method.ipc": 3})
    return {
        (FIFTY, "CIFAR10"): [fifty.floats(seed) for seed in seeds],
        (BASELINE_OF_FIFTY, "CIFAR10"): [uploads("feddm-cifar10", {**FEDAVG, **many}).floats(0)],
        (RESNET, "CIFAR10"): [uploads("feddm-cifar10", {**FEDAVG, **resnet}).floats(0)],
    }


def message_sizes(seeds: Sequence[int], columns: Sequence[str] = tuple(PRESETS)) -> Direct:
    def work(_: Path, observer: Observer) -> Findings:
        observer.says(f"counting floats, {len(seeds)} splits each")
        return Findings("Floats that all clients upload in a round", values=counted(seeds, columns))

    return Direct(work, about_seconds=2.0 * len(seeds))


def _smaller() -> PaperClaim:
    cells = [((row, column), (BASELINE, column)) for row in ALPHAS for column in PRESETS]
    return PaperClaim(
        "FedDM uploads less per round than the baselines do.",
        all_of(below(ours, theirs) for ours, theirs in cells),
        likely_cause=(
            "It is arithmetic, and the paper's own table has it: with 100 classes and Dirichlet 0.5 ten clients hold "
            "some 650 times a class of ten records or more, and five images for each of these are 10 million "
            "numbers. The ten networks have 5 million weights together."
        ),
    )


TABLE2 = Study(
    "feddm-table2",
    "how many floats all clients upload in a round, counted with the networks and methods here",
    {"smoke": message_sizes((0,), ("MNIST",)), "desk": message_sizes(range(10)), "paper": message_sizes(range(10))},
    published=Published(
        DM,
        "table 2",
        PRINTED,
        [
            PaperClaim(
                "A baseline uploads every weight of its network: the printed numbers, to the last float.",
                as_printed([(BASELINE, column) for column in PRESETS], 0),
            ),
            _smaller(),
            PaperClaim(
                "FedDM's messages shrink as the split becomes more skewed.",
                all_of(
                    above((milder, column), (harder, column))
                    for column in PRESETS
                    for milder, harder in zip(ALPHAS, list(ALPHAS)[1:], strict=False)
                ),
            ),
            PaperClaim(
                "Its printed sizes are ten images (CIFAR-100: five; fifty clients: three) for each class that a client "
                "holds, on one draw of each split.",
                drawn_like([cell for cell in PRINTED if cell[0] in (*ALPHAS, FIFTY)], 3.0),
                scales=("desk", "paper"),
            ),
            PaperClaim(
                "With fifty clients FedDM saves about 80 % per round.",
                times((BASELINE_OF_FIFTY, "CIFAR10"), (FIFTY, "CIFAR10"), 4.5),
            ),
            PaperClaim(
                "With ResNet-18 ten baselines upload about 1.1·10⁸ floats.", as_printed([(RESNET, "CIFAR10")], 5e6)
            ),
        ],
        unit="floats",
        grain=0.0,
        remarks=[
            "CIFAR-100 at Dir₁₀(0.5) is printed with twice the floats of the baseline, against the text.",
            "The printed sizes fit the split only if a client leaves out classes with fewer than ten records.",
            "SCAFFOLD sends a control variate beside its change, so it uploads twice the baseline's floats (below); "
            "the paper's table has one row for all baselines.",
        ],
    ),
)
