"""Table 6: personal models, scored on the common test set reweighted by the client's class frequencies."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from understudy.papers.carrying_out import PlayedLines
from understudy.papers.claims import PaperClaim, row_above
from understudy.papers.comparison import Contender
from understudy.papers.fedcog.cells import percent
from understudy.papers.fedcog.main_experiment import BASELINES, CIFAR10, PAPER, SMOKE, Setting
from understudy.papers.ours import personal_models
from understudy.papers.published import FromRuns, Published, Study
from understudy.papers.study import Changes, Findings

ABOUT = "personal models: fine-tuned ones, and two methods made for them"
COLUMN = "personal accuracy"
PRINTED: Mapping[str, float] = {
    "FedAvg+FT": 76.16,
    "FedProx+FT": 76.38,
    "FedRep": 74.90,
    "Ditto": 76.57,
    "FedCOG+FT": 78.34,
}
HELD_OUT = 0.1
MEASURE = "personal_accuracy"
SCORED: Changes = {"method.score_local": True}
OF_OURS: Mapping[str, str] = {row: row.lower() for row in PRINTED}


def _tell(labels: Mapping[str, str], lines: PlayedLines) -> Findings:
    found = {row: lines[label].accuracies for row, label in labels.items() if label in lines}
    return Findings(ABOUT, list(lines.values()), values={(row, COLUMN): percent(them) for row, them in found.items()})


def _as_published(setting: Setting) -> FromRuns:
    """Local models of the last round are the fine-tuned ones. FedRep's heads stay with the clients, who must hold out
    records to score on; so all do."""
    setting = setting.within(setting.column, {"data.held_out": HELD_OUT, **SCORED})
    alone = {"with": [], **setting.common, "method.rounds": setting.rounds}
    plan = setting.comparison(
        "fedcog-table6",
        ABOUT,
        [
            setting.continued("FedAvg+FT", {}),
            Contender(setting.label("FedProx+FT"), {**BASELINES["FedProx"], **alone}),
            Contender(setting.label("FedRep"), {"method.name": "fedrep", **alone}),
            Contender(setting.label("Ditto"), {"method.name": "ditto", **alone}),
            setting.variant("FedCOG+FT", "balanced"),
        ],
    )
    labels = {row: setting.label(row) for row in PRINTED}
    return FromRuns([replace(plan, measure=MEASURE)], partial(_tell, labels))


def _as_ours() -> FromRuns:
    """The runs of personal-models, by the paper's score."""
    return FromRuns([replace(personal_models(), measure=MEASURE)], partial(_tell, OF_OURS))


STUDY = Study(
    "fedcog-table6",
    ABOUT,
    {"smoke": _as_published(SMOKE[0][0]), "desk": _as_ours(), "paper": _as_published(CIFAR10[0][0])},
    published=Published(
        PAPER,
        "table 6",
        {(row, COLUMN): value for row, value in PRINTED.items()},
        [
            PaperClaim(
                "A client's own model after FedCOG is above all four other personal models.",
                row_above("FedCOG+FT", list(PRINTED), [COLUMN]),
            )
        ],
        remarks=[
            "The score is the paper's: the common test set, reweighted by the client's class frequencies.",
            "The paper gives no settings for FedRep and Ditto; at paper scale they have its optimiser and 400 local "
            "steps. FedCOG has the balanced weighting. All clients hold out a tenth of their records, because FedRep's "
            "clients score at home.",
            "At desk scale these are the runs of our study personal-models: 4000 images of MNIST at 14×14, an MLP, "
            "Dirichlet 0.1, 20 rounds, rates chosen on each client's held-out records.",
        ],
    ),
)
