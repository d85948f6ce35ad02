"""FedDM's noised class counts: one release, what it costs, and what means are divided by."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from stage import bound, image_net, pictures
from test_feddm_private import charges, client, method

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.methods.shared.noised_counts import COUNTS, NoisedCounts
from understudy.privacy.accounting import Spending, epsilon
from understudy.privacy.charges import ChargeLog
from understudy.privacy.promise import PrivacySettings
from understudy.synthesis.matching import Draws, embedding
from understudy.synthesis.private_matching import PrivateMeans

OWN = pictures([0] * 12 + [2] * 40)
BOTH = ("x", "y")


def sent(one: Client, **given: object) -> Message:
    chosen = method(one.budget.privacy, count_noise=0.01, **given)
    bound(chosen, image_net())
    return chosen.distil(one, Message(model=chosen.net.initial()))


def test_counts_are_released_once_and_charged_before_the_means(tmp_path: Path) -> None:
    # 30 planned records in 3 classes: q = 5/10 for three steps, in both rounds; the counts in the first alone.
    one = client(tmp_path, own=OWN)
    sent(one)
    assert charges(tmp_path) == [(1.0, 0.01, 1, BOTH), (0.5, 2.0, 3, BOTH)]
    assert next(charge.mechanism for charge in ChargeLog(tmp_path / "charges.jsonl").charges()) == "Gaussian"
    again = client(tmp_path / "later", own=OWN)
    again.memory.update(one.memory)
    sent(again)
    assert charges(tmp_path / "later") == [(0.5, 2.0, 3, BOTH)]


def test_what_is_kept_is_noised(tmp_path: Path) -> None:
    # N(0, 100²) around 12, 0 and 40: of 300 draws, means within 100/√100 · 4 and a spread near 100.
    drawn = []
    for at in range(100):
        one = client(tmp_path / str(at), own=OWN)
        NoisedCounts(100.0).of(one, 3, BOTH)
        assert set(one.memory) == {COUNTS}
        drawn.append(one.memory[COUNTS] - torch.tensor([12, 0, 40]))
    noise = torch.stack(drawn)
    assert noise.mean(0).abs().max() < 40
    assert 85 < noise.std() < 115


def test_the_noise_of_the_means_is_solved_for_what_counts_leave(tmp_path: Path) -> None:
    budget = PrivacySettings(epsilon=3, delta=1e-5, records=30)
    chosen = method(budget, noise=None, count_noise=2.0)
    bound(chosen, image_net())  # for 10 rounds
    chosen.distil(client(tmp_path, budget, OWN), Message(model=chosen.net.initial()))
    (_, counts, once, _), (rate, noise, steps, _) = charges(tmp_path)
    both = [Spending(1.0, counts, once), Spending(rate, noise, steps * 10)]
    assert (counts, once) == (2.0, 1)
    assert epsilon(both, 1e-5) <= 3
    assert epsilon([both[0], Spending(rate, noise - 2e-4, steps * 10)], 1e-5) > 3
    assert epsilon(both[1:], 1e-5) < 2.9  # the counts have their share


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({}, [0, 2]),  # at least ten, as without privacy
        ({"min_class_records": 13}, [2]),
        ({"min_class_records": 50}, []),
    ],
)
def test_classes_of_few_noised_records_are_not_made(given: dict[str, object], made: list[int], tmp_path: Path) -> None:
    # Noise of 0.01 hardly changes 12, 0 and 40.
    reply = sent(client(tmp_path, own=OWN), **given)
    assert reply["y"].tolist() == [c for c in made for _ in range(2)]
    assert charges(tmp_path)[1][2] == (3 if made else 0)  # nothing was released where no class is made


def test_by_default_a_class_needs_three_times_the_noise() -> None:
    assert NoisedCounts(2.0).fewest(None, 10) == 10
    assert NoisedCounts(5.0).fewest(None, 10) == 15
    assert NoisedCounts(5.0).fewest(12, 10) == 12


@pytest.mark.parametrize(("public", "dealt"), [((), []), (("labels",), []), ((), [1] * 4 + [2] * 8)])
def test_means_of_classes_of_any_size_are_means(
    public: tuple[str, ...], dealt: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 12 and 40 records where 10 are planned, everybody drawn (q = 1), nobody clipped, hardly any noise: divided by ten,
    # the means would be 1.2 and 4 times as long. Class 1 is made of dealt records alone.
    found: list[torch.Tensor] = []
    plain = PrivateMeans.__call__

    def watched(self: PrivateMeans, drawn: Sequence[torch.Tensor], draws: Draws) -> torch.Tensor:
        found.append(plain(self, drawn, draws))
        return found[-1]

    monkeypatch.setattr(PrivateMeans, "__call__", watched)
    promise = PrivacySettings.model_validate({"delta": 1e-5, "records": 30, "public": public})
    one, more = client(tmp_path, promise, OWN), pictures(dealt, name="dealt")
    if dealt:
        one.keep_dealt(Message(x=more.x, y=more.y.to(torch.uint8)))
    chosen = method(promise, steps=1, rate=1.0, clip=1e3, noise=1e-9, radius=1e-9, count_noise=1e-6)
    bound(chosen, image_net())
    chosen.distil(one, Message(model=chosen.net.initial()))
    everybody = OWN.and_also(more)
    chosen.net.load(chosen.net.initial())
    v = embedding(chosen.net, everybody.x)
    classes = sorted(set(everybody.y.tolist()))
    wanted = torch.stack([v[everybody.y == c].mean(0) for c in classes])
    torch.testing.assert_close(found[0], wanted, rtol=0, atol=1e-5)


def test_the_divisor_is_the_rate_times_the_noised_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # n̄_c = 10 and batches of 5: q = 1/2. The noise was 3 and −5: divisors (12 + 3)/2 = 7.5 and (40 − 5)/2 = 17.5.
    divisors: list[list[float]] = []
    plain = PrivateMeans.__call__

    def watched(self: PrivateMeans, drawn: Sequence[torch.Tensor], draws: Draws) -> torch.Tensor:
        divisors.append(self._divisors.flatten().tolist())
        return plain(self, drawn, draws)

    monkeypatch.setattr(PrivateMeans, "__call__", watched)
    one = client(tmp_path, own=OWN)
    one.memory[COUNTS] = torch.tensor([15.0, 2.0, 35.0], dtype=torch.float64)
    sent(one, steps=1)
    assert divisors == [[7.5, 17.5]]


def test_a_count_is_charged_before_a_record_is_touched(tmp_path: Path) -> None:
    class Uncounted(Examples):
        def label_counts(self, classes: int) -> torch.Tensor:
            assert charges(tmp_path), "records were counted before the charge"
            return super().label_counts(classes)

    NoisedCounts(1.0).of(client(tmp_path, own=Uncounted(OWN.x, OWN.y)), 3, BOTH)
    assert len(charges(tmp_path)) == 1


@pytest.mark.parametrize(("dp", "noise"), [("none", None), ("paper", 1.0)])
def test_counts_are_noised_only_where_means_are(dp: str, noise: float | None) -> None:
    with pytest.raises(UserError, match=r"method.count_noise is only used with dp: stat; write null"):
        method(count_noise=1.0, dp=dp, noise=noise).bind(image_net(), 1)
