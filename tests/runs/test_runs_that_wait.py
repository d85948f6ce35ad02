"""Whole runs that wait for people at the sites, and the command with which these decide."""

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import understudy as us
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.federation.approval import queues_in
from understudy.runs.folder import RunFolder
from understudy.runs.watching import RunStopped
from understudy.view.ledger import print_ledger

# typer asks click for names that click is about to drop; the command is called in this process, so that it is quick.
pytestmark = pytest.mark.filterwarnings("ignore:.*will be removed in Click 9:DeprecationWarning")


def words(tmp_path: Path, method: dict[str, Any], policy: str | None, **more: Any) -> dict[str, Any]:
    file = tmp_path / "site.yaml"
    file.write_text(policy or "")
    return {
        "data": {"name": "digits", "limit": 60, "clients": 3},
        "model": "softmax",
        "method": {"rounds": 2, "min_replies": 3, **method},
        "engine": "inline",
        "policy": None if policy is None else str(file),
        **more,
    }


def approve(*arguments: str | Path) -> str:
    from typer.testing import CliRunner

    import understudy.cli  # noqa: F401  (adds the commands)
    from understudy.cli.app import app

    return CliRunner().invoke(app, ["approve", *map(str, arguments)], catch_exceptions=False).output


def play_with_people(given: dict[str, Any], out: Path) -> tuple[us.Result, list[str]]:
    """Whenever the run stops, all that waits is approved; what it said each time."""
    said: list[str] = []
    while True:
        try:
            return us.run(given, out=out, resume=True), said
        except RunStopped as stopped:
            said.append(str(stopped))
            assert len(said) < 9
            approve(out, "--yes")


SHUFFLED = {"with": [{"name": "fedssyn", "source": "real"}]}


@pytest.mark.parametrize("engine", ["inline", {"name": "workers", "workers": 2}])
def test_an_opening_waits_for_people_and_goes_on_to_the_same_model(engine: Any, tmp_path: Path) -> None:
    fedavg = {"name": "fedavg", "local": {"epochs": 1}}
    straight = us.run(words(tmp_path, fedavg, None, **SHUFFLED), out=tmp_path / "straight")
    given = words(tmp_path, fedavg, "approval: [examples]", **SHUFFLED) | {"engine": engine}
    result, said = play_with_people(given, tmp_path / "waited")
    (sentence,) = said
    assert sentence == (
        "A person must approve what Fedssyn.generate would send from client-0, client-1, client-2 (the opening): "
        f"review it with `understudy review {tmp_path / 'waited'}` (in a terminal: `understudy approve "
        f"{tmp_path / 'waited'}`), and run again with resume=True."
    )
    assert same_model(result, straight)
    assert ledger_of(result) == ledger_of(straight)


def test_every_round_waits_under_its_own_number(tmp_path: Path) -> None:
    real = {"name": "real", "ipc": 2, "min_class_records": 1, "server": {"epochs": 2}}
    straight = us.run(words(tmp_path, real, None), out=tmp_path / "straight")
    result, said = play_with_people(words(tmp_path, real, "approval: [examples]"), tmp_path / "waited")
    assert ["(round 1)" in said[0], "(round 2)" in said[1], len(said)] == [True, True, 2]
    assert same_model(result, straight)
    assert [line["undone"] for line in result.metrics] == [False] * 3
    assert [line["accuracy"] for line in result.metrics] == [line["accuracy"] for line in straight.metrics]


def test_scores_at_the_clients_wait_too_and_so_does_the_last_ask(tmp_path: Path) -> None:
    fedavg = {"name": "fedavg", "local": {"epochs": 1}, "rounds": 1}
    x, y = np.arange(640, dtype=np.uint8).reshape(10, 1, 8, 8), np.array([0, 1] * 5)
    data = Federation.from_arrays({"ash": (x, y), "beech": (x[:6], y[:6])}, held_out=0.3)
    given = {**words(tmp_path, fedavg, "approval: [statistics]"), "method": {**fedavg, "min_replies": 2}}
    del given["data"]
    straight = us.run({**given, "policy": None}, data=data, out=tmp_path / "straight")
    for task_that_waits in ("train", "score"):
        with pytest.raises(RunStopped, match=f"{task_that_waits} would send from ash, beech"):
            us.run(given, data=data, out=tmp_path / "waited", resume=True)
        approve(tmp_path / "waited", "--yes")
    result = us.run(given, data=data, out=tmp_path / "waited", resume=True)
    assert same_model(result, straight)
    scored = [[(line["accuracy"], line["failed"]) for line in one.metrics] for one in (result, straight)]
    assert scored[0] == scored[1]


def test_without_one_whom_a_person_held_back_the_run_goes_on_if_enough_are_left(tmp_path: Path) -> None:
    fedavg = {"name": "fedavg", "local": {"epochs": 1}, "min_replies": 2}
    given, out = words(tmp_path, fedavg, "approval: [examples]", **SHUFFLED), tmp_path / "run"
    with pytest.raises(RunStopped, match="client-0, client-1, client-2"):
        us.run(given, out=out)
    approve(out / "clients/client-1", "--no")
    approve(out / "clients/client-0", "--yes")
    with pytest.raises(RunStopped, match=r"would send from client-2 \(the opening\)"):
        us.run(out=out, resume=True)
    assert list(json.loads((out / "ledger.json").read_text())["clients"]) == ["client-0"], "its images have left"
    approve(out, "--yes")
    result = us.run(out=out, resume=True)
    assert result.summary["finished"]
    assert result.metrics[0]["failures"] == [{"client": "client-1", "why": "a person there declined its reply"}]


