"""A fair comparison as data: lines that differ in what they compare, with learning rates tuned alike.

Rates are chosen on a validation share of the training records, with a separate seed; the runs that count train on all
training records and are scored on the test set, which chooses nothing. `papers.carrying_out` runs it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from understudy.errors import UserError
from understudy.papers.study import Changes

TUNING_SEED = 1000
VALIDATION = 0.2
ON_VALIDATION = ("validation_accuracy", "validation_macro_f1")  # scored on records kept back from training
ON_THE_TEST_SET = ("accuracy", "corrected_accuracy", "local_accuracy", "personal_accuracy", "macro_f1", "sample_f1")


AuditDepth = Literal["", "quick", "thorough"]


@dataclass(frozen=True)
class ShuffledImages:
    """Fedssyn with images of generators that were trained once per split and seed: a run without rounds trains them and
    keeps them with the clients, and all lines on the same split sample from those."""

    generator: Changes
    trained_as: Changes | None = None  # where sampling settings differ from those it was trained with
    records: float = 0.75  # share of its records that a client's generator sees
    exchange: Changes = field(default_factory=dict)  # further settings of fedssyn

    def training(self) -> dict[str, Any]:
        """What the run that trains the generators changes."""
        generator = dict(self.trained_as or self.generator)
        add_on = {"name": "fedssyn", "generator": generator, "records": self.records, "keep_generator": True}
        return {"with": [{**add_on, "images": 0}], "method.rounds": 0}

    def using(self, run: str) -> dict[str, Any]:
        """What a run changes that finds the generators in the folder ``run``."""
        # Poor generators are part of a study, so their images are sent too.
        how = {"records": self.records, "sound_only": False, "from_run": run, **self.exchange}
        return {"with": [{"name": "fedssyn", "generator": dict(self.generator), **how}]}


@dataclass(frozen=True)
class FirstRounds:
    """Rounds that several lines have in common: they are run once, and each line continues from a copy."""

    changes: Changes  # the line that all of them begin with
    rounds: int


@dataclass(frozen=True)
class Contender:
    label: str
    changes: Changes  # what it changes in the common config
    rate: str = "method.local.lr"  # the setting that is tuned
    rates: Sequence[float] = ()  # its own candidates; empty: those of the comparison
    like: str = ""  # takes the rate of the line with this label; empty: tuned itself
    seeds: Sequence[int] = ()  # its own, where a run takes long; empty: those of the comparison
    images: ShuffledImages | None = None
    begins: FirstRounds | None = None
    audited: AuditDepth = ""  # the run with the first seed is attacked
    audited_alike: bool = False  # those with the other seeds too, by the quick attacks
    kept: bool = False  # what its clients remember stays with the run, to be looked at
    counts: bool = True  # False: it is run only as far as other lines need its learning rate


@dataclass(frozen=True)
class Comparison:
    name: str
    about: str
    config: Changes  # what all have in common
    rates: Sequence[float]
    seeds: Sequence[int]
    contenders: Sequence[Contender]
    measure: str = "accuracy"  # the metric reported
    tuned_on: str = "validation_accuracy"
    panels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of curves: heading, line, contender
    tuning: Changes = field(default_factory=dict)  # what differs while tuning rates, such as fewer rounds

    def __post_init__(self) -> None:
        if any(TUNING_SEED in seeds for seeds in (self.seeds, *(one.seeds for one in self.contenders))):
            raise UserError(f"{self.name}: seed {TUNING_SEED} is reserved for tuning rates; choose another.")
        if self.tuned_on in ON_THE_TEST_SET:
            raise UserError(f"{self.name}: '{self.tuned_on}' comes from the test set, which chooses nothing.")
        labels = [one.label for one in self.contenders]
        if twice := {label for label in labels if labels.count(label) > 1}:
            raise UserError(f"{self.name}: two lines are called '{min(twice)}'; give each a label of its own.")
        tuned = {one.label for one in self.contenders if not one.like}
        if lost := [one.label for one in self.contenders if one.like and one.like not in tuned]:
            raise UserError(f"{self.name}: '{lost[0]}' takes the rate of a line that is not tuned here.")

    def seeds_of(self, contender: Contender) -> Sequence[int]:
        return (contender.seeds or self.seeds) if contender.counts else ()

    def narrowed(self, only: Sequence[str]) -> "Comparison":
        """Just the lines whose label contains one of these texts, and what they need of others to choose their rate."""
        wanted = [one for one in self.contenders if any(text in one.label for text in only)]
        tuned = {one.like for one in wanted}
        others = [replace(one, counts=False) for one in self.contenders if one.label in tuned and one not in wanted]
        return replace(self, contenders=[*others, *wanted])

    def rates_of(self, contender: Contender) -> Sequence[float]:
        return contender.rates or self.rates
