"""FedLAP and FedLAP-DP, in several files."""

from understudy.methods.fedlap.fedlap import FedLap
from understudy.methods.fedlap.fedlap_dp import FedLapDp

__all__ = ["FedLap", "FedLapDp"]
