"""What happens in one round: the asks, who answered, what was sent, what failed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.exchange import Answer
from understudy.federation.server import TooFewReplies
from understudy.learning.evaluate import Tally
from understudy.printable import printable


class RepliesWait(Exception):
    """People at some clients must review a reply before it leaves; the round is asked again once they have."""

    def __init__(self, task: str, clients: Sequence[str]):
        self.task, self.clients = task, clients
        super().__init__(f"replies to {task} wait for approval at {', '.join(clients)}")


@dataclass
class RoundRecord:
    up: dict[str, int] = field(default_factory=dict)  # bytes, by client
    down: dict[str, int] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    seconds: dict[str, float] = field(default_factory=dict)  # by client, from request to answer, of all its asks
    failures: list[dict[str, str]] = field(default_factory=list)
    workers_died: int = 0  # processes that had to be replaced
    lost: list[str] = field(default_factory=list)  # clients that failed because their processes kept dying
    scores: Tally = field(default_factory=Tally)  # of the model in the briefs
    examples: dict[str, Examples] = field(default_factory=dict)  # the newest synthetic set of each client

    def by_client(self) -> dict[str, list[int]]:
        """Bytes up and down for every client asked."""
        return {client: [self.up.get(client, 0), down] for client, down in self.down.items()}

    def fail(self, client: str, why: str) -> None:
        """The one place where text from a site, or about what it sent, comes in: made safe for a terminal."""
        self.failures.append({"client": client, "why": printable(why)})

    def failures_in_brief(self) -> str:
        """The first, in brackets, and how many more there are."""
        if not self.failures:
            return ""
        first, more = self.failures[0], len(self.failures) - 1
        return f" ({first['client']}: {first['why'].rstrip('.')}{f'; {more} more' if more else ''})"

    def note_seconds(self, answer: Answer) -> None:
        self.seconds[answer.client] = round(self.seconds.get(answer.client, 0.0) + answer.seconds, 3)

    def note_deaths(self, answer: Answer) -> None:
        self.workers_died += answer.deaths
        if answer.lost:
            self.lost.append(answer.client)


@dataclass
class Ask:
    """One exchange of a round, and how many of its replies count so far."""

    task: str
    round: int
    step: int
    asked: int
    needed: int
    good: int = 0
    read: bool = False  # whether the method reads the replies
    scoring: set[str] = field(default_factory=set)  # clients asked for scores that have not sent them yet
    waiting: list[str] = field(default_factory=list)  # clients where a person must review the reply first

    def check(self) -> None:
        if self.waiting:
            raise RepliesWait(self.task, self.waiting)
        if self.good < min(self.needed, self.asked):
            raise TooFewReplies(f"{self.good} of {self.asked} clients answered {self.task}; {self.needed} are needed")

    def check_read(self) -> None:
        """Clients are asked as their replies are read, so an ask that is never read asks nobody."""
        if not self.read:
            raise UserError(
                f"{self.task} was asked but its replies were never read, so no client was asked: clients are asked as "
                "their replies are read; loop over server.ask(...), or make a list of it."
            )
