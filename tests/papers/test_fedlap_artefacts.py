"""FedLAP's tables and figures: what is typed from the paper, equal conditions, pixels and gradients by hand."""

from typing import Any

import pytest
import torch
from printed_numbers import missing_from

from understudy.config.read import read
from understudy.config.resolve import resolve
from understudy.data.examples import Examples
from understudy.data.sets import load
from understudy.models.convnet import SmallConvNetSettings, small_convnet
from understudy.models.network import Network
from understudy.papers.claims import in_print
from understudy.papers.comparison import Comparison
from understudy.papers.fedlap import STUDIES
from understudy.papers.fedlap.criteria import BASELINE, CALIBRATION, VANILLA, CriteriaPlan, Fitted, fitted
from understudy.papers.fedlap.pixels import clients_apart, histogram, shown_of, spread_of
from understudy.papers.fedlap.private import AFTER, PRIVATE_SETS
from understudy.papers.fedlap.setups import REAL_SAME_SERVER, SAME_SERVER
from understudy.papers.fedlap.trust import Descended
from understudy.papers.published import FromRuns, Study
from understudy.privacy.accounting import Spending, epsilon

BY_NAME = {one.name: one for one in STUDIES}


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_printed_numbers_stand_in_the_paper(study: Study) -> None:
    assert study.published is not None
    assert missing_from("fedlap-dp.txt", study.published.cells.values()) == []


def plans(name: str, scale: Any = "desk") -> list[Comparison]:
    asked = BY_NAME[name].scales[scale]
    assert isinstance(asked, FromRuns)
    return list(asked.comparisons)


def settings_of(plan: Comparison) -> dict[str, dict[str, Any]]:
    """By contender, with every default."""
    found = {}
    for one in plan.contenders:
        config = resolve(dict(plan.config), one.changes)
        found[one.label] = {**config.plan.model_dump(), **config.method.settings.model_dump()}
    return found


def test_on_class_pairs_all_have_the_same_rounds_and_about_the_same_records() -> None:
    found = settings_of(plans("fedlap-table1")[0])
    assert {one["rounds"] for label, one in found.items() if not label.startswith("DSC")} == {4}
    # 5 stages · 2 batches · 128 = 1280 records of the 800 a client has: 1.6 passes. The baselines get more: 2.
    lap = found["FedLAP, MNIST"]
    assert lap["stages"] * lap["real_batches"] * lap["batch"] == 1280
    assert {found[f"{name}, MNIST"]["local"]["epochs"] for name in ("FedAvg", "FedProx", "SCAFFOLD")} == {2}
    assert found["FedDM, MNIST"]["ipc"] == lap["ipc"]


@pytest.mark.parametrize("scale", ["desk", "paper"])
def test_feddm_and_real_with_fedlaps_server_train_as_fedlap_does(scale: str) -> None:
    found = settings_of(plans("fedlap-table1", scale)[0])
    lap = found["FedLAP, MNIST"]
    for row in (SAME_SERVER, REAL_SAME_SERVER):
        one = found[f"{row}, MNIST"]
        server = one["server"]
        assert (server["epochs"], server["batch"]) == (lap["server_epochs"], lap["pool_batch"])
        assert (server["momentum"], server["weight_decay"], server["schedule"]) == (0, 0, lap["schedule"])
        assert (one["ipc"], one["radius"], one["dsa"]) == (lap["ipc"], lap["radius"], lap["dsa"])
        assert "flip" not in one["dsa_kinds"]


@pytest.mark.parametrize(("name", "differs"), [("fedlap-table3", {"radius_rule"}), ("fedlap-fig5", {"ipc"})])
def test_an_option_differs_from_fedlap_in_one_setting(name: str, differs: set[str]) -> None:
    found = {label: one for label, one in settings_of(plans(name)[0]).items() if label.startswith("FedLAP")}
    first, *others = found.values()
    assert len(others) == 3
    for one in others:
        assert {key for key in first if one[key] != first[key]} == differs


def test_under_privacy_all_have_the_same_releases_batches_and_clip() -> None:
    found = settings_of(plans("fedlap-table2")[0])
    lap = found["FedLAP-DP, FMNIST, ε = 1"]
    assert lap["restarts"] * lap["stages"] * lap["real_batches"] == 16  # 2 · 4 · 2
    for name in ("DP-FedAvg", "DP-FedProx"):
        one = found[f"{name}, FMNIST, ε = 1"]
        assert (one["local"]["steps"], one["local"]["batch"], one["clip"]) == (16, lap["batch"], lap["clip"])


