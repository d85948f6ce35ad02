"""How many times as fast as one thread of the processor a device is, on work that is large enough to fill it."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Feed, train
from understudy.learning.plan import passes
from understudy.models import zoo
from understudy.models.network import Network
from understudy.randomness import generator
from understudy.synthesis.matching import ImageSteps, Neighbourhood, RealClasses, match_distributions
from understudy.threads import one_thread

PROBLEM = Problem((3, 32, 32), 10)


@dataclass(frozen=True)
class SpeedTrial:
    """The size of the work: by default that of FedDM's paper."""

    width: int = 128  # channels of ConvNet
    batch: int = 256  # records in a step of training
    real_batch: int = 64  # records per class in a step of matching
    least: float = 1.0  # seconds that a measurement takes at least
    takes: int = 3  # of which the best counts


@dataclass(frozen=True)
class DeviceSpeed:
    work: str
    here: float  # seconds per step, on one thread of the processor
    there: float

    @property
    def ratio(self) -> float:
        return self.here / self.there


DoSteps = Callable[[int], object]  # does that many steps, and waits for them


def measure_speed(device: torch.device, trial: SpeedTrial | None = None) -> Iterator[DeviceSpeed]:
    trial = trial or SpeedTrial()
    with one_thread():
        here, there = _works(torch.device("cpu"), trial), _works(device, trial)
        for name, work in here.items():
            counts = [_steps_for(some, trial.least) for some in (work, there[name])]
            # In turns, so that other work on this machine slows both.
            turns = [[_per_step(work, counts[0]), _per_step(there[name], counts[1])] for _ in range(trial.takes)]
            yield DeviceSpeed(name, *map(min, zip(*turns, strict=True)))


def _works(device: torch.device, trial: SpeedTrial) -> Mapping[str, DoSteps]:
    entry = zoo.entry("convnet")
    net = Network(
        lambda: entry.build(PROBLEM, entry.settings.model_validate({"width": trial.width})), PROBLEM, device=device
    )
    records = _records(max(trial.batch, 10 * trial.real_batch))
    size = f"ConvNet of {trial.width} channels, 32×32 pixels"

    def training(steps: int) -> object:
        plan = passes(len(records), steps, trial.batch, generator("speed"))
        return train(net, net.initial(), Feed(records, plan), Descent(Local(steps=steps, batch=trial.batch, lr=0.01)))

    def matching(steps: int) -> object:
        near = Neighbourhood(net.initial(), 5.0, steps, generator("speed"))
        real, images = RealClasses(records, range(10)), torch.zeros(100, *PROBLEM.shape)
        return match_distributions(net, images, real, trial.real_batch, near, ImageSteps(lr=1.0, momentum=0.5))

    return {
        f"training: {size}, batches of {trial.batch}": training,
        f"matching: the same network, 10 classes, 10 images and {trial.real_batch} records each": matching,
    }


def _records(count: int) -> Examples:
    x = torch.randint(256, (count, *PROBLEM.shape), generator=generator("speed", "x"), dtype=torch.uint8)
    return Examples(x, torch.arange(count) % 10)


def _steps_for(work: DoSteps, least: float) -> int:
    work(1)  # what is made once: kernels, buffers
    steps = 1
    while _per_step(work, steps) * steps < least:
        steps *= 2
    return steps


def _per_step(work: DoSteps, steps: int) -> float:
    began = time.perf_counter()
    work(steps)
    return (time.perf_counter() - began) / steps
