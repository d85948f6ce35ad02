"""Ways to deal a data set out to clients."""

from understudy.data.splits.dirichlet import Dirichlet
from understudy.data.splits.kind import SplitKind
from understudy.data.splits.make import SplitSettings, hold_out, make_split
from understudy.data.splits.simple import FEDLAP_PAIRS, ClassPairs, Factor, Iid, LabelGroups, Users
from understudy.data.splits.split import Split

__all__ = [
    "FEDLAP_PAIRS",
    "ClassPairs",
    "Dirichlet",
    "Factor",
    "Iid",
    "LabelGroups",
    "Split",
    "SplitKind",
    "SplitSettings",
    "Users",
    "hold_out",
    "make_split",
]
