"""Every method that sends examples copes with fewer of them: rows that a person at a site dropped do not leave, the
others leave byte for byte, and what else is in the reply follows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from contract_checks import Case
from test_contract import CASES, QUICK, quick_add_on

from understudy.config.build import build_method
from understudy.federation.approval import ApprovalQueue, queues_in
from understudy.federation.message import Message
from understudy.runs.folder import RunFolder
from understudy.runs.watching import RunStopped

SENDING = {name: case for name, case in CASES.items() if "+" not in name and "," not in name}
SENDING |= {
    "fedavg+fedssyn, vetoed": Case("fedavg", QUICK["fedavg"], ({**quick_add_on("fedssyn"), "veto": "flag"},)),
    "scaffold+fedssyn": CASES["scaffold+fedssyn"],
    "feddm, weighted": Case("feddm", {**QUICK["feddm"], "weights": "size"}),
    "fedlap, weighted": Case("fedlap", {**QUICK["fedlap"], "weights": "size"}),
}
BESIDE = {
    "fedavg+fedssyn, vetoed": {"duplicates"},
    "feddm, weighted": {"weight"},
    "fedlap, weighted": {"records", "radius"},
}


def sends_examples(case: Case) -> bool:
    data = case.federation()
    jobs = build_method(case.config(data), data).jobs().values()
    return any("examples" in job.kinds.values() for job in jobs)


def part(name: str) -> Callable[[Message], list[float]]:
    return lambda reply: reply[name].flatten().tolist() if name in reply else []


@pytest.mark.parametrize("name", [name for name, case in SENDING.items() if sends_examples(case)])
def test_what_a_person_dropped_does_not_leave_and_the_run_goes_on(name: str, tmp_path: Path) -> None:
    case, out, policy = SENDING[name], tmp_path / "run", tmp_path / "site.yaml"
    policy.write_text("approval: [examples]")
    changes: dict[str, Any] = {"policy": str(policy), "transcript": True, "rounds": 1}
    with pytest.raises(RunStopped, match="understudy review"):
        case.play(out, **changes)
    waited: dict[str, tuple[Message, list[int]]] = {}
    for queue in queues_in(out):
        (held,) = queue.held()
        assert held.whole in (None, "it holds no examples"), name
        dropped = chosen(queue) if held.about["client"] == "beech" else []
        queue.decide(held, "yes", dropped)
        waited[held.about["client"]] = held.reply, dropped
    result = case.play(out, resume=True, **changes)
    assert result.summary["finished"]
    assert result.metrics[-1]["failed"] == 0, result.metrics[-1]["failures"]
    for client, (before, dropped) in waited.items():
        left = next(one.reply for one in RunFolder(out).transcript.of(client) if "x" in one.reply)
        kept = [row for row in range(len(before["y"])) if row not in dropped]
        rows = [part for part in before if before[part].ndim and len(before[part]) == len(before["y"])]
        exactly = {part: before[part][kept] for part in rows if part != "weight"}
        assert left.only(*exactly).to_bytes() == Message(exactly).to_bytes()
        assert set(left) == set(before)
        assert client != "beech" or (2 not in left["y"].tolist() and len(left["y"]) < len(before["y"]))
        follows(name, before, left)


def chosen(queue: ApprovalQueue) -> list[int]:
    """The first row, and all of class 2."""
    (held,) = queue.held()
    labels = held.reply["y"].tolist()
    return sorted({0, *(row for row, label in enumerate(labels) if label == 2)})


def follows(name: str, before: Message, left: Message) -> None:
    """Of FedDM's weights each class keeps its sum, the number of its records; of FedLAP's three classes one is gone,
    and a third of its records with it. A radius and a count of near-copies stay."""
    if "weight" in before:
        for label in set(left["y"].tolist()):
            sums = [one["weight"][one["y"] == label].sum() for one in (before, left)]
            torch.testing.assert_close(sums[1], sums[0])
    if "records" in before:
        classes = [len(set(one["y"].tolist())) for one in (before, left)]
        assert float(left["records"]) == pytest.approx(float(before["records"]) * classes[1] / classes[0])
    for stays in ("radius", "duplicates"):
        assert part(stays)(left) == part(stays)(before)
    if len(before["y"]):
        assert BESIDE.get(name, set()) <= set(left)


def test_the_list_above_has_every_method_that_sends_examples() -> None:
    found = {name for name, case in SENDING.items() if sends_examples(case)}
    assert {"central", "dc", "feddm", "fedlap", "fedlap-dp", "psg", "real", "scaffold+fedssyn"} <= found
    assert not found & {"vhl", "moments", "fedavg", "fedcog"}, "these send no example, so nothing of theirs is reviewed"
