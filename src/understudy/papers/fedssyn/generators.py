"""Which generator serves Fedssyn best, how few network calls a diffusion image needs, and what privacy costs.

Generators: diffusion, three GANs and a VAE on one split of digits, each trained once per seed; FedAvg then trains with
the images of one of them. Rates are tuned without images and with the VAE's; the others take the latter. Samplers: the
same diffusion networks, sampled with few and many steps. Privacy: VAEs and small diffusion networks trained by DP-SGD
on more records (a few hundred per client are too few to hide in), beside the same VAEs without noise, and FedAvg alone.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from understudy.papers.compared import Curves, over_rounds
from understudy.papers.study import Changes, Drawing, Findings, Panel, StudyLine, StudyTable, Trace, plain, said
from understudy.papers.trained_once import TrainedOnce
from understudy.papers.tuned import Comparison, Contender, compare_tuned, counted_run
from understudy.privacy.charges import Charge, epsilon_of
from understudy.runs.folder import RunFolder
from understudy.runs.watching import Observer

ABOUT = "FedAvg with the images of each kind of generator: digits at 8×8 over five clients, Dirichlet 0.01"
NONE, VAE = "nothing", "VAE"
NOISELESS = "VAE without noise"
Lines = dict[str, StudyLine]  # by label
A_POINT = 0.01


@dataclass(frozen=True)
class Private:
    """The private part, on its own data."""

    config: Changes
    generators: Mapping[str, Changes]  # by label, including VAE, which is also trained without noise
    clips: Mapping[str, float]  # by label, the largest norm of a record's gradient
    privacy: Changes
    tuning: Changes

    def label(self, generator: str) -> str:
        return f"{generator}, ε = {self.privacy['epsilon']:g}"


@dataclass(frozen=True)
class GeneratorsPlan:
    config: Changes
    generators: Mapping[str, Changes]  # by label, including VAE
    diffusion: str  # its label
    samplers: Sequence[tuple[str, int]]  # with how many steps; the others are compared with the last one
    sampled: int  # images per client when comparing samplers
    private: Private
    rates: Sequence[float]
    seeds: Sequence[int]
    tuning: Changes


def generators_study(plan: GeneratorsPlan, out: Path, observer: Observer) -> Findings:
    once = TrainedOnce(plan.config, out / "generators", observer)
    kinds = _kinds(plan, once, out, observer)
    samplers = _samplers(plan, once, kinds, out / "samplers", observer)
    private = _private(plan, out / "private", observer)
    return _findings(plan, kinds, samplers, private, out)


# ---- runs


def _kinds(plan: GeneratorsPlan, once: TrainedOnce, out: Path, observer: Observer) -> Lines:
    tuned = [Contender(NONE, {}), Contender(VAE, {}, by_seed=once.shuffling(VAE, plan.generators[VAE]))]
    first = _played(_comparison(plan, plan.config, plan.rates, tuned, plan.tuning), out, observer)
    others = [
        Contender(label, {}, by_seed=once.shuffling(label, generator))
        for label, generator in plan.generators.items()
        if label != VAE
    ]
    return first | _played(_comparison(plan, plan.config, _rate(first[VAE]), others), out / "others", observer)


def _samplers(plan: GeneratorsPlan, once: TrainedOnce, kinds: Curves, out: Path, observer: Observer) -> Lines:
    contenders = []
    for sampler, steps in plan.samplers:
        asked = {**plan.generators[plan.diffusion], "sampler": sampler, "sampling_steps": steps}
        shuffling = once.shuffling(plan.diffusion, asked, images=plan.sampled)
        contenders.append(Contender(_asked(sampler, steps), {}, by_seed=shuffling))
    return _played(_comparison(plan, plan.config, _rate(kinds[VAE]), contenders), out, observer)


def _private(plan: GeneratorsPlan, out: Path, observer: Observer) -> Lines:
    asked = plan.private
    once = TrainedOnce(asked.config, out / "generators", observer)
    noiseless = once.shuffling(NOISELESS, asked.generators[VAE])
    tuned = [Contender(NONE, {}), Contender(NOISELESS, {}, by_seed=noiseless)]
    first = _played(_comparison(plan, asked.config, plan.rates, tuned, asked.tuning), out, observer)
    noised = [_noised(asked, label) for label in asked.generators]
    rates = _rate(first[NOISELESS])
    return first | _played(_comparison(plan, asked.config, rates, noised), out / "noised", observer)


def _noised(asked: Private, label: str) -> Contender:
    dp = {"scope": "exchange", "clip": asked.clips[label]}
    add_on = {"name": "fedssyn", "generator": dict(asked.generators[label]), "sound_only": False, "dp": dp}
    return Contender(asked.label(label), {"with": [add_on], "privacy": dict(asked.privacy)})


def _comparison(
    plan: GeneratorsPlan,
    config: Changes,
    rates: Sequence[float],
    contenders: Sequence[Contender],
    tuning: Changes | None = None,
) -> Comparison:
    return Comparison("fedssyn-generators", ABOUT, config, rates, plan.seeds, contenders, tuning=tuning or {})


def _played(comparison: Comparison, out: Path, observer: Observer) -> Lines:
    return {one.label: one for one in compare_tuned(comparison, out, observer)}


def _rate(line: StudyLine) -> tuple[float, ...]:
    return () if line.rate is None else (line.rate,)


def _asked(sampler: str, steps: int) -> str:
    return f"{sampler}, {steps} steps"


# ---- results


def _findings(plan: GeneratorsPlan, kinds: Curves, samplers: Curves, private: Curves, out: Path) -> Findings:
    parts = {"digits, images of": kinds, f"digits, {plan.diffusion} by": samplers, "private, images of": private}
    lines = [replace(one, label=f"{what} {label}") for what, part in parts.items() for label, one in part.items()]
    rows = [[one.label, plain(one.rate), said(one.accuracies)] for one in lines]
    table = StudyTable(["line", "rate", "accuracy after the last round, %"], rows)
    panels = [_panel("generators", kinds), _steps_panel(plan, samplers), _panel("privacy of the images", private)]
    spent = _spent(plan, private, out)
    notes = _notes(plan, kinds, samplers, private, spent)
    pictures = {"table": Drawing(ABOUT, panels)}
    return Findings(ABOUT, lines, {"table": [table]}, pictures, notes=notes, numbers={"epsilon": spent})


def _panel(heading: str, part: Curves) -> Panel:
    return over_rounds(heading, part, {label: number for number, label in enumerate(part)})


def _steps_panel(plan: GeneratorsPlan, samplers: Curves) -> Panel:
    traces = []
    for look, sampler in enumerate(dict.fromkeys(name for name, _ in plan.samplers)):
        steps = sorted(steps for name, steps in plan.samplers if name == sampler)
        found = [[100 * value for value in samplers[_asked(sampler, n)].accuracies] for n in steps]
        means, lows, highs = ([of(values) for values in found] for of in (statistics.fmean, min, max))
        traces.append(Trace(sampler, steps, means, look, "line and dots", lows, highs))
    said_so = "accuracy after the last round (%), band: worst to best seed"
    return Panel("calls of the network for an image", "sampling steps", said_so, traces, log_x=True)


def _spent(plan: GeneratorsPlan, private: Curves, out: Path) -> float:
    """The largest ε of any client's charges in any run; what training sends later is not covered."""
    noised = [private[plan.private.label(label)] for label in plan.private.generators]
    runs = [counted_run(out / "private" / "noised", one, seed) for one in noised for seed in plan.seeds]
    logs = [log for run in runs for log in RunFolder(run).ledger()["charges"].values()]
    charges = [[Charge.of(charge) for charge in log] for log in logs]
    return max(epsilon_of(each, each[0].delta, each[0].accountant) for each in charges)


def _notes(plan: GeneratorsPlan, kinds: Curves, samplers: Curves, private: Curves, spent: float) -> list[str]:
    published = _asked(*plan.samplers[-1])
    full = samplers[published].mean
    near = [
        f"{label} ({100 * (one.mean - full):+.1f})"
        for label, one in samplers.items()
        if one.mean >= full - A_POINT and label != published
    ]
    gans = [one for label, one in kinds.items() if label.startswith("GAN")]
    best = max(gans, key=lambda one: one.mean)
    noised = [plan.private.label(label) for label in plan.private.generators]
    with_privacy = ", ".join(f"{label}: {said(private[label].accuracies)}" for label in noised)
    return [
        f"{plan.diffusion} {said(kinds[plan.diffusion].accuracies)}, the best GAN ({best.label}) "
        f"{said(best.accuracies)}, {VAE} {said(kinds[VAE].accuracies)}, "
        f"{NONE} {said(kinds[NONE].accuracies)}.",
        f"Within one point of {published} ({100 * full:.1f}): {', '.join(near) or 'none'}.",
        f"With privacy (ε = {spent:.3g} for the images) {with_privacy}; FedAvg alone {said(private[NONE].accuracies)}.",
    ]
