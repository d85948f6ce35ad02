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
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from understudy import patience
from understudy.audits.likeness import likeness
from understudy.audits.quality import LearntFrom, Quality, read_quality, write_quality
from understudy.config.build import build_method
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
from understudy.own_code import is_own
from understudy.randomness import generator
from understudy.runs.compare import last_counted, read_config
from understudy.runs.folder import RunFolder
from understudy.runs.scaling import data_of_run
from understudy.threads import one_thread

RECIPE = Local(steps=200, batch=64, lr=0.02, momentum=0.9, clip=5.0)
MOST = 1000  # records of each kind whose features are compared
SCORED = 2000  # unseen records to score on, at most


def measure_quality(folder: Path, live: Live | None = None) -> Quality:
    """Measures and writes ``quality.json``; ``live`` holds objects that a run in Python got instead of names."""
    began = time.perf_counter()
    run = RunFolder(folder)
    sets = run.synthetic()
    if not sets:
        raise UserError(f"{folder} holds no synthetic sets to measure.")
    with one_thread():
        config = resolve(read_config(folder), live=live)
        data = data_of_run(config, folder)
        if data.remote:
            raise UserError(f"{folder} is a server's run: the records are at the sites.")
        unseen = _unseen(data)
        if unseen is None:
            raise UserError(f"{folder} has no records that nobody trained on; give data.held_out, such as 0.2.")
        net = build_method(config, data, "eager").net
        patience.doing(f"Measuring what the synthetic sets of {folder} are worth")
        made = _together(list(sets.values()), data.problem, f"{folder}, synthetic/")
        real = _together([one.own for one in data.sites.values() if len(one.own)], data.problem, "the clients")
        found = _Bench(net, config.top.seed).quality(made, real, unseen, str(config.model.name))
    seconds = round(time.perf_counter() - began, 2)
    measured = replace(found, rounds=last_counted(run.metrics()), run=run.id, seconds=seconds)
    write_quality(folder, measured)
    return measured


def qualities(folders: Sequence[Path], *, measure: bool) -> dict[Path, Quality | str]:
    """By folder: what was measured, now or earlier, or why it cannot be. Without ``measure`` only earlier ones.

    A folder may come from somebody else, so code that its config names is not run for this.
    """
    found: dict[Path, Quality | str] = {}
    for folder in folders:
        try:
            known = read_quality(folder)
            if known is None and measure:
                _check_no_own_code(folder)
                known = measure_quality(folder)
        except UserError as why:
            found[folder] = str(why)
        except OSError as refused:
            found[folder] = f"{folder} cannot be written to ({refused.strerror or refused})."
        else:
            if known is not None:
                found[folder] = known
    return found


def _check_no_own_code(folder: Path) -> None:
    own = [text for text in _texts(read_config(folder)) if is_own(text)]
    if own:
        raise UserError(f"its config names code of its own ({own[0]}), and a report runs no code from a run's folder.")


def _texts(words: object, seen: set[int] | None = None) -> Iterator[str]:
    """Every text in a config, wherever it stands; what YAML aliases repeat, once."""
    seen = set() if seen is None else seen
    if isinstance(words, str):
        yield words
    elif isinstance(words, dict | list) and id(words) not in seen:
        seen.add(id(words))
        for one in words.values() if isinstance(words, dict) else words:
            yield from _texts(one, seen)


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
        few = self._some(real, len(made), "as many")
        as_many = self._learnt(few, test, "as many") if len(few) < len(real) else None
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
            run="",
        )

    def _some(self, examples: Examples, most: int, what: str) -> Examples:
        if len(examples) <= most:
            return examples
        rng = generator(self._seed, "quality", what)
        return examples.take(torch.randperm(len(examples), generator=rng)[:most])

    def _learnt(self, examples: Examples, test: Examples, what: str) -> LearntFrom:
        plan = passes(len(examples), RECIPE.steps or 0, RECIPE.batch, generator(self._seed, "quality", what, "batches"))
        trained = train(self._net, self._net.initial(), Feed(examples, plan), Descent(RECIPE))
        if not bool(torch.isfinite(trained.model).all()):
            return LearntFrom(len(examples), None)
        scores = evaluate(self._net.logits, test, self._net.problem)
        return LearntFrom(len(examples), scores.macro_f1 if self._net.problem.multilabel else scores.accuracy)

    def _features(self, examples: Examples) -> Tensor:
        with self._net.scoring():
            return torch.cat([self._net(part)[0].flatten(1).cpu() for part in torch.split(examples.x, 500)])
