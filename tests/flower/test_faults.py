"""What networks and machines do, with real processes on loopback, TLS and keys."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from federation_of_processes import FAULTY, Federation, child

from understudy.engines.flower.proxy import nginx
from understudy.federation.failures import sentence

pytestmark = [
    pytest.mark.skipif(nginx() is None, reason="nginx is not installed"),
    pytest.mark.skipif(not Path("/proc").exists(), reason="processes are found through /proc, which is not here"),
]

SITES = ("client-0", "client-1", "client-2")


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    made = Federation(tmp_path, SITES)
    yield made
    made.stop()


def configure(federation: Federation, *, rounds: int, timeout: float, clients: int = 3, min_replies: int = 1) -> None:
    method = {"name": f"{FAULTY}:Faulty", "rounds": rounds, "min_replies": min_replies}
    federation.write_config(
        data={"name": "digits", "clients": clients, "limit": 60},
        model={"name": "softmax"},
        method=method,
        engine={"name": "flower", "timeout": timeout},
    )


def answers(federation: Federation, site: str) -> list[dict[str, Any]]:
    """What a site wrote down for itself."""
    log = federation.folder / "sites" / site / "state" / "answers.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()]


def failures(federation: Federation, round: int) -> dict[str, str]:
    return {failure["client"]: failure["why"] for failure in federation.lines()[round]["failures"]}


def test_sites_that_raise_lie_are_late_or_refuse_are_left_out_and_the_run_goes_on(tmp_path: Path) -> None:
    federation = Federation(tmp_path, (*SITES, "client-3"))
    configure(federation, rounds=4, timeout=60, clients=4)
    federation.fault(1, "client-0", "raise")
    federation.fault(1, "client-1", "nan")
    federation.fault(2, "client-1", "wait")
    federation.fault(4, "client-0", "wait")
    (tmp_path / "site.yaml").write_text("kinds: [scalars, examples]\n")
    try:
        for site in SITES:
            federation.start_site(site)
        federation.start_site("client-3", "--policy", "site.yaml")
        federation.wait_for_sites(300)  # importing does not count against the time for an answer
        federation.start_server()
        federation.wait_until(lambda: 3 in federation.lines(), 400)
        federation.release(2, "client-1")
        federation.wait_until(lambda: federation.worked(4, "client-1"), 120)
        federation.release(4, "client-0")
        federation.finish(400)
    finally:
        federation.stop()
    lines = federation.lines()

    assert failures(federation, 1)["client-0"] == sentence("defect")
    at_home = {site: answers(federation, site) for site in (*SITES, "client-3")}
    assert "ValueError" in at_home["client-0"][0]["why"]
    assert "patient" not in (tmp_path / "run" / "metrics.jsonl").read_text()  # that stays at home
    assert "not finite" in failures(federation, 1)["client-1"]
    assert "did not answer within 60 s" in failures(federation, 2)["client-1"]
    # The late one still works: it is waited for no longer than the others, and is whole again when it has done.
    assert failures(federation, 3)["client-1"] == "it is busy with an earlier request"
    assert "client-1" not in failures(federation, 4)
    assert lines[4]["total"] == sum(line["clients"] for line in lines.values())
    # What its policy forbids never left client-3, and both sides have it in writing.
    assert [failures(federation, round)["client-3"] for round in range(1, 5)] == [sentence("policy")] * 4
    assert (tmp_path / "sites/client-3/state").stat().st_mode & 0o077 == 0  # for its own people only
    why = "its policy does not let weights leave, but the task would send 'change'"
    assert {line["why"] for line in at_home["client-3"]} == {why}
    # Every reply that left is in its own site's log: what the server counted, and no more than was sent.
    left = [line for line in at_home["client-2"] if line["outcome"] == "done"]
    counted = [line["bytes_by_client"]["client-2"][0] for line in lines.values() if line["round"]]
    assert sum(line["bytes"] for line in left) == sum(counted) > 0


def test_a_process_that_dies_a_node_that_is_killed_a_cut_link_and_a_killed_server(federation: Federation) -> None:
    configure(federation, rounds=4, timeout=300, min_replies=3)
    federation.fault(1, "client-1", "die")
    federation.fault(2, "client-1", "sleep 8")
    federation.fault(3, "client-0", "sleep 6")
    for site in SITES:
        federation.start_site(site)
    federation.start_server()

    # The process that answers dies in round 1: it is started again and asked again.
    federation.wait_until(lambda: 1 in federation.lines(), 400)
    assert "ended with code 9; restarting it" in federation.log("client-1")

    # Flower's node is killed while its site works on round 2: it comes back under its key.
    federation.wait_until(lambda: (federation.folder / "faults" / "2-client-1.done").exists(), 120)
    os.kill(child(federation.running["client-1"].pid, "flower-supernode"), signal.SIGKILL)
    federation.wait_until(lambda: 2 in federation.lines(), 400)

    # The link is cut for a while in round 3: nginx leads a group, and its workers are what carries bytes.
    federation.wait_until(lambda: (federation.folder / "faults" / "3-client-0.done").exists(), 120)
    proxy = child(federation.running["server"].pid, "nginx")
    os.killpg(proxy, signal.SIGSTOP)
    federation.wait_until(lambda: federation.worked(3, "client-0"), 120)
    time.sleep(6)
    assert 3 not in federation.lines()
    os.killpg(proxy, signal.SIGCONT)
    federation.wait_until(lambda: 3 in federation.lines(), 400)

    # The server is killed and started again.
    os.killpg(federation.running["server"].pid, signal.SIGKILL)
    federation.running.pop("server").wait()
    federation.start_server("--resume")
    federation.finish(400)

    lines = federation.lines()
    assert [lines[round]["clients"] for round in (1, 2, 3, 4)] == [3, 3, 3, 3]
    assert lines[4]["total"] == 12  # nothing was counted twice
