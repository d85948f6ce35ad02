"""FedLAP's studies: what is compared is alike but for the thing under study, and every table and picture gets made."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from understudy.config.resolve import resolve
from understudy.papers.fedlap.comparisons import OPTIONS_PLANS, PAIRS_PLANS, PRIVATE, PRIVATE_PLANS
from understudy.papers.fedlap.pictures import HARDLY_NOISED, epsilon_drawing, options_drawing
from understudy.papers.reproduce import study
from understudy.papers.study import StudyLine
from understudy.papers.tuned import Comparison
from understudy.runs.watching import Observer
from understudy.view.findings import write_findings
from understudy.view.panels import drawing_figure


def settings_of(plan: Comparison) -> dict[str, dict[str, Any]]:
    """By contender, with every default."""
    found = {}
    for one in plan.contenders:
        config = resolve(dict(plan.config), one.changes)
        found[one.label] = {**config.plan.model_dump(), **config.method.settings.model_dump()}
    return found


def test_on_class_pairs_all_have_the_same_rounds_and_about_the_same_records() -> None:
    found = settings_of(PAIRS_PLANS["desk"])
    assert {one["rounds"] for one in found.values()} == {4}
    # 5 stages · 2 batches · 128 = 1280 records of the 800 a client has: 1.6 passes. The baselines get more: 2.
    lap = found["fedlap"]
    assert lap["stages"] * lap["real_batches"] * lap["batch"] == 1280
    assert {found[name]["local"]["epochs"] for name in ("fedavg", "fedprox", "scaffold")} == {2}
    assert found["feddm"]["ipc"] == lap["ipc"]


def test_an_option_differs_from_fedlap_in_one_setting() -> None:
    found = settings_of(OPTIONS_PLANS["desk"])
    base = found.pop("min, 10 images")
    assert (base["radius_rule"], base["ipc"]) == ("min", 10)
    for one in found.values():
        assert len([key for key in base if one[key] != base[key]]) == 1
    assert len(found) == 3 + 3


def test_under_privacy_all_have_the_same_releases_batches_and_clip() -> None:
    found = settings_of(PRIVATE_PLANS["desk"])
    lap = found["fedlap-dp ε=1"]
    assert lap["restarts"] * lap["stages"] * lap["real_batches"] == 16  # 2 · 4 · 2
    for name in ("dp-fedavg ε=1", "dp-fedprox ε=1"):
        assert (found[name]["local"]["steps"], found[name]["local"]["batch"]) == (16, lap["batch"])
    assert {one["clip"] for one in found.values()} == {1.0}


@pytest.mark.parametrize("name", ["fedlap-pairs", "fedlap-options"])
def test_a_smoke_run_makes_table_and_pictures(name: str, tmp_path: Path) -> None:
    found = study(name, "smoke")(tmp_path, Observer())
    write_findings(found, tmp_path)
    assert all(0 <= one.mean <= 1 for one in found.lines)
    assert (tmp_path / "table.png").exists()
    assert (tmp_path / "curves.png").exists()
    assert (tmp_path / "options.png").exists() == (name == "fedlap-options")


def test_at_one_epsilon_the_noise_is_the_same_and_no_budget_is_overrun(tmp_path: Path) -> None:
    write_findings(study("fedlap-dp", "smoke")(tmp_path, Observer()), tmp_path)
    assert (tmp_path / "epsilon.png").exists()
    assert (tmp_path / "images.png").exists()
    runs = [tmp_path / f"runs/{name} ε=3/rate-0.1-seed-0" for name in PRIVATE]
    ledgers = [json.loads((run / "ledger.json").read_text()) for run in runs]
    charges = [line for ledger in ledgers for client in ledger["charges"].values() for line in client]
    assert len({line["noise"] for line in charges}) == 1
    assert len(charges) == 3 * 5  # methods, clients; one round
    assert all(0 < ledger["epsilon"] <= 3 for ledger in ledgers)
    lines = (tmp_path / "epsilon.md").read_text().splitlines()
    assert len(lines) == 2 + 3 + 1  # head and rule; three methods; next to no noise
    assert lines[-1].startswith(f"| {HARDLY_NOISED} |")


def reached(plan: Comparison, *accuracies: float) -> list[StudyLine]:
    return [StudyLine(one.label, accuracies) for one in plan.contenders]


def test_accuracy_against_epsilon_has_a_line_per_method_and_a_dot_per_seed() -> None:
    plan = PRIVATE_PLANS["desk"]
    (axes,) = drawing_figure(epsilon_drawing(plan, reached(plan, 0.5, 0.6))).axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert len(dots) == len(PRIVATE)
    assert all(np.asarray(line.get_ydata()).tolist() == [50.0, 60.0] * len(plan.panels) for line in dots)
    joined = [line for line in axes.lines if line.get_linestyle() == "-"]
    assert [np.asarray(line.get_ydata()).tolist() for line in joined] == [[55.0] * len(plan.panels)] * len(PRIVATE)
    (level,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert level.get_label() == f"{HARDLY_NOISED}, 55.0 %"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["ε = 0.3", "ε = 1", "ε = 3", "ε = 10"]


def test_options_have_a_panel_a_kind() -> None:
    plan = OPTIONS_PLANS["desk"]
    figure = drawing_figure(options_drawing(plan, reached(plan, 0.5)))
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(plan.panels)
    assert [text.get_text() for text in figure.axes[1].get_xticklabels()] == [
        "2 images",
        "5 images",
        "10 images",
        "20 images",
    ]
