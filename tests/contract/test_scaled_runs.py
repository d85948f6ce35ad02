"""Runs whose sites agree on a scale in the opening (data.scale: federated) keep the contract, and scale alike."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from contract_checks import CHECKS, Case, model_bytes, watched_play

import understudy as us
from understudy.data.spread import Spread
from understudy.errors import UserError
from understudy.federation.column_sums import MEAN, STD
from understudy.federation.exchange import Request
from understudy.runs.folder import RunFolder
from understudy.runs.scaling import scaling_of

LOCAL = {"epochs": 2, "batch": 4, "lr": 0.05}
RANGES = ((-10.0, 10.0), (0.0, 2000.0), (-0.1, 0.1))


def arrays() -> dict[str, tuple[Any, Any]]:
    """Three features of very different size; one site has no record."""
    rng = np.random.default_rng(3)
    found = {}
    for name, size in (("ash", 14), ("beech", 15), ("cedar", 12), ("elm", 0)):
        y = np.arange(size) % 2
        x = rng.normal(0, 0.5, (size, 3)) + np.where(y[:, None] == 1, 1.0, -1.0)
        found[name] = (x * [3, 300, 0.02] + [0, 900, 0], y)
    return found


def floats(order: Iterable[int] = range(4), held_out: float = 0.0, **how: Any) -> us.Federation:
    made, names = arrays(), list(arrays())
    test = tuple(np.concatenate([made[name][at] for name in names[:3]]) for at in (0, 1))
    how = {"scale": "federated", **how}
    return us.Federation.from_arrays(
        {names[at]: made[names[at]] for at in order},
        test=None if held_out else test,  # type: ignore[arg-type]
        classes=2,
        held_out=held_out,
        **how,
    )


@dataclass(frozen=True)
class ScaledCase(Case):
    ranges: tuple[tuple[float, float], ...] = ()

    def federation(self, order: Iterable[int] = range(4)) -> us.Federation:
        return floats(order, self.held_out, ranges=self.ranges)


PRIVATE = {"delta": 1e-5, "epsilon": 9000.0, "records": 12, "test_noise": True}
STEPS = {"steps": 6, "batch": 12, "lr": 0.1, "schedule": "constant"}
CASES = {
    "fedavg": ScaledCase("fedavg", {"local": LOCAL}),
    "scored at home": ScaledCase("fedavg", {"local": LOCAL}, held_out=0.25),
    "personal heads": ScaledCase("fedrep", {"local": LOCAL}, held_out=0.25),
    "under masks": ScaledCase("fedavg", {"local": LOCAL}, ({"name": "secure-aggregation"},), ranges=RANGES),
    "private": ScaledCase("dp-fedavg", {"local": STEPS, "clip": 1.0, "noise": 0.2}, privacy=PRIVATE, ranges=RANGES),
}


FURTHER = ("bits_wherever", "bits_after", "missing_from", "partial")  # checks of the other cases, to be quick
CHOSEN = [
    pytest.param(name, check, id=f"{name}-{check.__name__.removeprefix('check_')}")
    for name in CASES
    for check in CHECKS
    if name == "fedavg" or any(word in check.__name__ for word in FURTHER)
]


@pytest.mark.parametrize(("name", "check"), CHOSEN)
def test_a_scaled_run_keeps_the_contract(name: str, check: Callable[[Case, Path], None], tmp_path: Path) -> None:
    check(CASES[name], tmp_path)


def test_it_is_the_run_on_records_that_were_scaled_beforehand(tmp_path: Path) -> None:
    """Scaled by hand with the same numbers, the model is the same to the last bit."""
    agreed = CASES["fedavg"].play(tmp_path / "agreed")
    spread = scaling_of(agreed.folder)
    assert spread is not None
    pooled = Spread.of(torch.cat([torch.tensor(x, dtype=torch.float32) for x, _ in arrays().values()]))
    assert spread.mean.tolist() == pytest.approx(pooled.mean.tolist())
    assert spread.std.tolist() == pytest.approx(pooled.std.tolist(), rel=1e-6)
    by_hand = floats(scale="given", mean=tuple(spread.mean.tolist()), std=tuple(spread.std.tolist()))
    given = CASES["fedavg"].play(tmp_path / "given", by_hand)
    assert model_bytes(given) == model_bytes(agreed)
    assert [line["accuracy"] for line in given.metrics] == [line["accuracy"] for line in agreed.metrics]
    assert torch.equal(scaling_of(given.folder).mean, spread.mean)  # type: ignore[union-attr]


def test_scores_at_home_are_those_of_scaled_records(tmp_path: Path) -> None:
    """Also where a client is first asked for its last scores: half of them are never in a cohort."""
    agreed = CASES["scored at home"].play(tmp_path / "agreed", cohort=1)
    spread = scaling_of(agreed.folder)
    assert spread is not None
    constants = {"mean": tuple(spread.mean.tolist()), "std": tuple(spread.std.tolist())}
    given = CASES["scored at home"].play(tmp_path / "given", floats(held_out=0.25, scale=None, **constants), cohort=1)
    assert [line["accuracy"] for line in agreed.metrics] == [line["accuracy"] for line in given.metrics]


def test_the_scale_is_in_state_and_a_late_client_learns_it(tmp_path: Path) -> None:
    def late(request: Request) -> str | None:
        return "not there yet" if request.client == "ash" and request.round < 2 else None

    result, _ = watched_play(CASES["fedavg"], tmp_path / "run", late)
    state, spread = RunFolder(result.folder).newest_state(), scaling_of(result.folder)
    assert spread is not None
    assert torch.equal(state[MEAN], spread.mean)
    assert torch.equal(state[STD], spread.std)
    rest = torch.cat([torch.tensor(arrays()[name][0], dtype=torch.float32) for name in ("beech", "cedar")])
    assert spread.mean.tolist() == pytest.approx(Spread.of(rest).mean.tolist())
    assert result.metrics[-1]["clients"] == 4


def test_under_masks_no_single_sum_is_seen_and_the_scale_is_the_same(tmp_path: Path) -> None:
    masked, plain = CASES["under masks"], ScaledCase("fedavg", {"local": LOCAL}, ranges=RANGES)
    a, b = (scaling_of(case.play(tmp_path / at).folder) for at, case in (("masked", masked), ("plain", plain)))
    assert a is not None
    assert b is not None
    assert a.mean.tolist() == pytest.approx(b.mean.tolist(), rel=1e-4)
    assert a.std.tolist() == pytest.approx(b.std.tolist(), rel=1e-4)
    tasks = [line["task"] for line in RunFolder(tmp_path / "masked").ledger()["clients"]["ash"]]
    assert tasks.count("ColumnSums.tell_sums") == 2  # the masked sums, and hashes of keys


def test_the_sums_are_a_statistic_in_the_ledger_and_nothing_covers_them(tmp_path: Path) -> None:
    ledger = RunFolder(CASES["fedavg"].play(tmp_path / "run").folder).ledger()
    [line] = [line for line in ledger["clients"]["ash"] if line["task"] == "ColumnSums.tell_sums"]
    assert (line["part"], line["kind"], line["releases"], line["bytes"]) == ("sums", "statistics", 1, 8 * (1 + 2 * 3))
    assert line["covered"] == 0
    assert ledger["epsilon"] is None


def test_under_a_budget_the_sums_are_charged_at_the_norm_of_a_record(tmp_path: Path) -> None:
    folder = CASES["private"].play(tmp_path / "run").folder
    ledger = RunFolder(folder).ledger()
    sums, *steps = ledger["charges"]["ash"]
    assert (sums["mechanism"], sums["covers"], sums["rate"], sums["steps"]) == ("Gaussian", ("sums",), 1.0, 1)
    assert sums["clip"] == pytest.approx((1 + 1.25 * 3) ** 0.5)
    assert len(steps) == 3
    assert all(line["covered"] == line["releases"] for line in ledger["clients"]["ash"])


def test_the_whole_run_stays_within_the_budget_of_which_the_sums_take_their_part(tmp_path: Path) -> None:
    privacy = {"delta": 1e-5, "epsilon": 4.0, "records": 12}
    case = ScaledCase("dp-fedavg", {"local": STEPS, "clip": 1.0, "noise": None}, privacy=privacy, ranges=RANGES)
    result = case.play(tmp_path / "run")
    assert result.summary["finished"]
    assert 3.9 < result.summary["epsilon"] <= 4.0


@pytest.mark.parametrize(
    ("privacy", "how", "says"),
    [
        ({"epsilon": 4.0}, {}, "declare the range of every column"),
        ({}, {"ranges": RANGES}, "give privacy.epsilon"),
        (None, {"ranges": RANGES, "scale_noise": 1.0}, "data.scale_noise spends privacy"),
    ],
)
def test_what_cannot_be_promised_is_refused_before_the_opening(
    tmp_path: Path, privacy: dict[str, Any] | None, how: dict[str, Any], says: str
) -> None:
    settings = {"local": STEPS, "clip": 1.0, "noise": 1.0}
    private = None if privacy is None else {"delta": 1e-5, "records": 12, **privacy}
    case = Case("fedavg" if privacy is None else "dp-fedavg", {} if privacy is None else settings, privacy=private)
    with pytest.raises(UserError, match=says):
        case.play(tmp_path / "run", floats(**how))
    assert not (tmp_path / "run").exists()


def test_numbers_whose_squares_nobody_can_add_up_ask_for_ranges(tmp_path: Path) -> None:
    large = us.Federation.from_arrays({"a": (np.full((2, 1), 1e8), [0, 1])}, test=([[1.0]], [0]), scale="federated")
    with pytest.raises(UserError, match=r"opening failed.*declare data\.ranges"):
        Case("fedavg", {"local": LOCAL}).play(tmp_path / "run", large)
