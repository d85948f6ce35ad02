"""What in Fedssyn helps: the controls (a) to (f) of "Synthetic data shuffling accelerates the convergence of federated
learning under data heterogeneity", and its knobs.

Controls: nothing added, a client's own images, shuffled images, shuffled records, and one model on all records or on
all images; each with its own rate, except the last, which takes that of all records. Knobs, all with the rate of the
shuffled images: the records a generator sees (ρ), how long it is trained (stages of one training), and the images a
client gives (ñ). Then ζ² before and after shuffling, beside what Lemma 1 allows.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.papers.compared import Curves, over_rounds
from understudy.papers.study import Changes, Drawing, Findings, Panel, StudyLine, StudyTable, Trace, plain, said
from understudy.papers.trained_once import TrainedOnce
from understudy.papers.tuned import Comparison, Contender, compare_tuned, counted_run
from understudy.runs.measure import Measured, measure
from understudy.runs.watching import Observer

ABOUT = "FedAvg and what is shuffled: 4000 MNIST images at 14×14 over ten clients, Dirichlet 0.01"
NONE, OWN, SHUFFLED = "(a) nothing", "(b) own images", "(c) shuffled images"
REAL, ALL_REAL, ALL_MADE = "(d) shuffled records", "(e) central, records", "(f) central, images"
MODELS = ("initial", "final")  # where ζ² is measured
EARLY = 3  # the round that "a few rounds" means in the table


@dataclass(frozen=True)
class ControlsPlan:
    config: Changes
    generator: Changes  # with ``checkpoints``
    records: Sequence[float]  # ρ, besides 0.75
    images: Sequence[int]  # ñ, besides a client's number of records
    rates: Sequence[float]
    seeds: Sequence[int]
    tuning: Changes


def controls_study(plan: ControlsPlan, out: Path, observer: Observer) -> Findings:
    once = TrainedOnce(plan.config, out / "generators", observer)
    controls = compare_tuned(_controls(plan, once), out, observer)
    knobs = _knobs(plan, once, {one.label: one.rate for one in controls if one.rate is not None})
    turned = compare_tuned(knobs, out / "knobs", observer)
    shown = [(one, out / "knobs") for one in turned if one.label in map(_given, plan.images)]
    shown += [(one, out) for one in controls if one.label == SHUFFLED]
    measured = {
        one.label: [{at: measure(str(counted_run(below, one, seed)), at=at) for at in MODELS} for seed in plan.seeds]
        for one, below in shown
    }
    return _findings(plan, [*controls, *turned], measured)


def _controls(plan: ControlsPlan, once: TrainedOnce) -> Comparison:
    central = {"method.name": "central"}
    contenders = [
        Contender(NONE, {}),
        Contender(OWN, {}, by_seed=once.shuffling("share-0.75", plan.generator, deal="own")),
        Contender(SHUFFLED, {}, by_seed=once.shuffling("share-0.75", plan.generator)),
        Contender(REAL, {"with": [{"name": "fedssyn", "source": "real"}]}),
        Contender(ALL_REAL, {**central, "method.source": "real"}),
    ]
    return Comparison("fedssyn-controls", ABOUT, plan.config, plan.rates, plan.seeds, contenders, tuning=plan.tuning)


def _knobs(plan: ControlsPlan, once: TrainedOnce, rates: Mapping[str, float]) -> Comparison:
    made = {"method.name": "central", "method.source": "generator", "method.sound_only": False}
    contenders = [Contender(ALL_MADE, {**made, "method.generator": plan.generator}, rates=(rates[ALL_REAL],))]
    for share in plan.records:
        shuffling = once.shuffling(f"share-{share:g}", plan.generator, records=share)
        contenders.append(Contender(_seen(share), {}, by_seed=shuffling))
    for epoch in plan.generator["checkpoints"]:
        shuffling = once.shuffling("share-0.75", plan.generator, epoch=epoch)
        contenders.append(Contender(_trained(epoch), {}, by_seed=shuffling))
    for images in plan.images:
        shuffling = once.shuffling("share-0.75", plan.generator, images=images)
        contenders.append(Contender(_given(images), {}, by_seed=shuffling))
    return Comparison("fedssyn-controls", ABOUT, plan.config, (rates[SHUFFLED],), plan.seeds, contenders)


def _seen(share: float) -> str:
    return f"ρ = {share:g}"


def _trained(epoch: int) -> str:
    return f"after epoch {epoch}"


def _given(images: int) -> str:
    return f"ñ = {images}"


# ---- results

AllMeasured = Mapping[str, Sequence[Mapping[str, Measured]]]  # by line, by seed, by model


def _findings(plan: ControlsPlan, lines: Sequence[StudyLine], measured: AllMeasured) -> Findings:
    curves = {one.label: one for one in lines}
    rows = []
    for one in lines:
        early = [seed[min(EARLY, len(seed) - 1)] for seed in one.values]
        rows.append([one.label, plain(one.rate), said(early), said(one.accuracies)])
    table = StudyTable(["line", "rate", f"accuracy after round {EARLY}, %", "after the last round"], rows)
    numbers = {
        "measured": {
            label: [{at: one.as_dict() for at, one in seed.items()} for seed in seeds]
            for label, seeds in measured.items()
        },
    }
    return Findings(
        ABOUT,
        lines,
        {"table": [table, _heterogeneity_table(measured)]},
        {"table": Drawing(ABOUT, _panels(plan, curves, measured))},
        notes=_notes(plan, curves, measured),
        numbers=numbers,
    )


def _heterogeneity_table(measured: AllMeasured) -> StudyTable:
    rows = []
    for label, seeds in measured.items():
        for at in MODELS:
            kept, bound, noise = _kept(seeds, at)
            p = statistics.fmean(_share(seed[at]) for seed in seeds)
            rows.append([f"{label}, {at} model", f"{p:.2f}", f"{kept:.2f}", f"{bound:.2f}", f"{noise:.2f}"])
    return StudyTable(["line", "p", "ζ² after / before", "Lemma 1 allows", "σ² after / before"], rows)


def _kept(seeds: Sequence[Mapping[str, Measured]], at: str) -> tuple[float, float, float]:
    """Means over seeds: what is left of ζ², what the lemma allows, and what is left of σ²."""
    found = [(seed[at], seed[at].shuffled) for seed in seeds]
    both = [(before, after) for before, after in found if after is not None]
    return (
        statistics.fmean(after.zeta2 / before.zeta2 for before, after in both),
        statistics.fmean(after.zeta2_bound / before.zeta2 for before, after in both),
        statistics.fmean(after.sigma2 / before.sigma2 for before, after in both),
    )


def _share(one: Measured) -> float:
    return 0.0 if one.shuffled is None else one.shuffled.p


def _notes(plan: ControlsPlan, curves: Curves, measured: AllMeasured) -> list[str]:
    def last(label: str) -> str:
        return f"{label} {said(curves[label].accuracies)}"

    fewest = _given(plan.images[0])
    return [
        "After the last round: " + ", ".join(map(last, (NONE, OWN, SHUFFLED, REAL, ALL_REAL, ALL_MADE))) + ".",
        "More records for the generator: " + ", ".join(map(last, [*map(_seen, plan.records), SHUFFLED])) + ".",
        "Longer training: " + ", ".join(map(last, [*map(_trained, plan.generator["checkpoints"]), SHUFFLED])) + ".",
        f"Few images: {last(fewest)} against {last(NONE)}.",
        _heterogeneity_note(measured),
    ]


def _heterogeneity_note(measured: AllMeasured) -> str:
    first, last = (_kept(measured[SHUFFLED], at) for at in MODELS)
    lines = [(seeds, at) for seeds in measured.values() for at in MODELS]
    means = [kept - bound for kept, bound, _ in (_kept(*line) for line in lines)]
    single = [kept - bound for seeds, at in lines for kept, bound, _ in (_kept([seed], at) for seed in seeds)]
    noise = [_from_to([_kept(seeds, at)[2] for seeds in measured.values()]) for at in MODELS]
    return (
        f"ζ² falls to {first[0]:.2f} of its value at the first model and to {last[0]:.2f} at the last, with as many "
        f"images as records. Lemma 1 allows (1 − p)², {first[1]:.2f} here; {sum(off > 0 for off in means)} of "
        f"{len(means)} mean ratios lie above it, by at most {max(means):.2f}, and single seeds are off by "
        f"{min(single):+.2f} to {max(single):+.2f}. Shuffling multiplies σ² by {noise[0]} at the first model and by "
        f"{noise[1]} at the last."
    )


def _from_to(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def _panels(plan: ControlsPlan, curves: Curves, measured: AllMeasured) -> list[Panel]:
    controls = [NONE, OWN, SHUFFLED, REAL, ALL_REAL, ALL_MADE]
    looks = {label: number for number, label in enumerate(controls)}

    def panel(heading: str, labels: Sequence[str]) -> Panel:
        shown = [NONE, *labels, SHUFFLED]
        knobs = {label: 3 + number for number, label in enumerate(labels)}  # (a) and (c) keep their looks
        return over_rounds(heading, {label: curves[label] for label in shown}, looks | knobs)

    return [
        over_rounds("what is added", {label: curves[label] for label in controls}, looks),
        panel("records a generator sees (ρ; (c) has 0.75)", [_seen(share) for share in plan.records]),
        panel(
            f"how long it is trained ((c): {plan.generator['epochs']} epochs)",
            [_trained(epoch) for epoch in plan.generator["checkpoints"]],
        ),
        panel("images a client gives (ñ; (c): as many as it has records)", [_given(images) for images in plan.images]),
        _heterogeneity_panel(measured),
    ]


def _heterogeneity_panel(measured: AllMeasured) -> Panel:
    traces = []
    for look, at in enumerate(MODELS):
        dots = [(_share(seed[at]), *_kept([seed], at)) for seeds in measured.values() for seed in seeds]
        shares, kept = [dot[0] for dot in dots], [dot[1] for dot in dots]
        traces.append(Trace(f"measured at the {at} model, by seed", shares, kept, look, "dots"))
    shares = [step / 20 for step in range(15)]
    traces.append(Trace("Lemma 1: (1 − p)²", shares, [(1 - p) ** 2 for p in shares], 2, "dashed"))
    return Panel(
        "ζ² with shuffled images, as a share of what it was", "p: share of images", "ζ² after / before", traces
    )
