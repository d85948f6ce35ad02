"""FedDM's tables and figures: what is typed from the paper, what is compared with what, and how cells are told."""

from typing import Any

import pytest
from printed_numbers import missing_from

from understudy.config.resolve import resolve
from understudy.papers.carrying_out import PlayedLines
from understudy.papers.claims import in_print
from understudy.papers.early_rounds import FIRST
from understudy.papers.feddm import STUDIES
from understudy.papers.feddm.noise import DESK, LEVELS, noised
from understudy.papers.feddm.options import IPC
from understudy.papers.feddm.partitions import PARTITIONS, SAME, TABLE1, fig2_values, on
from understudy.papers.feddm.setups import BASELINES, DESK_MNIST, DM_ROWS, PRESETS, Ground, published
from understudy.papers.published import FromRuns, Study
from understudy.papers.study import StudyLine

ROUNDED = {3.1e6, 1.6e7, 1.1e8}  # written as powers of ten
BY_NAME = {one.name: one for one in STUDIES}


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_printed_numbers_stand_in_the_paper(study: Study) -> None:
    assert study.published is not None
    typed = [value for value in study.published.cells.values() if value not in ROUNDED]
    assert missing_from("feddm.txt", typed) == []


def settings_of(ground: Ground, changes: Any) -> dict[str, Any]:
    config = resolve(dict(ground.config), changes)
    assert config.data is not None
    return {**config.plan.model_dump(), **config.method.settings.model_dump(), "data": config.data.words()}


@pytest.mark.parametrize("name", PRESETS)
def test_at_paper_scale_every_number_is_as_printed(name: str) -> None:
    ground = published(name)
    plan = on(ground, ("Dir₁₀(0.5)", "Dir₅₀(0.5)"))
    found = {one.label: settings_of(ground, one.changes) for one in plan.contenders}
    feddm, real = found[f"FedDM, {name}, Dir₁₀(0.5)"], found[f"REAL, {name}, Dir₁₀(0.5)"]
    assert (feddm["rounds"], feddm["steps"], feddm["real_batch"], feddm["image_lr"]) == (20, 1000, 256, 1.0)
    assert (feddm["ipc"], feddm["radius"]) == (5 if name == "CIFAR100" else 10, 5.0)
    assert (feddm["server"]["epochs"], feddm["server"]["batch"], feddm["server"]["lr"]) == (500, 256, 0.01)
    assert (real["ipc"], real["server"], real["radius"]) == (feddm["ipc"], feddm["server"], feddm["radius"])
    assert {one["local"]["batch"] for label, one in found.items() if label.split(",")[0] in BASELINES} == {256}
    assert plan.rates == (0.001, 0.01, 0.1)
    assert found[f"FedDM, {name}, Dir₅₀(0.5)"]["ipc"] == found[f"REAL, {name}, Dir₅₀(0.5)"]["ipc"] == 3
    assert found[f"FedAvg, {name}, Dir₅₀(0.5)"]["data"]["clients"] == 50


def test_real_stands_beside_feddm_in_every_comparison_of_the_desk() -> None:
    for name in ("feddm-fig2", "feddm-table1", "feddm-ipc", "feddm-fig3", "feddm-real", "feddm-curves", "feddm-table4"):
        asked = BY_NAME[name].scales["desk"]
        assert isinstance(asked, FromRuns)
        labels = {one.label for plan in asked.comparisons for one in plan.contenders}
        beside = {
            label.replace("FedDM", "REAL") for label in labels if label.startswith("FedDM") and "steps" not in label
        }
        assert beside <= labels, name


def test_table_1_and_the_curves_share_their_runs() -> None:
    digests = []
    for study in (TABLE1, BY_NAME["feddm-curves"]):
        asked = study.scales["desk"]
        assert isinstance(asked, FromRuns)
        configs = [resolve(dict(plan.config), one.changes) for plan in asked.comparisons for one in plan.contenders]
        digests.append({str((one.plan, one.method.settings, one.data)) for one in configs})
    assert digests[0] < digests[1]


def test_the_noise_is_the_same_for_all_methods() -> None:
    for noise in LEVELS:
        found = {row: resolve(dict(DESK.config), noised(DESK, row, noise).changes) for row in (*BASELINES, "FedDM")}
        for row in BASELINES:
            (add_on,) = found[row].add_ons
            assert add_on.words() == {"name": "published-noise", "noise": noise, "clip": 5.0}
            assert found[row].method.settings.model_dump()["local"]["batch"] == 64
        feddm = found["FedDM"].method.settings.model_dump()
        assert (feddm["dp"], feddm["noise"], feddm["clip"], feddm["real_batch"]) == ("paper", noise, 5.0, 64)


def curve(label: str, values: list[float], sent: list[float]) -> StudyLine:
    return StudyLine(label, [values[-1]], rounds=range(len(values)), values=[values], sent=[sent])


def test_figure_2_at_the_end_early_and_for_the_same_megabytes_by_hand() -> None:
    # Of ten rounds the second is early. FedDM sends 2 MB per round and FedAvg 1: within FedAvg's ten, FedDM has five.
    feddm = curve("FedDM, MNIST, Dir₁₀(0.5)", [0.1 + 0.05 * at for at in range(11)], [2.0 * at for at in range(11)])
    fedavg = curve("FedAvg, MNIST, Dir₁₀(0.5)", [0.1 + 0.03 * at for at in range(11)], [1.0 * at for at in range(11)])
    found = fig2_values([DESK_MNIST], PlayedLines({one.label: one for one in (feddm, fedavg)}, {}))
    assert found["FedDM", "MNIST"] == pytest.approx([60])
    assert found["FedDM", f"MNIST, {FIRST}"] == pytest.approx([20])
    assert found["FedDM", f"MNIST, {SAME}"] == pytest.approx([35])
    assert found["FedAvg", f"MNIST, {SAME}"] == pytest.approx([40])


def test_lines_without_curves_still_fill_the_table() -> None:
    line = StudyLine("FedDM, MNIST, Dir₁₀(0.1)", [0.94, 0.95], [0.95], 0.1, megabytes=2.0, seconds=9.0)
    asked = TABLE1.scales["desk"]
    assert isinstance(asked, FromRuns)
    found = asked.tell(PlayedLines({line.label: line}, {}))
    assert found.values == {("FedDM", "MNIST, Dir₁₀(0.1)"): pytest.approx([94, 95])}
    assert asked.tell(PlayedLines({}, {})).values == {}


def test_what_the_paper_contradicts_shows() -> None:
    assert TABLE1.published is not None
    best, robust = (in_print(claim, TABLE1.published.cells).word for claim in TABLE1.published.claims)
    assert (best, robust) == ("holds", "does not hold")  # FedAvg on CIFAR-10 is printed with one number for both α
    assert IPC.published is not None
    assert in_print(IPC.published.claims[0], IPC.published.cells).word == "holds"
    assert len(PARTITIONS) == 5
    assert len(DM_ROWS) == 6
