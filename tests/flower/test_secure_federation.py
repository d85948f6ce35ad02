"""Secure aggregation on real processes: the server sees sums only, and a site that is lost half-way is recovered."""

import os
import signal
from pathlib import Path

import pytest
import torch
from federation_of_processes import Federation, child
from safetensors.torch import load_file

import understudy as us
from understudy.engines.flower.proxy import nginx
from understudy.federation.message import Message
from understudy.federation.secure import party
from understudy.federation.tensor_store import TensorStore

pytestmark = [pytest.mark.slow, pytest.mark.skipif(nginx() is None, reason="nginx is not installed")]

SITES = ("client-0", "client-1", "client-2", "client-3")
WORDS = {
    "data": {"name": "digits", "clients": 4, "limit": 200, "split": "iid"},
    "model": {"name": "softmax"},
    "method": {"name": "fedavg", "rounds": 1, "weights": "uniform", "local": {"steps": 3, "batch": 16, "lr": 0.1}},
    "engine": {"name": "flower", "timeout": 100.0},
}


def test_a_site_lost_after_its_shares_is_recovered_from_the_others(tmp_path: Path) -> None:
    federation = Federation(tmp_path, SITES)
    federation.write_config(**WORDS, **{"with": ["secure-aggregation"]})
    try:
        for site in SITES:
            federation.start_site(site)
        federation.start_server()
        federation.wait_until(lambda: "SecureAggregation.share: done" in federation.log("client-3"), 300)
        # It is deaf from here on, but its node delivers what it said. Others are asked to train when that has arrived.
        os.kill(child(federation.running["client-3"].pid, "--at-door"), signal.SIGSTOP)
        federation.wait_until(lambda: "Averaging.train: done" in federation.log("client-0"), 300)
        lost = federation.running.pop("client-3")
        os.killpg(lost.pid, signal.SIGKILL)
        lost.wait()
        federation.finish(500)
    finally:
        federation.stop()
    (line,) = [line for line in federation.lines().values() if line["round"] == 1]
    assert [failure["client"] for failure in line["failures"]] == ["client-3"]
    assert [dropped_according_to(federation, site) for site in SITES[:3]] == [[3]] * 3  # after it had sent its shares

    # The plain run in which client-3 was never there: its task is asked of the other three alone.
    brought = us.run({**WORDS, "engine": {"name": "inline"}}, out=tmp_path / "whole")
    assert brought.summary["rounds"] == 1
    three = {**WORDS, "engine": {"name": "inline"}, "policy": None}
    expected = _without(three, "client-3", tmp_path / "three")
    secure = load_file(tmp_path / "run" / "model.safetensors")
    step = 2.0**-18  # far coarser than the grid of 48 bits
    assert all(torch.allclose(secure[name], expected[name], atol=step, rtol=0) for name in expected)
    assert not all(torch.allclose(secure[name], brought.weights[name], atol=step, rtol=0) for name in expected)


def dropped_according_to(federation: Federation, site: str) -> list[int]:
    """Whose key's shares a site was asked for: of one that had shared it, and then sent no input."""
    (folder,) = (federation.folder / "sites" / site / "state").glob("*/memory")
    store = TensorStore(folder)
    memory, _ = store.get(store.entries()[-1])
    kept = Message.from_bytes(party.to_bytes(memory[party.KEPT]))
    dropped: list[int] = kept[party.DROPPED].tolist()
    return dropped


def _without(words: dict[str, object], lost: str, out: Path) -> dict[str, torch.Tensor]:
    from unittest.mock import patch

    from understudy.engines.inline import Inline
    from understudy.federation.exchange import failed

    plain = Inline.exchange

    def exchange(self: Inline, requests):  # type: ignore[no-untyped-def]
        for request in requests:
            if request.client == lost:
                yield failed(lost, "lost")
            else:
                yield from plain(self, [request])

    with patch.object(Inline, "exchange", exchange):
        return us.run(words, out=out).weights
