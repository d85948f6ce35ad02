"""Studies of the theory by name, and what each is at which scale."""

from functools import partial

from understudy.papers.study import Study
from understudy.papers.theory.dsprites import VAE, dsprites
from understudy.papers.theory.least_squares_study import least_squares
from understudy.papers.theory.softmax import SoftmaxPlan, softmax_regression

SMALL = {"method.rounds": 1, "data.shapes": {"scales": 1, "rotations": 1, "positions": 8}}
STUDIES = (
    Study(
        "theory-least-squares",
        "error floor against σ², and rounds to ε against the share shuffled (Fedssyn's convex check)",
        {"smoke": partial(least_squares, 1, 150, 2), "desk": partial(least_squares, 3, 400, 6)},
    ),
    Study(
        "theory-softmax",
        "softmax regression on MNIST, alike or one class each, one and five local steps, with and without noise",
        {
            "smoke": partial(softmax_regression, SoftmaxPlan("mnist-5k", 20, 2, (0.1,))),
            "desk": partial(softmax_regression, SoftmaxPlan("mnist-5k", 400, 60)),
            "paper": partial(softmax_regression, SoftmaxPlan("mnist", 1024, 200)),
        },
    ),
    Study(
        "dsprites",
        "shapes by quadrant and form over twelve clients, β-VAEs, and how ρ and ñ matter",
        {
            "smoke": partial(dsprites, (0,), SMALL, {**VAE, "least_steps": 2}),
            "desk": partial(dsprites, (0, 1, 2), {}, VAE),
        },
    ),
)
