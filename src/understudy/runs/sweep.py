"""``sweep``: every combination of some settings, with every seed, over all processes.

Runs are kept by the digest of their config, so a sweep that was stopped or killed goes on where it was, and a wider one
finds what an earlier one did. Validation records choose between combinations; the test set is only reported. A
combination that fails is written down, and the others go on.
"""

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from understudy.config.build import device
from understudy.errors import UserError
from understudy.runs.asked import Asked
from understudy.runs.compare import Measure
from understudy.runs.run_store import Diverged, FinishedRun, RunStore, StoredConfig
from understudy.runs.swept import Chooser, Swept, SweptRun, SweptSettings
from understudy.runs.watching import Observer

VALIDATION = 0.2  # of the training records, where the config keeps none back
SweptValues = Mapping[str, Sequence[Any]]  # values to try, by setting


@dataclass(frozen=True)
class PlannedRun:
    settings: Mapping[str, Any]
    seed: int
    stored: StoredConfig | None  # None: its config is refused
    refused: str = ""

    def __str__(self) -> str:
        return ", ".join([*(f"{key} {value}" for key, value in self.settings.items()), f"seed {self.seed}"])


def sweep(
    asked: Asked,
    grid: SweptValues,
    seeds: Sequence[int],
    *,
    store: RunStore,
    observer: Observer,
    workers: int,
    name: str = "sweep",
) -> Swept:
    asked, notes = _with_validation(asked, grid)
    plan = planned(asked, grid, seeds)
    if all(one.stored is None for one in plan):
        raise UserError(plan[0].refused)
    troubles = _carried_out(plan, store, observer, workers)
    found = [_swept(one, store, trouble) for one, trouble in zip(plan, troubles, strict=True)]
    of_each = [found[at : at + len(seeds)] for at in range(0, len(found), len(seeds))]
    lines = [SweptSettings(runs[0][0].settings, [run for run, _ in runs]) for runs in of_each]
    on: Chooser = "held-out" if any(at_home for _, at_home in found) else "validation"
    measured: Measure = "macro_f1" if any(run.measure == "macro_f1" for run, _ in found) else "accuracy"
    return Swept(f"{name}-{_digest(plan)}", list(grid), list(seeds), lines, on, notes, measured)


def planned(asked: Asked, grid: SweptValues, seeds: Sequence[int]) -> list[PlannedRun]:
    """Combination by combination, each with all seeds."""
    combinations = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    return [_planned(asked, settings, seed) for settings in combinations for seed in seeds]


def _planned(asked: Asked, settings: Mapping[str, Any], seed: int) -> PlannedRun:
    try:
        return PlannedRun(settings, seed, StoredConfig(asked.config({**settings, "seed": seed})))
    except UserError as refused:
        return PlannedRun(settings, seed, None, str(refused))


def _digest(plan: Sequence[PlannedRun]) -> str:
    parts = [f"{one} {one.refused if one.stored is None else one.stored.digest}" for one in plan]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:10]


# ---- records to choose on


def _with_validation(asked: Asked, grid: SweptValues) -> tuple[Asked, list[str]]:
    """The same with records to choose on, and what was done for that in sentences."""
    first = next((one.stored.config for one in planned(asked, grid, [0]) if one.stored is not None), None)
    if first is None:
        return asked, []
    if first.live.data is not None:
        data = first.live.data
        if data.validation is not None or data.test is None:
            return asked, []
        live = replace(asked.live, data=data.with_validation(VALIDATION, seed=0))
        return replace(asked, live=live), [_added("The Federation has no validation records")]
    settings = first.data
    assert settings is not None
    if settings.sites is not None and settings.test is not None:
        raise UserError(
            "A sweep chooses on validation records, which own sites do not have beside a test set: leave data.test out "
            "and write data.held_out: 0.2, and the clients' held-out records choose."
        )
    if settings.validation or settings.sites is not None or settings.scale == "site":
        return asked, []
    return replace(asked, changes={**asked.changes, "data.validation": VALIDATION}), [_added("data.validation is 0")]


def _added(why: str) -> str:
    return f"{why}: here {100 * VALIDATION:.0f} % of the training records are kept back to choose on."


# ---- doing it


def _carried_out(plan: Sequence[PlannedRun], store: RunStore, observer: Observer, workers: int) -> list[str]:
    """Why each run could not be done; empty: it was."""
    troubles = [one.refused for one in plan]
    missing = [at for at, one in enumerate(plan) if one.stored is not None and store.find(one.stored) is None]
    processes = _processes(plan, workers, len(missing))
    observer.says(_beforehand(plan, len(missing), store.where(processes)))

    runs = [stored for at in missing if (stored := plan[at].stored) is not None]
    for number, (place, trouble) in enumerate(store.play_all(runs, observer, processes), 1):
        at = missing[place]
        troubles[at] = trouble
        run, _ = _swept(plan[at], store, troubles[at])
        score = "" if run.validation is None else f": {100 * run.validation:.1f} %"
        observer.says(f"{number} of {len(missing)}: {plan[at]}{score or f' failed: {run.why_failed}'}")
    return troubles


def _beforehand(plan: Sequence[PlannedRun], missing: int, where: str) -> str:
    earlier = sum(one.stored is not None for one in plan) - missing
    there = f", {earlier} of them done earlier" if earlier else ""
    return (
        f"{len(plan)} {'run' if len(plan) == 1 else 'runs'}{there}; {missing} to do{f', {where}' if missing else ''}."
    )


def _processes(plan: Sequence[PlannedRun], workers: int, runs: int) -> int:
    """One where runs need a device, or processes, of their own."""
    configs = [one.stored.config for one in plan if one.stored is not None]
    apart = all(config.engine.name in ("inline", "workers") and device(config).type == "cpu" for config in configs)
    return max(1, min(workers, runs)) if apart else 1


def _swept(one: PlannedRun, store: RunStore, trouble: str) -> tuple[SweptRun, bool]:
    """What came of it, and whether its clients scored it: then their held-out records choose."""
    if one.stored is None:
        return SweptRun(one.settings, one.seed, why_failed=one.refused), False
    found, folder = store.find(one.stored), store.folder(one.stored)
    if not isinstance(found, FinishedRun):
        why = found.why if isinstance(found, Diverged) else trouble
        there = folder if folder.exists() else None
        return SweptRun(one.settings, one.seed, there, why_failed=why or "it did not finish"), False
    last = found.metrics[-1]
    at_home = last.get("scored_at") == "clients"
    # Where a record may have several labels, accuracy rewards saying no to every one of them.
    measure: Measure = "accuracy" if last.get("macro_f1") is None else "macro_f1"
    test, validation = last.get(measure), last.get(f"validation_{measure}")
    if at_home:
        test, validation = None, test
    why = (
        ""
        if validation is not None
        else "there is nothing to choose on: no record is held out, neither at the clients nor on the server"
    )
    return SweptRun(one.settings, one.seed, folder, validation, test, found.summary, why, measure), at_home
