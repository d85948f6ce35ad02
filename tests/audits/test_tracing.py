"""Tracing: records behind a sum are found where noise is small, and not where it is large."""

import math

import pytest
import torch
from known_members import CLASSES, World, records, world
from torch import Tensor
from torch.nn import functional

from understudy.audits.attacks import ATTACKS
from understudy.audits.measures import Reached
from understudy.audits.sighting import Seen, Sighting, SumsSent
from understudy.data.examples import Examples
from understudy.randomness import generator


@pytest.fixture(scope="module")
def here() -> World:
    return world()


def rows(some: Examples) -> Tensor:
    """A record in the place of its class."""
    x = some.x.flatten(1).double() / 255 if some.x.dtype == torch.uint8 else some.x.flatten(1).double()
    return (functional.one_hot(some.y, CLASSES).double()[:, :, None] * x[:, None, :]).flatten(1)


def sent(members: Examples, noise: float, word: str = "noise") -> SumsSent:
    total = rows(members).sum(0)
    return SumsSent(total + noise * torch.randn(len(total), generator=generator(word)).double(), rows, noise, "key")


def traced(here: World, members: Examples, *noises: float) -> Reached:
    seen = [Sighting(at, None, None, sums=sent(members, noise, f"round {at}")) for at, noise in enumerate(noises, 1)]
    return World(members, here.others, here.view).reached("tracing", *seen)


def test_records_behind_a_sum_are_found_and_noise_hides_them(here: World) -> None:
    few = here.members.take(range(30))
    clear, blurred, hidden = (traced(here, few, noise).auc for noise in (0.0, 1.0, 100.0))
    assert clear.low > 0.75
    assert clear.value > blurred.value > 0.55
    assert hidden.low < 0.5 < hidden.high


def test_a_second_sum_adds_its_own_ratio(here: World) -> None:
    few, other = here.members.take(range(60)), sent(here.members.take(range(60)), 5.0, "again")
    attack, one = ATTACKS["tracing"].attack, sent(few, 5.0)

    def score(*sums: SumsSent) -> Tensor:
        found = attack(Seen("a", tuple(Sighting(1, None, None, sums=each) for each in sums)), few, here.view)
        assert found is not None
        return found

    first, second, both = score(one), score(other), score(one, other)
    # Up to calibration, which is linear per class, the ratios of two sums add up.
    together = torch.stack([first, second], 1)
    for c in range(CLASSES):
        design = torch.cat([together, torch.ones(len(few), 1)], 1).double()[few.y == c]
        fitted = design @ torch.linalg.lstsq(design, both[few.y == c][:, None]).solution
        torch.testing.assert_close(fitted[:, 0], both[few.y == c], atol=1e-6, rtol=1e-6)


def test_sums_over_other_records_say_nothing(here: World) -> None:
    foreign = Sighting(1, None, None, sums=sent(records(40, "foreign"), 0.0))
    found = here.reached("tracing", foreign)
    assert found.auc.low < 0.5 < found.auc.high


def test_on_a_line_the_score_is_the_likelihood_ratio() -> None:
    # One class, one number per record, N(0, 1) in the reference, a sum of n = 50 with noise of 5. The counts cannot be
    # told from a mean of 0, so n is taken as at least 1: the score falls as x² and rises with x · s.
    from understudy.audits.attacks.tracing import Usual, _Trace

    usual = Usual(torch.tensor([[0.0]]).double(), torch.tensor([[1.0]]).double(), torch.tensor([1.0]).double(), 0.0)

    def own_rows(some: Examples) -> Tensor:
        return some.x.double()

    sums = SumsSent(torch.tensor([7.0]).double(), own_rows, 5.0, "line")

    class Known:
        def once(self, key: object, make: object) -> Usual:
            return usual

    trace = _Trace(sums, Known())  # type: ignore[arg-type]
    x = torch.tensor([[2.0], [-1.0]])
    found = trace.scores(Examples(x, torch.zeros(2, dtype=torch.int64)), torch.zeros(2, dtype=torch.int64))
    variance = 1 + 25  # of one record and of the noise
    wanted = [2 * 7 / variance - 4 / (2 * variance), -7 / variance - 1 / (2 * variance)]
    assert found.tolist() == pytest.approx(wanted, rel=1e-6)
    assert math.isfinite(found.sum())


def test_without_sums_there_is_nothing_to_trace(here: World) -> None:
    assert ATTACKS["tracing"].attack(Seen("a", (Sighting(1, None, here.members),)), here.members, here.view) is None
