"""FedAvg: "Communication-Efficient Learning of Deep Networks from Decentralized Data", algorithm 1.

Every client trains the broadcast model on its own records (E epochs or τ steps of SGD), and the server takes
the mean of the changes, weighted by records or equally (``weights``).
"""

from understudy.federation.registry import method
from understudy.methods.averaging import Averaging, AveragingSettings


@method("fedavg", settings=AveragingSettings)
def fedavg(settings: AveragingSettings) -> Averaging:
    return Averaging(settings)