def test_the_paper_contradicts_itself_in_its_tables() -> None:
    table1, table2, table3 = (BY_NAME[f"fedlap-table{n}"].published for n in (1, 2, 3))
    assert table1 is not None and table2 is not None and table3 is not None  # noqa: PT018
    words = [[in_print(claim, one.cells).word for claim in one.claims] for one in (table1, table2, table3)]
    assert words[0][:3] == ["does not hold", "holds", "does not hold"]  # FedAvg on CIFAR-10; DSC on MNIST
    assert words[1] == ["holds", "does not hold", "does not hold", "holds"]  # DP-FedProx and PSG on MNIST
    assert words[2][:2] == ["holds", "does not hold"]  # min is below max and median


def test_presets_promise_what_the_paper_prints() -> None:
    # q = 256/10 000, σ = 1, 4·5·10 = 200 gradients per round.
    for name in PRIVATE_SETS.values():
        config = resolve(read(name))
        lap, promise = config.method.settings.model_dump(), config.top.privacy
        assert promise is not None
        assert promise.records is not None
        rate, per_round = lap["batch"] / promise.records, lap["restarts"] * lap["stages"] * lap["real_batches"]
        found = [epsilon([Spending(rate, lap["noise"], n * per_round)], promise.delta) for n in AFTER.values()]
        assert [round(each, 2) for each in found] == [2.79, 10.18]


# ---- pixels


def test_pixels_by_hand() -> None:
    # One client has pixels −1 and 1, the other 0 and 0: deviation of all four √(2/3), and no bin in common.
    ends, middle = (
        Examples(torch.tensor(x).view(2, 1, 1, 1), torch.zeros(2, dtype=torch.int64))
        for x in ([-1.0, 1.0], [0.05, 0.05])
    )
    assert spread_of({"a": ends, "b": Examples(torch.zeros(2, 1, 1, 1), ends.y)}) == pytest.approx((2 / 3) ** 0.5)
    assert clients_apart({"a": ends, "b": middle}) == pytest.approx(100)
    assert clients_apart({"a": ends, "b": ends}) == 0
    assert histogram(torch.tensor([-9.0, 9.0]))[0] == histogram(torch.tensor([-9.0, 9.0]))[-1] == 0.5
    assert shown_of(range(1, 13)) == [1, 4, 7, 9, 12]
    assert shown_of([3]) == [3]


# ---- gradients

PLAN = CriteriaPlan(ipc=2, image_steps=3, batch=32, steps=4, looks=2)


@pytest.fixture(scope="module")
def ways() -> dict[str, Fitted]:
    digits = load("digits")
    net = Network(lambda: small_convnet(digits.problem, SmallConvNetSettings(width=4)), digits.problem)
    return {way: fitted(net, digits, way, PLAN, 0) for way in (BASELINE, VANILLA, CALIBRATION)}


def test_the_baseline_follows_the_batch_itself(ways: dict[str, Fitted]) -> None:
    assert ways[BASELINE].steps == (2, 4)
    assert ways[BASELINE].cosine == pytest.approx([1, 1])
    assert ways[BASELINE].off == pytest.approx(0, abs=1e-4)


def test_calibration_has_the_real_length_in_every_tensor_and_vanilla_has_not(ways: dict[str, Fitted]) -> None:
    assert ways[CALIBRATION].off == pytest.approx(0, abs=0.1)
    for name, real in ways[CALIBRATION].real_by_tensor.items():
        assert ways[CALIBRATION].made_by_tensor[name] == pytest.approx(real, rel=1e-3)
    assert ways[VANILLA].off > 1


def test_matching_makes_noise_point_the_real_way() -> None:
    digits = load("digits")
    net = Network(lambda: small_convnet(digits.problem, SmallConvNetSettings(width=4)), digits.problem)
    short, long = (
        fitted(net, digits, VANILLA, PLAN.model_copy(update={"steps": 1, "image_steps": steps}), 0) for steps in (1, 40)
    )
    assert long.cosine[0] > short.cosine[0] + 0.1


def test_the_radius_is_the_distance_of_the_smallest_real_loss() -> None:
    found = Descended((0.0, 0.5, 0.9, 1.2), (2.0, 1.0, 0.8, 0.9), (2.0, 0.9, 0.5, 0.2))
    assert (found.turning, found.radius) == (2, 0.9)
