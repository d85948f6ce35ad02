"""The sum of replies: exact where single precision would not be, and without those of another make."""

from collections.abc import Iterator, Sequence

import torch

from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.server import Brief, Reply, Server, Task
from understudy.randomness import generator


class Fixed(Server):
    """Clients that answer what they were told to beforehand."""

    def __init__(self, answers: dict[str, Message]):
        self.answers, self.clients, self.round = answers, list(answers), 1
        self.refused: list[str] = []

    def cohort(self) -> list[str]:
        return list(self.clients)

    def leave_out(self, client: str, why: str) -> None:
        raise AssertionError

    def rng(self, purpose: str) -> torch.Generator:
        return generator(purpose)

    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        for name in to:
            yield Reply(name, self.answers[name], lambda why, name=name: self.refused.append(name))  # type: ignore[misc]


def work(_: Client, __: Message) -> Message:
    return Message()


def test_a_small_reply_is_not_lost_beside_a_large_one() -> None:
    # 2²⁴ + 1 is the first whole number that single precision does not have.
    server = Fixed({"a": Message(it=torch.tensor([2.0**24])), "b": Message(it=torch.tensor([1.0]))})
    assert server.sum(work, Message(), ["a", "b"], like={"it": (1,)})["it"].tolist() == [2**24 + 1]


def test_a_reply_of_another_make_is_refused_and_not_in_the_sum() -> None:
    one, other = Message(it=torch.ones(2)), Message(it=torch.ones(2), more=torch.ones(1))
    server = Fixed({"a": one, "b": other, "c": Message(it=torch.ones(1)), "d": one})
    assert server.sum(work, Message(), server.clients, like={"it": (2,)})["it"].tolist() == [2, 2]
    assert server.refused == ["b", "c"]
