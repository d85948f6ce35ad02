"""Fedssyn's tables and figures: what is printed, and what is told from lines, worked by hand."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from printed_numbers import TEXTS

from understudy.data.examples import Examples
from understudy.papers.carrying_out import PlayedLines
from understudy.papers.claims import Evidence, closer, in_print, near
from understudy.papers.fedssyn import STUDIES, communication_saved, convergence_parameters, peer_tables, sent_images
from understudy.papers.fedssyn.communication_saved import PRINTED_SAVED, images_mb, saved
from understudy.papers.fedssyn.lines import COLUMNS, FULL, HUNDRED, PART, WITH, column
from understudy.papers.fedssyn.peer_tables import PRINTED_PEERS, cost_ratio
from understudy.papers.fedssyn.private_images import published_epsilon
from understudy.papers.fedssyn.rounds_to_target import PRINTED_ROUNDS, PRINTED_ROWS, rounds_to, speed_up, tell
from understudy.papers.published import FromRuns
from understudy.papers.study import StudyLine

TEXT = TEXTS / "fedssyn-journal.txt"
FIRST = f"{FULL}, α=0.01"


def line(label: str, *seeds: list[float], sent: float = 0.0) -> StudyLine:
    """One point of accuracy per round, from round 0 on; as many megabytes in every round."""
    rounds = list(range(len(seeds[0])))
    total = [[sent * at for at in rounds]] * len(seeds)
    return StudyLine(
        label, [seed[-1] for seed in seeds], megabytes=total[0][-1], rounds=rounds, values=list(seeds), sent=total
    )


# ---- printed numbers


@pytest.mark.skipif(not TEXT.exists(), reason="UNDERSTUDY_PAPERS names no folder with fedssyn-journal.txt")
def test_printed_numbers_are_those_of_the_text() -> None:
    text = TEXT.read_text()
    for rows in PRINTED_ROWS.values():
        for method, row in rows.items():
            assert "\t".join([method, *row.split(", ")]) in text
    heads = {"N=10": "N=10 (C=1.0)", PART: "N=10 (C=0.4)", "N=40 (C=20%)": "N=40 (C=0.2)", HUNDRED: "N=100 (C=0.1)"}
    for takes, head in heads.items():
        (found,) = [each for each in text.splitlines() if each.startswith(head)]
        name, *shares = found.split("\t")
        assert f"M_s = {PRINTED_SAVED[takes, communication_saved.IMAGES_MB]:g}" in name
        ours = [PRINTED_SAVED[takes, each] for each in communication_saved._names()]
        assert [float(share.strip(">%")) for share in shares] == ours
    for alpha in ("0.01", "0.1"):
        for data, prefix in (("CIFAR10", ""), ("CIFAR100", "CIFAR-100, ")):
            (found,) = [each for each in text.splitlines() if each.startswith(f"{data} ($\\alpha={alpha}$)")]
            peers = {name: PRINTED_PEERS[name, f"{prefix}α={alpha}"] for name in _peer_rows()}
            wanted = "{Fedssyn} ({Fedssyn, rounds to m:g})\t{FedGEN} ({FedGEN, rounds to m:g})\t{DENSE} (-)"
            assert wanted.format(**peers) in found
            assert found.endswith(f"{peers[peer_tables.COST]:g}%")
    assert "30,070 MB" in text
    assert "22,508 MB" in text


def _peer_rows() -> set[str]:
    return {row for row, _ in PRINTED_PEERS}


def test_what_the_paper_says_of_table_1_stands_in_it() -> None:
    assert PRINTED_ROUNDS["FedAvg", FIRST] == 88
    assert PRINTED_ROUNDS["FedAvg" + WITH, FIRST] == 4
    assert PRINTED_ROUNDS["SCAFFOLD", f"{PART}, α=0.01"] == 101
    published = next(study for study in STUDIES if study.name == "fedssyn-table1").published
    assert published is not None
    assert [in_print(claim, published.cells).word for claim in published.claims] == ["holds"] * 5


def test_the_published_noise_is_ten_with_75_records_per_step_and_more_with_256() -> None:
    assert published_epsilon(500, 75) == pytest.approx(9.99, abs=0.01)
    assert published_epsilon(500, 256) == pytest.approx(21.6, abs=0.1)


# ---- formulas


def test_communication_saved_by_hand() -> None:
    # 4 rounds and 15.5/37.2 of a model beside 88 rounds: 1 − 4.4167/88.
    assert saved(88, 4, 15.5 / 37.2) == pytest.approx(94.98, abs=0.01)
    assert images_mb(10) == pytest.approx(15.365)
    assert images_mb(40) == pytest.approx(3.84, abs=0.01)


def test_the_cost_ratio_is_the_printed_formula_upside_down() -> None:
    assert round(cost_ratio(4, 15.5, 37.2, 1.2, 70)) == 6
    assert round(cost_ratio(8, 15.5, 37.2, 1.2, 17)) == 49


def test_rounds_to_a_target_and_what_never_gets_there() -> None:
    one = line("FedAvg", [0.1, 0.5, 0.9], [0.1, 0.2, 0.3])
    needed = rounds_to(one, 0.5)
    assert needed.to_target == [1, None]
    assert needed.counted == [1, 3]
    assert str(needed) == "> 2.0"
    assert speed_up(needed, rounds_to(line("x", [0.5, 0.5, 0.5]), 0.5)) == "> 2.0×"


# ---- from lines


def played(*lines: StudyLine) -> PlayedLines:
    return PlayedLines({one.label: one for one in lines}, {})


def test_table_1_counts_rounds_by_seed_and_leaves_out_what_was_not_run() -> None:
    without = line(f"FedAvg, {FIRST}", [0.1, 0.5, 0.7, 0.9], [0.1, 0.9, 0.9, 0.9])
    found = tell(COLUMNS["desk"], played(without, line(f"FedAvg{WITH}, {FIRST}", [0.1, 0.9, 0.9, 0.9])))
    assert found.values == {("FedAvg", FIRST): [3, 1], ("FedAvg" + WITH, FIRST): [1]}
    assert "fewer rounds in 1 of 1" in found.notes[0]
    assert tell(COLUMNS["desk"], played()).values == {}


def test_the_share_saved_counts_images_once() -> None:
    # A round costs 2 MB, images 3 MB in all: the target after 4 rounds (8 MB) or after 1 (2 + 3 MB; by the formula
    # 1 + 3/2 of 4 rounds).
    without = line(f"FedAvg, {FIRST}", [0.1, 0.1, 0.1, 0.1, 0.9], sent=2.0)
    shuffled = line(f"FedAvg{WITH}, {FIRST}", [0.1, 0.9, 0.9, 0.9, 0.9], sent=2.0)
    with_images = replace(shuffled, megabytes=11.0, sent=[[3.0 + each for each in shuffled.sent[0]]])
    found = communication_saved.tell([column("desk", FIRST)], played(without, with_images)).values
    assert found[FULL, "α=0.01"] == pytest.approx([100 * (1 - 2.5 / 4)])
    assert found[f"{FULL}, on the wire", "α=0.01"] == pytest.approx([100 * (1 - 5 / 8)])


def test_convergence_parameters_are_ratios_at_one_model() -> None:
    def at(round: int, zeta2: float) -> dict[str, float]:
        noise = {"sigma2": 10.0, "sigma2_shuffled": 8.0, "sigma2_bound": 9.0, "delta2": 1.0, "sigma2_pool": 2.0}
        return {
            "round": round,
            "zeta2": zeta2,
            "zeta2_shuffled": 1.0,
            "zeta2_bound": 2.0,
            "share_shuffled": 0.1,
            **noise,
        }

    one = column("desk", FIRST)
    label, none = (one.label(f"measured, {p}") for p in ("p = 0.06", "p = 0"))
    measured = {label: [[at(0, 1.0), at(5, 2.0), at(10, 4.0)]], none: [[at(0, 1.0), at(5, 10.0), at(10, 10.0)]]}
    lines = PlayedLines({label: line(label, [0.5])}, {}, {"measured": measured})
    desk = next(study for study in STUDIES if study.name == "fedssyn-fig5").scales["desk"]
    assert isinstance(desk, FromRuns)
    found = desk.tell(lines).values
    # The first model does not count: (1/2 + 1/4)/2, and 0.9·10/9.
    assert found[convergence_parameters.KEPT, "p = 0.06"] == pytest.approx([0.375])
    assert found[convergence_parameters.DOMINATES, "p = 0.06"] == pytest.approx([1.0])
    assert found[convergence_parameters.OWN_ZETA, "p = 0.06"] == pytest.approx([0.1])


def test_images_are_recognised_by_their_nearest_test_image(monkeypatch: pytest.MonkeyPatch) -> None:
    def images(*pixels: int) -> torch.Tensor:
        return torch.tensor(pixels, dtype=torch.uint8).view(-1, 1, 1, 1)

    test = Examples(images(0, 100, 200), torch.tensor([0, 1, 2]))
    dataset = sent_images.data_of
    made = Examples(images(10, 90, 110, 190), torch.tensor([0, 1, 2, 2]))
    monkeypatch.setattr(sent_images, "sent", lambda _: made)
    monkeypatch.setattr(sent_images, "data_of", lambda _: type("Data", (), {"test": test}))
    assert dataset is not sent_images.data_of
    assert sent_images.recognised(Path("run")) == 75.0


# ---- tests of claims that these figures need


def test_near_allows_a_share_of_the_other_number() -> None:
    def word(a: list[float], b: list[float]) -> str:
        return near(("a", ""), ("b", ""), 0.1)(Evidence({("a", ""): a, ("b", ""): b}, {}, 0.01)).word

    assert word([1.05, 1.04], [1.0, 1.0]) == "holds"
    assert word([1.25, 1.24], [1.0, 1.0]) == "does not hold"
    assert word([1.05, 1.15], [1.0, 1.0]) == "not settled"
    assert word([], [1.0]) == "not run"


def test_closer_compares_in_each_seed() -> None:
    def word(a: list[float], b: list[float], c: list[float]) -> str:
        values = {("a", ""): a, ("b", ""): b, ("c", ""): c}
        return closer(("a", ""), ("b", ""), ("c", ""))(Evidence(values, {}, 0.01)).word

    assert word([1.0, 2.0], [1.1, 2.2], [3.0, 4.1]) == "holds"
    assert word([1.0, 2.0], [3.0, 4.1], [1.1, 2.2]) == "does not hold"
    assert word([1.0, 2.0], [1.5, 2.0], [1.0, 2.5]) == "not settled"
    assert word([1.0], [], [2.0]) == "not run"
