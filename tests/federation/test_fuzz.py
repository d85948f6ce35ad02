"""Bytes and requests without end, drawn from a seed: nothing comes of them but our own errors."""

import json
import random
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from understudy.config.build import build_method
from understudy.config.resolve import resolve
from understudy.config.schema import Live
from understudy.data.federation import Federation
from understudy.engines.flower import wire
from understudy.errors import UserError
from understudy.federation.answering import answer
from understudy.federation.exchange import Request
from understudy.federation.message import Message
from understudy.federation.method import Method
from understudy.federation.site import Site
from understudy.privacy.promise import PrivacySettings

SOON = 10.0  # seconds of the processor for one of them; by the clock, other jobs on the machine would count too

# ---- messages

WHOLE = Message(
    w=torch.linspace(-1, 1, 40),
    x=torch.arange(48, dtype=torch.uint8).view(3, 1, 4, 4),
    y=torch.tensor([0, 1, 2], dtype=torch.int16),
    n=torch.tensor(3.0, dtype=torch.float64),
    empty=torch.zeros(0, 5),
    yes=torch.tensor([True, False]),
).to_bytes()
NUMBERS: list[Any] = [0, 1, -1, 3, 2**31, 2**32, 2**62, 2**63, 2**64, -(2**63), 10**30, 1.5, 1e300, True, None, "3", []]
WORDS: list[Any] = [
    *("w", "", "__metadata__", "\x1b[2J", "a\nb", "\u202ew", "\x00", "\x7f", "n" * 1000, "w.x", "ä", "💥"),
    *("F32", "F64", "U8", "BOOL", "F4", "F8_E4M3", "C64", "I64", "U64", "BF16", "E8M0", "f32", "NaN"),
]


def opened(data: bytes) -> tuple[dict[str, Any], bytes]:
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def closed(header: object, body: bytes) -> bytes:
    text = (header if isinstance(header, str) else json.dumps(header)).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text)) + text + body


def flipped(rng: random.Random) -> bytes:
    data = bytearray(WHOLE)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        data[rng.randrange(len(data) if rng.random() < 0.3 else 300)] = rng.randrange(256)
    return bytes(data)


def cut(rng: random.Random) -> bytes:
    at, to = sorted(rng.randrange(len(WHOLE)) for _ in range(2))
    return rng.choice((WHOLE[:at], WHOLE[at:], WHOLE[:at] + WHOLE[to:], WHOLE[:to] + WHOLE[at:], WHOLE + WHOLE[:at]))


def another_field(rng: random.Random) -> bytes:
    header, body = opened(WHOLE)
    for _ in range(rng.choice((1, 1, 2, 4))):
        about = header[rng.choice([*header])]
        if not isinstance(about, dict):
            continue
        field = rng.choice(("dtype", "shape", "data_offsets", "more"))
        numbers = [rng.choice(NUMBERS) for _ in range(rng.choice((0, 1, 2, 2, 3, 9, 40)))]
        about[field] = rng.choice((rng.choice(WORDS), numbers, numbers, rng.choice(NUMBERS)))
    return closed(header, body)


def another_name(rng: random.Random) -> bytes:
    header, body = opened(WHOLE)
    name = rng.choice([*header])
    header[rng.choice(WORDS)] = header.pop(name) if rng.random() < 0.5 else header[name]
    return closed(header, body)


def another_shape(rng: random.Random) -> bytes:
    """Bytes that agree with their header: only the sizes are strange."""
    sizes = [
        rng.choice((0, 0, 1, 2, 3, 2**20, 2**40, 2**61, 2**62, 2**63 - 1, 2**63)) for _ in range(rng.randint(0, 9))
    ]
    if 0 not in sizes:
        sizes = [min(size, 3) for size in sizes]
    count = int(np.prod([min(size, 3) for size in sizes])) if 0 not in sizes else 0
    kind, width = rng.choice((("F32", 4), ("U8", 1), ("BOOL", 1), ("F64", 8), ("I16", 2), ("BF16", 2)))
    body = rng.randbytes(count * width)
    return closed({"w": {"dtype": kind, "shape": sizes, "data_offsets": [0, len(body)]}}, body)


def another_text(rng: random.Random) -> bytes:
    texts = (
        "NaN",
        "null",
        "[]",
        "{",
        '{"w": Infinity}',
        "[" * 5000,
        '{"w":' * 3000,
        '{"w": {}, "w": {}}',
        "\ud800",
        "1" * 9999,
    )
    return closed(rng.choice(texts), rng.randbytes(rng.randrange(20)))


def another_length(rng: random.Random) -> bytes:
    claimed = rng.choice((0, 1, 7, len(WHOLE), 2**18, 2**18 + 1, 2**27, 2**32, 2**63, 2**64 - 1))
    return struct.pack("<Q", claimed) + WHOLE[8:]


def anything(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randrange(200))


WAYS: tuple[Callable[[random.Random], bytes], ...] = (
    *(flipped, cut, another_field, another_field, another_name, another_shape, another_shape),
    *(another_text, another_length, anything),
)


@pytest.mark.parametrize("many", [1000, pytest.param(12_000, marks=pytest.mark.slow)])
def test_any_bytes_are_a_message_or_our_own_error(many: int) -> None:
    rng, became = random.Random(11), Counter[str]()
    for _ in range(many):
        way = rng.choice(WAYS)
        data, began = way(rng), time.process_time()
        try:
            message = Message.from_bytes(data)
        except UserError as error:
            became["refused" if str(error).isprintable() else "refused in words that cannot be printed"] += 1
        else:  # what was let in can be worked with
            assert Message.from_bytes(message.to_bytes()).keys() == message.keys()
            assert repr(message).isprintable()
            message.not_finite()
            became["read"] += 1
        assert time.process_time() - began < SOON, way
    assert became["read"] > many // 50, "some of them must get through, or nothing behind the header was tried"
    assert became["refused"] > many // 2
    assert became.keys() == {"read", "refused"}


