"""FedAvg: "Communication-Efficient Learning of Deep Networks from Decentralized Data", algorithm 1.

Every client trains the broadcast model on its own records (E epochs or τ steps of SGD), and the server takes
the mean of the changes, weighted by records or equally (``weights``).

The presets are the training underneath Fedssyn on CIFAR. Its paper has 10 epochs in batches of 256 everywhere, at the
best of the rates 0.01, 0.05 and 0.1; the authors' scripts have batches of 128, whole ones only, at rate 0.1, and more
epochs where 40 clients or more share the records.
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
