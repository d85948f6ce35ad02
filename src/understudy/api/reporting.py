"""``understudy.report``: what runs did, in one HTML file; the same as `understudy report`."""

from collections.abc import Sequence
from pathlib import Path

from understudy.audits.measure_quality import qualities
from understudy.errors import UserError
from understudy.runs.reported import read_reported
from understudy.runs.rounds import RunResult
from understudy.view.html.report import check_page_name, report_page, write_page

GivenRun = RunResult | str | Path


def report(
    runs: GivenRun | Sequence[GivenRun],
    out: str | Path = "report.html",
    *,
    target: float | None = None,
    quality: bool = True,
) -> Path:
    """Writes a page on one run, or on several side by side, given by result or folder.

    ``target``: the accuracy to count rounds and megabytes to, at first. ``quality``: measure what synthetic sets are
    worth, if nobody has yet.

    >>> import understudy as us
    >>> runs = [us.run("digits-skewed", rounds=1, model="softmax", method=name) for name in ("fedavg", "fedprox")]
    >>> us.report(runs, "both.html").name
    'both.html'
    """
    file = check_page_name(Path(out))  # before anything is measured
    listed = [runs] if isinstance(runs, RunResult | str | Path) or not isinstance(runs, Sequence) else runs
    if wrong := [type(one).__name__ for one in listed if not isinstance(one, RunResult | str | Path)]:
        raise UserError(f"runs: pass results, or folders of runs, not {wrong[0]}.")
    folders = [one.folder if isinstance(one, RunResult) else Path(one) for one in listed]
    found = read_reported(folders, target)
    return write_page(report_page(found, qualities([run.folder for run in found if run.sets], measure=quality)), file)