# ---- requests at a site

METHODS: dict[str, dict[str, Any]] = {
    "scaffold": {"method": {"name": "scaffold", "local": {"steps": 1, "batch": 2}}},
    "fedavg+fedssyn": {"method": {"name": "fedavg", "local": {"steps": 1}}, "with": [{"name": "fedssyn", "images": 0}]},
    "fedavg+secure": {"method": {"name": "fedavg", "local": {"steps": 1, "batch": 2}}, "with": ["secure-aggregation"]},
    "feddm": {"method": {"name": "feddm", "steps": 1, "ipc": 1, "min_class_records": 1, "server": {"epochs": 1}}},
    "dp-fedavg": {
        "method": {"name": "dp-fedavg", "noise": 1.0, "local": {"steps": 1, "batch": 2}},
        "privacy": {"delta": 1e-3, "epsilon": 20.0, "records": 8, "accountant": "rdp"},
    },
}


KINDS = (torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool)
LOOKED_FOR = (
    *("model", "control", "fedssyn.x", "fedssyn.y", "secure.me", "secure.peers", "secure.keys", "secure.senders"),
    *("secure.boxes", "secure.clients", "secure.survivors", "secure.dropped", "other"),
)


def a_site(name: str, folder: Path) -> tuple[Site, Method]:
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 255, (8, 1, 8, 8)).astype(np.uint8)
    data = Federation.from_arrays({"oak": (pictures, np.arange(8) % 2)}, classes=2, held_out=0.25)
    config = resolve({"model": {"name": "softmax"}, **METHODS[name]}, {}, Live(data=data))
    method = build_method(config, data, "eager")
    privacy: PrivacySettings | None = config.top.privacy
    return Site("oak", data.sites["oak"], folder, 5, "words", privacy=privacy), method


def parts(rng: random.Random, method: Method) -> dict[str, torch.Tensor]:
    """A brief of a server that wishes ill: parts that tasks look for, of any make."""
    size = method.net.size
    makes: tuple[Callable[[], torch.Tensor], ...] = (
        lambda: torch.zeros(size),
        lambda: torch.full((size,), rng.choice((1e38, -1e30, 1e-40, torch.nan, torch.inf))),
        lambda: torch.zeros(size + rng.choice((-1, 1, 100))),
        lambda: torch.zeros(
            size, dtype=rng.choice((torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool))
        ),
        lambda: torch.tensor(rng.choice((0, -1, 3, 2**40, -(2**63)))),
        lambda: torch.randint(-5, 300, (rng.randrange(5),)),
        lambda: torch.zeros(rng.randrange(4), 1, 8, 8, dtype=torch.uint8),
        lambda: torch.zeros(rng.randrange(4), 2, 32, dtype=torch.uint8),
        lambda: torch.zeros(0, 2**30),
    )
    chosen = {name: rng.choice(makes)() for name in rng.sample(LOOKED_FOR, rng.randrange(5))}
    return {"model": method.net.initial(), **chosen} if rng.random() < 0.7 else chosen


def hostile_requests(rng: random.Random, method: Method) -> Iterator[Any]:
    """Flower's contents: headers and bodies of any make, most of them nearly right."""
    tasks = [*method.jobs()]
    odd: list[Any] = [*NUMBERS, *WORDS, {}, [[]], "../..", "r1s1", "r9s9", 10**400]
    round = 0
    while True:
        round += rng.random() < 0.3
        body = Message(parts(rng, method)).to_bytes() if rng.random() < 0.8 else rng.choice(WAYS)(rng)
        start = rng.choice(("",) * 9 + (f"r{round}s1", "r1s1", "r99s1"))
        asked = Request(
            f"run{rng.randrange(3)}", "words", "oak", rng.choice(tasks), round, rng.randrange(4), start, "", True, body
        )
        fields = {key: value for key, value in asdict(asked).items() if key != "body"}
        if rng.random() < 0.5:
            fields[rng.choice([*fields])] = rng.choice(odd)
        if rng.random() < 0.05:
            fields[rng.choice(("body", "more"))] = "?"
        header = json.dumps(fields).encode("utf-8", "replace")
        yield wire.pack(header if rng.random() < 0.95 else rng.choice(WAYS)(rng), body)


@pytest.mark.parametrize("many", [150, pytest.param(2_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", METHODS)
def test_any_request_gets_an_answer_and_leaves_the_site_as_it_was(name: str, many: int, tmp_path: Path) -> None:
    site, method = a_site(name, tmp_path / "site")
    became, coming = Counter[str](), hostile_requests(random.Random(name), method)
    for _ in range(many):
        content, began = next(coming), time.process_time()
        try:
            given = answer(site, method, wire.read_request(content, site="oak", largest=10**6))
        except UserError:
            became["unread"] += 1
            continue
        sent = wire.read_answer(wire.pack_answer(given), client="oak", largest=10**6)
        assert sent.outcome == given.outcome
        assert sent.why.isprintable()
        became[given.outcome] += 1
        assert time.process_time() - began < SOON
    assert {path.name for path in tmp_path.iterdir()} == {"site"}
    assert min(became[outcome] for outcome in ("unread", "refused", "failed", "done")) > 0, became
    # After all of it, an honest server gets what a site gives that never heard the other.
    brief = Message(model=method.net.initial()).to_bytes()
    asked = Request("honest", "words", "oak", "Method.score", 1, 1, "", "", True, brief)
    untouched, again = a_site(name, tmp_path / "untouched")
    assert answer(site, method, asked).read() == answer(untouched, again, asked).read()
