"""A run in progress: a live line in a terminal, one plain line per round anywhere else; always on stderr."""

import threading
import time
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

from understudy import patience, under_way
from understudy.federation.cohorts import cohort_size
from understudy.runs.folder import Line, RunFolder
from understudy.runs.watching import Observer
from understudy.view.numbers import duration, epsilon_shown, percent, size

BAR = 14  # columns
LOOKED_AT = 3.0  # seconds without a reply until a reader is told what is going on inside the tasks
OFTEN = 1.0  # seconds between looks at whether it is time to say something
LONGEST = 60.0  # seconds of silence, for a round that takes very long


class RichProgress(Observer):
    """Watches a run (`runs.watching.Observer`). As a context manager it leaves the terminal tidy, whatever happens."""

    def __init__(self, console: Console | None = None):
        self.console = console or Console(stderr=True)
        self.live = self.console.is_terminal and not self.console.is_dumb_terminal
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._said: set[tuple[str, str]] = set()
        self._spoke = time.monotonic()
        self.standing = HowFar()
        self._over, self._silence = threading.Event(), patience.NEXT

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what a run tells

    def begins(self, rounds: int, done: int, clients: int, folder: Path) -> None:
        patience.over()
        self.standing = HowFar(rounds, done, clients, asked_in(folder, clients))
        self._said = set()
        if done >= 0:
            self.says(continuing(done, rounds))
        if self.live:
            self.close()
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(BAR),
                _StandingColumn(self.standing),
                console=self.console,
                refresh_per_second=4,
            )
            self._task = self._bar.add_task("", total=max(rounds, 1))
            self._draw()
            self._bar.start()
        else:
            self.close()
            self._over = threading.Event()
            threading.Thread(target=self._break_silence, args=(self._over,), name="progress", daemon=True).start()

    def heard(self, client: str) -> None:
        self.standing.hear(client)
        if not self.live and time.monotonic() - self._spoke > patience.NEXT:
            self._print(f"{self.standing.heading}: {len(self.standing.heard)} of {self.standing.wanted} clients so far")
        self._draw()

    def scored(self, line: Line) -> None:
        self.standing.score(line)
        self._silence = patience.NEXT
        if line["round"] > self.standing.resumed_at:
            self._say_failures(line)
            if not self.live:
                self._print(self.standing.plain_line(line))
        self._draw()
        if line["round"] >= self.standing.rounds:
            self.close()

    def says(self, sentence: str) -> None:
        self._print(sentence)

    # ---- inside

    def _say_failures(self, line: Line) -> None:
        where = f"in round {line['round']}" if line["round"] else "in the opening"
        for failure in line.get("failures", ()):
            client, why = failure["client"], failure["why"]
            if (client, why) not in self._said:
                self._said.add((client, why))
                self._print(f"{client} did not count {where}: {why}")
        for remark in line.get("remarks", ()):
            self._print(remark)
        if line.get("undone"):
            self._print(f"Round {line['round']} was undone: too few clients answered.")

    def _break_silence(self, over: threading.Event) -> None:
        """For a round in which nobody answers for long: less and less often, since logs keep every line."""
        while not over.wait(OFTEN):
            if time.monotonic() - self._spoke > self._silence:
                self._print(self.standing.waiting_line())
                self._silence = min(2 * self._silence, LONGEST)

    def _print(self, sentence: str) -> None:
        self._spoke = time.monotonic()
        # One line each, however long: programs read logs too.
        self.console.print(Text(sentence), soft_wrap=True)

    def _draw(self) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=self.standing.heading, completed=self.standing.part_done)

    def close(self) -> None:
        self._over.set()
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def continuing(done: int, rounds: int) -> str:
    """How a resumed run begins."""
    if done < rounds:
        return f"Continuing after round {done} of {rounds}."
    return f"Round {done} is done already; no round is left."


