"""Synthetic data shuffling accelerates the convergence of federated learning under data heterogeneity."""

from understudy.papers.fedssyn.added_images import FIG3
from understudy.papers.fedssyn.communication_saved import TABLEA2
from understudy.papers.fedssyn.convergence_parameters import FIG5, FIGA8
from understudy.papers.fedssyn.generator_kinds import FIG4C
from understudy.papers.fedssyn.generator_knobs import FIG4A, FIG4B
from understudy.papers.fedssyn.images_over_epochs import FIGA5
from understudy.papers.fedssyn.peer_tables import FIGA1, FIGA2, TABLE2
from understudy.papers.fedssyn.private_images import FIG6
from understudy.papers.fedssyn.rounds_to_target import TABLE1
from understudy.papers.fedssyn.shapes_by_quadrant import FIGA9
from understudy.papers.fedssyn.theory_figures import FIG2, FIGA3

STUDIES = (
    TABLE1,
    FIG2,
    FIG3,
    FIG4A,
    FIG4B,
    FIG4C,
    TABLE2,
    FIG5,
    FIG6,
    FIGA1,
    FIGA2,
    FIGA3,
    TABLEA2,
    FIGA5,
    FIGA8,
    FIGA9,
)
