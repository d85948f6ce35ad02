"""The report of runs, made from their folders when somebody asks for it; nothing is measured or written for it."""

from collections.abc import Sequence
from pathlib import Path

from understudy.audits.measure_quality import qualities
from understudy.errors import UserError
from understudy.runs.reported import read_reported
from understudy.view.html.assets import inlined, linked
from understudy.view.html.live_values import STATIC_PREFIX
from understudy.view.html.report import report_page


def report_of(folders: Sequence[Path], *, alone: bool) -> str:
    """A page of this server's, or one that stands ``alone``, to be kept as a file."""
    try:
        found = read_reported(folders)
        known = qualities([run.folder for run in found if run.sets], measure=False)
        return report_page(found, known, inlined() if alone else linked(STATIC_PREFIX))
    except UserError:
        raise
    except Exception as wrong:  # a folder of another version, or a damaged one, may hold anything
        raise UserError(f"This report cannot be made: a folder is damaged ({type(wrong).__name__}).") from wrong
