"""The promises around a method: several asks a round, refusals, scores at the clients, kills at every write."""

import errno
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from contract_checks import Case, federation, model_bytes, watched_play
from test_broken_methods import Sound
from test_contract import CASES, QUICK

import understudy as us
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.federation import answering
from understudy.federation.client import Client
from understudy.federation.exchange import Request
from understudy.federation.memories import memory_of
from understudy.federation.message import Message
from understudy.federation.method import State, task
from understudy.federation.server import Server
from understudy.files import LinesOnDisk, write_whole
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.runs.folder import RunFolder
from understudy.runs.watching import RunStopped
from understudy.synthesis.vae.vae import Vae


class Killed(BaseException):
    """In place of kill -9: nothing catches it."""


@contextmanager
def killed_at_write(number: int) -> Iterator[None]:
    """The N-th file is half written, and the process is gone."""
    whole, count = write_whole, 0

    def write(path: Path, data: bytes, *, durable: bool = True) -> None:
        nonlocal count
        count += 1
        if count == number:
            path.with_name(f"{path.name}.1.part").write_bytes(data[: len(data) // 2])
            raise Killed
        whole(path, data, durable=durable)

    add = LinesOnDisk.add

    def add_or_die(self: LinesOnDisk, line: Mapping[str, Any], *, durable: bool = True) -> None:
        nonlocal count
        count += 1
        if count == number:
            with self._path.open("ab") as file:
                file.write(json.dumps(line).encode()[:20])
            raise Killed
        add(self, line, durable=durable)

    names = ("federation.tensor_store", "federation.parcels_on_disk", "federation.answering", "runs.folder")
    with ExitStack() as patches:
        for name in (*names, "runs.rounds", "runs.releases"):
            patches.enter_context(patch(f"understudy.{name}.write_whole", write))
        patches.enter_context(patch.object(LinesOnDisk, "add", add_or_die))
        yield


class TwoPhases(Sound):
    """Every client steps twice a round, and the second brief holds what the first ask brought."""

    @task(seen="scalars")
    def count(self, client: Client, brief: Message) -> Message:
        client.memory["asked"] = client.memory.get("asked", torch.zeros(())) + 1
        return Message(seen=client.memory["asked"])

    @task(model="weights", seen="scalars")
    def learn(self, client: Client, brief: Message) -> Message:
        fitted = self.fit(client, brief.only("model"))["model"]
        client.memory["asked"] = client.memory["asked"] + 0.5
        return Message(model=fitted + 0.001 * brief["total"], seen=client.memory["asked"])

    def round(self, server: Server, state: State) -> State:
        counted = list(server.ask(self.count, Message(), to=server.cohort()))
        total = torch.stack([reply["seen"] for reply in counted]).sum()
        replies = list(server.ask(self.learn, state.only("model").but(total=total), [r.client for r in counted]))
        return state.but(model=torch.stack([reply["model"] for reply in replies]).mean(0))


def test_a_round_that_is_undone_leaves_no_trace_in_any_memory(tmp_path: Path) -> None:
    """A round adds 1 and then 0.5 to a client's count. The second of three rounds is undone after its first ask, so its
    1 must not count: 3.0 in the end."""

    def cut(request: Request) -> str | None:
        return "its cable was cut" if request.round == 2 and request.task == "TwoPhases.learn" else None

    result, _ = watched_play(Case(TwoPhases), tmp_path / "run", cut)
    assert [line["undone"] for line in result.metrics] == [False, False, True, False]
    run = RunFolder(tmp_path / "run")
    versions = run.checkpoints.notes(run.checkpoints.entries()[-1])["versions"]
    for client in ("ash", "beech", "cedar", "elm"):
        memory = memory_of(run.path, run.id, client, versions[client])
        assert memory is not None
        assert float(memory["asked"]) == 3.0


def test_the_bytes_of_every_ask_of_a_round_are_counted(tmp_path: Path) -> None:
    sent: Counter[tuple[int, str]] = Counter()

    def count(request: Request) -> None:
        sent[request.round, request.client] += len(request.body)

    result, engine = watched_play(Case(TwoPhases), tmp_path / "run", count)
    down = {(line["round"], who): both[1] for line in result.metrics for who, both in line["bytes_by_client"].items()}
    assert down == sent
    assert (result.summary["bytes_up"], result.summary["bytes_down"]) == (engine.up, engine.down)


def test_every_round_draws_a_cohort_of_its_own(tmp_path: Path) -> None:
    """Two of four clients: in twelve rounds every client comes up, in more than one company."""
    results = [CASES["fedavg"].play(tmp_path / name, cohort=2, rounds=12) for name in ("one", "two")]
    drawn = [[tuple(line["bytes_by_client"]) for line in result.metrics[1:]] for result in results]
    assert all(len(cohort) == 2 for cohort in drawn[0])
    assert {client for cohort in drawn[0] for client in cohort} == {"ash", "beech", "cedar", "elm"}
    assert len(set(drawn[0])) > 2
    assert drawn[0] == drawn[1], "the same seed draws the same cohorts"


EVERY_WRITE = {"two phases": Case(TwoPhases), **{name: CASES[name] for name in ("scaffold+fedcog", "feddm+fedssyn")}}


@pytest.mark.parametrize("name", EVERY_WRITE)
@pytest.mark.parametrize("long", [1.0, 0.0], ids=["steps in memory", "steps in files"])
def test_killed_at_every_write_in_turn_the_run_ends_the_same(
    name: str, long: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "LONG", long)
    case = EVERY_WRITE[name]
    straight = case.play(tmp_path / "straight", rounds=2)
    out, at, kills = tmp_path / "killed", 0, 0
    while True:
        at += 1
        try:
            with killed_at_write(at):
                ended = case.play(out, resume=True, rounds=2)
            break
        except Killed:
            kills += 1
            if RunFolder(out).checkpoints.entries() and at > 20:
                at = 0  # some progress was kept, so counting anew gets further
            assert kills < 300, "no progress from one kill to the next"
    assert kills > 5
    assert model_bytes(ended) == model_bytes(straight)
    assert [line["accuracy"] for line in ended.metrics] == [line["accuracy"] for line in straight.metrics]
    assert RunFolder(out).ledger() == RunFolder(tmp_path / "straight").ledger()
    assert {p.name for p in (out / "synthetic").glob("*")} == {
        p.name for p in (tmp_path / "straight" / "synthetic").glob("*")
    }


def test_long_work_done_in_an_opening_that_was_killed_is_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "LONG", 0.0)
    case = CASES["fedavg+fedssyn"]
    generated: list[str] = []
    course = Vae.course

    def counted(self: Any, *args: Any) -> Any:
        generated.append("once")
        return course(self, *args)

    with patch.object(Vae, "course", counted):
        with pytest.raises(Killed), killed_at_write(14):  # after the replies of several clients
            case.play(tmp_path / "run")
        case.play(tmp_path / "run", resume=True)
    assert len(generated) == 3, "three clients have records, and each trained its generator once"


class RefusesAfterwards(Sound):
    """Reads all replies, then refuses that of ash."""

    inside = False

    def round(self, server: Server, state: State) -> State:
        kept = []
        if self.inside:
            for reply in server.ask(self.fit, state.only("model"), to=server.cohort()):
                if reply.client == "ash":
                    reply.refuse("it smells")
                else:
                    kept.append(reply["model"])
        else:
            replies = list(server.ask(self.fit, state.only("model"), to=server.cohort()))
            for reply in replies:
                if reply.client == "ash":
                    reply.refuse("it smells")
            kept = [reply["model"] for reply in replies if reply.refusal is None]
        return state.but(model=torch.stack(kept).mean(0))


class RefusesInside(RefusesAfterwards):
    inside = True


class RefusesAll(Sound):
    def round(self, server: Server, state: State) -> State:
        for reply in list(server.ask(self.fit, state.only("model"), to=server.cohort())):
            reply.refuse("none is good enough")
        return state.but(model=state["model"] + 1)


@pytest.mark.parametrize("method", [RefusesInside, RefusesAfterwards])
def test_a_reply_can_be_refused_while_reading_and_afterwards(method: type[Sound], tmp_path: Path) -> None:
    result = Case(method).play(tmp_path / "run", rounds=1)
    assert result.metrics[1]["failures"] == [{"client": "ash", "why": "the method refused its reply: it smells"}]
    assert result.metrics[1]["clients"] == 3
    assert "ash" in RunFolder(tmp_path / "run").ledger()["clients"], "it left the house all the same"


def test_a_round_in_which_every_reply_is_refused_is_undone(tmp_path: Path) -> None:
    with pytest.raises(RunStopped, match=r"3 rounds in a row had too few replies .*none is good enough"):
        Case(RefusesAll).play(tmp_path / "run")
    lines = RunFolder(tmp_path / "run").metrics()
    assert [line["undone"] for line in lines] == [False, True, True, True]
    assert lines[-1]["loss"] == lines[0]["loss"]


class StopsReading(Sound):
    def round(self, server: Server, state: State) -> State:
        next(iter(server.ask(self.fit, state.only("model"), to=server.cohort())))
        return state


class AsksTwiceAtOnce(Sound):
    def round(self, server: Server, state: State) -> State:
        asks = [server.ask(self.fit, state.only("model"), to=server.cohort()) for _ in range(2)]
        list(zip(*asks, strict=True))
        return state


class AsksAStranger(Sound):
    def round(self, server: Server, state: State) -> State:
        list(server.ask(self.fit, state.only("model"), to=["nobody"]))
        return state


def test_what_left_is_in_the_ledger_even_if_the_method_stopped_reading(tmp_path: Path) -> None:
    result = Case(StopsReading).play(tmp_path / "run", rounds=1)
    assert result.summary["epsilon"] is None
    assert list(RunFolder(tmp_path / "run").ledger()["clients"]) == ["ash"]


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (AsksTwiceAtOnce, "while replies to another ask were still coming"),
        (AsksAStranger, "'nobody', who is not a client"),
    ],
)
@pytest.mark.parametrize("engine", [{"name": "inline"}, {"name": "workers", "workers": 2}])
def test_asking_wrongly_gets_a_sentence(
    method: type[Sound], sentence: str, engine: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=sentence):
        Case(method).play(tmp_path / "run", engine=engine)


