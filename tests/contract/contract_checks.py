"""What every method must do, whatever it is. Each check runs one case and asserts; a broken method fails it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from understudy.config.build import build_method
from understudy.config.resolve import resolve
from understudy.config.schema import Config, EngineSettings, Live
from understudy.data.federation import Federation
from understudy.engines.inline import Inline
from understudy.federation.exchange import Answer, Engine, Request, failed
from understudy.federation.method import Method
from understudy.federation.site import Site
from understudy.runs.play import play
from understudy.runs.rounds import RunResult

ROUNDS = 3


def federation(order: Iterable[int] = range(4), held_out: float = 0.0) -> Federation:
    """Four sites of 8×8 pictures: two classes, all classes, one class, no record."""
    rng = np.random.default_rng(7)
    wanted = {"ash": [0] * 9 + [1] * 5, "beech": [0, 1, 2] * 5, "cedar": [2] * 12, "elm": []}
    sites: dict[str, tuple[Any, Any]] = {}
    for name, labels in wanted.items():
        y = np.array(labels, dtype=np.int64)
        x = rng.integers(0, 60, (len(y), 1, 8, 8)).astype(np.uint8)
        for image, label in zip(x, y, strict=True):
            image[0, 2 * label : 2 * label + 2] += 150
        sites[name] = (x, y)
    names = list(wanted)
    test = (np.concatenate([sites[n][0] for n in names[:3]]), np.concatenate([sites[n][1] for n in names[:3]]))
    chosen = {names[i]: sites[names[i]] for i in order}
    return Federation.from_arrays(chosen, test=test, classes=3, held_out=held_out)


@dataclass(frozen=True)
class Case:
    """A method with its add-ons, and settings that make it quick."""

    method: str | type[Method]
    settings: Mapping[str, Any] = field(default_factory=dict)
    add_ons: tuple[Mapping[str, Any], ...] = ()
    held_out: float = 0.0  # a share of the records of every site, where only clients can score
    privacy: Mapping[str, Any] | None = None  # with noise that repeats, or no run would equal another
    drops_in: int = 2  # the round in which a client is lost; 1 where each is asked once

    def federation(self, order: Iterable[int] = range(4)) -> Federation:
        return federation(order, self.held_out)

    def config(self, data: Federation, **changes: Any) -> Config:
        live = Live(data=data, method=None if isinstance(self.method, str) else self.method)
        method = {"name": self.method} if isinstance(self.method, str) else {}
        words = {
            "seed": 3,
            "model": {"name": "mlp", "hidden": [8]},
            "method": {**method, "rounds": ROUNDS, **self.settings},
            "with": [dict(add_on) for add_on in self.add_ons],
            "privacy": None if self.privacy is None else dict(self.privacy),
            "engine": {"name": "inline"},
        }
        return resolve(words, changes, live)

    def play(self, out: Path, data: Federation | None = None, *, resume: bool = False, **changes: Any) -> RunResult:
        return play(self.config(data or self.federation(), **changes), out, resume=resume)


def model_bytes(result: RunResult) -> bytes:
    return (result.folder / "model.safetensors").read_bytes()


def check_same_bits_wherever_clients_run(case: Case, folder: Path) -> None:
    here = case.play(folder / "inline")
    assert here.metrics[-1]["failed"] == 0, here.metrics[-1]["failures"]  # or the bits are those of nobody's work
    inline = model_bytes(here)
    for workers in (2,) if case.add_ons else (1, 2):
        spread = case.play(folder / f"workers-{workers}", engine={"name": "workers", "workers": workers})
        assert model_bytes(spread) == inline, f"{workers} workers give another model than inline"


def check_same_bits_in_any_order_of_clients(case: Case, folder: Path) -> None:
    forward = model_bytes(case.play(folder / "forward"))
    backward = model_bytes(case.play(folder / "backward", case.federation(reversed(range(4)))))
    assert forward == backward, "the order in which sites are listed changes the model"


def check_same_bits_after_stopping_and_resuming(case: Case, folder: Path) -> None:
    """Stopped after every round; on going on, the method is built anew and knows only State and memory."""
    straight = case.play(folder / "straight")
    assert straight.metrics[-1]["failed"] == 0, straight.metrics[-1]["failures"]
    case.play(folder / "resumed", rounds=1)
    for rounds in range(2, ROUNDS + 1):
        resumed = case.play(folder / "resumed", resume=True, rounds=rounds)
    assert model_bytes(resumed) == model_bytes(straight), "stopped and resumed, the model differs"
    # Where clients score, a run that stops asks them once more, and these bytes are in its line.
    differ = {"seconds", "seconds_by_client", *(("bytes_up", "bytes_down", "bytes_by_client") if case.held_out else ())}
    lines = [[{k: v for k, v in line.items() if k not in differ} for line in r.metrics] for r in (resumed, straight)]
    assert lines[0] == lines[1]


def check_it_learns_and_stays_finite(case: Case, folder: Path) -> None:
    result = case.play(folder / "run")
    first, last = result.metrics[0], result.metrics[-1]
    assert last["failed"] == 0, last["failures"]
    assert last["loss"] < first["loss"], "the loss did not fall"
    assert all(bool(torch.isfinite(t).all()) for t in result.weights.values())


class Watched(Engine):
    """Inline, with a count of its own, and sites that can be made to fail or to send nonsense."""

    def __init__(
        self, sites: Mapping[str, Site], method: Method, spoil: Callable[[Request], str | None], together: int = 1
    ):
        self._inner, self._spoil, self._together = Inline(sites, method, together), spoil, together
        self.up = self.down = 0

    def exchange(self, requests: Iterable[Request]) -> Iterator[Answer]:
        return self._one_by_one(requests) if self._together == 1 else self._in_groups(list(requests))

    def _in_groups(self, requests: list[Request]) -> Iterator[Answer]:
        self.down += sum(len(request.body) for request in requests)
        spoilt = {request.client: self._spoil(request) for request in requests}
        answers = self._inner.exchange([request for request in requests if spoilt[request.client] is None])
        for request in requests:
            why = spoilt[request.client]
            answer = next(answers) if why is None else failed(request.client, why)
            self.up += 0 if why is not None else len(answer.read())
            yield answer

    def _one_by_one(self, requests: Iterable[Request]) -> Iterator[Answer]:
        for request in requests:
            self.down += len(request.body)
            why = self._spoil(request)
            if why is not None:
                yield failed(request.client, why)
                continue
            for answer in self._inner.exchange([request]):
                self.up += len(answer.read())
                yield answer

    def settle(self, clients: Iterable[str]) -> None:
        self._inner.settle(clients)


def watched_play(
    case: Case, out: Path, spoil: Callable[[Request], str | None], *, data: Federation | None = None, **changes: Any
) -> tuple[RunResult, Watched]:
    engines: list[Watched] = []

    def choose(settings: EngineSettings, sites: Mapping[str, Site], method: Method) -> Engine:
        engines.append(Watched(sites, method, spoil, settings.group))
        return engines[-1]

    with patch("understudy.engines.choose.choose_engine", choose):
        result = case.play(out, data, **changes)
    return result, engines[0]


def check_bytes_are_what_was_serialised(case: Case, folder: Path) -> None:
    result, engine = watched_play(case, folder / "run", lambda request: None)
    assert (result.summary["bytes_up"], result.summary["bytes_down"]) == (engine.up, engine.down)


def check_a_dropped_client_is_recorded_and_the_rest_go_on(case: Case, folder: Path) -> None:
    def spoil(request: Request) -> str | None:
        return "its cable was cut" if request.client == "ash" and request.round == case.drops_in else None

    result, _ = watched_play(case, folder / "run", spoil)
    lines = {line["round"]: line for line in result.metrics}
    after = lines[case.drops_in + 1]
    assert {f["client"] for f in lines[case.drops_in]["failures"]} == {"ash"}
    assert after["failed"] == 0, after["failures"]
    assert result.summary["finished"]


def check_a_client_missing_from_the_start_does_no_harm(case: Case, folder: Path) -> None:
    result, _ = watched_play(
        case, folder / "run", lambda request: "not there yet" if request.client == "ash" and request.round < 2 else None
    )
    assert result.summary["finished"]
    assert result.metrics[-1]["failed"] == 0, result.metrics[-1]["failures"]


def check_partial_participation(case: Case, folder: Path) -> None:
    few = 3 if any(one["name"] == "secure-aggregation" for one in case.add_ons) else 2  # a sum of two says too much
    result, _ = watched_play(case, folder / "run", lambda request: None, cohort=few)
    assert all(line["clients"] <= few for line in result.metrics[1:])
    assert result.summary["finished"]


def check_state_is_never_written_in_place(case: Case, folder: Path) -> None:
    """The State handed to a round is the same after it: resumption and undone rounds rest on that."""
    data = case.federation()
    config = case.config(data)
    method = build_method(config, data)
    plain_round, seen = method.round, []

    def watched_round(server: Any, state: Any) -> Any:
        copies: dict[str, Tensor] = {part: tensor.clone() for part, tensor in state.items()}
        after = plain_round(server, state)
        seen.append(all(torch.equal(copies[part], state[part]) for part in state))
        return after

    method.round = watched_round  # type: ignore[method-assign]
    with patch("understudy.runs.play.build_method", lambda *_: method):
        play(config, folder / "run")
    assert seen, "no round was run"
    assert all(seen), "a round wrote into the State that it was given"


CHECKS: tuple[Callable[[Case, Path], None], ...] = (
    check_same_bits_wherever_clients_run,
    check_same_bits_in_any_order_of_clients,
    check_same_bits_after_stopping_and_resuming,
    check_it_learns_and_stays_finite,
    check_bytes_are_what_was_serialised,
    check_a_dropped_client_is_recorded_and_the_rest_go_on,
    check_a_client_missing_from_the_start_does_no_harm,
    check_partial_participation,
    check_state_is_never_written_in_place,
)
