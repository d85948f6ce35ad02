"""Which studies show which methods: each study's set-up in words, and which rows of its table belong to a method."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Shown:
    """How a study's table.json is read for the page of a method. Rows of other methods do not match ``label``."""

    study: str
    setup: str  # in words; {}: what differs between a method's rows
    label: str  # pattern of a row's label: ``method``, and ``more`` for what differs
    called: Mapping[str, str] = field(default_factory=dict)  # from its name in the label to the method
    scale: str = "desk"


MNIST = "4000 MNIST images at 14×14"
SHOWN = (
    Shown("averaging-family", f"{MNIST}, MLP, 10 clients, Dirichlet 0.1, 20 rounds", r"(fedavg\+)?(?P<method>[\w-]+)"),
    Shown(
        "feddm-skew",
        f"{MNIST}, small ConvNet, 10 clients, 5 rounds, Dirichlet {{}}",
        r"(?P<method>[a-z]+)-(?P<more>[\d.]+)",
    ),
    Shown("feddm-options", f"{MNIST}, small ConvNet, 10 clients, 5 rounds, Dirichlet 0.1", r"(?P<method>real)"),
    Shown("fedlap-pairs", f"{MNIST}, small ConvNet, 5 clients with class pairs, 4 rounds", r"(?P<method>\w+)"),
    Shown(
        "fedlap-dp",
        "Fashion-MNIST at 14×14, small ConvNet, 5 clients with class pairs, 2 rounds, ε {}",
        r"(?P<method>[\w-]+) ε=(?P<more>[\d.]+)",
    ),
    Shown(
        "personal-models",
        f"{MNIST}, MLP, 10 clients, Dirichlet 0.1, 20 rounds, own models on own held-out records",
        r"(?P<method>fedrep|ditto)",
    ),
    Shown(
        "fedcog-fashion-mnist",
        "Fashion-MNIST, SimpleCNN, 10 clients, 50 rounds of FedAvg and 20 more: {}",
        r"(?P<more>(?P<method>fedavg|fixed|balanced), .+)",
        {"fixed": "fedcog", "balanced": "fedcog"},
        "paper",
    ),
    Shown("fedssyn-rounds", f"{MNIST}, MLP, 10 clients: {{}}", r"(FedAvg \+ )?(?P<method>\w+), (?P<more>.+)"),
    Shown(
        "fedssyn-controls",
        f"{MNIST}, MLP, 10 clients, Dirichlet 0.01, 20 rounds",
        r"\(\w\) (?P<method>shuffled images|central, records)",
        {"shuffled images": "fedssyn", "central, records": "central"},
    ),
    Shown("fedssyn-peers", f"{MNIST}, 10 clients, Dirichlet 0.1", r"(FedAvg \+ )?(?P<method>\w+)"),
)
