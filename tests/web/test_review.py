"""The review: what is shown to whom, and which requests change anything."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from waiting_runs import stopped_run
from without_a_browser import Visitor

import understudy as us
from understudy.audits.own_records import OwnRecords
from understudy.errors import UserError
from understudy.federation.approval import ApprovalQueue, queues_in
from understudy.federation.held import Held
from understudy.runs.folder import RunFolder
from understudy.web.guard import Guard
from understudy.web.review import Desk, review_app

PORT = 8421
HERE = f"http://127.0.0.1:{PORT}"
PRIVATE: dict[str, Any] = {
    "method": {"name": "feddm", "ipc": 1, "steps": 1, "dp": "stat", "noise": 2.0, "rounds": 1, "min_replies": 2}
}
PROMISE: dict[str, Any] = {"privacy": {"delta": 1e-5, "records": 30}}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stopped_run(tmp_path_factory.mktemp("plain") / "run")


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stopped_run(tmp_path_factory.mktemp("private") / "run", **PRIVATE, **PROMISE)


@pytest.fixture
def run(plain: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(plain, tmp_path / "run"))


def desk_of(run: Path, **more: Any) -> Desk:
    return Desk(run, OwnRecords(run), **more)


def browser(run: Path, *, entered: bool = True, **more: Any) -> Visitor:
    guard = Guard(review_app(desk_of(run, **more)), PORT)
    visitor = Visitor(guard, HERE)
    if entered:
        assert visitor.get(guard.link.removeprefix(HERE)).status_code == 200
    return visitor


def first(run: Path) -> tuple[ApprovalQueue, Held]:
    queue = queues_in(run)[0]
    return queue, queue.held()[0]


def token_in(page: str) -> str:
    return str(re.findall(r'name="page" value="([0-9a-f]+)"', page)[0])


def send(visitor: Visitor, path: str, fields: dict[str, Any], **headers: str) -> httpx.Response:
    return visitor.post(path, data=fields, headers={"origin": HERE, **headers})


def decisions(run: Path) -> Iterator[str]:
    for file in sorted(run.glob("clients/*/approvals.jsonl")):
        yield from (json.loads(line)["decision"] for line in file.read_text().splitlines())


def test_two_images_dropped_the_rest_approved_and_exactly_those_bytes_leave(run: Path) -> None:
    visitor, (_, one) = browser(run), first(run)
    assert f'href="/reply/{one.id}"' in visitor.get("/").text
    page = visitor.get(f"/reply/{one.id}").text
    dropped = [one.ids()[1], one.ids()[-1]]
    assert all(f'value="{id}"' in page for id in one.ids())
    fields = {"page": token_in(page), "decision": "yes", "drop": dropped, "by": "Ada", "reason": "a <b>face</b>"}
    sent = send(visitor, f"/reply/{one.id}/decide", fields)
    assert (sent.status_code, sent.headers["location"]) == (303, f"/reply/{one.id}")
    after = visitor.get(f"/reply/{one.id}").text
    many = len(one.ids())
    assert f"Ada dropped 2 and approved the other {many - 2} of {many}" in after
    assert "a &lt;b&gt;face&lt;/b&gt;" in after
    for queue in queues_in(run)[1:]:
        queue.decide(queue.held()[0], "yes")
    us.run(out=run, resume=True)
    left = RunFolder(run).synthetic()[one.about["client"]]
    kept = [row for row in range(many) if one.ids()[row] not in dropped]
    assert left.x.numpy().tobytes() == one.reply["x"][kept].numpy().tobytes()
    assert left.y.tolist() == one.reply["y"][kept].tolist()
    gone = visitor.get(f"/reply/{one.id}")
    assert (gone.status_code, "Nothing that waits here is called" in gone.text) == (404, True)


def test_suspicious_ones_come_first_beside_the_nearest_record(run: Path) -> None:
    """REAL sends records as they are: each is its own nearest record, a near-copy."""
    visitor, (_, one) = browser(run), first(run)
    page = visitor.get(f"/reply/{one.id}").text
    many = len(one.ids())
    assert f"{many} of {many} are near-copies" in page
    beside = [visitor.get(f"/reply/{one.id}/{what}/0.png") for what in ("example", "record")]
    assert beside[0].content == beside[1].content
    assert beside[0].content[:4] == b"\x89PNG"
    assert all(answer.headers["cache-control"] == "no-store" for answer in beside)
    found = desk_of(run).records.nearest(one)
    assert found.held_out
    assert found.copies.distance.tolist() == [0.0] * many


def test_that_records_are_shown_is_written_down_first(run: Path) -> None:
    visitor, (_, one) = browser(run), first(run)
    visitor.get("/")
    visitor.get(f"/reply/{one.id}/example/0.png")
    assert list(decisions(run)) == []
    visitor.get(f"/reply/{one.id}/record/0.png")
    visitor.get(f"/reply/{one.id}")
    assert list(decisions(run)) == ["saw-records"]
    page = visitor.get(f"/reply/{one.id}").text
    assert "the ledger lists it as not covered" in page
    send(visitor, f"/reply/{one.id}/decide", {"page": token_in(page), "decision": "no", "by": "", "reason": ""})
    assert first(run)[1].records_seen


def test_without_records_nothing_of_them_is_shown(run: Path) -> None:
    visitor, (_, one) = browser(run, show_records=False), first(run)
    page = visitor.get(f"/reply/{one.id}").text
    assert ("/record/" in page, "nearer" in page, "Records are not shown" in page) == (False, False, True)
    assert visitor.get(f"/reply/{one.id}/record/0.png").status_code == 404
    assert list(decisions(run)) == []


def test_under_privacy_images_are_shown_without_records_or_distances(private: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(private, tmp_path / "run"))
    visitor, (_, one) = browser(run), first(run)
    page = visitor.get(f"/reply/{one.id}").text
    assert "choosing among them by what you see here costs nothing" in page
    assert ("/record/" in page, "data-quantile" in page, "near-cop" in page) == (False, False, False)
    assert visitor.get(f"/reply/{one.id}/record/0.png").status_code == 404
    fields = {"page": token_in(page), "decision": "yes", "drop": one.ids()[0], "by": "Ada", "reason": ""}
    send(visitor, f"/reply/{one.id}/decide", fields)
    assert list(decisions(run)) == ["yes"]
    queue, other = queues_in(run)[1], queues_in(run)[1].held()[0]
    with_records = browser(run, show_records=True)
    assert "the ledger lists it as not covered" in with_records.get(f"/reply/{other.id}").text
    queue.decide(queue.held()[0], "no")
    us.run(out=run, resume=True)
    ledger = RunFolder(run).ledger()
    chosen, seen = (ledger["epsilon_by_client"][held.about["client"]] for held in (one, other))
    assert chosen is not None
    assert chosen > 0, "choosing by the images alone costs nothing more"
    assert seen is None, "a plain no with records in view is not covered"


def test_a_policy_that_limits_epsilon_shows_no_records_even_if_asked(tmp_path: Path) -> None:
    run = stopped_run(tmp_path / "run", "approval: [examples]\nepsilon: 50\n", **PRIVATE, **PROMISE)
    visitor, (_, one) = browser(run, show_records=True), first(run)
    assert "/record/" not in visitor.get(f"/reply/{one.id}").text
    assert visitor.get(f"/reply/{one.id}/record/0.png").status_code == 404
    assert list(decisions(run)) == []


# ---- requests that change nothing


def test_nothing_is_shown_or_changed_without_the_link(run: Path) -> None:
    visitor, (_, one) = browser(run, entered=False), first(run)
    for path in ("/", f"/reply/{one.id}", f"/reply/{one.id}/example/0.png", f"/reply/{one.id}/record/0.png"):
        assert visitor.get(path).status_code == 401
    assert visitor.get("/enter?token=wrong").status_code == 401
    token = desk_of(run).token(one)
    assert send(visitor, f"/reply/{one.id}/decide", {"page": token, "decision": "yes"}).status_code == 401
    assert list(decisions(run)) == []


def test_a_decision_from_another_site_or_page_changes_nothing(run: Path) -> None:
    visitor, (_, one) = browser(run), first(run)
    path, page = f"/reply/{one.id}/decide", visitor.get(f"/reply/{one.id}").text
    fields = {"page": token_in(page), "decision": "yes", "by": "Eve", "reason": ""}
    assert send(visitor, path, fields, origin="http://evil.example").status_code == 403
    assert visitor.post(path, data=fields).status_code == 403
    assert visitor.get(path).status_code == 405
    other = first(run.parent / "run")[1].id.replace("r1", "r2")
    assert send(visitor, f"/reply/{other}/decide", fields).status_code == 404
    for token in ("", "0" * 64, "ä", desk_of(run).token(one)):  # the last is another server's
        assert send(visitor, path, {**fields, "page": token}).status_code == 409
    assert list(decisions(run)) == ["saw-records"]


WRONG: list[tuple[dict[str, Any], int]] = [
    ({"drop": ["99.1"]}, 400),
    ({"drop": ["../../etc"]}, 400),
    ({"decision": "perhaps"}, 400),
    ({"decision": ""}, 400),
    ({"decision": ["yes", "no"]}, 400),
    ({"by": ["a", "b"]}, 400),
]


@pytest.mark.parametrize(("change", "status"), WRONG)
def test_a_form_that_makes_no_sense_changes_nothing(change: dict[str, Any], status: int, run: Path) -> None:
    visitor, (_, one) = browser(run), first(run)
    page = visitor.get(f"/reply/{one.id}").text
    fields = {"page": token_in(page), "decision": "yes", "by": "Ada", "reason": "", **change}
    refused = send(visitor, f"/reply/{one.id}/decide", fields)
    assert refused.status_code == status
    assert 'role="alert"' in refused.text
    assert list(decisions(run)) == ["saw-records"]


def test_all_dropped_is_refused_with_the_other_way(run: Path) -> None:
    visitor, (_, one) = browser(run), first(run)
    page = visitor.get(f"/reply/{one.id}").text
    fields = {"page": token_in(page), "decision": "yes", "drop": one.ids(), "by": "Ada", "reason": ""}
    assert "say no to all of it instead" in send(visitor, f"/reply/{one.id}/decide", fields).text


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b"{}", "application/json"), (b"\xff", "application/x-www-form-urlencoded"), (b"", "text/plain")],
)
def test_what_is_not_a_form_is_refused(body: bytes, kind: str, run: Path) -> None:
    visitor, (_, one) = browser(run), first(run)
    headers = {"origin": HERE, "content-type": kind}
    assert visitor.post(f"/reply/{one.id}/decide", content=body, headers=headers).status_code == 400


def test_sent_twice_it_counts_once_and_undo_works_until_it_is_sent(run: Path) -> None:
    visitor, (_, one) = browser(run), first(run)
    path, page = f"/reply/{one.id}", visitor.get(f"/reply/{one.id}").text
    fields = {"page": token_in(page), "decision": "no", "by": "Ada", "reason": ""}
    assert [send(visitor, f"{path}/decide", fields).status_code for _ in range(2)] == [303, 409]
    second = send(visitor, f"{path}/decide", fields)
    assert "somebody decided meanwhile" in second.text
    undone = send(visitor, f"{path}/undo", {"page": token_in(second.text)})
    assert undone.status_code == 303
    assert "Undo this decision" not in visitor.get(path).text
    assert list(decisions(run)) == ["saw-records", "no", "undo"]


def test_two_reviewers_at_once_the_second_sees_what_the_first_decided(run: Path) -> None:
    desk, (_, one) = desk_of(run), first(run)
    pages = [desk.reply(one.id) for _ in range(2)]
    desk.decide(one.id, {"page": [token_in(pages[0])], "decision": ["yes"], "by": ["Ada"]})
    visitor = Visitor(review_app(desk), HERE)
    late = send(visitor, f"/reply/{one.id}/decide", {"page": token_in(pages[1]), "decision": "no", "by": "Bo"})
    assert (late.status_code, "Ada approved all of it" in late.text) == (409, True)


def test_clients_that_would_send_the_same_bytes_are_told_apart(run: Path) -> None:
    queues = queues_in(run)
    places = [queue.held()[0].folder for queue in queues]
    shutil.copy(places[0] / "reply.safetensors", places[1] / "reply.safetensors")
    one, other = (queue.held()[0] for queue in queues)
    assert one.sha256 == other.sha256
    visitor = browser(run)
    page = visitor.get(f"/reply/{other.id}").text
    send(visitor, f"/reply/{other.id}/decide", {"page": token_in(page), "decision": "no", "by": "Ada", "reason": ""})
    assert [queue.held()[0].decision is None for queue in queues] == [True, False]


def test_a_damaged_queue_is_named_and_the_others_can_be_reviewed(run: Path) -> None:
    visitor, (_, one), other = browser(run), first(run), queues_in(run)[1].held()[0]
    (one.folder / "about.json").write_text("{")
    page = visitor.get("/").text
    assert "about.json is damaged" in page
    assert visitor.get(f"/reply/{other.id}").status_code == 200
    assert visitor.get(f"/reply/{one.id}").status_code == 404


def test_what_a_file_says_is_shown_as_text(run: Path) -> None:
    _, one = first(run)
    about = json.loads((one.folder / "about.json").read_text())
    hostile = "<script>alert(1)</script>"
    about |= {"task": hostile, "whole": hostile, "parts": [{**part, "kind": hostile} for part in about["parts"]]}
    (one.folder / "about.json").write_text(json.dumps(about))
    visitor = browser(run)
    for path in ("/", f"/reply/{first(run)[1].id}"):
        page = visitor.get(path).text
        assert (hostile in page, "&lt;script&gt;alert(1)&lt;/script&gt;" in page) == (False, True)


def test_a_reply_that_leaves_as_a_whole_says_why_before_anybody_starts(run: Path) -> None:
    _, one = first(run)
    about = json.loads((one.folder / "about.json").read_text())
    (one.folder / "about.json").write_text(json.dumps({**about, "whole": "it also sends 'mean'"}))
    visitor = browser(run)
    page = visitor.get(f"/reply/{one.id}").text
    assert "No single example can be dropped: it also sends" in page
    assert page.count("disabled") >= len(one.ids())
    fields = {"page": token_in(page), "decision": "yes", "drop": one.ids()[0], "by": "Ada", "reason": ""}
    assert send(visitor, f"/reply/{one.id}/decide", fields).status_code == 400
    assert send(visitor, f"/reply/{one.id}/decide", {**fields, "drop": []}).status_code == 303


@pytest.mark.parametrize(
    "path", ["/reply/..%2f..%2fconfig.yaml", "/reply/x/example/0.png", "/static/../review.py", "/reply/%00", "/nothing"]
)
def test_paths_lead_nowhere_else(path: str, run: Path) -> None:
    assert browser(run).get(path).status_code == 404


@pytest.mark.parametrize("row", ["-1", "99999", "x", "1e3"])
def test_rows_that_do_not_exist_are_not_found(row: str, run: Path) -> None:
    visitor, (_, one) = browser(run), first(run)
    for what in ("example", "record"):
        assert visitor.get(f"/reply/{one.id}/{what}/{row}.png").status_code == 404


# ---- records of other kinds


def test_records_that_are_no_images_get_a_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("ash", "beech"):
        np.savez(tmp_path / f"{name}.npz", x=rng.normal(size=(30, 20)).astype(np.float32), y=np.arange(30) % 2)
    sites = {name: str(tmp_path / f"{name}.npz") for name in ("ash", "beech")}
    run = stopped_run(tmp_path / "runs/run", data={"sites": sites})
    visitor, (_, one) = browser(run), first(run)
    page = visitor.get(f"/reply/{one.id}").text
    assert ('<table class="rows-of-review">' in page, "example/0.png" in page) == (True, False)
    assert "8 more" in page
    assert "own records to one another" in page, "nothing was held out"
    assert visitor.get(f"/reply/{one.id}/example/0.png").status_code == 404


def test_records_with_several_labels_are_named_by_number(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("ash", "beech"):
        labels = (rng.random((20, 3)) < 0.5).astype(np.float32)
        np.savez(tmp_path / f"{name}.npz", x=rng.integers(0, 255, (20, 1, 8, 8)).astype(np.uint8), y=labels)
    sites = {name: str(tmp_path / f"{name}.npz") for name in ("ash", "beech")}
    data = {"sites": sites, "multilabel": True}
    run = stopped_run(tmp_path / "runs/run", data=data, method={"name": "central", "rounds": 1, "min_replies": 2})
    visitor, (_, one) = browser(run), first(run)
    page = visitor.get(f"/reply/{one.id}").text
    assert ('value="r1"' in page, "label 0" in page, "data-drop-class" in page) == (True, True, False)
    fields = {"page": token_in(page), "decision": "yes", "drop": ["r1", "r20"], "by": "Ada", "reason": ""}
    assert send(visitor, f"/reply/{one.id}/decide", fields).status_code == 303
    queue = queues_in(run)[1]
    queue.decide(queue.held()[0], "yes")
    us.run(out=run, resume=True)
    assert len(RunFolder(run).synthetic()["ash"]) == 18


# ---- the command


def test_the_command_names_what_is_wrong(tmp_path: Path) -> None:
    import socket

    from understudy.cli.pages import review

    with pytest.raises(UserError, match="There is no folder"):
        review(tmp_path / "nowhere")
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(UserError, match="choose another --port"):
        review(tmp_path, port=other.getsockname()[1])


def test_a_folder_where_nothing_waits_says_so(tmp_path: Path) -> None:
    assert "Nothing waits here." in browser(tmp_path).get("/").text
