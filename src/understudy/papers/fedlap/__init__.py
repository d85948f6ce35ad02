"""FedLAP-DP: Federated Learning by Sharing Differentially Private Loss Approximations: its tables and figures."""

from understudy.papers.fedlap.baselines import TABLE1
from understudy.papers.fedlap.one_batch import FIG7
from understudy.papers.fedlap.options import FIG5, TABLE3
from understudy.papers.fedlap.pixels import FIG12
from understudy.papers.fedlap.private import TABLE2

STUDIES = (TABLE1, TABLE2, FIG5, TABLE3, FIG7, FIG12)