class HowFar:
    """How far a run is."""

    def __init__(self, rounds: int = 0, done: int = -1, clients: int = 0, asked: int = 0):
        self.rounds, self.resumed_at = rounds, done
        self.clients, self.asked = clients, asked  # in total; per round after the opening
        self.done = done  # the last round scored
        self.accuracy: float | None = None
        self.epsilon: float | None = None
        self.bytes_up = self.bytes_down = 0
        self.seconds = 0.0
        self.round_seconds: list[float] = []
        self.since = self.news = time.monotonic()  # of the current round; of the last reply in it, if there was one
        self.heard: set[str] = set()

    def hear(self, client: str) -> None:
        if client in self.heard:  # a second answer: the next exchange has begun
            self.heard = set()
        self.heard.add(client)
        self.news = time.monotonic()

    def score(self, line: Line) -> None:
        self.done, self.accuracy, self.epsilon = line["round"], line.get("accuracy"), line.get("epsilon")
        self.bytes_up += line["bytes_up"]
        self.bytes_down += line["bytes_down"]
        self.seconds += line["seconds"]
        if self.done > 0:  # the opening takes its own time
            self.round_seconds.append(line["seconds"])
        self.since = self.news = time.monotonic()
        self.heard = set()

    @property
    def wanted(self) -> int:
        """Replies that one exchange of this round waits for: in the opening all clients are asked."""
        return self.clients if self.done < 0 else self.asked

    @property
    def ended(self) -> bool:
        return self.done >= self.rounds

    @property
    def heading(self) -> str:
        return "opening" if self.done < 0 else f"round {min(self.done + 1, self.rounds)}/{self.rounds}"

    @property
    def part_done(self) -> float:
        """Rounds, the current one by its share of replies."""
        if self.ended:
            return max(self.rounds, 1)
        answered = len(self.heard) / self.wanted if self.wanted else 0.0
        return self.done + min(answered, 1.0) if self.done >= 0 else 0.0

    def seconds_left(self) -> float | None:
        """From the mean of the rounds so far; None before the first."""
        if not self.round_seconds:
            return None
        mean = sum(self.round_seconds) / len(self.round_seconds)
        under_way = min(time.monotonic() - self.since, mean)
        return max(mean * (self.rounds - self.done) - under_way, 0.0)

    def words(self) -> str:
        spent = f"  ε {epsilon_shown(self.epsilon)}" if self.epsilon else ""
        sent = f"↑{size(self.bytes_up)} ↓{size(self.bytes_down)}{spent}"
        if self.ended:
            return f"{percent(self.accuracy)}  {sent}  {duration(self.seconds)} in total"
        accuracy = "" if self.accuracy is None else f"{percent(self.accuracy)}  "
        left = self.seconds_left()
        rest = "" if left is None else f"  {duration(left)} left"
        inside = "  " + going_on() if time.monotonic() - self.news > LOOKED_AT and under_way.loops() else ""
        return f"{accuracy}{sent}  {len(self.heard)}/{self.wanted} clients{inside}{rest}"

    def waiting_line(self) -> str:
        """For a log, while nobody answers."""
        so_far = f"{self.heading}: {len(self.heard)} of {self.wanted} clients so far"
        return f"{so_far}, after {duration(time.monotonic() - self.since)}{'; ' + now if (now := going_on()) else ''}"

    def plain_line(self, line: Line) -> str:
        name = f"round {self.done}/{self.rounds}" if self.done else "opening"
        left = None if self.ended else self.seconds_left()
        parts = [
            f"{name}: accuracy {percent(self.accuracy)}",
            f"{size(self.bytes_up)} up, {size(self.bytes_down)} down",
            *([f"ε {epsilon_shown(self.epsilon, 3)}"] if self.epsilon else []),
            f"{line.get('clients', 0)} clients answered" if self.done or line.get("clients") else "no client was asked",
            f"{line['seconds']:.1f} s",
            *([] if left is None else [f"about {duration(left)} left"]),
        ]
        return ", ".join(parts)


def going_on() -> str:
    """What the tasks on this machine are doing, in words; empty if none is in the middle of a loop."""
    inside = under_way.loops()
    more = f" and {len(inside) - 1} more" if len(inside) > 1 else ""
    return f"{min(inside, key=lambda loop: loop.done / loop.steps)}{more}" if inside else ""


class _StandingColumn(ProgressColumn):
    """Redrawn a few times a second, so that the time left counts down within a round."""

    def __init__(self, standing: HowFar):
        super().__init__()
        self.standing = standing

    def render(self, task: Task) -> Text:
        return Text(self.standing.words(), no_wrap=True, overflow="ellipsis")


def asked_in(folder: Path, clients: int) -> int:
    """How many clients a round asks, from the run's config."""
    run = RunFolder(folder)
    if not run.holds_a_run:
        return clients
    return cohort_size(run.config().get("method", {}).get("cohort", 1.0), clients)
