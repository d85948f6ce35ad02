"""Synthetic data shuffling accelerates the convergence of federated learning under data heterogeneity."""

from understudy.papers.fedssyn.added_images import FIG3
from understudy.papers.fedssyn.communication_saved import TABLEA2
from understudy.papers.fedssyn.generator_knobs import FIG4A, FIG4B
from understudy.papers.fedssyn.rounds_to_target import TABLE1
from understudy.papers.fedssyn.theory_figures import FIG2, FIGA3

STUDIES = (TABLE1, FIG2, FIG3, FIG4A, FIG4B, FIGA3, TABLEA2)
