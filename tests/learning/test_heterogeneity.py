"""ζ², σ², δ², L and Lemma 1: by hand on a quadratic, as properties, and of a network against plain autograd."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.base_settings import NoSettings
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.learning.heterogeneity import (
    Slopes,
    distance2,
    heterogeneity,
    largest_curvature,
    shuffled_bounds,
    slopes,
    smoothness,
)
from understudy.learning.loop import full_gradient
from understudy.models.mlp import MlpSettings, mlp, softmax
from understudy.models.network import Network


def at_zero(*targets: float) -> Slopes:
    """F(w; a) = (w − a)²/2 at w = 0: a record's gradient is −a."""
    return Slopes.of(-torch.tensor(targets).view(-1, 1))


def test_two_clients_on_a_parabola_by_hand() -> None:
    # Client 1 has a = 1, 3: ∇f_1 = −2, noise ((−1+2)² + (−3+2)²)/2 = 1. Client 2 has a = −4, −8: ∇f_2 = 6, noise 4.
    # ∇f = 2; ζ² = ((−2−2)² + (6−2)²)/2 = 16; σ² = (1 + 4)/2 = 2.5.
    found = heterogeneity([at_zero(1, 3), at_zero(-4, -8)])
    assert (found.zeta2, found.sigma2, float(found.gradient)) == (16, 2.5, 2)


def test_lemma_1_by_hand_is_an_equality_where_everybody_mixes_with_the_whole_pool() -> None:
    # Pool ã = 0, 2: ∇f̃ = −1, σ̃² = 1, δ² = (2 + 1)² = 9. With two own and two of the pool, p = 1/2:
    # client 1: 1, 3, 0, 2, mean gradient −1.5, noise (0.25 + 2.25 + 2.25 + 0.25)/4 = 1.25
    # client 2: −4, −8, 0, 2, mean gradient 2.5, noise (2.25 + 30.25 + 6.25 + 20.25)/4 = 14.75
    # ζ_p² = 2² = 4 = (1 − ½)²·16; σ_p² = 8 = ½·2.5 + ½·1 + ¼·(16 + 9).
    pool, own = at_zero(0, 2), [at_zero(1, 3), at_zero(-4, -8)]
    before, after = heterogeneity(own), heterogeneity([one.and_also(pool) for one in own])
    assert distance2(before.gradient, pool.mean) == 9
    assert (after.zeta2, after.sigma2) == (4, 8)
    assert shuffled_bounds(before, pool, 0.5) == (4, 8)


def test_parts_of_the_pool_that_differ_can_break_the_bound_on_zeta() -> None:
    # The pool 0, 2 is dealt one each: clients have 1, 3, 0 and −4, −8, 2, so mean gradients −4/3 and 10/3, ∇f = 1,
    # ζ_p² = (7/3)² = 49/9; the lemma, which speaks of the pool's distribution, gives (1 − ⅓)²·16 = 64/9. Dealt the
    # other way round: 1, 3, 2 and −4, −8, 0, means −2 and 4, ζ_p² = 9 > 64/9.
    own, pool = [at_zero(1, 3), at_zero(-4, -8)], at_zero(0, 2)
    one_way = heterogeneity([own[0].and_also(at_zero(0)), own[1].and_also(at_zero(2))])
    other_way = heterogeneity([own[0].and_also(at_zero(2)), own[1].and_also(at_zero(0))])
    bound, _ = shuffled_bounds(heterogeneity(own), pool, 1 / 3)
    assert one_way.zeta2 == pytest.approx(49 / 9)
    assert bound == pytest.approx(64 / 9)
    assert other_way.zeta2 == pytest.approx(9)


rows = st.integers(1, 6).flatmap(
    lambda n: st.lists(st.lists(st.floats(-5, 5), min_size=2, max_size=2), min_size=n, max_size=n)
)


@settings(max_examples=40, deadline=None)
@given(one=rows, other=rows)
def test_a_union_is_what_its_records_say(one: list[list[float]], other: list[list[float]]) -> None:
    a, b = torch.tensor(one, dtype=torch.float64), torch.tensor(other, dtype=torch.float64)
    joined, whole = Slopes.of(a).and_also(Slopes.of(b)), Slopes.of(torch.cat([a, b]))
    assert joined.records == whole.records
    assert torch.allclose(joined.mean, whole.mean)
    assert joined.noise == pytest.approx(whole.noise, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), clients=st.integers(1, 5), own=st.integers(1, 4), pool=st.integers(1, 6))
