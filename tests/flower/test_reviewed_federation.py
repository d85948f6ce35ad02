"""A federation of two sites, TLS and keys included, where people review what leaves: two images are dropped at one."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from federation_of_processes import Federation
from sklearn.datasets import load_digits

from understudy.engines.flower.proxy import nginx
from understudy.federation.approval import ApprovalQueue
from understudy.federation.message import Message
from understudy.runs.folder import RunFolder

pytestmark = [pytest.mark.slow, pytest.mark.skipif(nginx() is None, reason="nginx is not installed")]
SITES = ("north", "south")


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    digits = load_digits()
    x, y = (16 * digits.images).clip(0, 255).astype(np.uint8), digits.target
    np.savez(tmp_path / "test.npz", x=x[1400:], y=y[1400:])
    for site, mine in {"north": y[:1400] < 5, "south": y[:1400] >= 5}.items():
        np.savez(tmp_path / f"{site}.npz", x=x[:1400][mine], y=y[:1400][mine])
    (tmp_path / "site.yaml").write_text("approval: [examples]\n")
    made = Federation(tmp_path, SITES)
    made.write_config(
        data={"sites": dict.fromkeys(SITES), "shape": [1, 8, 8], "classes": 10, "test": "test.npz"},
        model="small-convnet",
        method={"name": "feddm", "rounds": 1, "min_replies": 2, "ipc": 3, "steps": 20, "server": {"epochs": 20}},
        engine={"timeout": 300},
    )
    yield made
    made.stop()


def test_two_images_are_dropped_at_one_of_two_sites_and_the_run_goes_on_with_the_others(federation: Federation) -> None:
    for site in SITES:
        federation.start_site(site, "--data", f"{site}.npz", "--policy", "site.yaml")
    stopped = federation.start_server()
    assert stopped.wait(400) == 2
    del federation.running["server"]
    assert "review it with `understudy review FOLDER`" in federation.log("server")
    homes = {site: federation.folder / "sites" / site / "state" for site in SITES}
    for site in SITES:
        assert f"approval here: understudy review sites/{site}/state" in federation.log(site)

    (one,) = ApprovalQueue(homes["north"]).held()
    dropped = [one.ids()[1], one.ids()[7]]
    review_in_a_page(federation, one.id, dropped)
    federation.understudy("approve", "approve", "sites/south/state", "--yes").wait(60)
    assert federation.log("approve").count("yes, not sent yet") == 1

    federation.start_server("--resume")
    federation.finish(400)
    kept = [row for row in range(len(one.ids())) if one.ids()[row] not in dropped]
    left = Message(x=one.reply["x"][kept], y=one.reply["y"][kept]).to_bytes()
    sent = [json.loads(line) for line in (homes["north"] / "answers.jsonl").read_text().splitlines()][-1]
    assert (sent["bytes"], sent["sha256"]) == (len(left), hashlib.sha256(left).hexdigest())
    run = RunFolder(federation.folder / "run")
    arrived = run.synthetic()["north"]
    assert arrived.x.numpy().tobytes() == one.reply["x"][kept].numpy().tobytes()
    assert [len(arrived), len(run.synthetic()["south"])] == [13, 15]
    decided = {client: [line["part"] for line in lines] for client, lines in run.ledger()["clients"].items()}
    assert decided["north"][-1] == "understudy.decision", "records were in view"
    assert "understudy.decision" not in decided["south"]


def review_in_a_page(federation: Federation, id: str, dropped: list[str]) -> None:
    """As a browser would, without one."""
    federation.understudy("review", "review", "sites/north/state", "--port", "0")
    federation.wait_until(lambda: "Open http" in federation.log("review"), 60)
    link = re.findall(r"http\S+", federation.log("review"))[0]
    here = link.partition("/enter")[0]
    with httpx.Client(base_url=here, timeout=60) as browser:
        browser.get(link)
        page = browser.get(f"/reply/{id}").text
        assert "/record/0.png" in page
        token = re.findall(r'name="page" value="([0-9a-f]+)"', page)[0]
        fields = {"page": token, "decision": "yes", "drop": dropped, "by": "Ada", "reason": "too near"}
        assert browser.post(f"/reply/{id}/decide", data=fields, headers={"origin": here}).status_code == 303
    process = federation.running.pop("review")
    process.terminate()
    process.wait(30)
    assert link.partition("token=")[2] not in federation.log("review").partition(link)[2]