def test_too_few_left_after_a_no_is_said(tmp_path: Path) -> None:
    given = words(tmp_path, {"name": "fedavg"}, "approval: [examples]", **SHUFFLED)
    with pytest.raises(RunStopped, match="A person must approve"):
        us.run(given, out=tmp_path / "run")
    approve(tmp_path / "run", "--no")
    with pytest.raises(RunStopped, match=r"The opening failed: 0 of 3 .* a person there declined its reply"):
        us.run(given, out=tmp_path / "run", resume=True)


def test_the_command_lists_draws_and_decides(tmp_path: Path) -> None:
    given, out = (
        words(
            tmp_path,
            {"name": "real", "ipc": 2, "min_class_records": 1, "server": {"epochs": 2}},
            "approval: [examples]",
        ),
        tmp_path / "run",
    )
    assert approve(tmp_path) == f"Nothing waits for approval in {tmp_path}.\n"
    with pytest.raises(RunStopped):
        us.run(given, out=out)
    listed = json.loads(approve(out, "--json", "--sheet", tmp_path / "sheet.png"))["replies"]
    assert [(one["client"], one["decision"], one["task"]) for one in listed] == [
        (f"client-{n}", None, "Real.pick") for n in range(3)
    ]
    assert all(0 < count <= 2 for one in listed for count in one["examples_a_class"].values()), "ipc is 2"
    assert (tmp_path / "sheet.png").read_bytes()[:4] == b"\x89PNG"
    shown = approve(out)
    assert "of class" in shown
    assert listed[0]["id"][-8:] == listed[0]["sha256"][:8]
    approve(out, "--yes", "--only", listed[0]["id"])
    approve(out, "--no")
    decided = json.loads(approve(out, "--json"))["replies"]
    assert [one["decision"] for one in decided] == ["yes", "no", "no"], "the first was decided already"


REAL = {"name": "real", "ipc": 2, "min_class_records": 1, "server": {"epochs": 2}}


def test_the_command_drops_single_images_and_takes_a_decision_back(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(RunStopped):
        us.run(words(tmp_path, {**REAL, "rounds": 1}, "approval: [examples]"), out=out)
    with pytest.raises(UserError, match="3 wait for a decision; say which with --only"):
        approve(out, "--drop", "0.1")
    listed = json.loads(approve(out, "--json"))["replies"][1]
    named = ("--only", listed["id"])
    for wrong in (("--undo", "--yes"), ("--drop", "0.1", "--no")):
        with pytest.raises(UserError, match="one thing at a time"):
            approve(out, *named, *wrong)
    with pytest.raises(UserError, match=r"There is no example '99\.1'"):
        approve(out, *named, "--drop", "99.1")
    gone, a_class = listed["ids"][0], listed["ids"][-1].partition(".")[0]
    shown = approve(out, *named, "--drop", gone, "--drop", a_class, "--reason", "too near", "--by", "Ada")
    assert f"yes without {gone}," in " ".join(shown.split())
    assert json.loads(approve(out, "--json", *named, "--undo"))["replies"][0]["decision"] is None
    again = json.loads(approve(out, "--json", *named, "--drop", gone, "--reason", "too near", "--by", "Ada"))
    kept = {key: again["replies"][0][key] for key in ("decision", "dropped", "reason", "by")}
    assert kept == {"decision": "yes", "dropped": [gone], "reason": "too near", "by": "Ada"}
    approve(out, "--yes")
    result = us.run(out=out, resume=True)
    assert len(RunFolder(out).synthetic()["client-1"]) == len(listed["ids"]) - 1
    assert "understudy.decision" not in json.dumps(ledger_of(result)), "no record was in view"


def test_the_ledger_lists_decisions_with_records_in_view_as_not_covered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    with pytest.raises(RunStopped):
        us.run(words(tmp_path, {**REAL, "rounds": 1, "min_replies": 1}, "approval: [examples]"), out=out)
    words_said: tuple[Literal["yes", "no"], ...] = ("yes", "no", "yes")
    for queue, word in zip(queues_in(out), words_said, strict=True):
        (held,) = queue.held()
        if held.about["client"] != "client-2":
            queue.note_records_seen(held)
        queue.decide(held, word)
    us.run(out=out, resume=True)
    ledger = RunFolder(out).ledger()
    seen = {client for client, lines in ledger["clients"].items() if any(line["kind"] == "decision" for line in lines)}
    assert seen == {"client-0", "client-1"}, "a plain no included"
    assert [line["part"] for line in ledger["clients"]["client-1"]] == ["understudy.decision"]
    assert (ledger["epsilon"], ledger["epsilon_by_client"]["client-1"]) == (None, None)
    print_ledger(out)
    told = " ".join(capsys.readouterr().out.split())
    assert "client-1: what a person with records in view decided about Real.pick, once" in told


def test_the_command_refuses_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no folder"):
        approve(tmp_path / "nowhere")
    with pytest.raises(UserError, match="has the id it"):
        approve(tmp_path, "--only", "it", "--yes")
    with pytest.raises(UserError, match="nothing to draw"):
        approve(tmp_path, "--sheet", tmp_path / "sheet.png")


def same_model(one: us.Result, other: us.Result) -> bool:
    name = "model.safetensors"
    return (one.folder / name).read_bytes() == (other.folder / name).read_bytes()


def ledger_of(result: us.Result) -> Any:
    return json.loads((result.folder / "ledger.json").read_text())
