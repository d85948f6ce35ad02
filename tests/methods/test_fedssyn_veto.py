"""Fedssyn's veto: near-copies of records are dropped or counted, or nothing is sent at all."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from painted import SITES, Painted, add, painted
from stage import bound, image_net, pictures
from test_fedssyn_runs import LABELS, images, run, sites
from torch import Tensor

from understudy.federation.client import Client, Memory
from understudy.federation.failures import may_travel, sentence
from understudy.federation.message import Message
from understudy.methods.fedssyn import veto
from understudy.methods.fedssyn.veto import Overfit
from understudy.runs.watching import RunStopped
from understudy.synthesis.duplicates import near_copies


@pytest.fixture(autouse=True)
def _painted() -> Iterator[None]:
    with painted():
        yield


def test_copies_of_records_are_dropped_and_counted(tmp_path: Path) -> None:
    copying = {"name": "painted", "copies": 3}
    result = run(tmp_path / "run", sites({"ash": LABELS["ash"]}), generator=copying, veto="drop", images=10)
    assert result.metrics[0]["remarks"] == ["ash: 3 of 10 images were near-copies of its records, dropped."]
    assert len(images(tmp_path / "run")["ash"]) == 7


@pytest.mark.parametrize("space", ["pixels", "features"])
def test_or_sent_and_counted(tmp_path: Path, space: str) -> None:
    copying, ash = {"name": "painted", "copies": 3}, sites({"ash": LABELS["ash"]})
    result = run(tmp_path / "run", ash, generator=copying, veto="flag", veto_space=space, images=10)
    (said,) = result.metrics[0]["remarks"]
    found = int(said.removeprefix("ash: ").split()[0])
    assert said == f"ash: {found} of 10 images were near-copies of its records, sent anyway."
    assert found >= 3  # exact copies are near in every space
    assert len(images(tmp_path / "run")["ash"]) == 10


def test_a_veto_that_found_nothing_says_that_it_looked(tmp_path: Path) -> None:
    result = run(tmp_path / "run", sites({"ash": LABELS["ash"]}), veto="drop", images=10)
    assert result.metrics[0]["remarks"] == ["None of 10 images was a near-copy of a record."]


def test_a_generator_that_copies_too_much_sends_nothing(tmp_path: Path) -> None:
    # 3 of 10 are copies: more than a tenth, not more than three tenths.
    copying, ash = {"name": "painted", "copies": 3}, sites({"ash": LABELS["ash"]})
    with pytest.raises(RunStopped, match=r"ash: The generator copies records: 3 of 10 images are near-copies"):
        run(tmp_path / "stopped", ash, generator=copying, veto="stop", images=10)
    assert not (tmp_path / "stopped/synthetic").exists()
    result = run(tmp_path / "run", ash, generator=copying, veto="stop", veto_share=0.3, images=10)
    assert result.metrics[0]["remarks"] == ["ash: 3 of 10 images were near-copies of its records, dropped."]
    assert len(images(tmp_path / "run")["ash"]) == 7


def test_of_a_generator_that_copies_the_server_learns_a_code_alone() -> None:
    assert may_travel(Overfit.code) == "overfit"
    assert sentence("overfit").startswith("its generator made too many near-copies of records to send anything")


def test_nearness_is_calibrated_on_what_the_generator_did_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of eight records it sees six; the other two and three held-out ones say how near is near.
    seen: list[tuple[int, int]] = []

    def watched(made: Tensor, own: Tensor, held_out: Tensor, **more: Any) -> Tensor:
        assert {tuple(x.flatten().tolist()) for x in own} == {tuple(x.flatten().tolist()) for x in Painted.seen[0].x}
        seen.append((len(own), len(held_out)))
        return near_copies(made, own, held_out, **more)

    monkeypatch.setattr(veto, "near_copies", watched)
    chosen = add(records=0.75, veto="drop")
    bound(chosen, image_net())
    held_out = pictures([0, 1, 2], name="held out")
    chosen.generate(Client("b", 0, own=SITES["b"], held_out=held_out, memory=Memory({}), seed=0), Message())
    assert seen == [(6, 5)]


def test_without_a_veto_nobody_looks(tmp_path: Path) -> None:
    copying, ash = {"name": "painted", "copies": 3}, sites({"ash": LABELS["ash"]})
    result = run(tmp_path / "run", ash, generator=copying, images=10)
    assert "remarks" not in result.metrics[0]
    assert len(images(tmp_path / "run")["ash"]) == 10
