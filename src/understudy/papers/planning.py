"""What a study will cost before it starts: how many runs, samples through the network, and hours.

The speed is named: seconds of rounds that the store already has, or else a batch of the very network, timed here.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from understudy.config.build import device, method_with_add_ons, module_of
from understudy.config.schema import Config
from understudy.data.problem import Problem
from understudy.data.sets import SOURCES
from understudy.errors import UserError
from understudy.federation.cohorts import cohort_size
from understudy.papers.carrying_out import NeededRun
from understudy.papers.published import Direct, Experiment
from understudy.runs.folder import RunFolder
from understudy.runs.run_store import FinishedRun, RunStore, StoredConfig
from understudy.threads import one_thread

SECONDS_OF_TIMING = 0.5
BATCH = 64


@dataclass(frozen=True)
class StudyPlan:
    runs: int
    there: int  # of them, finished in the store
    samples: float  # through the network, of those that are missing
    hours: float  # of one process, for those
    speed: str  # what the hours are based on
    needs: Sequence[str] = ()  # data sets that are not on this machine


def plan_of(asked: Experiment, store: RunStore, only: Sequence[str] = ()) -> StudyPlan:
    runs = asked.runs(store, only)
    if isinstance(asked, Direct):
        return StudyPlan(0, 0, 0.0, asked.about_seconds / 3600, "as it was on the reference machine")
    return planned(runs, store)


def planned(runs: Sequence[NeededRun], store: RunStore) -> StudyPlan:
    missing = [one for one in runs if not isinstance(store.find(one.run), FinishedRun)]
    samples = {one.run.digest: samples_of(one.run) for one in missing}
    hours, timed, measured = 0.0, 0, {}
    for one in missing:
        seconds = _seconds_left(one, store)
        if seconds is None:
            network = _network_key(one.run.config)
            if network not in measured:
                measured[network] = samples_per_second(one.run.config)
            seconds = samples[one.run.digest] / measured[network]
        else:
            timed += 1
        hours += seconds / 3600
    return StudyPlan(
        len(runs), len(runs) - len(missing), sum(samples.values()), hours, _said(measured, timed), _absent(missing)
    )


def _said(measured: dict[str, float], timed: int) -> str:
    speeds = {name: f"{speed:,.0f}".replace(",", " ") for name, speed in measured.items()}
    parts = [f"{name}: {speed} samples per second, timed here" for name, speed in speeds.items()]
    if timed:
        parts.append(f"{timed} begun runs by their own rounds")
    return "; ".join(parts) or "nothing left to run"


def _absent(runs: Sequence[NeededRun]) -> list[str]:
    names = {one.run.config.data.name for one in runs if one.run.config.data is not None}
    return sorted(name for name in names if name in SOURCES and not SOURCES[name].here(None))


# ---- samples


def samples_of(run: StoredConfig) -> float:
    """Through the network, in all rounds, roughly; a branch's first rounds belong to the run it continues from."""
    config = run.config
    records, classes, clients = _size(config)
    rounds = range(1 if run.first is None else run.first.config.plan.rounds + 1, config.plan.rounds + 1)
    per_client = method_with_add_ons(config).samples(records // clients, classes, rounds)
    return cohort_size(config.plan.cohort, clients) * per_client


def _size(config: Config) -> tuple[int, int, int]:
    """Training records, classes and clients; of own data nothing is known before it is read."""
    data = config.data
    if data is None or data.name not in SOURCES:
        return 1000, 10, 10
    source = SOURCES[data.name]
    return min(source.records[0], data.limit or source.records[0]), source.classes, max(1, int(data.clients))


# ---- speed


def _seconds_left(one: NeededRun, store: RunStore) -> float | None:
    """By the rounds that an unfinished run has done."""
    try:
        metrics = RunFolder(store.folder(one.run)).metrics()
    except UserError:
        return None
    done = [line["seconds"] for line in metrics if line["round"] > 0]
    if not done:
        return None
    return float(sum(done)) / len(done) * (one.run.config.plan.rounds - int(metrics[-1]["round"]))


def _network_key(config: Config) -> str:
    sizes = ", ".join(f"{key} {value}" for key, value in config.model_settings.items() if value is not None)
    named = f"{config.model.name} ({sizes})" if sizes else config.model.name
    return f"{named} on {'×'.join(map(str, _shape(config)))}, {device(config)}"


def _shape(config: Config) -> tuple[int, ...]:
    if config.data is None or config.data.name not in SOURCES:
        return (1, 28, 28)
    channels, *sides = SOURCES[config.data.name].shape
    return (channels, *(sides if config.data.size is None else (config.data.size, config.data.size)))


def samples_per_second(config: Config) -> float:
    """Steps of plain training on one batch, timed here after one that is not; what a method does besides is not
    counted. On a processor it is the processor's time: what else the machine does at the moment will not go on."""
    _, classes, _ = _size(config)
    where = device(config)
    clock = time.process_time if torch.device(where).type == "cpu" else time.perf_counter
    with one_thread():
        module = module_of(config, Problem(_shape(config), classes)).to(where)
        x = torch.zeros(BATCH, *_shape(config), device=where)
        y = torch.zeros(BATCH, dtype=torch.long, device=where)
        _one_step(module, x, y)
        begun, steps = clock(), 0
        while steps == 0 or clock() - begun < SECONDS_OF_TIMING:
            _one_step(module, x, y)
            steps += 1
        return BATCH * steps / (clock() - begun)


def _one_step(module: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    loss = F.cross_entropy(module(x), y)
    module.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    float(loss.detach())  # waits for the device
