"""FedLAP and FedLAP-DP, in several files."""

from understudy.methods.fedlap.fedlap import FedLap as FedLap
from understudy.methods.fedlap.fedlap_dp import FedLapDp as FedLapDp
