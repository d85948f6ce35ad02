"""The server of a run, ask by ask: bytes, memories, scores, images and draws, with an engine made up here."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.exchange import Answer, Engine, Request, failed
from understudy.federation.message import Message
from understudy.federation.method import Method, State, task
from understudy.federation.running import RunFacts, RunServer
from understudy.federation.server import Reply, Server, TooFewReplies
from understudy.federation.site import SCORE
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.privacy.ledger import Release

NAMES = ("ash", "beech", "cedar", "elm")
MODEL = Message(model=torch.zeros(6))


class Pictures(Method):
    """Its tasks are never run: the engine says what comes back."""

    @task(x="examples", y="labels")
    def draw(self, client: Client, brief: Message) -> Message:
        raise NotImplementedError

    @task(number="scalars")
    def count(self, client: Client, brief: Message) -> Message:
        raise NotImplementedError

    def round(self, server: Server, state: State) -> State:
        raise NotImplementedError


class Told(Engine):
    """Answers what it is told to, and keeps the requests; memories have the version of their request."""

    def __init__(self, answer: Callable[[Request], Message | Answer]):
        self.answer = answer
        self.requests: list[Request] = []

    def exchange(self, requests: Iterable[Request]) -> Iterator[Answer]:
        for request in requests:
            self.requests.append(request)
            said = self.answer(request)
            if isinstance(said, Answer):
                yield said
            else:
                yield Answer(request.client, "done", "", f"r{request.round}s{request.step}", said.to_bytes)


def images(_: Request) -> Message:
    return Message(x=torch.zeros(2, 2), y=torch.zeros(2, dtype=torch.uint8))


def number(request: Request) -> Message:
    return Message(number=torch.tensor(float(request.step)))


def begun(answer: Callable[[Request], Message | Answer], **more: Any) -> tuple[RunServer, Told, Pictures]:
    """A server at the beginning of round 1."""
    problem, method, engine = Problem((2,), 2), Pictures(), Told(answer)
    method.bind(Network(lambda: Classifier(nn.Flatten(), nn.Linear(2, 2)), problem), 3)
    given: dict[str, Any] = {"seed": 0, "cohort": 4, "at_least": 1, "score_at_clients": False, **more}
    held_out = dict.fromkeys(NAMES, 10)
    server = RunServer(engine, method, NAMES, RunFacts(run="run", config="config", held_out=held_out, **given))
    server.begin(1)
    return server, engine, method


def test_bytes_of_every_ask_of_a_round_are_added_up() -> None:
    server, engine, method = begun(number)
    first, second = Message(), MODEL
    for brief in (first, second):
        list(server.ask(method.count, brief, ["ash"]))
    sent = [number(request).nbytes for request in engine.requests]
    assert (server.record.up, server.record.down) == ({"ash": sum(sent)}, {"ash": first.nbytes + second.nbytes})
    server.begin(2)
    assert (server.record.up, server.record.down) == ({}, {})


@pytest.mark.parametrize(
    "about",
    [
        {"version": "../r1s1"},
        {"charges": [{"noise": 1e400}]},
        {"charges": [{}] * 65},
        {"read": lambda: b"no message"},
    ],
    ids=("version", "charge", "charges", "bytes"),
)
def test_what_cannot_be_read_has_left_all_the_same(about: dict[str, Any]) -> None:
    whole = {"version": "r1s1", "read": Message(number=torch.zeros(())).to_bytes, "charges": ()}
    written: list[Release] = []
    server, _, method = begun(lambda request: Answer(request.client, "done", "", **{**whole, **about}), at_least=0)
    server._incoming._released = written.append
    assert list(server.ask(method.count, Message(), ["ash"])) == []
    size = len({**whole, **about}["read"]())
    assert [release.parts for release in written] == [{"undeclared": ("undeclared", size)}]
    assert server.ledger.epsilon is None, "nothing covers it"
    assert server.record.up == {"ash": size}


def test_what_comes_too_late_is_written_down_and_counts_for_nothing() -> None:
    server, engine, method = begun(lambda request: failed(request.client, "away"), at_least=0)
    written: list[Release] = []
    server._incoming._released = written.append
    list(server.ask(method.count, Message(), ["ash"]))
    (asked,) = engine.requests
    server.begin(2)
    sent = number(asked)
    engine.late(asked, Answer("ash", "done", "", "r1s1", sent.to_bytes))
    about = [(one.round, one.step, one.heard, dict(one.parts)) for one in written]
    assert about[1:] == [(1, 1, 2, {"number": ("scalars", 4)})]
    assert (server.settled(), server.record.answered, server.record.failures) == ({}, set(), [])
    assert server.record.up == {"ash": sent.nbytes}
    assert server.ledger.epsilon is None


def test_a_second_ask_begins_where_the_first_one_ended() -> None:
    server, engine, method = begun(number)
    server.versions = {"ash": "r0s1"}
    for _ in range(2):
        list(server.ask(method.count, Message(), ["ash"]))
    assert [(request.start, request.settled) for request in engine.requests] == [("r0s1", "r0s1"), ("r1s1", "r0s1")]


def refused(replies: Iterable[Reply]) -> None:
    for reply in replies:
        reply.refuse("it smells")


def test_the_memory_of_a_refused_reply_steps_back_by_one_ask() -> None:
    server, _, method = begun(number, at_least=0)
    server.versions = {"ash": "r0s1"}
    refused(server.ask(method.count, Message(), ["ash", "beech"]))
    assert server.settled() == {"ash": "r0s1"}
    list(server.ask(method.count, Message(), ["ash"]))
    refused(server.ask(method.count, Message(), ["ash"]))
    assert server.settled() == {"ash": "r1s2"}


def test_refused_replies_are_none_of_those_needed() -> None:
    server, _, method = begun(number, at_least=2)
    ash, _ = server.ask(method.count, Message(), ["ash", "beech"])
    server.check_replies()
    ash.refuse("it smells")
    assert server.record.answered == {"beech"}
    with pytest.raises(TooFewReplies, match="1 of 2 clients answered"):
        server.check_replies()


def test_images_of_a_refused_reply_are_not_kept() -> None:
    server, _, method = begun(images)
    ash, _ = server.ask(method.draw, Message(), ["ash", "beech"])
    assert set(server.record.examples) == {"ash", "beech"}
    ash.refuse("it smells")
    assert set(server.record.examples) == {"beech"}


def test_a_client_scores_once_a_round_and_only_a_model() -> None:
    server, engine, method = begun(number, score_at_clients=True)
    for round in (1, 2):
        server.begin(round)
        for brief in (Message(), MODEL, MODEL):
            list(server.ask(method.count, brief, ["ash"]))
    assert [request.score for request in engine.requests] == [False, True, False] * 2


def test_scores_that_nobody_asked_for_are_that_clients_failure() -> None:
    scores = torch.tensor([10.0, 10.0, 0.0], dtype=torch.float64)
    server, _, method = begun(lambda request: number(request).but({SCORE: scores}), score_at_clients=True)
    assert len(list(server.ask(method.count, MODEL, ["ash"]))) == 1
    assert server.record.scores.count == 10
    assert not list(server.ask(method.count, MODEL, ["ash"], at_least=0))
    assert server.record.scores.count == 10
    assert [failure["why"] for failure in server.record.failures] == ["it sent scores without being asked for them"]


def test_draws_of_the_server_differ_by_round_and_purpose_and_go_on_within_one() -> None:
    server, _, _ = begun(number)
    drawn = []
    for round, purpose in ((1, "a"), (1, "a"), (1, "b"), (2, "a")):
        if round != server.round:
            server.begin(round)
        drawn.append(float(torch.rand((), generator=server.rng(purpose))))
    assert len(set(drawn)) == 4
    server.begin(1)
    assert float(torch.rand((), generator=server.rng("a"))) == drawn[0]


def test_over_many_rounds_everybody_is_in_some_cohort() -> None:
    server, _, _ = begun(number, cohort=2)
    met = []
    for round in range(1, 21):
        server.begin(round)
        met.append(server.cohort())
        assert met[-1] == server.cohort() == sorted(met[-1])  # the same all through a round, in order
    assert {client for cohort in met for client in cohort} == set(NAMES)
    assert len({tuple(cohort) for cohort in met}) == 6


def test_a_client_without_budget_is_left_out_from_the_next_round_on() -> None:
    def spent_at_ash(request: Request) -> Message | Answer:
        return failed("ash", "no budget", outcome="spent") if request.client == "ash" else number(request)

    server, engine, method = begun(spent_at_ash)
    list(server.ask(method.count, Message(), server.cohort()))
    assert server.cohort() == list(NAMES)
    server.begin(2)
    assert server.cohort() == list(NAMES[1:])
    list(server.ask(method.count, Message(), server.cohort()))
    assert [request.client for request in engine.requests if request.round == 2] == list(NAMES[1:])


def test_who_is_left_out_is_not_asked_again_and_the_cohort_of_its_round_stays() -> None:
    server, engine, method = begun(number)
    list(server.ask(method.count, MODEL, to=server.cohort()))
    server.leave_out("beech", "its keys are not its own")
    assert server.cohort() == list(NAMES)
    list(server.ask(method.count, MODEL, to=server.cohort()))
    assert [request.client for request in engine.requests[4:]] == ["ash", "cedar", "elm"]
    assert server.record.failures == [
        {"client": "beech", "why": "it is left out from now on: its keys are not its own"}
    ]
    server.undo()
    server.begin(2)
    assert server.cohort() == ["ash", "cedar", "elm"]
    assert server.able()


def test_an_ask_whose_replies_nobody_reads_says_so() -> None:
    """Clients are asked while replies are read: a method that forgets to read asks nobody, and would learn nothing."""
    server, engine, method = begun(number)
    server.ask(method.count, MODEL, to=NAMES)
    assert engine.requests == []
    with pytest.raises(UserError, match=r"count was asked but its replies were never read.*loop over"):
        server.check_replies()


def test_an_ask_of_nobody_that_is_read_is_in_order() -> None:
    server, _, method = begun(number)
    assert list(server.ask(method.count, MODEL, to=[], at_least=0)) == []
    server.check_replies()
