"""How a run learnt, as charts: scores over rounds and over megabytes, recall by class, calibration, ε."""

from collections.abc import Iterable, Sequence
from itertools import accumulate

from understudy.files import MEGABYTE
from understudy.papers.study import Panel, Trace, axis_top
from understudy.runs.folder import Line
from understudy.runs.reported import ReportedRun, number
from understudy.view.html.charts import CellTable, Chart, cell_chart, line_chart

MOST_CLASSES, MOST_ROUNDS = 200, 250  # in the table of recall
NAMES = {"auroc": "AUROC", "zeta2": "ζ²", "sigma2": "σ²", "delta2": "δ²"}
MOST_FURTHER = 12  # further metrics, one chart each
KNOWN = {  # shown elsewhere, or not a score
    "round", "count", "accuracy", "loss", "calibration_error", "macro_f1", "sample_f1", "validation_accuracy",
    "bytes_up", "bytes_down", "epsilon", "clients", "failed", "workers_died", "undone", "seconds",
}  # fmt: skip


def learning_charts(run: ReportedRun, prefix: str = "") -> list[Chart]:
    lines, several = run.lines, run.row.macro_f1 is not None
    charts = [_scores(lines, several, prefix), _over_megabytes(lines, several, prefix)]
    loss = _trace(lines, "loss")
    if loss is not None:
        panel = Panel("Loss over rounds", "round", "mean loss", [loss], from_zero=True)
        charts.append(line_chart(f"{prefix}loss", panel))
    error = _trace(lines, "calibration_error", 100)
    if error is not None:
        panel = Panel("Calibration error over rounds", "round", "percentage points", [error], from_zero=True)
        about = "How far confidence and accuracy lie apart, over 15 bins of confidence; 0 is calibrated."
        charts.append(line_chart(f"{prefix}calibration", panel, about))
    spent = _trace(lines, "epsilon")
    if spent is not None and any(spent.y):
        panel = Panel("ε over rounds", "round", "ε, largest over clients", [spent], from_zero=True)
        charts.append(
            line_chart(f"{prefix}epsilon", panel, "What is spent so far, if everything that left is covered.")
        )
    recall = _recall(run, prefix)
    return [*charts, *([] if recall is None else [recall])]


def not_recorded(run: ReportedRun) -> list[str]:
    """Sentences on scores that this run does not have."""
    scored = [line for line in run.lines if line.get("accuracy") is not None]
    if not scored:
        return ["No round is scored yet."]
    lacking = [name for name, key in (("recall by class", "recall"), ("calibration", "calibration_error"))
               if not any(line.get(key) for line in scored)]  # fmt: skip
    if not lacking:
        return []
    why = "clients score at home and send only counts" if run.row.scored_at_clients else "its version did not keep it"
    return [f"Not recorded: {' and '.join(lacking)}; {why}."]


def further_charts(run: ReportedRun, prefix: str = "") -> list[Chart]:
    """Whatever else the method or the config had measured."""
    keys = dict.fromkeys(key for line in run.lines for key in line if isinstance(key, str) and key not in KNOWN)
    traces = {key: trace for key in keys if (trace := _trace(run.lines, key)) is not None}
    return [
        line_chart(f"{prefix}more-{at}", Panel(_titled(key), "round", "", [trace], from_zero=True))
        for at, (key, trace) in enumerate(list(traces.items())[:MOST_FURTHER])
    ]


def _titled(key: str) -> str:
    words = key.replace("_", " ")
    return NAMES.get(key, words[:1].upper() + words[1:])


def score_keys(several: bool) -> dict[str, str]:
    """Scores of the main chart, and what they are called; the first is what runs are compared by."""
    if several:
        return {"macro_f1": "F1 over classes", "sample_f1": "F1 over records", "accuracy": "labels right"}
    return {"accuracy": "accuracy", "validation_accuracy": "on the validation share"}


def _scores(lines: Sequence[Line], several: bool, prefix: str) -> Chart:
    keys = score_keys(several)
    extra = {
        key
        for line in lines
        for key in line
        if isinstance(key, str) and key.endswith("_accuracy") and key != "balanced_accuracy"
    } - {*keys}
    keys |= {key: key.removesuffix("_accuracy").replace("_", " ") for key in sorted(extra)}
    traces = [_trace(lines, key, 100, label, look) for look, (key, label) in enumerate(keys.items())]
    known = [trace for trace in traces if trace is not None]
    heading = "F1 over rounds" if several else "Accuracy over rounds"
    return line_chart(f"{prefix}accuracy", Panel(heading, "round", "%", known, ylim=_ylim(known), from_zero=True))


def _over_megabytes(lines: Sequence[Line], several: bool, prefix: str) -> Chart:
    key, label = next(iter(score_keys(several).items()))
    x = megabytes_so_far(lines)
    points = [(at, number(line.get(key))) for at, line in zip(x, lines, strict=True)]
    known = [(at, 100 * y) for at, y in points if y is not None]
    trace = Trace(label, [at for at, _ in known], [y for _, y in known])
    heading, across = f"{label[:1].upper()}{label[1:]} over megabytes", "megabytes exchanged, up and down"
    panel = Panel(heading, across, "%", [trace], ylim=_ylim([trace]), from_zero=True)
    return line_chart(f"{prefix}megabytes", panel)


def megabytes_so_far(lines: Iterable[Line]) -> list[float]:
    """Of all clients, up and down, from the opening to each round."""
    return [total / MEGABYTE for total in accumulate(line["bytes_up"] + line["bytes_down"] for line in lines)]


def _trace(lines: Sequence[Line], key: str, times: float = 1, label: str = "", look: int = 0) -> Trace | None:
    """None if no round has such a number."""
    found = [(line["round"], number(line.get(key))) for line in lines]
    known = [(round, times * value) for round, value in found if value is not None]
    return (
        Trace(label or key.replace("_", " "), [at for at, _ in known], [y for _, y in known], look) if known else None
    )


def _ylim(traces: Sequence[Trace]) -> tuple[float, float]:
    return 0.0, axis_top(max((max(trace.y) for trace in traces if trace.y), default=100.0))


def _recall(run: ReportedRun, prefix: str) -> Chart | None:
    rounds = [line for line in run.lines if isinstance(line.get("recall"), list) and line["recall"]]
    if not rounds:
        return None
    every = -(-len(rounds) // MOST_ROUNDS)
    chosen = sorted({*range(0, len(rounds), every), len(rounds) - 1})
    classes = max(len(line["recall"]) for line in rounds)
    shown = min(classes, MOST_CLASSES)
    names = class_names(run, classes)
    cells = [[_percent(rounds[at]["recall"], label) for at in chosen] for label in range(shown)]
    some = [f"the first {shown} of {classes} classes"] * (shown < classes) + [f"every {every}th round"] * (every > 1)
    about = "Share of each class's records that are recognised" + (f"; {', '.join(some)}." if some else ".")
    table = CellTable(
        ("class", names[:shown]), ("round", [str(rounds[at]["round"]) for at in chosen]), cells, "share", 100.0, " %"
    )
    return cell_chart(f"{prefix}recall", "Recall by class over rounds", table, about, wide=True)


def _percent(recall: Sequence[object], label: int) -> float | None:
    value = number(recall[label]) if label < len(recall) else None
    return None if value is None else round(100 * value, 2)


def class_names(run: ReportedRun, classes: int) -> list[str]:
    names = () if run.holdings is None else run.holdings.classes
    return [names[label] if label < len(names) else str(label) for label in range(classes)]
