"""Studies by name, at the scale you have time for."""

import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from understudy.complaints import unknown_name
from understudy.errors import UserError
from understudy.papers import fedcog, feddm, ours
from understudy.papers.fedlap import comparisons
from understudy.papers.fedssyn import plans
from understudy.papers.frontier import scales
from understudy.papers.study import Findings, Scale, Study
from understudy.papers.theory import checks
from understudy.runs.watching import Observer

STUDIES: Mapping[str, Study] = {
    one.name: one
    for one in (
        *ours.STUDIES,
        *feddm.STUDIES,
        *comparisons.STUDIES,
        *fedcog.STUDIES,
        *checks.STUDIES,
        *plans.STUDIES,
        *scales.STUDIES,
    )
}


def study(name: str, scale: str) -> Callable[[Path, Observer], Findings]:
    """The function that runs it."""
    if scale not in typing.get_args(Scale):
        raise UserError(f"There is no scale '{scale}'; choose smoke, desk or paper.")
    if name not in STUDIES:
        raise unknown_name("study", name, STUDIES)
    scales = STUDIES[name].scales
    if scale not in scales:
        raise UserError(f"{name} cannot be run at scale {scale}; choose {' or '.join(scales)}.")
    return scales[cast(Scale, scale)]
