"""A run in progress, on the page of a notebook."""

import time
from html import escape
from pathlib import Path

from understudy import patience
from understudy.api.notebook import NotebookPlace
from understudy.runs.folder import Line
from understudy.runs.watching import Observer
from understudy.view.progress import HowFar, asked_in, continuing

MOST_SENTENCES = 12
OFTEN = 0.25  # seconds between updates; what is read at the end of a round is shown at once


class NotebookProgress(Observer):
    def __init__(self, place: NotebookPlace):
        self._place, self._standing = place, HowFar()
        self._sentences: list[str] = []
        self._updated = 0.0

    def begins(self, rounds: int, done: int, clients: int, folder: Path) -> None:
        patience.over()
        self._standing = HowFar(rounds, done, clients, asked_in(folder, clients))
        if done >= 0:
            self._sentences.append(continuing(done, rounds))
        self._draw()

    def heard(self, client: str) -> None:
        self._standing.hear(client)
        if time.monotonic() - self._updated > OFTEN:
            self._draw()

    def scored(self, line: Line) -> None:
        self._standing.score(line)
        if line["round"] > self._standing.resumed_at:
            for failure in line.get("failures", ()):
                self._add(f"{failure['client']} did not count in round {line['round']}: {failure['why']}")
            for remark in line.get("remarks", ()):
                self._add(remark)
        self._draw()

    def says(self, sentence: str) -> None:
        self._add(sentence)
        self._draw()

    # ---- inside

    def _add(self, sentence: str) -> None:
        if sentence not in self._sentences:
            self._sentences = [*self._sentences, sentence.strip()][-MOST_SENTENCES:]

    def _draw(self) -> None:
        self._updated = time.monotonic()
        standing = self._standing
        begun = standing.clients > 0
        words = f"{standing.heading}  {standing.words()}" if begun else ""
        bar = f'<progress max="{max(standing.rounds, 1)}" value="{standing.part_done}"></progress> ' if begun else ""
        said = "".join(f"<div>{escape(one)}</div>" for one in self._sentences)
        text = "\n".join([*self._sentences, *([words] if words else [])])
        self._place.shows(text, f"<div>{said}<div>{bar}<code>{escape(words)}</code></div></div>")
