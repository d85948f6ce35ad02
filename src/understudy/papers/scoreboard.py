"""All tables and figures of the papers in one list: claim, printed, ours at the desk and at the papers' scale.

Made from stored results alone (`docs/papers/NAME/SCALE.json` in a clone; a summary of them comes with the package).
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path

from understudy.papers.beside_printed import leak_of
from understudy.papers.claims import VerdictWord, in_print
from understudy.papers.published import Study
from understudy.papers.stored import read_table
from understudy.papers.study import Findings, Scale

KEPT: tuple[Scale, ...] = ("desk", "paper")
SUMMARY = "scoreboard.json"


@dataclass(frozen=True)
class ScoredClaim:
    sentence: str
    printed: VerdictWord  # whether the paper's own numbers bear it out
    said: Mapping[str, str]  # by scale, and "print": the numbers that decided
    verdicts: Mapping[str, VerdictWord]  # by scale


@dataclass(frozen=True)
class ScoredArtefact:
    name: str
    paper: str
    place: str
    about: str
    claims: Sequence[ScoredClaim]
    leak: str  # of its stand-ins: caught, ε or "not audited"; empty: it has none
    command: str


def scores(artefacts: Mapping[str, Study], results: Path) -> list[ScoredArtefact]:
    """``results``: the folder with a folder per artefact."""
    return [_score(one, stored_at(results, one.name)) for one in artefacts.values()]


def stored_at(results: Path, name: str) -> dict[Scale, Findings]:
    files = {scale: results / name / f"{scale}.json" for scale in KEPT}
    return {scale: read_table(file) for scale, file in files.items() if file.exists()}


def _score(study: Study, stored: Mapping[Scale, Findings]) -> ScoredArtefact:
    published = study.published
    assert published is not None
    found = {scale: published.verdicts(stored.get(scale), scale) for scale in KEPT}
    claims = []
    for at, claim in enumerate(published.claims):
        theirs, ours = in_print(claim, published.cells), {scale: found[scale][at] for scale in KEPT}
        said: dict[str, str] = {"print": theirs.because}
        said |= {scale: verdict.because for scale, verdict in ours.items()}
        words: dict[str, VerdictWord] = {scale: verdict.word for scale, verdict in ours.items()}
        claims.append(ScoredClaim(claim.sentence, theirs.word, said, words))
    leaks = [leak_of(published, findings, row) for findings in stored.values() for row in published.stand_ins]
    leak = next(
        (each for each in leaks if each and each != "not audited"), "not audited" if published.stand_ins else ""
    )
    return ScoredArtefact(
        study.name, published.paper, published.place, study.about, claims, leak, f"understudy reproduce {study.name}"
    )


def tally(found: Sequence[ScoredArtefact], scale: Scale) -> Counter[VerdictWord]:
    """Of all claims at one scale."""
    return Counter(claim.verdicts[scale] for score in found for claim in score.claims)


def summary(found: Sequence[ScoredArtefact], scale: Scale = "desk") -> str:
    counts = tally(found, scale)
    tried = sum(counts.values()) - counts["not run"]
    return (
        f"Of {tried} published claims tried at {scale} scale, {counts['holds']} hold, {counts['does not hold']} do "
        f"not, and {counts['not settled']} are within the spread; {counts['not run']} were not run."
    )


def write_summary(file: Path, found: Sequence[ScoredArtefact]) -> None:
    file.write_text(json.dumps([asdict(one) for one in found], indent=1, ensure_ascii=False) + "\n")


def packaged() -> list[ScoredArtefact]:
    """As it came with the package."""
    text = resources.files("understudy.papers").joinpath(SUMMARY).read_text()
    return [
        ScoredArtefact(**{**one, "claims": [ScoredClaim(**claim) for claim in one["claims"]]})
        for one in json.loads(text)
    ]
