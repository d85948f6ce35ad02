"""One reply that spoils what a server learns is left out; others never are."""

import math

import pytest
import torch

from understudy.federation.message import Message
from understudy.federation.server import Reply
from understudy.methods.shared.outliers import learnt_from


def replies(*sizes: float) -> list[Reply]:
    return [
        Reply(f"client-{at}", Message(x=torch.tensor([size, 0.0])), lambda why: None) for at, size in enumerate(sizes)
    ]


def total(some: list[Reply]) -> Message:
    """Beyond a million a training would diverge."""
    found = sum(float(reply["x"].sum()) for reply in some)
    return Message(total=torch.tensor(found if abs(found) < 1e6 else math.nan))


@pytest.mark.parametrize(
    ("sizes", "refused", "learnt"),
    [
        ((1.0, 2.0, 3.0), [], 6.0),
        ((1.0, 1e9, 3.0), [1], 4.0),
        ((1.0, -1e9, 3.0), [1], 4.0),
        ((2e8, 1.0, 1e12, 3.0, 2.0), [0, 2], 6.0),  # the largest first, and then the next
        ((900.0, 1.0, 2.0), [], 903.0),  # far from the others, and no harm
        ((4e5, 5e5, 6e5), [], math.nan),  # nobody stands out: they all diverge
        ((1e9,), [], math.nan),
    ],
)
def test_only_what_spoils_it_and_stands_out_is_refused(
    sizes: tuple[float, ...], refused: list[int], learnt: float
) -> None:
    given = replies(*sizes)
    found = learnt_from(given, lambda some: total(list(some)))
    assert found["total"].item() == pytest.approx(learnt, nan_ok=True)
    assert [at for at, reply in enumerate(given) if reply.refusal is not None] == refused
