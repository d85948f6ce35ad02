"""Who scores a run's models, and when their lines are written."""

from collections.abc import Callable
from typing import Any

from understudy.data.federation import Federation
from understudy.data.standardise import by_agreement
from understudy.federation.method import Method, State
from understudy.learning.evaluate import Tally, evaluate
from understudy.runs.compare import last_counted
from understudy.runs.folder import Line, RunFolder
from understudy.runs.lost_work import Spent, lost
from understudy.runs.quantities import measure_round
from understudy.runs.scaling import note_agreed
from understudy.runs.watching import Observer


class Scorekeeper:
    """The server scores on its test set at once. Without one, clients score while they work on the next round; until
    then a line waits."""

    def __init__(
        self,
        method: Method,
        data: Federation,
        folder: RunFolder,
        observer: Observer,
        measure: int = 0,  # every this many rounds
        durable: bool = True,  # whether a line is safe from a power cut as soon as it is written
    ):
        self._measure, self._durable = measure, durable
        self._method, self._data, self._folder, self._observer = method, data, folder, observer
        self.at_clients = data.test is None or method.scored_at_home
        self.waiting: list[Line] = []  # lines about the same model: undone rounds do not change it

    def score(self, line: Line, state: State, seconds: Callable[[], float] | None = None) -> None:
        """``seconds`` that the round took are asked last, so that saving and scoring are in them; None: they are in
        the line."""
        net = self._method.net
        self._agree(state)
        line |= self._method.metrics(state)
        if remarks := list(self._method.remarks(state)):
            line["remarks"] = remarks
        if self._measure and line["round"] % self._measure == 0:
            line |= measure_round(self._method, state, self._data)
        if self.at_clients:
            line["seconds"] = line["seconds"] if seconds is None else seconds()
            self.waiting.append(line)
            return
        assert self._data.test is not None
        test = net.to_score(self._data.test)
        net.load(self._method.result(state))
        scores = evaluate(net.logits, test, net.problem).as_dict()
        if self._data.validation is not None:
            seen = evaluate(net.logits, net.to_score(self._data.validation), net.problem)
            scores["validation_accuracy"] = seen.accuracy
            if net.problem.multilabel:  # where accuracy rewards saying no to every label
                scores["validation_macro_f1"] = seen.macro_f1
        for name, weights in self._method.further_models(state).items():
            net.load(weights)
            scores[f"{name}_accuracy"] = evaluate(net.logits, test, net.problem).accuracy
        line["seconds"] = line["seconds"] if seconds is None else seconds()
        self._write(line, scores)

    def _agree(self, state: State) -> None:
        """Brings what is scored here to the scale that was agreed on in the opening; it never changes after that."""
        agreed = self._method.scaling(state)
        if agreed is not None and self._data.scale is not None:
            note_agreed(self._folder.path, agreed)
            self._data = by_agreement(self._data, agreed)

    def hand_in(self, counts: Tally, *, last_chance: bool = True) -> None:
        """Clients' scores of the model whose lines wait."""
        if counts.count == 0 and not last_chance:
            return  # nobody has scored it yet, and the next round brings the same model again
        for line in self.waiting:
            self._write(line, {**counts.as_dict(), "scored_at": "clients"})
        self.waiting = []

    def _write(self, line: Line, scores: dict[str, Any]) -> None:
        whole = {"round": line["round"], **scores, **line}
        self._folder.add_line(whole, durable=self._durable)
        self._observer.scored(whole)


def summary_so_far(folder: RunFolder) -> dict[str, Any]:
    """Of a run that has not finished, with at least one round."""
    metrics, rounds = folder.metrics(), folder.config()["method"]["rounds"]
    return summarise(metrics, rounds, lost(folder.path, metrics[-1]["round"]), folder.epsilon())


def summarise(metrics: list[Line], rounds: int, lost: Spent, epsilon: float | None) -> dict[str, Any]:
    """``lost`` went into rounds that never counted; ``epsilon`` is the ledger's, which includes them too."""
    scored = [line["accuracy"] for line in metrics if line.get("accuracy") is not None]
    last = metrics[-1]
    return {
        "accuracy": last.get("accuracy"),
        "best_accuracy": max(scored, default=None),
        **{key: last[key] for key in ("macro_f1", "sample_f1") if last.get(key) is not None},
        "rounds": last_counted(metrics),
        "finished": last["round"] >= rounds and not last["undone"],
        "bytes_up": sum(line["bytes_up"] for line in metrics) + lost.bytes_up,
        "bytes_down": sum(line["bytes_down"] for line in metrics) + lost.bytes_down,
        "lost_work": lost != Spent(),
        "epsilon": epsilon,
        "failed": sum(line["failed"] for line in metrics),
        "workers_died": sum(line.get("workers_died", 0) for line in metrics),  # lines in older folders lack it
        "lost": sorted({client for line in metrics for client in line.get("lost", ())}),
        "seconds": round(sum(line["seconds"] for line in metrics) + lost.seconds, 3),
    }
