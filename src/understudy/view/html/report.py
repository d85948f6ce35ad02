"""The report: one file that opens anywhere and asks nobody for anything."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from understudy import __version__
from understudy.audits.quality import Quality
from understudy.errors import UserError
from understudy.files import write_whole
from understudy.runs.reported import ReportedRun
from understudy.view.html.assets import Assets, inlined
from understudy.view.html.gallery import MOST_BYTES
from understudy.view.html.one_run import account_of
from understudy.view.html.page import render
from understudy.view.html.several_runs import comparison_of, kin_of
from understudy.view.numbers import percent
from understudy.view.tables import row_labels

MOST_TOLD = 12  # runs that are also told one by one

Qualities = Mapping[Path, Quality | str]  # by run folder: measured, or why not


def report_page(runs: Sequence[ReportedRun], quality: Qualities | None = None, assets: Assets | None = None) -> str:
    """HTML of one run, or of several side by side; with everything inlined unless other ``assets`` are given."""
    known = quality or {}
    if not runs:
        raise UserError("There is no run to report on.")
    if len(runs) == 1:
        account = account_of(runs[0], known.get(runs[0].folder))
        return render("run.html", account=account, version=__version__, assets=assets or inlined())
    told, labels = runs if len(runs) <= MOST_TOLD else (), row_labels([run.row for run in runs])
    room = MOST_BYTES // max(1, sum(bool(run.sets) for run in told))
    return render(
        "runs.html",
        title=f"{len(runs)} runs compared",
        lede=_best_in_words(runs),
        warnings=[f"{run.row.name}: {remark}" for run in runs for remark in run.remarks],
        comparison=comparison_of(runs),
        accounts=[
            replace(account_of(run, known.get(run.folder), f"run-{at}", room), title=label)
            for at, (run, label) in enumerate(zip(told, labels, strict=False))
        ],
        untold=0 if told else len(runs),
        version=__version__,
        assets=assets or inlined(),
    )


def _best_in_words(runs: Sequence[ReportedRun]) -> str:
    by_f1 = runs[0].row.measure == "macro_f1"
    scored = [(one, _mean_score(one.runs, by_f1)) for one in kin_of(runs)]
    known = sorted(((one, score) for one, score in scored if score is not None), key=lambda pair: -pair[1])
    if not known:
        return "None of these runs is scored yet."
    (best, score), rest = known[0], known[1:]
    what = "F1 over classes" if by_f1 else "accuracy"
    told = f"{best.label} ended highest, at {percent(score)} {what}"
    if rest:
        told += f"; {rest[0][0].label} follows at {percent(rest[0][1])}"
        if len(rest) > 1:
            told += f", and {rest[-1][0].label} is last at {percent(rest[-1][1])}"
    audited = sum(run.row.leak is not None or run.row.epsilon is not None for run in runs)
    return f"{told}. What left is audited or bounded by ε in {audited} of {len(runs)} runs."


def _mean_score(runs: Sequence[ReportedRun], by_f1: bool) -> float | None:
    found = [run.row.macro_f1 if by_f1 else run.row.accuracy for run in runs]
    known = [score for score in found if score is not None]
    return sum(known) / len(known) if known else None


def check_page_name(file: Path) -> Path:
    if file.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{file}: a report is a web page; give it the extension .html.")
    return file


def write_page(text: str, file: Path) -> Path:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text.encode())
    except OSError as refused:
        raise UserError(f"{file} cannot be written: {refused.strerror or refused}.") from None
    return file
