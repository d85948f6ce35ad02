"""The papers' tables and figures as a list in the terminal and as a page."""

from collections.abc import Sequence

from understudy.papers.planning import StudyPlan
from understudy.papers.scoreboard import ScoredArtefact, summary
from understudy.papers.study import StudyTable

WIDEST = 78
LONG = 100.0  # hours: above it nobody wants a digit after the point
MARKS = {"holds": "✓", "does not hold": "✗", "not settled": "~", "not run": "·"}


def scoreboard_text(scores: Sequence[ScoredArtefact]) -> str:
    """A line per artefact: marks of its claims at the desk and at the papers' scale, and its first claim."""
    wide = max((len(one.name) for one in scores), default=0)
    most = max((len(one.claims) for one in scores), default=1)
    lines = [f"{'':{wide}}  {'desk':{max(most, 4)}}  {'paper':{max(most, 5)}}  leak         first claim"]
    for one in scores:
        marks = {scale: "".join(MARKS[claim.verdicts[scale]] for claim in one.claims) for scale in ("desk", "paper")}
        claim = one.claims[0].sentence if one.claims else one.about
        lines.append(
            f"{one.name:{wide}}  {marks['desk']:{max(most, 4)}}  {marks['paper']:{max(most, 5)}}  "
            f"{one.leak or '–':11}  {_short(claim)}"
        )
    said = "; ".join(f"{mark} {word}" for word, mark in MARKS.items())
    return "\n".join([*lines, "", f"Each mark is a claim: {said}.", summary(scores), summary(scores, "paper"), ""])


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1].rsplit(' ', 1)[0]} …"


def scoreboard_table(scores: Sequence[ScoredArtefact]) -> StudyTable:
    """A row per artefact, by its first claim."""
    rows = []
    for one in scores:
        first = one.claims[0]
        others = len(one.claims) - 1
        more = f" (and {others} more)" if others else ""
        rows.append(
            [
                f"[{one.name}]({one.name}/README.md)",
                first.sentence + more,
                "–" if first.printed == "not run" else f"{first.printed}: {first.said['print']}",
                _told(first.verdicts["desk"], first.said["desk"]),
                _told(first.verdicts["paper"], first.said["paper"]),
                one.leak or "–",
                f"`{one.command}`",
            ]
        )
    columns = [
        "table or figure",
        "claim",
        "in print",
        "ours at the desk",
        "ours at the paper's scale",
        "leak",
        "command",
    ]
    return StudyTable(columns, rows, words=len(columns))


def _told(word: str, because: str) -> str:
    return word if word == "not run" else f"**{word}**: {because}"


def plan_text(name: str, scale: str, plan: StudyPlan) -> str:
    if plan.runs == 0:
        return (
            f"{name} at scale {scale}: worked out directly, without runs of a federation; takes "
            f"{_hours(plan.hours)} of one process ({plan.speed})."
        )
    left = plan.runs - plan.there
    said = f"{name} at scale {scale}: {plan.runs} runs, {plan.there} of them there."
    if left:
        said += (
            f" To do: {left}, about {_amount(plan.samples)} samples through the network, {_hours(plan.hours)} of one "
            f"process ({plan.speed})."
        )
    if plan.needs:
        said += f" Not on this machine: {', '.join(plan.needs)}; fetch with `understudy data get {plan.needs[0]}`."
    return said


def _amount(samples: float) -> str:
    for size, word in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if samples >= size:
            return f"{samples / size:.3g} {word}"
    return f"{samples:.0f}"


def _hours(hours: float) -> str:
    if hours >= LONG:
        return f"{hours:,.0f} hours".replace(",", " ")
    if hours >= 1:
        return f"{hours:.1f} hours"
    return f"{hours * 60:.0f} minutes" if hours * 60 >= 1 else "less than a minute"