# ---- scores at the clients


def without_test_set(**more: Any) -> Federation:
    whole = federation()
    sites = {name: (holding.own.x, holding.own.y) for name, holding in whole.sites.items()}
    return Federation.from_arrays(sites, classes=3, held_out=0.25, **more)


def test_without_a_test_set_a_run_can_be_extended(tmp_path: Path) -> None:
    case = CASES["scaffold"]
    straight = case.play(tmp_path / "straight", without_test_set(), rounds=4)
    case.play(tmp_path / "longer", without_test_set(), rounds=2)
    longer = case.play(tmp_path / "longer", without_test_set(), resume=True, rounds=4)
    assert model_bytes(longer) == model_bytes(straight)
    assert longer.summary["failed"] == 0
    kept = {line["part"]: line for line in RunFolder(tmp_path / "longer").ledger()["clients"]["ash"]}
    assert kept["change"]["releases"] == 4
    score_asks = [line for line in RunFolder(tmp_path / "longer").ledger()["clients"]["ash"] if "score" in line["part"]]
    assert sum(line["releases"] for line in score_asks) == 4 + 2, "once a round, and one last ask at either end"
    assert [line["accuracy"] for line in longer.metrics] == [line["accuracy"] for line in straight.metrics]


def test_the_last_ask_is_counted_too(tmp_path: Path) -> None:
    case = CASES["fedavg"]
    result, engine = watched_play(case, tmp_path / "run", lambda request: None, data=without_test_set())
    assert (result.summary["bytes_up"], result.summary["bytes_down"]) == (engine.up, engine.down)


