"""ε for a person with several records: the rules by hand, and what a run prints."""

import math
from pathlib import Path

import numpy as np
import pytest

import understudy as us
from in_a_fork import understudy
from understudy.errors import UserError
from understudy.privacy.accounting import Spending, epsilon
from understudy.privacy.groups import group_epsilon

SAMPLED = [Spending(0.05, 1.5, 100)]
WHOLE = [Spending(1.0, 6.0, 3)]


def test_one_record_is_the_record_itself() -> None:
    assert group_epsilon(SAMPLED, 1, 1e-5) == epsilon(SAMPLED, 1e-5)


def test_without_sampling_k_records_are_one_at_a_kth_of_the_noise() -> None:
    assert group_epsilon(WHOLE, 3, 1e-5) == epsilon([Spending(1.0, 2.0, 3)], 1e-5)


@pytest.mark.parametrize("records", [2, 3, 7])
def test_with_sampling_the_chain_of_neighbours_holds_at_the_promised_delta(records: int) -> None:
    found = group_epsilon(SAMPLED, records, 1e-5)
    each = found / records
    # The δ at which one record has that ε, put through the chain, is the δ promised, and not much less.
    inner = _delta_at(each)
    whole = inner * sum(math.exp(at * each) for at in range(records))
    assert whole == pytest.approx(1e-5, rel=1e-3)
    assert found > records * epsilon(SAMPLED, 1e-5)


def _delta_at(wanted: float) -> float:
    low, high = -60.0, -1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon(SAMPLED, 10**middle) > wanted else (low, middle)
    return 10**high


@pytest.mark.parametrize(("rate", "noise", "records"), [(0.1, 0.8, 2), (0.3, 2.0, 3), (0.01, 1.0, 5)])
def test_the_bound_holds_for_records_that_are_drawn_one_by_one(rate: float, noise: float, records: int) -> None:
    """A release of a person's records, each drawn by itself, against noise alone: δ at that ε, integrated."""
    found = group_epsilon([Spending(rate, noise, 1)], records, 1e-3)
    at = np.linspace(-40, 40, 400_001)
    drawn = [math.comb(records, j) * rate**j * (1 - rate) ** (records - j) for j in range(records + 1)]

    def bell(middle: float) -> np.ndarray:
        return np.exp(-((at - middle) ** 2) / (2 * noise**2)) / (noise * math.sqrt(2 * math.pi))

    with_them, without = sum(share * bell(j) for j, share in enumerate(drawn)), bell(0)
    for one, other in ((with_them, without), (without, with_them)):
        delta = np.maximum(one - math.exp(found) * other, 0).sum() * (at[1] - at[0])
        assert delta <= 1e-3


def test_where_no_bound_is_known_it_is_infinite() -> None:
    assert group_epsilon([Spending(0.5, 0.3, 1000)], 50, 1e-5) == math.inf
    with pytest.raises(UserError, match="at least one record"):
        group_epsilon(SAMPLED, 0, 1e-5)


def test_a_private_run_says_what_a_person_is_promised(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sites = {name: (rng.normal(size=(12, 2)), np.arange(12) % 2) for name in ("a", "b")}
    person = {"a": np.arange(12) // 3, "b": np.arange(12)}
    data = us.Federation.from_arrays(sites, test=(rng.normal(size=(4, 2)), [0, 1, 0, 1]), person=person)
    result = us.run(
        data=data,
        model="mlp",
        method={"name": "dp-fedavg", "noise": 4.0, "local": {"steps": 2, "batch": 4, "lr": 0.1}},
        rounds=2,
        privacy={"delta": 1e-3, "records": 12},
        out=tmp_path / "run",
    )
    spent = [Spending(4 / 12, 4.0, 4)]
    assert result.summary["epsilon"] == pytest.approx(epsilon(spent, 1e-3))
    assert result.summary["records_per_person"] == 3
    assert result.summary["epsilon_per_person"] == pytest.approx(group_epsilon(spent, 3, 1e-3))
    said = " ".join(understudy("privacy", "ledger", "run", cwd=tmp_path).stdout.split())
    assert f"up to 3 records at one client: ε = {group_epsilon(spent, 3, 1e-3):.3f} at the same δ" in said


def test_the_command_counts_records_of_a_person(tmp_path: Path) -> None:
    words = ("privacy", "epsilon", "--rate", "1", "--noise", "6", "--steps", "3", "--delta", "1e-5", "--records", "3")
    assert f"ε = {group_epsilon(WHOLE, 3, 1e-5):.4g}" in understudy(*words, cwd=tmp_path).stdout
