"""A tuned comparison: rates are chosen on validation records, seeds are averaged, shared runs are run once."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from understudy.audits.result import read_audit
from understudy.errors import UserError
from understudy.papers import carrying_out
from understudy.papers.carrying_out import NeededRun, carry_out, every_run, missing, played_lines
from understudy.papers.compared import compared, standings_drawing, standings_table
from understudy.papers.comparison import Comparison, Contender, FirstRounds, ShuffledImages
from understudy.papers.published import Direct, FromRuns
from understudy.papers.stored import write_table
from understudy.papers.study import Findings, StudyLine
from understudy.runs.folder import RunFolder
from understudy.runs.run_store import RunStore
from understudy.runs.watching import Observer
from understudy.view.findings import markdown

SMALL: dict[str, Any] = {
    "data": {"name": "digits", "clients": 3, "limit": 150},
    "model": {"name": "softmax"},
    "method": {"name": "fedavg", "rounds": 1, "local": {"epochs": 1, "batch": 16}},
    "engine": {"name": "inline"},
}


def small_plan(**more: Any) -> Comparison:
    contenders = [
        Contender("fedavg", {}),
        Contender("fedprox", {"method.name": "fedprox"}),
        Contender("alike", {"method.name": "fedsam"}, like="fedavg", seeds=(1,)),
    ]
    return Comparison("small", "a small one", SMALL, (0.001, 0.1), (0, 1), more.get("contenders", contenders))


class Counting(RunStore):
    """Notes what is played."""

    def __init__(self, root: Path):
        super().__init__(root)
        self.played: list[str] = []

    def play(self, run: Any, observer: Observer) -> Any:
        self.played.append(run.digest)
        return super().play(run, observer)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Counting:
    found = Counting(tmp_path_factory.mktemp("store"))
    carry_out([small_plan()], found, Observer(), workers=1)
    return found


def last(store: RunStore, one: NeededRun) -> dict[str, Any]:
    return RunFolder(store.folder(one.run)).metrics()[-1]


def test_the_rate_with_the_best_validation_accuracy_is_the_one_that_counts(store: Counting) -> None:
    plan = small_plan()
    lines = played_lines([plan], store)
    assert list(lines) == ["fedavg", "fedprox", "alike"]
    for contender in plan.contenders[:2]:
        line = lines[contender.label]
        tuned = carrying_out.tuning_runs(plan, contender, store)
        assert line.validation == {f"{one.rate:g}": last(store, one)["validation_accuracy"] for one in tuned}
        assert line.rate == max(tuned, key=lambda one: last(store, one)["validation_accuracy"]).rate
        ends = [RunFolder(lines.folders[contender.label, seed]).summary() for seed in (0, 1)]
        assert line.accuracies == [end["accuracy"] for end in ends]
        assert line.megabytes == pytest.approx(sum(end["bytes_up"] + end["bytes_down"] for end in ends) / 2e6)


def test_a_line_like_another_takes_its_rate_and_may_have_seeds_of_its_own(store: Counting) -> None:
    lines = played_lines([small_plan()], store)
    assert (lines["alike"].rate, lines["alike"].validation) == (lines["fedavg"].rate, {})
    assert [key for key in lines.folders if key[0] == "alike"] == [("alike", 1)]


def test_gone_on_with_it_repeats_nothing_and_nothing_is_missing(store: Counting) -> None:
    before = list(store.played)
    carry_out([small_plan()], store, Observer(), workers=1)
    assert store.played == before
    assert len(before) == len(set(before)) == 2 * 2 + 2 * 2 + 1
    assert len(list(every_run(small_plan(), store))) == 9


def test_two_processes_give_what_one_gives(store: Counting, tmp_path: Path) -> None:
    plan = replace(small_plan(), contenders=small_plan().contenders[:2])
    other = RunStore(tmp_path)
    carry_out([plan], other, Observer(), workers=2)
    assert {label: line.values for label, line in played_lines([plan], other).items()} == {
        label: line.values for label, line in played_lines([plan], store).items() if label != "alike"
    }


def test_a_study_tells_what_is_there_and_leaves_the_rest_empty(tmp_path: Path) -> None:
    plan, store = small_plan(), RunStore(tmp_path)
    told = FromRuns([plan], partial(compared, plan))
    empty = told.read(store)
    assert empty is not None
    assert empty.lines == []
    ready = [one for one in missing([plan], store) if one.label == "fedavg"]
    for one in ready:
        store.play(one.run, Observer())
    found = told.run(store, Observer(), 1)
    assert len(found.lines) == 3
    table = write_table(tmp_path / "table.json", "small", "smoke", found)
    assert (table["rates"], table["config"]) == ([0.001, 0.1], SMALL)


def test_a_part_of_a_study_runs_its_lines_and_the_tuning_that_they_need(tmp_path: Path) -> None:
    plan, store = small_plan(), Counting(tmp_path)
    told = FromRuns([plan], partial(compared, plan))
    assert {(one.label, one.purpose) for one in told.runs(store, ["alike"])} == {
        ("fedavg", "tuning"),
        ("alike", "counted"),
    }
    found = told.run(store, Observer(), 1, ["alike"])
    assert [line.label for line in found.lines] == ["alike"]
    assert len(store.played) == 2 + 1  # two rates of fedavg, one seed
    whole = told.run(store, Observer(), 1)
    assert whole.lines[2] == found.lines[0]
    assert len(store.played) == 9
    part = told.run(store, Observer(), 1, ["alike"])
    assert [line.label for line in part.lines] == ["fedavg", "fedprox", "alike"]  # what is there is told


def test_a_part_that_no_line_is_called_after_is_refused(tmp_path: Path) -> None:
    told = FromRuns([small_plan()], partial(compared, small_plan()))
    with pytest.raises(
        UserError, match=r"no line 'fedprx'. Did you mean 'fedprox'\? There are: fedavg, fedprox, alike"
    ):
        told.runs(RunStore(tmp_path), ["fedprx"])
    with pytest.raises(UserError, match="worked out as a whole"):
        Direct(lambda folder, observer: Findings("nothing")).runs(RunStore(tmp_path), ["fedprox"])


def test_one_line_that_fails_does_not_end_the_study(tmp_path: Path) -> None:
    class Said(Observer):
        def __init__(self) -> None:
            self.sentences: list[str] = []

        def says(self, sentence: str) -> None:
            self.sentences.append(sentence)

    plan = small_plan(
        contenders=[Contender("fine", {}, rates=(0.1,)), Contender("stray", {"data.name": "cifar10"}, rates=(0.1,))]
    )
    observer = Said()
    carry_out([plan], RunStore(tmp_path), observer, workers=1)
    assert list(played_lines([plan], RunStore(tmp_path))) == ["fine"]
    assert any(said.startswith("3 of 4: stray: counted, rate 0.1, seed 0 failed: ") for said in observer.sentences)


def test_generators_are_trained_once_per_seed_and_sampled_by_every_line(tmp_path: Path) -> None:
    vae = {"name": "vae", "epochs": 1, "width": 4, "hidden": 8}
    images = ShuffledImages(vae)
    plan = small_plan(
        contenders=[
            Contender("a", {}, rates=(0.1,), images=images),
            Contender("b", {"method.name": "fedprox"}, rates=(0.1,), images=replace(images, exchange={"images": 5})),
        ]
    )
    store = Counting(tmp_path)
    carry_out([plan], store, Observer(), workers=1)
    trained = [one for one in every_run(plan, store) if one.purpose == "generators"]
    assert {one.run.digest for one in trained} == {one.run.digest for one in trained[:2]}
    assert len(store.played) == len(set(store.played)) == 2 + 2 * 2
    words = RunFolder(played_lines([plan], store).folders["b", 1]).config()["with"][0]
    assert Path(words["from_run"]) == store.folder(trained[1].run)
    assert words["images"] == 5


def test_first_rounds_are_run_once_and_lines_go_on_from_a_copy(tmp_path: Path) -> None:
    cog = {"name": "fedcog", "kd_weighting": "balanced", "from_round": 3, "images": 4, "steps": 1}
    begins = FirstRounds({"with": [cog]}, 2)
    rounds = {"method.rounds": 3}
    plan = small_plan(
        contenders=[
            Contender("plain", {**rounds, "with": []}, rates=(0.1,), seeds=(0,), begins=begins),
            Contender("cog", {**rounds, "with": [cog]}, rates=(0.1,), seeds=(0,), begins=begins),
            Contender("straight", rounds, rates=(0.1,), seeds=(0,)),
        ]
    )
    store = Counting(tmp_path)
    carry_out([plan], store, Observer(), workers=1)
    lines = played_lines([plan], store)
    assert lines["plain"].values == lines["straight"].values
    assert [seed[:3] for seed in lines["cog"].values] == [seed[:3] for seed in lines["plain"].values]
    assert lines["cog"].values != lines["plain"].values
    assert len([one for one in every_run(plan, store) if one.purpose == "first rounds"]) == 2
    assert len(list((tmp_path / "runs").glob("fedavg-*"))) == 4


def test_every_seed_of_a_line_may_be_attacked_and_the_first_at_length(tmp_path: Path) -> None:
    line = Contender("fedavg", {}, rates=(0.1,), audited="quick", audited_alike=True)
    plan, store = small_plan(contenders=[line]), RunStore(tmp_path)
    carry_out([plan], store, Observer(), workers=1)
    folders = played_lines([plan], store).folders
    assert [read_audit(folders["fedavg", seed]) is not None for seed in (0, 1)] == [True, True]
    at_length = small_plan(contenders=[replace(line, audited="thorough")])
    assert [(one.seed, one.purpose, one.thorough) for one in missing([at_length], store)] == [(0, "audit", True)]


def test_a_line_that_is_audited_keeps_its_transcript_and_gets_its_leak(tmp_path: Path) -> None:
    feddm = {"method": {"name": "feddm", "rounds": 1, "steps": 1, "ipc": 2, "server": {"epochs": 1}}}
    line = Contender("feddm", feddm, "method.server.lr", (0.1,), seeds=(0, 1), audited="quick")
    plan, store = small_plan(contenders=[line]), RunStore(tmp_path)
    carry_out([plan], store, Observer(), workers=1)
    found = played_lines([plan], store)
    assert found["feddm"].leak is not None
    assert [(found.folders["feddm", seed] / "transcript").exists() for seed in (0, 1)] == [True, False]
    assert list(missing([plan], store)) == []


def test_a_comparison_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(UserError, match="two lines are called 'fedavg'"):
        small_plan(contenders=[Contender("fedavg", {}), Contender("fedavg", {"seed": 1})])
    with pytest.raises(UserError, match="'b' takes the rate of a line that is not tuned here"):
        small_plan(contenders=[Contender("a", {}), Contender("b", {}, like="c")])


def test_mean_and_spread_by_hand() -> None:
    # 80, 90 and 85 %: mean 85, deviations −5, 5 and 0, so the spread is √(50/2) = 5.
    one = StudyLine("a", [0.8, 0.9, 0.85], [0.8, 0.9, 0.9], 0.1, {}, 2.0, 3.0)
    assert one.mean == pytest.approx(0.85)
    assert one.spread == pytest.approx(0.05)
    assert "| a | 0.1 | 85.0 ± 5.0 | 86.7 | 2.0 | 3 | not audited |" in markdown([standings_table([one])])
    assert "| 3 | 17.1 % |" in markdown([standings_table([replace(one, leak=0.171)])])
    alone = replace(one, accuracies=[0.8], best=[0.8])
    assert "| a | 0.1 | 80.0, one seed | 80.0 | 2.0 | 3 | not audited |" in markdown([standings_table([alone])])
    (panel,) = standings_drawing("t", [one]).panels
    assert panel.names == ["a"]
    assert list(panel.traces[0].y) == pytest.approx([80, 90, 85])
