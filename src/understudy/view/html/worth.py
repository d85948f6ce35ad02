"""The synthetic sets of a run: how they look, what they give away, and what they are worth."""

from collections.abc import Sequence

from understudy.audits.likeness import Likeness
from understudy.audits.quality import LearntFrom, Quality
from understudy.papers.study import StudyTable
from understudy.runs.compare import Row
from understudy.runs.reported import ReportedRun
from understudy.view.html.gallery import gallery_of
from understudy.view.html.learning_charts import class_names
from understudy.view.html.sections import Section
from understudy.view.numbers import NONE, percent

ASPECTS = {
    "precision": "share of what was made that lies among the records",
    "recall": "share of the records that lie among what was made",
    "density": "how crowded with records the places of what was made are; 1 is usual",
    "coverage": "share of the records with something made close by",
    "kid": "kernel distance of both sets; 0 is none, and as an estimate it may fall below",
}


def synthetic_section(
    run: ReportedRun, quality: Quality | str | None, prefix: str = "", room: int | None = None
) -> Section:
    """``quality``: measured, or why not; ``room`` for pictures, in bytes."""
    name, heading = f"{prefix}synthetic", "The synthetic sets"
    if not run.sets or run.problem is None:
        return Section(name, heading, [_none(run)])
    images, clients = sum(map(len, run.sets.values())), len(run.sets)
    names = class_names(run, run.problem.classes)
    told = f"The newest sets of {clients:,} client{'' if clients == 1 else 's'}, {images:,} records in all."
    limit = {} if room is None else {"room": room}
    gallery = gallery_of(run.sets, run.problem, names, **limit)
    text = [told, given_away(run.row)]
    if gallery is None:
        text.append(f"Records of shape {run.problem.shape} are not pictures, so none are drawn.")
    tables = worth_tables(quality) if isinstance(quality, Quality) else []
    return Section(name, heading, text, gallery=gallery, tables=tables, notes=worth_notes(quality))


def _none(run: ReportedRun) -> str:
    added = [one.get("name") for one in run.config.get("with") or []]
    if "fedcog" in added:
        return "None left a client: the images of fedcog stay where they are made."
    return "None left a client."


def given_away(row: Row) -> str:
    """Never accuracy alone."""
    if row.leak is not None:
        leak = row.leak
        return (
            f"What they give away: the strongest attack ({leak.attack}) recognises {percent(leak.caught)} of the "
            f"records behind them (95 % interval {percent(leak.low)} to {percent(leak.high)}) where it takes 1 % of "
            f"others for members; {percent(leak.null)} where nothing was sent."
        )
    if row.epsilon is not None:
        return f"What they give away is bounded by ε = {row.epsilon:.3g}; nobody attacked them."
    return f"What they give away: not audited. `understudy audit {row.folder}` measures it."


def worth_tables(quality: Quality) -> list[StudyTable]:
    learnt = (
        ("the synthetic sets", quality.synthetic),
        ("as many real records", quality.as_many),
        ("all real records", quality.all_records),
    )
    return [
        StudyTable(
            ("a fresh network learns from", "records", f"{quality.score} on {quality.unseen:,} unseen records"),
            [(what, f"{one.records:,}", _score(one)) for what, one in learnt if one is not None],
            "Train on synthetic, test on real",
        ),
        *_alike(quality),
    ]


def _score(one: LearntFrom) -> str:
    return "diverged" if one.score is None else percent(one.score)


def _alike(quality: Quality) -> list[StudyTable]:
    images, unseen = quality.images_like, quality.unseen_like
    if images is None:
        return []
    rows = [
        (f"{'KID' if aspect == 'kid' else aspect}: {about}", _aspect(images, aspect), _aspect(unseen, aspect))
        for aspect, about in ASPECTS.items()
    ]
    columns = ("measure", f"{quality.compared:,} synthetic", "as many unseen records")
    return [StudyTable(columns, rows, "How like the records they are, beside records that nobody trained on")]


def _aspect(found: Likeness | None, aspect: str) -> str:
    if found is None:
        return NONE
    value: float = getattr(found, aspect)
    return f"{value:.4f}" if aspect == "kid" else f"{value:.2f}"


def worth_notes(quality: Quality | str | None) -> Sequence[str]:
    if quality is None:
        return ["Quality is not measured: `understudy report` does so where the records are at hand."]
    if isinstance(quality, str):
        return [f"Quality cannot be measured here: {quality}"]
    notes = [
        f"Each network learnt for {quality.steps} steps by one recipe. Likeness is measured against "
        f"{quality.against:,} records of the clients in the features of this network: {quality.network}. It compares "
        "sets of one run, not papers.",
        "Measured on the clients' records without noise: where a run promises ε, these numbers are outside of it.",
    ]
    if quality.images_like is None:
        notes.insert(0, "There are too few images to say how like the records they are.")
    return notes
