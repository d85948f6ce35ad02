"""FedAvg: "Communication-Efficient Learning of Deep Networks from Decentralized Data", algorithm 1.

Each client trains the broadcast model on its own records (E epochs or τ steps of SGD). The server adds the mean of the
changes, weighted by the number of records or equally (``weights``):

    w ← w + Σ_k a_k (w_k − w) / Σ_k a_k,      a_k = n_k or 1

The presets are the local training used with Fedssyn on CIFAR. The paper has 10 epochs in batches of 256 everywhere, at
the best of the rates 0.01, 0.05 and 0.1. The authors' scripts have whole batches of 128 at rate 0.1, and more epochs
when 40 or more clients share the records.
"""

from collections.abc import Mapping
from typing import Any

from understudy.federation.registry import method
from understudy.methods.shared.averaging import Averaging, AveragingSettings

FEDSSYN = {"epochs": 10, "batch": 256, "augment": ["flip", "crop"]}
RELEASE = {**FEDSSYN, "batch": 128, "lr": 0.1, "drop_last": True}
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "fedssyn": {"weights": "uniform", "local": FEDSSYN},
    "fedssyn-release": {"weights": "uniform", "local": RELEASE},
    "fedssyn-release-cifar10-40": {"weights": "uniform", "local": {**RELEASE, "epochs": 30}},
    "fedssyn-release-cifar100-40": {"weights": "uniform", "local": {**RELEASE, "epochs": 40}},
}


@method("fedavg", settings=AveragingSettings, presets=PRESETS)
def fedavg(settings: AveragingSettings) -> Averaging:
    return Averaging(settings)
