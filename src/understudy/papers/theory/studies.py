"""The studies of the theory by name, and what each is at which scale."""

from collections.abc import Callable, Mapping
from typing import Literal

from understudy.papers.experiment import Experiment
from understudy.papers.theory.dsprites import VAE, dsprites
from understudy.papers.theory.least_squares_study import least_squares
from understudy.papers.theory.softmax import softmax_regression
from understudy.papers.theory.surrogate import surrogate_study

Scales = Mapping[Literal["smoke", "desk", "paper"], Callable[[], Experiment]]

SMALL = {"method.rounds": 1, "data.shapes": {"scales": 1, "rotations": 1, "positions": 8}}
STUDIES: Mapping[str, tuple[str, Scales]] = {
    "theory-least-squares": (
        "error floor against σ², and rounds to ε against the share that is shuffled (Fedssyn's convex check)",
        {"smoke": lambda: least_squares(1, 150, 2), "desk": lambda: least_squares(3, 400, 6)},
    ),
    "theory-softmax": (
        "softmax regression on MNIST, alike or one class each, one and five local steps, with and without noise",
        {
            "smoke": lambda: softmax_regression("mnist-5k", 20, 2, 30.0, (0.1,)),
            "desk": lambda: softmax_regression("mnist-5k", 400, 60, 30.0),
            "paper": lambda: softmax_regression("mnist", 1024, 200, 30.0),
        },
    ),
    "theory-surrogate": (
        "FedDM's surrogate of a loss with one weight: close within its ball, off elsewhere",
        {"smoke": lambda: surrogate_study(10, 1), "desk": lambda: surrogate_study(400)},
    ),
    "dsprites": (
        "shapes by quadrant and form over twelve clients, β-VAEs, and how ρ and ñ matter",
        {
            "smoke": lambda: dsprites((0,), SMALL, {**VAE, "least_steps": 2}),
            "desk": lambda: dsprites((0, 1, 2), {}),
        },
    ),
}
