"""Runs side by side: what each one reached, and what it cost. Read from metrics, so a run may still be running."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from understudy.config.read import check_keys
from understudy.config.schema import LIVE
from understudy.errors import UserError
from understudy.files import MEGABYTE
from understudy.runs.folder import Line, RunFolder
from understudy.runs.leak import Leak, read_audited
from understudy.runs.lost_work import Spent, lost

SHARE_OF_BEST = 0.9  # the default target, as a share of the best accuracy of all runs
SITES_NAMED = 3  # how many own sites a table names
Measure = Literal["accuracy", "macro_f1"]
COUNTS = ("round", "bytes_up", "bytes_down", "failed", "seconds")
NEEDED = (*COUNTS, "epsilon")
SCORES = ("accuracy", "loss", "macro_f1", "sample_f1")


@dataclass(frozen=True)
class Row:
    """One run. Accuracies are between 0 and 1; None means not scored, not reached, not known, or (``epsilon``) no
    guarantee."""

    folder: Path
    label: str  # `fedavg + fedssyn`
    data: str
    rounds: int  # the last that counts so far; undone rounds do not
    planned: int
    finished: bool
    accuracy: float | None  # of the last scored round
    best_accuracy: float | None
    accuracy_after: Mapping[int, float | None]  # the requested rounds
    target: float | None  # the same for all rows
    target_given: bool  # False: chosen here, SHARE_OF_BEST
    rounds_to_target: int | None
    bytes_up: int  # of all clients and rounds, including the opening
    bytes_down: int
    epsilon: float | None
    seconds: float | None
    failed: int  # replies that did not arrive or did not count
    measure: Measure = "accuracy"  # of ``target``, the same for all rows; macro F1 if all have several labels
    macro_f1: float | None = None  # of the last round; only if a record has several labels
    best_macro_f1: float | None = None
    sample_f1: float | None = None
    scored_at_clients: bool = False  # on records held out there; otherwise on the server's test set
    lost_work: bool = False  # bytes and seconds include rounds that were begun and never counted
    leak: Leak | None = None  # by the audit of as many rounds; None: not audited
    share_sent: float | None = None  # images sent, as a share of the records

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def mb_up(self) -> float:
        return self.bytes_up / MEGABYTE

    @property
    def mb_down(self) -> float:
        return self.bytes_down / MEGABYTE

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            **vars(self),
            "folder": str(self.folder),
            "accuracy_after": dict(self.accuracy_after),
            "leak": None if self.leak is None else vars(self.leak),
            "mb_up": self.mb_up,
            "mb_down": self.mb_down,
        }


def compare(folders: Sequence[Path], target: float | None = None, after: Sequence[int] = ()) -> list[Row]:
    """One row per folder, in order.

    Rounds are counted to ``target``, by default 90 % of the best accuracy among the runs, and the rows note which
    (``target_given``). If every run has several labels per record, macro F1 replaces accuracy, which then rewards
    always saying no. ``after`` lists rounds whose accuracy is wanted besides the last one's.
    """
    if target is not None and not 0 <= target <= 1:
        raise UserError(f"The target accuracy is {target}; write a share between 0 and 1, such as 0.8.")
    runs = [(folder, read_config(folder), [*read_metrics(folder), *RunFolder(folder).waiting()]) for folder in folders]
    measure: Measure = "macro_f1" if runs and all(_several_labels(config) for _, config, _ in runs) else "accuracy"
    reached = [found for _, _, metrics in runs if (found := best(metrics, measure)) is not None]
    # Rounded to what a table shows, so that the printed number is the one that counts.
    goal = target if target is not None or not reached else round(SHARE_OF_BEST * max(reached), 3)
    return [_row(*run, goal, target is not None, after, measure) for run in runs]


def _row(
    folder: Path,
    config: dict[str, Any],
    metrics: list[Line],
    target: float | None,
    given: bool,
    after: Sequence[int],
    measure: Measure,
) -> Row:
    last: Line = metrics[-1] if metrics else {"round": 0, "epsilon": None}
    scored: Line = next((line for line in reversed(metrics) if line.get("accuracy") is not None), last)
    planned = int(config["method"]["rounds"])
    finished = bool(metrics) and last["round"] >= planned and not last.get("undone")
    more = lost(folder, last["round"] if metrics else -1)
    begun = finished or last["round"] > 0 or more != Spent()  # otherwise nothing is known yet about the first round
    by_round = {line["round"]: line.get("accuracy") for line in metrics}
    counted, audited = last_counted(metrics), read_audited(folder)
    if audited is not None and audited.rounds != counted:
        audited = None  # the run went on since
    return Row(
        folder,
        label_of(config),
        data_of(config),
        counted,
        planned,
        finished,
        scored.get("accuracy"),
        best(metrics),
        {round: by_round.get(round) for round in after},
        target,
        given,
        None if target is None else rounds_to(metrics, target, measure),
        sum(line["bytes_up"] for line in metrics) + more.bytes_up,
        sum(line["bytes_down"] for line in metrics) + more.bytes_down,
        _epsilon(RunFolder(folder), last, finished),
        round(sum(line["seconds"] for line in metrics) + more.seconds, 3) if begun else None,
        sum(line["failed"] for line in metrics),
        measure,
        scored.get("macro_f1"),
        best(metrics, "macro_f1"),
        scored.get("sample_f1"),
        scored.get("scored_at") == "clients",
        more != Spent(),
        None if audited is None else audited.leak,
        None if audited is None else audited.share_sent,
    )


def _epsilon(run: RunFolder, last: Line, finished: bool) -> float | None:
    """The ledger's, which includes what left in rounds that never counted. If nothing has left yet, a run in progress
    promises nothing."""
    found: float | None = run.epsilon() if run.keeps_a_ledger else last["epsilon"]
    return found if finished or found else None


def _several_labels(config: Mapping[str, Any]) -> bool:
    return bool((config.get("problem") or {}).get("multilabel"))


def last_counted(metrics: Sequence[Line]) -> int:
    """0 if there is only the opening, or not even that."""
    return max((line["round"] for line in metrics if not line.get("undone")), default=0)


def rounds_to(metrics: Sequence[Line], target: float, measure: Measure = "accuracy") -> int | None:
    """The first round whose score is at least ``target``; None if there is none."""
    return next((line["round"] for line in metrics if (line.get(measure) or 0.0) >= target), None)


def best(metrics: Sequence[Line], measure: Measure = "accuracy") -> float | None:
    return max((line[measure] for line in metrics if line.get(measure) is not None), default=None)


# ---- reading


def read_config(folder: Path) -> dict[str, Any]:
    if not RunFolder(folder).holds_a_run:
        missing = "has no config.yaml" if folder.exists() else "does not exist"
        raise UserError(f"{folder} is not a run folder: it {missing}; name a folder that `understudy run` wrote.")
    config = RunFolder(folder).config()
    if not isinstance(config.get("problem", {}), dict):
        raise UserError(f"{folder / 'config.yaml'} has an incomplete 'problem'; restore it from a copy.")
    for section, keys in (("method", ("name",)), ("method", ("rounds",)), ("data", ("name", "sites"))):
        if not isinstance(config.get(section), dict) or not any(key in config[section] for key in keys):
            lacking = " or ".join(f"{section}.{key}" for key in keys)
            raise UserError(f"{folder / 'config.yaml'} has no {lacking}; restore it from a copy.")
    _check_words(config, folder / "config.yaml")
    return config


def _check_words(config: Mapping[str, Any], file: Path) -> None:
    """A folder may come from anywhere: what is shown of its config must be what it claims to be."""
    check_keys(config)
    rounds, sites, added = config["method"]["rounds"], config["data"].get("sites"), config.get("with") or []
    if isinstance(rounds, bool) or not isinstance(rounds, int):
        raise UserError(f"{file}: method.rounds is not a whole number; restore it from a copy.")
    if sites is not None and not isinstance(sites, dict):
        raise UserError(f"{file}: data.sites does not name sites; restore it from a copy.")
    if not isinstance(added, list) or any(not isinstance(one, dict) or "name" not in one for one in added):
        raise UserError(f"{file}: 'with' does not list add-ons by name; restore it from a copy.")


def read_metrics(folder: Path) -> list[Line]:
    """One line per round so far; none if the run has only just begun."""
    metrics = RunFolder(folder).metrics()
    for number, line in enumerate(metrics, 1):
        lacking = [key for key in NEEDED if not isinstance(line, dict) or key not in line]
        if lacking:
            raise UserError(f"{folder / 'metrics.jsonl'}, line {number}, has no '{lacking[0]}'; restore it.")
        strange = [key for key in (*NEEDED, *SCORES) if not _is_number(line.get(key), key not in COUNTS)]
        if strange:
            raise UserError(f"{folder / 'metrics.jsonl'}, line {number}: '{strange[0]}' is no number; restore it.")
    return metrics


def _is_number(value: object, or_none: bool) -> bool:
    return (or_none and value is None) or (isinstance(value, int | float) and not isinstance(value, bool))


# ---- what runs are called


def label_of(config: Mapping[str, Any]) -> str:
    """`fedavg + fedssyn`: the method and its add-ons."""
    names = [config["method"]["name"], *(item["name"] for item in config.get("with") or [])]
    return " + ".join("own method" if name == LIVE else str(name).rpartition(":")[2] for name in names)


def data_of(config: Mapping[str, Any]) -> str:
    """`digits`, `all.npz`, `own sites north, south`."""
    data = config["data"]
    if data.get("sites"):
        names = list(data["sites"])
        return f"own sites {', '.join(names[:SITES_NAMED])}{', …' if len(names) > SITES_NAMED else ''}"
    return "data passed in Python" if data["name"] == LIVE else str(data["name"])


def distinct_labels(rows: Sequence[Row]) -> list[str]:
    """Labels; if two runs share one, followed by the folder."""
    named = [row.label for row in rows]
    for place in (lambda row: row.name, lambda row: str(row.folder)):
        times = Counter(named)
        named = [
            f"{row.label} ({place(row)})" if times[label] > 1 else label for row, label in zip(rows, named, strict=True)
        ]
    return named
