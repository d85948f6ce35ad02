"""Runs what comparisons need and a store does not have yet, over several processes, and reads lines from what is there.

What can be run next follows from the store alone: first the rounds and generators that lines share, then the runs that
tune rates, then those that count, then audits. So a study that was stopped, or killed, goes on where it was.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from understudy.audits.attack_run import audit_run
from understudy.audits.result import read_audit
from understudy.config.resolve import resolve
from understudy.config.schema import Config
from understudy.engines.spread import spread
from understudy.errors import UserError
from understudy.papers.comparison import ON_VALIDATION, TUNING_SEED, VALIDATION, Comparison, Contender
from understudy.papers.line_of_runs import line_of_runs
from understudy.papers.study import Changes, StudyLine
from understudy.runs.run_store import Diverged, FinishedRun, RunStore, StoredConfig
from understudy.runs.watching import Observer

Purpose = Literal["generators", "first rounds", "tuning", "counted", "audit"]


@dataclass(frozen=True)
class NeededRun:
    label: str
    purpose: Purpose
    run: StoredConfig
    rate: float | None = None
    seed: int = 0
    thorough: bool = False

    def __str__(self) -> str:
        rate = "" if self.rate is None else f", rate {self.rate:g}"
        seed = "" if self.purpose == "tuning" else f", seed {self.seed}"
        return f"{self.label}: {self.purpose}{rate}{seed}"


def carry_out(comparisons: Sequence[Comparison], store: RunStore, observer: Observer, workers: int) -> None:
    """Until nothing is missing. A run that fails is left out with a sentence, and the others go on."""
    failed: set[str] = set()
    while ready := [one for one in missing(comparisons, store) if str(one) not in failed]:
        in_order = sorted(
            ready, key=lambda one: one.run.keep_all
        )  # where two lines share a run, what either needs stays
        ready = list({(one.run.digest, one.purpose == "audit"): one for one in in_order}.values())
        observer.says(f"{len(ready)} {'run' if len(ready) == 1 else 'runs'} to do next, {store.where(workers)}")
        for number, (one, trouble) in enumerate(_all_done(ready, store, observer, workers), 1):
            observer.says(f"{number} of {len(ready)}: {one}{f' failed: {trouble}' if trouble else ''}")
            if trouble:
                failed.add(str(one))


def _all_done(
    ready: Sequence[NeededRun], store: RunStore, observer: Observer, workers: int
) -> Iterator[tuple[NeededRun, str]]:
    """Each one as it is done, and why it could not be; empty: it was. Audits are of runs that are there."""
    runs = [one for one in ready if one.purpose != "audit"]
    for place, trouble in store.play_all([one.run for one in runs], observer, workers):
        yield runs[place], trouble
    audits = [one for one in ready if one.purpose == "audit"]

    def audit(at: int) -> str:
        return _audited(audits[at], store, observer if workers <= 1 else Observer())

    yield from zip(audits, spread(audit, range(len(audits)), workers), strict=True)


def _audited(one: NeededRun, store: RunStore, observer: Observer) -> str:
    try:
        audit_run(store.folder(one.run), thorough=one.thorough, observer=observer)
    except UserError as error:
        return str(error)
    return ""


# ---- what is missing


def missing(comparisons: Sequence[Comparison], store: RunStore) -> Iterator[NeededRun]:
    """What can be run now and is not there."""
    for plan in comparisons:
        rates = chosen_rates(plan, store)
        for contender in plan.contenders:
            yield from _missing_of(plan, contender, rates, store)


def _missing_of(
    plan: Comparison, contender: Contender, rates: Mapping[str, float], store: RunStore
) -> Iterator[NeededRun]:
    wanted = [
        *tuning_runs(plan, contender, store),
        *(counted_runs(plan, contender, rates[contender.label], store) if contender.label in rates else ()),
    ]
    for one in wanted:
        before = _shared(plan, contender, one.rate, one.seed)
        if before is not None and store.find(before.run) is None:
            yield before
            continue
        found = store.find(one.run)
        if found is None:
            yield one
        elif _lacks_audit(plan, contender, one, found):
            yield replace(one, purpose="audit", thorough=_is_attacked_at_length(plan, contender, one.seed))


def _lacks_audit(plan: Comparison, contender: Contender, one: NeededRun, found: FinishedRun | Diverged) -> bool:
    if one.purpose != "counted" or not _is_audited(plan, contender, one.seed) or isinstance(found, Diverged):
        return False
    stored = read_audit(found.folder)
    return stored is None or stored.thorough < _is_attacked_at_length(plan, contender, one.seed)


def _is_audited(plan: Comparison, contender: Contender, seed: int) -> bool:
    return bool(contender.audited) and (contender.audited_alike or seed == plan.seeds_of(contender)[0])


def _is_attacked_at_length(plan: Comparison, contender: Contender, seed: int) -> bool:
    return contender.audited == "thorough" and seed == plan.seeds_of(contender)[0]


def every_run(plan: Comparison, store: RunStore) -> Iterator[NeededRun]:
    """Of the whole comparison, in the end. Where a rate is not chosen yet, the first one stands for it."""
    rates = chosen_rates(plan, store)
    for contender in plan.contenders:
        of = _tuned_line(plan, contender)
        rate = rates.get(contender.label, plan.rates_of(of)[0])
        for one in (*tuning_runs(plan, contender, store), *counted_runs(plan, contender, rate, store)):
            before = _shared(plan, contender, one.rate, one.seed)
            if before is not None:
                yield before
            yield one


# ---- the runs of a line


def tuning_runs(plan: Comparison, contender: Contender, store: RunStore) -> list[NeededRun]:
    """None where there is nothing to choose."""
    rates = plan.rates_of(contender)
    if contender.like or len(rates) < 2:
        return []
    more = dict(plan.tuning)
    if plan.tuned_on in ON_VALIDATION:
        more["data.validation"] = _validation(plan)
    return [_needed(plan, contender, "tuning", rate, TUNING_SEED, more, store) for rate in rates]


def counted_runs(plan: Comparison, contender: Contender, rate: float, store: RunStore) -> list[NeededRun]:
    return [
        _needed(plan, contender, "counted", rate, seed, {"transcript": _is_audited(plan, contender, seed)}, store)
        for seed in plan.seeds_of(contender)
    ]


def _needed(
    plan: Comparison, contender: Contender, purpose: Purpose, rate: float, seed: int, more: Changes, store: RunStore
) -> NeededRun:
    changes = {**contender.changes, **more, contender.rate: rate, "seed": seed}
    before = _shared(plan, contender, rate, seed)
    if before is not None and contender.images is not None:
        changes |= contender.images.using(str(store.folder(before.run)))
    run = StoredConfig(resolve(dict(plan.config), changes), keep_all=contender.kept)
    if before is not None and contender.begins is not None:
        run = replace(run, first=before.run, changes=_of_a_branch(run.config, changes))
    return NeededRun(contender.label, purpose, run, rate, seed)


def _validation(plan: Comparison) -> float:
    """The share that its config keeps back anyway, as some papers do, or else ours."""
    data = plan.config.get("data")
    return float(data.get("validation") or VALIDATION) if isinstance(data, Mapping) else VALIDATION


def _of_a_branch(config: Config, changes: Changes) -> tuple[tuple[str, Any], ...]:
    """What a run changes after its first rounds: method and add-ons, and how many rounds there are in all."""
    later = {key: value for key, value in changes.items() if key.split(".")[0] in ("method", "with")}
    return tuple({"with": [], **later, "method.rounds": config.plan.rounds}.items())


def _shared(plan: Comparison, contender: Contender, rate: float | None, seed: int) -> NeededRun | None:
    """What a line needs before its own runs."""
    if contender.images is not None:
        split = {key: value for key, value in contender.changes.items() if key.split(".")[0] == "data"}
        changes = {**split, **contender.images.training(), "seed": seed}
        if seed == TUNING_SEED:
            changes["data.validation"] = _validation(plan)
        config = resolve(dict(plan.config), changes)
        return NeededRun(contender.label, "generators", StoredConfig(config, keep_all=True), seed=seed)
    if contender.begins is not None and seed != TUNING_SEED:
        begins = contender.begins
        own = {"method.rounds": begins.rounds, contender.rate: rate, "seed": seed}
        config = resolve(dict(plan.config), {**begins.changes, **own})
        return NeededRun(contender.label, "first rounds", StoredConfig(config, keep_all=True), seed=seed)
    return None


# ---- rates


def chosen_rates(plan: Comparison, store: RunStore) -> dict[str, float]:
    """By line, as far as tuning has come."""
    seen = {one.label: validated(plan, one, store) for one in plan.contenders if not one.like}
    chosen = {}
    for contender in plan.contenders:
        of = _tuned_line(plan, contender)
        rates = plan.rates_of(of)
        if contender.like and contender.rates:
            chosen[contender.label] = contender.rates[0]
        elif len(rates) < 2:
            chosen[contender.label] = rates[0]
        elif (found := seen[of.label]) is not None:
            chosen[contender.label] = _best(of, rates, found)
    return chosen


def _tuned_line(plan: Comparison, contender: Contender) -> Contender:
    return next(one for one in plan.contenders if one.label == contender.like) if contender.like else contender


def validated(plan: Comparison, contender: Contender, store: RunStore) -> dict[str, float | None] | None:
    """What tuning saw, by rate; None for one that diverged. None in all: not tuned yet."""
    found: dict[str, float | None] = {}
    for one in tuning_runs(plan, contender, store):
        run = store.find(one.run)
        if run is None:
            return None
        found[f"{one.rate:g}"] = None if isinstance(run, Diverged) else run.metrics[-1].get(plan.tuned_on)
    return found


def _best(contender: Contender, rates: Sequence[float], seen: Mapping[str, float | None]) -> float:
    scored = {name: accuracy for name, accuracy in seen.items() if accuracy is not None}
    if not scored:
        raise UserError(f"{contender.label} diverged with every learning rate; try rates smaller than {list(rates)}.")
    return float(max(scored, key=lambda name: scored[name]))


# ---- what came of it


@dataclass(frozen=True)
class PlayedLines(Mapping[str, StudyLine]):
    """By label, the lines of which at least one run counts; the runs behind them are in the store."""

    lines: Mapping[str, StudyLine]
    folders: Mapping[tuple[str, int], Path]  # of the runs that count, by label and seed
    numbers: Mapping[str, Any] = field(default_factory=dict)  # stored earlier, beside lines whose runs are not there

    def __getitem__(self, label: str) -> StudyLine:
        return self.lines[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)


def played_lines(comparisons: Sequence[Comparison], store: RunStore) -> PlayedLines:
    lines: dict[str, StudyLine] = {}
    folders: dict[tuple[str, int], Path] = {}
    for plan in comparisons:
        rates = chosen_rates(plan, store)
        for contender in plan.contenders:
            if contender.label not in rates:
                continue
            rate = rates[contender.label]
            runs = [(one.seed, store.find(one.run)) for one in counted_runs(plan, contender, rate, store)]
            there = {seed: run for seed, run in runs if isinstance(run, FinishedRun)}
            folders |= {(contender.label, seed): run.folder for seed, run in there.items()}
            if there:
                seen = validated(plan, _tuned_line(plan, contender), store) or {}
                lines[contender.label] = line_of_runs(
                    contender.label, list(there.values()), plan.measure, rate, {} if contender.like else seen
                )
    return PlayedLines(lines, folders)
