"""Shadow clients: the method's own tasks, on other records, with the client's own briefs."""

from pathlib import Path
from typing import Any

import pytest
import torch

import understudy.audits.likelihood_ratios
from understudy.audits.attack_run import audit_run
from understudy.audits.members import Candidates, judged
from understudy.audits.shadows import Shadow, drawn_inside, shadow
from understudy.audits.what_left import what_left
from understudy.config.build import build_data, build_method
from understudy.config.resolve import resolve
from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.randomness import generator
from understudy.runs.folder import RunFolder
from understudy.runs.play import play
from understudy.runs.watching import Observer

TINY: dict[str, Any] = {
    "data": {"name": "digits", "limit": 200, "clients": 2, "split": {"kind": "iid"}},
    "model": "softmax",
    "method": {"name": "real", "rounds": 2, "ipc": 3, "min_class_records": 1, "server": {"epochs": 1}},
    "engine": "inline",
    "transcript": True,
}


def candidates(members: list[int], others: list[int]) -> Candidates:
    def some(counts: list[int]) -> Examples:
        y = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
        return Examples(torch.zeros(len(y), 1, 2, 2, dtype=torch.uint8), y)

    return Candidates(some(members), some(others))


def test_a_shadow_holds_as_many_of_each_class_as_the_client() -> None:
    pool = candidates([30, 4, 0], [20, 8, 9])
    drawn = torch.stack([drawn_inside(pool, 3, generator(0, number)) for number in range(40)])
    y = pool.all.y
    for row in drawn:
        assert [int(row[y == c].sum()) for c in range(3)] == [30, 4, 0]
    # A member is in as often as any other candidate of its class: 30 of 50, and 4 of 12.
    shares = drawn.double().mean(0)
    members, others = shares[: len(pool.members)], shares[len(pool.members) :]
    for c, expected in ((0, 0.6), (1, 1 / 3)):
        for side, labels in ((members, pool.members.y), (others, pool.non_members.y)):
            assert float(side[labels == c].mean()) == pytest.approx(expected, abs=0.08)


@pytest.mark.parametrize("name", ["real", "fedavg"])
def test_a_shadow_is_seen_as_its_client_was(tmp_path: Path, name: str) -> None:
    method_words = TINY["method"] if name == "real" else {"name": "fedavg", "rounds": 2}
    config = resolve({**TINY, "method": method_words})
    play(config, tmp_path)
    data = build_data(config)
    method, pool = build_method(config, data), judged(data, 0)
    run = RunFolder(tmp_path)
    left = what_left(run, method, pool.clients)
    assert left.whole
    client = "client-0"
    made = shadow(method, pool.clients[client], list(run.transcript.of(client)), client, 0, 3)
    real = left.clients[client].sightings
    assert [one.round for one in made.seen.sightings] == [one.round for one in real] == [1, 2]
    for ours, theirs in zip(made.seen.sightings, real, strict=True):
        assert ours.broadcast is not None
        assert theirs.broadcast is not None
        assert torch.equal(ours.broadcast, theirs.broadcast)
        if name == "fedavg":
            assert ours.model is not None
            assert theirs.model is not None
            assert not torch.equal(ours.model, theirs.model)
        else:
            assert ours.examples is not None
            assert theirs.examples is not None
            assert torch.equal(ours.examples.y, theirs.examples.y)
            held = pool.clients[client].all.x[made.inside].flatten(1).tolist()
            assert all(image in held for image in ours.examples.x.flatten(1).tolist())  # REAL sends what it holds


def test_a_client_whose_shadow_cannot_work_is_left_out_and_the_audit_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(resolve(TINY), tmp_path)

    def refusing(method: Any, pool: Any, exchanges: Any, client: str, seed: int, number: int) -> Shadow:
        if client == "client-0" and number == 2:
            raise UserError("A shadow of client-0 could not repeat distil.")
        return shadow(method, pool, exchanges, client, seed, number)

    class Listening(Observer):
        def says(self, text: str) -> None:
            said.append(text)

    said: list[str] = []
    monkeypatch.setattr(understudy.audits.likelihood_ratios, "shadow", refusing)
    audit = audit_run(tmp_path, thorough=True, only=["distance"], observer=Listening())
    assert {row.name: row.clients for row in audit.rows} == {"distance": 2, "distance, with shadows": 1}
    assert "client-0 is left out of the likelihood ratios. A shadow of client-0 could not repeat distil." in said
