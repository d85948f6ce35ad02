"""Everything that promises privacy: its noise, and who is sampled, come from streams that nobody can repeat.

Every draw of a private task is watched. The privacy of a release rests on noise (`gaussian`) and on who is in it
(`poisson_rows`): both must draw from a stream of `client.secret_rng`, and there must be as many releases with noise as
were charged. The run's public seed is known to the server, so nothing that is drawn from it (`client.rng`) may follow
the records: with one record fewer, and the secret streams as before, it is asked for the same numbers.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from contract_checks import Case
from test_contract import NOISED_COUNTS, PRIVATE_FEDDM, PRIVATE_FEDSSYN, QUICK
from torch.overrides import TorchFunctionMode

from understudy.config.build import build_data, build_method
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.federation import answering, registry, working
from understudy.federation.budget import Budget
from understudy.federation.client import Client
from understudy.privacy.mechanism import gaussian, poisson_rows
from understudy.randomness import generator
from understudy.synthesis import generator as generators

PRIVACY = {"delta": 1e-5, "records": 12}  # real noise: nothing here is for tests
TRAINING = {**QUICK["dp-fedavg"], "local": {**QUICK["dp-fedavg"]["local"], "augment": ["flip", "crop"]}}
GENERATORS: dict[str, dict[str, Any]] = {
    "vae": {**QUICK["fedssyn"]["generator"], "batch": 4, "conditional": True, "spread": "prior"},
    "gan": {"name": "gan", "epochs": 1, "batch": 4, "least_steps": 0},
    "diffusion": {
        "name": "diffusion",
        "epochs": 1,
        "batch": 4,
        "least_steps": 0,
        "flip": True,
        "width": 8,
        "multipliers": (1,),
        "head": 8,
        "draws_per_record": 2,
        "sampling_steps": 2,
    },
}


def exchange(generator: str) -> Case:
    """Only the opening: what training sends afterwards is another method's."""
    add_on = {**PRIVATE_FEDSSYN, "generator": GENERATORS[generator]}
    add_on["dp"] = {"scope": "exchange", "noise": 1.0, "labels": "noised", "label_noise": 3.0}
    return Case("fedavg", {**QUICK["fedavg"], "rounds": 0}, (add_on,), privacy=PRIVACY)


METHODS = {
    "dp-fedavg": Case("dp-fedavg", {**TRAINING, "rounds": 1}, privacy=PRIVACY),
    "dp-fedprox": Case("dp-fedprox", {**TRAINING, "rounds": 1}, privacy=PRIVACY),
    "feddm": Case("feddm", {**PRIVATE_FEDDM, "rounds": 1}, privacy=PRIVACY),
    "fedlap-dp": Case("fedlap-dp", {**QUICK["fedlap-dp"], "radius": 1e9, "rounds": 1}, privacy=PRIVACY),
    "moments": Case("moments", {**QUICK["moments"], "rounds": 3}, privacy=PRIVACY),
    "psg": Case("psg", {**QUICK["psg"], "iterations": 2, "rounds": 1}, privacy=PRIVACY),
}
TAKES_ALL = ("moments",)  # every record is in every release: nobody is sampled
CASES = METHODS | {f"fedssyn, {name}": exchange(name) for name in GENERATORS}
CASES["feddm, counts noised"] = Case("feddm", {**NOISED_COUNTS, "rounds": 2}, privacy=PRIVACY)
SILENT = {"feddm, counts noised": {"elm"}}  # by its noised counts it holds nothing, and releases no means


RANDOM = ("rand", "randn", "randint", "randperm", "normal", "uniform", "bernoulli", "multinomial", "dropout")


# ---- watching


@dataclass(frozen=True)
class Draw:
    client: str
    secret: bool
    purpose: str
    inside: str  # gaussian, poisson_rows, or nothing
    noise: float  # of gaussian; without noise nothing is released
    what: str  # the function of torch, and the shape that it was asked for


class Watch(TorchFunctionMode):
    """Notes every draw with a generator, whose it was, and which mechanism wanted it."""

    def __init__(self) -> None:
        super().__init__()
        self.draws: list[Draw] = []
        self.at_work = False  # some client is
        self.streams: dict[int, tuple[torch.Generator, str, bool, str]] = {}  # the stream itself, so that it lives on

    def handing_out(self, give: Callable[[Client, str], torch.Generator], secret: bool) -> Any:
        def given(client: Client, purpose: str) -> torch.Generator:
            stream = give(client, purpose)
            self.streams[id(stream)] = stream, client.id, secret, purpose
            return stream

        return given

    def working(self, work: Callable[..., Any]) -> Any:
        def worked(*given: Any) -> Any:
            self.at_work = True
            try:
                return work(*given)
            finally:
                self.at_work = False

        return worked

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        stream, drawn = (kwargs or {}).get("generator"), func(*args, **(kwargs or {}))
        if self.at_work and (stream is not None or func.__name__.rstrip("_").removesuffix("_like") in RANDOM):
            inside, noise = _mechanism()
            # torch's global stream is seeded by the run's seed.
            _, client, secret, purpose = self.streams.get(id(stream), (None, "", False, "of no client"))
            self.draws.append(Draw(client, secret, purpose, inside, noise, f"{func.__name__} {tuple(drawn.shape)}"))
        return drawn