def test_lemma_1_holds_for_every_split_when_all_mix_alike(seed: int, clients: int, own: int, pool: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    parts = [Slopes.of(torch.randn(own, 3, generator=rng)) for _ in range(clients)]
    common = Slopes.of(torch.randn(pool, 3, generator=rng) + 1)
    after = heterogeneity([part.and_also(common) for part in parts])
    zeta2, sigma2 = shuffled_bounds(heterogeneity(parts), common, pool / (own + pool))
    assert after.zeta2 <= zeta2 + 1e-9
    assert after.sigma2 <= sigma2 + 1e-9


def test_clients_without_records_do_not_count() -> None:
    nobody = Slopes(0, torch.zeros(1, dtype=torch.float64), 0.0)
    assert heterogeneity([at_zero(1, 3), nobody, at_zero(-4, -8)]).zeta2 == 16
    with pytest.raises(UserError, match="nothing to measure"):
        heterogeneity([nobody])


def test_the_smoothness_of_a_quadratic_is_its_largest_eigenvalue() -> None:
    # A = [[2, 1], [1, 2]] has eigenvalues 1 and 3; diag(1, −5) bends most downwards, by 5.
    a, b = torch.tensor([[2.0, 1.0], [1.0, 2.0]]), torch.diag(torch.tensor([1.0, -5.0]))
    start = torch.tensor([1.0, 0.3])
    assert largest_curvature(lambda v: a @ v, start, tolerance=1e-7) == pytest.approx(3, rel=1e-5)
    assert largest_curvature(lambda v: b @ v, start, tolerance=1e-7) == pytest.approx(5, rel=1e-5)
    assert largest_curvature(lambda v: 0 * v, start) == 0


# ---- of a network

PROBLEM = Problem((1, 2, 2), 3)


def small() -> Network:
    return Network(lambda: mlp(PROBLEM, MlpSettings(hidden=(4,))), PROBLEM, seed=3)


def some(n: int, seed: int) -> Examples:
    rng = torch.Generator().manual_seed(seed)
    return Examples(
        torch.randint(256, (n, 1, 2, 2), generator=rng, dtype=torch.uint8), torch.randint(3, (n,), generator=rng)
    )


def test_slopes_of_a_network_are_those_of_its_records_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.learning.heterogeneity.FLOATS_AT_ONCE", 100)  # three records a pass
    net, records = small(), some(7, 0)
    w = net.initial()
    found = slopes(net, w, records)
    each = torch.stack([full_gradient(net, w, records.take([i]), 10) for i in range(7)]).double()
    assert torch.allclose(found.mean, each.mean(0), atol=1e-6)
    assert found.noise == pytest.approx(float((each - each.mean(0)).square().sum(1).mean()), rel=1e-4)
    assert slopes(net, w, records.none()).records == 0


def test_smoothness_of_softmax_regression_is_that_of_its_hessian_written_out() -> None:
    # z = Wx + b: the Hessian of one record's cross-entropy is (diag(q) − qqᵀ) ⊗ (x,1)(x,1)ᵀ, q = softmax(z).
    net, parts = Network(lambda: softmax(PROBLEM, NoSettings()), PROBLEM, seed=3), [some(5, 1), some(9, 2)]
    w = net.initial()
    net.load(w)
    hessian = np.zeros((15, 15))
    for part in parts:
        q = torch.softmax(net.logits(part.x), 1).double().numpy()
        x = np.concatenate([PROBLEM.scale(part.x).flatten(1).double().numpy(), np.ones((len(part), 1))], 1)
        for one, row in zip(q, x, strict=True):
            bend = np.kron(np.diag(one) - np.outer(one, one), np.outer(row, row))
            hessian += bend / (2 * len(part))
    wanted = float(np.linalg.eigvalsh(hessian)[-1])
    assert smoothness(net, w, parts, torch.Generator().manual_seed(0), steps=300) == pytest.approx(wanted, rel=1e-2)
