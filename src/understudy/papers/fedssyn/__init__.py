"""Synthetic data shuffling accelerates the convergence of federated learning under data heterogeneity."""

from understudy.papers.fedssyn.theory_figures import FIG2, FIGA3

STUDIES = (FIG2, FIGA3)
