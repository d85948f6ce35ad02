"""What the papers print for methods in this library: accuracies in %, as printed, with the set-up and the place.

A number that the paper itself leaves in doubt has a remark in brackets.
"""

from collections.abc import Mapping
from dataclasses import dataclass

COG = "“Fake It Till Make It: Federated Learning with Consensus-Oriented Generation”"
SSYN = "“Synthetic data shuffling accelerates the convergence of federated learning under data heterogeneity”"
DM = "“FedDM: Iterative Distribution Matching for Communication-Efficient Federated Learning”"
LAP = "“FedLAP-DP: Federated Learning by Sharing Differentially Private Loss Approximations”"


@dataclass(frozen=True)
class Printed:
    """One table of a paper, or the part of it that compares methods in one set-up."""

    paper: str
    place: str
    setup: str
    figures: Mapping[str, str]  # by method


PRINTED = (
    Printed(
        COG,
        "table 1",
        "Fashion-MNIST, SimpleCNN, 10 clients, 70 rounds, Dirichlet 0.1 / groups of two labels",
        {
            "fedavg": "73.07 / 64.11",
            "fedavgm": "76.81 / 67.73",
            "fedprox": "73.35 / 64.44",
            "scaffold": "77.02 / 58.47",
            "moon": "73.21 / 63.11",
            "fedsam": "76.44 / 68.14",
            "vhl": "73.08 / 70.26",
            "fedexp": "65.03 / 59.49",
            "feddecorr": "72.77 / 60.70",
            "fedreg": "70.75 / 69.89",
            "fedgen": "72.64 / 61.34",
            "fedcog": "77.34 / 73.68",
        },
    ),
    Printed(
        COG,
        "table 6",
        "CIFAR-10, SimpleCNN, 10 clients, Dirichlet 0.1, personal models",
        {"fedrep": "74.90", "ditto": "76.57"},
    ),
    Printed(
        LAP,
        "table 1",
        "MNIST / Fashion-MNIST / CIFAR-10, ConvNet, 5 clients with class pairs",
        {
            "fedsgd": "87.07 / 75.10 / 60.91",
            "fedavg": "96.55 / 79.67 / 75.20 (71.91 in appendix B.2)",
            "fedprox": "96.26 / 79.37 / 63.84",
            "scaffold": "97.56 / 82.17 / 56.27",
            "feddm": "96.66 / 83.10 / 70.51",
            "fedlap": "98.08 / 87.37 / 71.91",
        },
    ),
    Printed(
        LAP,
        "table 1",
        "MNIST / Fashion-MNIST / CIFAR-10, one shot, not federated, called DSC there",
        {"dc": "98.90 / 83.60 / 53.90"},
    ),
    Printed(
        LAP,
        "table 2",
        "CIFAR-10, ConvNet, 5 clients with class pairs, ε 2.79 / 10.18",
        {"dp-fedavg": "17.11 / 31.15", "dp-fedprox": "19.40 / 35.04", "fedlap-dp": "21.42 / 36.09"},
    ),
    Printed(LAP, "table 2", "CIFAR-10, one shot, not federated, ε 32", {"psg": "34.58"}),
    Printed(
        DM,
        "table 1",
        "CIFAR-10, ConvNet, 10 clients, Dirichlet 0.1 / 0.01",
        {
            "fedavg": "57.32 / 57.32 (the same figure stands for both)",
            "fedprox": "56.92 / 40.30",
            "fednova": "60.76 / 36.46",
            "scaffold": "60.96 / 32.42",
            "feddm": "67.38 / 63.82",
        },
    ),
    Printed(
        DM,
        "section 3.2",
        "CIFAR-10, ConvNet, 10 clients, 20 rounds, Dirichlet 0.5",
        {"feddm": "69.66", "scaffold": "66.12"},
    ),
    Printed(DM, "section 3.4", "CIFAR-10, ConvNet, 10 clients, Dirichlet 0.5", {"real": "68.66", "feddm": "69.62"}),
    Printed(
        SSYN,
        "table 2",
        "CIFAR-10, VGG-11, 10 clients, Dirichlet 0.01 / 0.1, 100 rounds",
        {"fedgen": "47.6 / 78.6", "fedssyn": "83.0 / 84.1"},
    ),
    Printed(
        SSYN,
        "table 2",
        "CIFAR-10, VGG-11, 10 clients, Dirichlet 0.01 / 0.1, after 10 rounds of FedAvg",
        {"dense": "15.2 / 40.1"},
    ),
)
