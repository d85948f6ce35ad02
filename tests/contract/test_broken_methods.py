"""Methods with the faults that the contract suite is there to find, and the check that finds each."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from contract_checks import (
    Case,
    check_a_dropped_client_is_recorded_and_the_rest_go_on,
    check_it_learns_and_stays_finite,
    check_same_bits_after_stopping_and_resuming,
    check_same_bits_in_any_order_of_clients,
    check_same_bits_wherever_clients_run,
    check_state_is_never_written_in_place,
)

from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.method import Method, State, task
from understudy.federation.server import Server
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Feed, train
from understudy.learning.plan import passes


class Sound(Method):
    """The mean of locally trained models: nothing wrong with it."""

    local = Local(epochs=2, batch=4, lr=0.1)

    @task(model="weights")
    def fit(self, client: Client, brief: Message) -> Message:
        plan = passes(len(client.own), self.local.step_count(len(client.own)), self.local.batch, client.rng("batches"))
        trained = train(self.net, brief["model"], Feed(client.own, plan), Descent(self.local))
        return Message(model=trained.model)

    def round(self, server: Server, state: State) -> State:
        replies = list(server.ask(self.fit, state.only("model"), to=server.cohort()))
        return state.but(model=torch.stack([reply["model"] for reply in replies]).mean(0))


class RemembersInTheObject(Sound):
    """Its step shrinks with a counter that is neither in State nor in memory."""

    rounds_seen = 0

    def round(self, server: Server, state: State) -> State:
        self.rounds_seen += 1
        after = super().round(server, state)
        return state.but(model=state["model"] + (after["model"] - state["model"]) / self.rounds_seen)


class WritesIntoState(Sound):
    def round(self, server: Server, state: State) -> State:
        after = super().round(server, state)
        state["model"].copy_(after["model"])
        return state


class DependsOnTheProcess(Sound):
    @task(model="weights")
    def fit(self, client: Client, brief: Message) -> Message:
        return Message(model=super().fit(client, brief)["model"] + 1e-3 * (os.getpid() % 1000))


class DependsOnTheOrder(Sound):
    """Takes the first site that the process happens to know."""

    seen: list[str]

    @task(model="weights")
    def fit(self, client: Client, brief: Message) -> Message:
        self.seen = [*getattr(self, "seen", []), client.id]
        return Message(model=super().fit(client, brief)["model"] * (1 + 0.01 * len(self.seen)))


class SendsWhatIsNotDeclared(Sound):
    @task(model="weights")
    def fit(self, client: Client, brief: Message) -> Message:
        return super().fit(client, brief).but(labels=client.own.y)


class SendsANumber(Sound):
    @task(model="weights")
    def fit(self, client: Client, brief: Message) -> Message:
        return len(client.own)  # type: ignore[return-value]


class NeedsEverybody(Sound):
    def round(self, server: Server, state: State) -> State:
        names = [reply.client for reply in server.ask(self.fit, state.only("model"), to=server.cohort())]
        assert names == list(server.clients)
        return state


FAULTS = [
    (RemembersInTheObject, check_same_bits_after_stopping_and_resuming),
    (WritesIntoState, check_state_is_never_written_in_place),
    (DependsOnTheProcess, check_same_bits_wherever_clients_run),
    (DependsOnTheOrder, check_same_bits_wherever_clients_run),
    (NeedsEverybody, check_a_dropped_client_is_recorded_and_the_rest_go_on),
]


SOUND_CHECKS = [
    *dict.fromkeys(check for _, check in FAULTS),
    check_it_learns_and_stays_finite,
    check_same_bits_in_any_order_of_clients,
]


@pytest.mark.parametrize(("broken", "check"), FAULTS, ids=lambda part: part.__name__)
def test_the_suite_finds_the_fault(broken: type[Method], check: Callable[[Case, Path], None], tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        check(Case(broken), tmp_path)


def test_a_part_that_is_not_declared_does_not_leave(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="would send labels, which @task does not declare"):
        check_it_learns_and_stays_finite(Case(SendsWhatIsNotDeclared), tmp_path)


def test_a_reply_that_is_no_message_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"SendsANumber\.fit returned int; a task returns a Message"):
        check_it_learns_and_stays_finite(Case(SendsANumber), tmp_path)


@pytest.mark.parametrize("check", SOUND_CHECKS)
def test_the_same_checks_pass_without_the_fault(check: Callable[[Case, Path], None], tmp_path: Path) -> None:
    check(Case(Sound), tmp_path)
