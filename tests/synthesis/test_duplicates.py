"""Near-copies of training records among made images: distances by hand."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from understudy.errors import UserError
from understudy.randomness import generator
from understudy.synthesis.duplicates import Nearness, limit, near_copies
from understudy.synthesis.neighbours import nearest


def two_pixels(*rows: tuple[int, int]) -> Tensor:
    """Images (n, 1, 1, 2)."""
    return torch.tensor(rows, dtype=torch.uint8).view(-1, 1, 1, 2)


# Their nearest others: (0, 0) and (30, 40) lie 50 apart; (200, 0) lies √(170² + 40²) = 174.6 from (30, 40).
REAL = two_pixels((0, 0), (30, 40), (200, 0))
NOBODY = REAL[:0]
# Twenty-one records that were not seen: at (0, 20), (0, 21) … (0, 40) their nearest record is (0, 0) up to 29, which is
# √(30² + 11²) = 32 from (30, 40), and (30, 40) from 32 on. Nearest of all is (0, 20), a share of 20/50 = 0.4.
UNSEEN = two_pixels(*((0, 20 + i) for i in range(21)))


def test_an_image_is_a_near_copy_if_it_is_nearer_than_the_records_that_were_not_seen() -> None:
    # Shares of 0.40, 0.42, 0.44 … with 21 of them: the 1 % quantile is 0.4 + 0.2 · 0.02 = 0.404. From (0, 0): 20.2;
    # from (200, 0), where records lie 174.6 apart: 70.5.
    assert limit(REAL, UNSEEN) == pytest.approx(0.404)
    made = two_pixels((0, 20), (0, 21), (200, 70), (200, 71), (100, 100))
    assert near_copies(made, REAL, UNSEEN).tolist() == [True, False, True, False, False]


def test_plain_distances_are_alike_for_all_records() -> None:
    # 20, 21, 22 …: the 1 % quantile is 20.2, wherever the record lies.
    plain = Nearness(relative=False)
    assert limit(REAL, UNSEEN, plain) == pytest.approx(20.2)
    made = two_pixels((0, 20), (0, 21), (200, 20), (200, 70))
    assert near_copies(made, REAL, UNSEEN, nearness=plain).tolist() == [True, False, True, False]


def test_the_share_of_unseen_records_that_may_come_as_near_can_be_chosen() -> None:
    # Half of 21 shares lie below the eleventh: (0, 30) is 30 from (0, 0) and √(30² + 10²) = 31.6 from (30, 40): 0.6.
    half = Nearness(share=0.5)
    assert limit(REAL, UNSEEN, half) == pytest.approx(0.6)
    assert near_copies(two_pixels((0, 29), (0, 0)), REAL, UNSEEN, nearness=half).tolist() == [True, True]
    assert near_copies(two_pixels((0, 19), (0, 20)), REAL, UNSEEN, nearness=Nearness(share=0)).tolist() == [True, False]


def test_with_too_few_unseen_records_each_training_record_is_left_out_once() -> None:
    # Plainly: 50, 50 and 174.6, and of these the 1 % quantile is 50.
    assert limit(REAL, UNSEEN[:19], Nearness(relative=False)) == pytest.approx(50)
    # (0, 0) left out: 50 from (30, 40), whose other neighbour is 174.6 away: 0.286. (30, 40): 50 from (0, 0), whose
    # other neighbour is 200 away: 0.25. (200, 0): 174.6 from (30, 40), 50 from its own: 3.49. The 1 % quantile lies a
    # fiftieth of the way from the first to the second.
    wanted = 0.25 + 0.02 * (50 / (170**2 + 40**2) ** 0.5 - 0.25)
    assert limit(REAL, UNSEEN[:19]) == limit(REAL, NOBODY) == pytest.approx(wanted)
    assert near_copies(two_pixels((0, 12), (0, 13)), REAL, NOBODY).tolist() == [True, False]


def test_records_that_are_there_twice_hide_no_copy() -> None:
    # The nearest record that differs counts: 50 away, and not the twin at distance 0.
    twins = torch.cat([REAL, REAL[:1]])
    assert near_copies(two_pixels((0, 20), (0, 21), (0, 0)), twins, UNSEEN).tolist() == [True, False, True]
    # Where twins are usual, being one proves nothing: two of four records left out still lie on a record.
    assert limit(twins, NOBODY) == 0
    assert near_copies(two_pixels((0, 1), (0, 0)), twins, NOBODY).tolist() == [False, True]


def test_of_few_records_only_exact_copies_are_found() -> None:
    made = two_pixels((7, 7), (7, 8))
    for own in (two_pixels((7, 7)), two_pixels((7, 7), (7, 7)), two_pixels((7, 7), (90, 7))):
        assert near_copies(made, own, NOBODY).tolist() == [True, False]


def test_without_records_or_images_there_are_none() -> None:
    assert near_copies(REAL, NOBODY, UNSEEN).tolist() == [False] * 3
    assert near_copies(NOBODY, REAL, UNSEEN).shape == (0,)


def test_features_find_what_pixels_do_not() -> None:
    # The sum of the pixels: records 0, 70 and 200. Unseen ones: 20, 21 … 35 from 0, and from 36 on nearer to 70; those
    # two lie 70 apart, so the quantile is (20 + 0.2)/70 = 0.289. (70, 0) has the sum of (30, 40), (95, 0) 25 more.
    made = two_pixels((70, 0), (95, 0))
    assert near_copies(made, REAL, UNSEEN).tolist() == [False, False]
    found = near_copies(made, REAL, UNSEEN, features=lambda x: x.double().sum((1, 2, 3)).view(-1, 1))
    assert found.tolist() == [True, False]


def test_features_that_tell_nothing_apart_accuse_nobody() -> None:
    found = near_copies(two_pixels((0, 21), (0, 0)), REAL, UNSEEN, features=lambda x: torch.ones(len(x), 4))
    assert found.tolist() == [False, True]


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 9), st.integers(3, 12), st.booleans(), st.booleans(), st.integers(0, 10_000))
def test_it_is_what_a_slow_search_finds_however_much_is_looked_at_at_once(
    at_once: int, n: int, relative: bool, calibrated: bool, seed: int
) -> None:
    def some(many: int, name: str) -> Tensor:
        return torch.randint(0, 256, (many, 3, 2, 2), dtype=torch.uint8, generator=generator(seed, name))

    own, held_out = some(n, "own"), some(22 if calibrated else 0, "held out")
    near = (own[:1].int() + 3).clamp(max=255).to(torch.uint8)
    made = torch.cat([some(5, "made"), own, near])
    found = near_copies(made, own, held_out, nearness=Nearness(relative=relative, at_once=at_once))
    assert torch.equal(found, _slowly(made, own, held_out, relative))
    assert bool(found[5 : 5 + n].all())


def _slowly(made: Tensor, own: Tensor, held_out: Tensor, relative: bool) -> Tensor:
    def apart(a: Tensor, b: Tensor) -> float:
        return float((a.double() - b.double()).square().sum().sqrt())

    def share(image: Tensor, records: list[Tensor]) -> float:
        closest = min(records, key=lambda record: apart(image, record))
        others = [apart(closest, record) for record in records if apart(closest, record) > 0]
        return apart(image, closest) / (min(others) if relative else 1)

    records = list(own)
    if len(held_out):
        unseen = [share(image, records) for image in held_out]
    else:
        unseen = [share(record, records[:i] + records[i + 1 :]) for i, record in enumerate(records)]
    cut = float(torch.tensor(unseen, dtype=torch.float64).quantile(0.01))
    return torch.tensor([share(image, records) < cut or share(image, records) == 0 for image in made])


def test_the_nearest_record_is_told_with_its_distance() -> None:
    distance, place = nearest(two_pixels((0, 3), (200, 4)), REAL)
    assert (distance.tolist(), place.tolist()) == ([3, 4], [0, 2])


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(UserError, match=r"shape \(1, 1, 2\) but the records \(2, 1, 1\)"):
        near_copies(REAL, REAL.view(-1, 2, 1, 1), REAL)
    with pytest.raises(UserError, match=r"shape \(1, 1, 2\) but the held-out records \(2, 1, 1\)"):
        near_copies(REAL, REAL, REAL.view(-1, 2, 1, 1))
    with pytest.raises(UserError, match="share must lie between 0 and 1, not 2"):
        Nearness(share=2)
