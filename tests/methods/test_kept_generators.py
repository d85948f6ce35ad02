"""Generators that clients kept: found again by client and epoch, and only for the records that they learnt from."""

from pathlib import Path

import pytest
import torch
from stage import pictures
from torch import Tensor

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.tensor_store import TensorStore
from understudy.methods.fedssyn.kept_generators import keep, kept_by
from understudy.synthesis.generator import Stage

OWN = pictures([0, 1, 2])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder in which ash kept a generator after 5 and after 10 epochs."""
    memory: dict[str, Tensor] = {}
    for epoch in (5, 10):
        keep(memory, Stage(epoch, {"w": torch.tensor([float(epoch)])}), OWN)
    (tmp_path / "run-id").write_text("named")
    TensorStore(tmp_path / "clients" / "ash" / "named" / "memory").put("r0s1", memory)
    return tmp_path


@pytest.mark.parametrize(("epoch", "found"), [(None, 10.0), (10, 10.0), (5, 5.0)])
def test_the_last_stage_unless_another_one_is_named(run: Path, epoch: int | None, found: float) -> None:
    assert kept_by("ash", OWN, run, epoch)["w"].tolist() == [found]


def test_a_stage_that_was_not_kept_is_named_with_those_that_were(run: Path) -> None:
    with pytest.raises(UserError, match="no generator after 7 epochs; choose from 5, 10"):
        kept_by("ash", OWN, run, 7)


@pytest.mark.parametrize(
    "others", [pictures([0, 1, 2], name="others"), Examples(OWN.x, OWN.y.flip(0)), OWN.take([0, 1])]
)
def test_other_pixels_other_labels_or_fewer_records_are_other_records(run: Path, others: Examples) -> None:
    with pytest.raises(UserError, match="ash had other records"):
        kept_by("ash", others, run, None)
