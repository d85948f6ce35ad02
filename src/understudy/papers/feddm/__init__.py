"""FedDM: Iterative Distribution Matching for Communication-Efficient Federated Learning: its tables and figures."""

from understudy.papers.feddm.larger_network import FIG3
from understudy.papers.feddm.message_sizes import TABLE2
from understudy.papers.feddm.noise import FIG4, IMAGES
from understudy.papers.feddm.one_weight import FIG1
from understudy.papers.feddm.options import AGAINST_REAL, IPC, TABLE4
from understudy.papers.feddm.partitions import CURVES, FIG2, TABLE1

STUDIES = (FIG1, FIG2, TABLE1, IPC, FIG3, AGAINST_REAL, TABLE2, FIG4, CURVES, IMAGES, TABLE4)