def _mechanism() -> tuple[str, float]:
    """Which of the two draws, as the stack has it."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code in (gaussian.__code__, poisson_rows.__code__):
            return frame.f_code.co_name, float(frame.f_locals.get("noise", 0.0))
    return "", 0.0


@contextmanager
def watched() -> Iterator[Watch]:
    watch = Watch()
    with (
        patch.object(answering, "work", watch.working(working.work)),
        patch.object(Client, "rng", watch.handing_out(Client.rng, secret=False)),
        patch.object(Client, "secret_rng", watch.handing_out(Client.secret_rng, secret=True)),
        watch,
    ):
        yield watch


def repeated(_: Budget, __: int, *words: int | str) -> torch.Generator:
    """In place of the operating system's, so that two runs can be compared."""
    return generator("a secret that repeats", *words)


def without_one(data: Federation) -> Federation:
    """A neighbour: the first record of beech is not there."""
    beech = data.sites["beech"]
    fewer = replace(beech, own=beech.own.take(list(range(1, len(beech.own)))))
    return replace(data, sites={**data.sites, "beech": fewer})


# ---- what must hold


@pytest.mark.parametrize("name", CASES)
def test_noise_and_sampling_come_from_secret_streams_alone(name: str, tmp_path: Path) -> None:
    with watched() as watch:
        result = CASES[name].play(tmp_path / "run")
    assert [line["failures"] for line in result.metrics] == [[]] * len(result.metrics)
    public = {(draw.inside, draw.client, draw.purpose) for draw in watch.draws if draw.inside and not draw.secret}
    assert public == set(), "these streams can be repeated"
    noised = Counter(draw.client for draw in watch.draws if draw.inside == "gaussian" and draw.noise > 0)
    charges = json.loads((tmp_path / "run/ledger.json").read_text())["charges"]
    assert noised == {client: sum(charge["steps"] for charge in spent) for client, spent in charges.items()}
    sampled = {draw.client for draw in watch.draws if draw.inside == "poisson_rows"}
    nobody = {"ash", "beech", "cedar", "elm"} if name in TAKES_ALL else SILENT.get(name, set())
    assert sampled == {"ash", "beech", "cedar", "elm"} - nobody


@pytest.mark.parametrize("name", CASES)
def test_nothing_that_the_public_seed_draws_follows_the_records(name: str, tmp_path: Path) -> None:
    asked = []
    for at, data in enumerate((CASES[name].federation(), without_one(CASES[name].federation()))):
        with patch.object(Budget, "secret_stream", repeated), watched() as watch:
            CASES[name].play(tmp_path / str(at), data)
        asked.append([(draw.client, draw.purpose, draw.what) for draw in watch.draws if not draw.secret])
        assert any(draw.secret for draw in watch.draws)
    assert asked[0] == asked[1]


@pytest.mark.parametrize("name", CASES)
def test_the_same_seed_never_sends_the_same_twice(name: str, tmp_path: Path) -> None:
    sent = [CASES[name].play(tmp_path / str(at)).folder for at in range(2)]
    states = [{path.name for path in (folder / "checkpoint/parts").iterdir()} for folder in sent]
    assert states[0] != states[1]


def test_everything_that_promises_privacy_is_watched() -> None:
    """A method that is private under some promise, and every generator, since each may be asked to be."""
    made = {name for name in generators.names() if _of_the_package(generators.entry(name))}
    assert made == {*GENERATORS, "gaussian"}  # which refuses to be private
    methods = [entry.name for entry in registry.entries() if entry.role == "method" and _of_the_package(entry)]
    assert {name for name in methods if _promises(name)} == set(METHODS)


def _of_the_package(entry: Any) -> bool:
    """Other tests may have registered code of their own."""
    return bool(entry.build.__module__.startswith("understudy."))


def _promises(name: str) -> bool:
    case = METHODS.get(name, Case(name, QUICK.get(name, {}), privacy=PRIVACY))
    data = case.federation()
    try:
        config = case.config(data)
        return build_method(config, build_data(config), "eager").private
    except UserError:
        return False