def test_scores_are_statistics_in_the_ledger(tmp_path: Path) -> None:
    CASES["fedavg"].play(tmp_path / "run", without_test_set(), rounds=1)
    lines = RunFolder(tmp_path / "run").ledger()["clients"]["beech"]
    assert {"understudy.score": "statistics"}.items() <= {line["part"]: line["kind"] for line in lines}.items()


def test_scoring_happens_once_a_round_and_changes_nothing(tmp_path: Path) -> None:
    scored = Case(TwoPhases).play(tmp_path / "scored", without_test_set(), rounds=2)
    test = (federation().sites["ash"].own.x, federation().sites["ash"].own.y)
    plain = Case(TwoPhases).play(tmp_path / "plain", without_test_set(test=test), rounds=2)
    assert model_bytes(scored) == model_bytes(plain)
    held_out = sum(len(holding.held_out) for holding in without_test_set().sites.values())
    assert all(round(line["accuracy"] * held_out, 6).is_integer() for line in scored.metrics)


def test_a_run_that_stopped_without_a_test_set_goes_on_once_that_is_mended(tmp_path: Path) -> None:
    def gone(request: Request) -> str | None:
        return "the line is dead" if request.round in (2, 3, 4) else None

    with pytest.raises(RunStopped, match=r"3 rounds in a row had too few replies \(ash: the line is dead"):
        watched_play(CASES["fedavg"], tmp_path / "run", gone, data=without_test_set(), rounds=6)
    result = CASES["fedavg"].play(tmp_path / "run", without_test_set(), resume=True, rounds=6)
    assert result.summary["finished"]
    assert [line["round"] for line in result.metrics] == list(range(7))
    assert result.metrics[-1]["failed"] == 0


