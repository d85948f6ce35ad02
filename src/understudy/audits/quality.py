"""What a run's synthetic sets are worth: what a network learns from them alone, and how like the records they look.

Train on synthetic, test on real: a fresh network of the run's kind learns by one recipe from the newest synthetic sets
of all clients, from as many of their records, and from all of them; all three are scored on records that nobody trained
on. How like: precision, recall, density, coverage and KID, in the features of the network that learnt from all records,
beside those of as many unseen records. No network trained elsewhere is used, so these numbers compare sets of one run,
not papers.

It reads records without noise, so it is a measurement for whoever holds them all: a simulation. Of a real federation
it is refused.
"""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from understudy import patience
from understudy.audits.likeness import Likeness, likeness
from understudy.config.build import build_data, build_method
from understudy.config.resolve import resolve
from understudy.config.schema import Live
from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.learning.evaluate import evaluate
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Feed, train
from understudy.learning.plan import passes
from understudy.models.network import Network
from understudy.randomness import generator
from understudy.reading import json_of, text_of
from understudy.runs.compare import last_counted, read_config
from understudy.runs.folder import RunFolder
from understudy.threads import one_thread

QUALITY_FILE = "quality.json"
SCHEMA = 1
RECIPE = Local(steps=200, batch=64, lr=0.02, momentum=0.9, clip=5.0)
MOST = 1000  # records of each kind whose features are compared
SCORED = 2000  # unseen records to score on, at most


@dataclass(frozen=True)
class Learnt:
    """The score on unseen records of a network that learnt from some set; None if it diverged."""

    records: int
    score: float | None


@dataclass(frozen=True)
class Quality:
    network: str  # in whose features
    score: str  # accuracy, or macro F1 if a record has several labels
    steps: int
    unseen: int  # records scored on
    synthetic: Learnt
    as_many: Learnt  # real records
    all_records: Learnt
    compared: int  # synthetic images whose features were compared
    against: int  # with as many records
    images_like: Likeness | None  # None: too few
    unseen_like: Likeness | None  # the same for as many unseen records
    rounds: int  # that the run had then
    run: str = ""  # its id
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self)}


def measure_quality(folder: Path, live: Live | None = None) -> Quality:
    """Measures and writes ``quality.json``; ``live`` holds objects that a run in Python got instead of names."""
    began = time.perf_counter()
    run = RunFolder(folder)
    sets = run.synthetic()
    if not sets:
        raise UserError(f"{folder} holds no synthetic sets to measure.")
    patience.doing("Measuring what the synthetic sets are worth")
    with one_thread():
        config = resolve(read_config(folder), live=live)
        data = build_data(config)
        if data.remote:
            raise UserError(f"{folder} is a server's run: the records are at the sites.")
        unseen = _unseen(data)
        if unseen is None:
            raise UserError(f"{folder} has no records that nobody trained on; give data.held_out, such as 0.2.")
        net = build_method(config, data, "eager").net
        made = _together(list(sets.values()), data.problem, f"{folder}, synthetic/")
        real = _together([one.own for one in data.sites.values() if len(one.own)], data.problem, "the clients")
        found = _Bench(net, config.top.seed).quality(made, real, unseen, str(config.model.name))
    whole = asdict(found) | {
        "rounds": last_counted(run.metrics()),
        "run": run.id,
        "seconds": round(time.perf_counter() - began, 2),
    }
    run.write_json(QUALITY_FILE, {"schema": SCHEMA, **whole})
    measured = read_quality(folder)
    assert measured is not None
    return measured


def read_quality(folder: Path) -> Quality | None:
    """None: not measured, or the run has gone on since."""
    file, run = folder / QUALITY_FILE, RunFolder(folder)
    if not file.exists():
        return None
    content = json_of(text_of(file), str(file))
    try:
        found = _quality(content)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"{file} is damaged or of another version; delete it, and it is measured again.") from None
    return found if found.rounds == last_counted(run.metrics()) and found.run == run.id else None


def _quality(content: Mapping[str, Any]) -> Quality:
    if content["schema"] != SCHEMA:
        raise ValueError("another version")
    plain = {key: value for key, value in content.items() if key != "schema"}
    learnt = {key: Learnt(**content[key]) for key in ("synthetic", "as_many", "all_records")}
    alike = {key: None if content[key] is None else Likeness(**content[key]) for key in ("images_like", "unseen_like")}
    return Quality(**{**plain, **learnt, **alike})


def _unseen(data: Federation) -> Examples | None:
    """The server's test set, or what clients hold out."""
    if data.test is not None and len(data.test):
        return data.test
    kept = [one.held_out for one in data.sites.values() if len(one.held_out)]
    return _together(kept, data.problem, "held out") if kept else None


def _together(sets: list[Examples], problem: Problem, who: str) -> Examples:
    """As the network takes them: clients may send pixels or floats."""
    for one in sets:
        problem.check(one, who)
    return Examples(torch.cat([problem.scale(one.x) for one in sets]), torch.cat([one.y for one in sets]))


class _Bench:
    """One network, trained again and again from its first weights."""

    def __init__(self, net: Network, seed: int):
        self._net, self._seed = net, seed

    def quality(self, made: Examples, real: Examples, unseen: Examples, network: str) -> Quality:
        several = self._net.problem.multilabel
        test = self._some(unseen, SCORED, "test")
        from_made = self._learnt(made, test, "synthetic")
        as_many = self._learnt(self._some(real, len(made), "as many"), test, "as many")
        from_all = self._learnt(real, test, "all")  # the last to be trained: its features are compared below
        images = self._some(made, MOST, "images")
        records, fresh = self._some(real, MOST, "records"), self._some(unseen, len(images), "fresh")
        features = [self._features(some) for some in (images, records, fresh)]
        return Quality(
            network=f"{network.rpartition(':')[2]}, trained for {RECIPE.steps} steps on the records of all clients",
            score="macro F1" if several else "accuracy",
            steps=RECIPE.steps or 0,
            unseen=len(test),
            synthetic=from_made,
            as_many=as_many,
            all_records=from_all,
            compared=len(images),
            against=len(records),
            images_like=likeness(features[0], features[1]),
            unseen_like=likeness(features[2], features[1]),
            rounds=0,
        )

    def _some(self, examples: Examples, most: int, what: str) -> Examples:
        if len(examples) <= most:
            return examples
        rng = generator(self._seed, "quality", what)
        return examples.take(torch.randperm(len(examples), generator=rng)[:most])

    def _learnt(self, examples: Examples, test: Examples, what: str) -> Learnt:
        plan = passes(len(examples), RECIPE.steps or 0, RECIPE.batch, generator(self._seed, "quality", what, "batches"))
        trained = train(self._net, self._net.initial(), Feed(examples, plan), Descent(RECIPE))
        if not bool(torch.isfinite(trained.model).all()):
            return Learnt(len(examples), None)
        scores = evaluate(self._net.logits, test, self._net.problem)
        return Learnt(len(examples), scores.macro_f1 if self._net.problem.multilabel else scores.accuracy)

    def _features(self, examples: Examples) -> Tensor:
        with self._net.scoring():
            return torch.cat([self._net(part)[0].flatten(1).cpu() for part in torch.split(examples.x, 500)])
