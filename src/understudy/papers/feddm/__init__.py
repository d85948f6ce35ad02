"""FedDM: Iterative Distribution Matching for Communication-Efficient Federated Learning: its tables and figures."""

from understudy.papers.feddm.message_sizes import TABLE2
from understudy.papers.feddm.one_weight import FIG1

STUDIES = (FIG1, TABLE2)
