"""A real site, with its node, key and TLS, and a server that wishes it ill: every request gets its answer."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from federation_of_processes import Federation, child
from flwr.app import Message as Envelope
from flwr.app import RecordDict

from understudy.config.resolve import resolve
from understudy.engines.flower import wire
from understudy.engines.flower.engine import Flower
from understudy.engines.flower.keys import Certificates
from understudy.engines.flower.link import superlink
from understudy.engines.flower.proxy import nginx, proxy
from understudy.federation.exchange import Answer, Request
from understudy.federation.message import Message
from understudy.federation.method import Method
from understudy.runs.remote import build_site

pytestmark = [
    pytest.mark.slow,  # Flower's node looks for a message every few seconds
    pytest.mark.skipif(nginx() is None, reason="nginx is not installed"),
    pytest.mark.skipif(not Path("/proc").exists(), reason="processes are found through /proc, which is not here"),
]

SITE = "client-0"
WORDS = {
    "data": {"name": "digits", "clients": 2, "limit": 60},
    "model": {"name": "softmax"},
    "method": {"name": "fedavg", "local": {"steps": 1}},
    "engine": {"name": "flower", "timeout": 60.0},
}


@dataclass(frozen=True)
class Ill:
    """The server's end, in this process."""

    grid: Any
    node: int
    honest: Request
    method: Method
    federation: Federation

    def asks(self, content: RecordDict) -> Answer:
        message = Envelope(content, dst_node_id=self.node, message_type=wire.ASK, ttl=120.0)
        (own,) = self.grid.push_messages([message])
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for reply in self.grid.pull_messages([own]):
                return wire.read_answer(reply.content, client=SITE, largest=10**7)
            time.sleep(0.05)
        raise AssertionError("no answer came")

    def says(self, body: Message | bytes | None = None, **fields: Any) -> Answer:
        """The honest request with some fields changed, as JSON has them."""
        said = {key: value for key, value in asdict(self.honest).items() if key != "body"}
        sent = self.honest.body if body is None else body if isinstance(body, bytes) else body.to_bytes()
        return self.asks(wire.pack(json.dumps({**said, **fields}).encode(), sent))

    @property
    def worker(self) -> int:
        return child(self.federation.running[SITE].pid, "--at-door")


@pytest.fixture
def ill(tmp_path: Path) -> Iterator[Ill]:
    federation = Federation(tmp_path, (SITE,))
    federation.write_config(**WORDS)
    certificates = Certificates(tmp_path / "keys")
    site, method = build_site(resolve(WORDS), SITE, source=None, folder=tmp_path / "here", policy=None)
    brief = Message(model=method.net.initial())
    honest = Request("run", site.config, SITE, "Averaging.train", 1, 1, "", "", False, brief.to_bytes())
    with superlink(tmp_path / "server", certificates) as link:
        link.register(certificates.nodes())
        with proxy(tmp_path / "proxy", f"127.0.0.1:{federation.port}", certificates, link.door):
            federation.start_site(SITE)
            try:
                federation.wait_for_sites(120)
                with link.run() as grid:
                    engine = Flower(grid, tmp_path / "incoming", 120.0)
                    engine.wait_for([SITE], lambda missing: None)
                    yield Ill(grid, engine.there()[SITE], honest, method, federation)
            finally:
                federation.stop()


def hostile(ill: Ill) -> Mapping[str, Answer]:
    model, size = ill.method.net.initial(), ill.method.net.size
    return {
        "no content": ill.asks(RecordDict()),
        "a header without end": ill.asks(wire.pack(b"[" * 100_000, b"")),
        "for another site": ill.says(client="client-1"),
        "of another config": ill.says(config="other"),
        "a run that leads out": ill.says(run="../../elsewhere"),
        "a version that leads out": ill.says(start="../../elsewhere"),
        "a round below zero": ill.says(round=-1),
        "a round beyond all bounds": ill.says(round=10**30),
        "a round that is no number": ill.says(round="1"),
        "a task that is none": ill.says(task="\x1b[2J"),
        "memory that never was": ill.says(run="other", start="r7s1"),
        "bytes that are no message": ill.says(b"\xff" * 100, run="other"),
        "a shape beyond int64": ill.says(
            b'\x45\0\0\0\0\0\0\0{"model":{"dtype":"F32","shape":[0,9223372036854775808],"data_off', run="other"
        ),
        "no model": ill.says(Message(), run="other"),
        "a model of another size": ill.says(Message(model=torch.zeros(size + 1)), run="other"),
        "a model that is not finite": ill.says(Message(model=model * torch.nan), run="other"),
        "a model that makes all diverge": ill.says(Message(model=torch.full((size,), 3e38)), run="other"),
    }


def test_a_site_outlives_a_malicious_server_and_answers_an_honest_one(ill: Ill) -> None:
    worker = ill.worker
    for name, answer in hostile(ill).items():
        assert answer.outcome in ("refused", "failed"), name
        assert answer.why.isprintable(), name
    first = ill.says()
    assert (first.outcome, [*Message.from_bytes(first.read())]) == ("done", ["change", "weight"])

    # Asked again, it sends the same bytes; asked otherwise, or for what is behind it, nothing.
    assert ill.says().read() == first.read()
    otherwise = ill.says(Message(model=ill.method.net.initial() + 1))
    assert (otherwise.outcome, otherwise.code) == ("refused", "other-brief")
    assert ill.says(round=2).outcome == "done"
    behind = ill.says()
    assert (behind.outcome, behind.code) == ("refused", "past")

    assert ill.worker == worker, "the process that answers was never started again"
    state = ill.federation.folder / "sites" / SITE / "state"
    assert not (state.parent.parent / "elsewhere").exists()
    assert "\x1b[2J" not in ill.federation.log(SITE)