# ---- other promises


class Halved(Averaging):
    """A subclass with a task of its own name."""

    @task()
    def train(self, client: Client, brief: Message) -> Message:
        parts = super().train(client, brief)
        return parts.but(change=parts["change"] * 0.5)


def test_a_subclass_of_averaging_may_change_the_task(tmp_path: Path) -> None:
    class Mine(Halved):
        def __init__(self) -> None:
            super().__init__(AveragingSettings(**QUICK["fedavg"]))

    halved = Case(Mine).play(tmp_path / "halved", rounds=1)
    whole = CASES["fedavg"].play(tmp_path / "whole", rounds=1)
    start = CASES["fedavg"].play(tmp_path / "start", rounds=0)
    for name, w in halved.weights.items():
        middle = (start.weights[name] + whole.weights[name]) / 2
        assert torch.allclose(w, middle, atol=1e-6)


def test_a_full_disk_ends_the_run_with_a_sentence_and_it_goes_on_afterwards(tmp_path: Path) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "metrics.jsonl")

    with patch.object(RunFolder, "add_line", full), pytest.raises(RunStopped, match="No space left on device"):
        CASES["scaffold"].play(tmp_path / "run")
    result = CASES["scaffold"].play(tmp_path / "run", resume=True)
    assert model_bytes(result) == model_bytes(CASES["scaffold"].play(tmp_path / "straight"))


def test_other_records_under_the_same_names_are_not_resumed_on(tmp_path: Path) -> None:
    CASES["fedavg"].play(tmp_path / "run", rounds=1)
    x, y = federation().sites["beech"].own.x, federation().sites["beech"].own.y
    other = Federation.from_arrays(dict.fromkeys(federation().sites, (x, y)), test=(x, y), classes=3)
    with pytest.raises(UserError, match="belongs to another config: data_digest"):
        CASES["fedavg"].play(tmp_path / "run", other, resume=True)


def test_a_cosine_schedule_cannot_be_made_longer_half_way(tmp_path: Path) -> None:
    case = Case("fedavg", {"local": {"epochs": 1, "schedule": "cosine"}})
    case.play(tmp_path / "run", rounds=2)
    with pytest.raises(UserError, match="schedule: cosine"):
        case.play(tmp_path / "run", resume=True, rounds=3)


def test_resumed_from_python_without_a_config_a_run_obeys_its_folder(tmp_path: Path) -> None:
    words = {"data": {"name": "digits", "limit": 60, "clients": 2}, "model": "softmax", "engine": "inline"}
    us.run(words, out=tmp_path / "run", rounds=1, changes={"method.local.lr": 0.3})
    again = us.run(out=tmp_path / "run", resume=True, rounds=2)
    assert json.loads((tmp_path / "run/summary.json").read_text())["rounds"] == 2
    assert again.summary["finished"]


def test_local_buffers_are_scored_at_home_and_the_server_never_sees_them(tmp_path: Path) -> None:
    settings = {**QUICK["fedavg"], "buffers": "local"}
    model = {"name": "resnet18", "norm": "batch"}
    x = torch.randint(0, 255, (6, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    sites = {"a": (x, [0, 1, 0, 1, 0, 1]), "b": (x[:4], [0, 1, 1, 0])}
    words = {"model": model, "method": {"name": "fedavg", "rounds": 1, **settings}, "engine": "inline"}
    with pytest.raises(UserError, match="they must score it"):
        us.run(words, data=Federation.from_arrays(sites, test=(x, [0] * 6), classes=2), out=tmp_path / "run")
    held = Federation.from_arrays(sites, test=(x, [0] * 6), classes=2, held_out=0.3)
    result = us.run(words, data=held, out=tmp_path / "run")
    assert result.metrics[-1]["scored_at"] == "clients"
    parts = {line["part"] for line in RunFolder(tmp_path / "run").ledger()["clients"]["a"]}
    assert parts == {"change", "weight", "understudy.score"}
