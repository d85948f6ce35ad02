"""Studies by name, at the scale you have time for: the papers' tables and figures, and our own comparisons."""

import typing
from collections.abc import Mapping
from typing import cast

from understudy.complaints import unknown_name
from understudy.errors import UserError
from understudy.papers import fedcog, feddm, fedlap, fedssyn, ours
from understudy.papers.frontier import scales
from understudy.papers.published import Experiment, Study
from understudy.papers.study import Scale

STUDIES: Mapping[str, Study] = {
    one.name: one
    for one in (
        *fedssyn.STUDIES,
        *feddm.STUDIES,
        *fedcog.STUDIES,
        *fedlap.STUDIES,
        *ours.STUDIES,
        *scales.STUDIES,
    )
}
ARTEFACTS: Mapping[str, Study] = {name: one for name, one in STUDIES.items() if one.published is not None}


def experiment(name: str, scale: str) -> Experiment:
    if scale not in typing.get_args(Scale):
        raise UserError(f"There is no scale '{scale}'; choose smoke, desk or paper.")
    if name not in STUDIES:
        raise unknown_name("study", name, STUDIES)
    scales = STUDIES[name].scales
    if scale not in scales:
        raise UserError(f"{name} cannot be run at scale {scale}; choose {' or '.join(scales)}.")
    return scales[cast(Scale, scale)]
