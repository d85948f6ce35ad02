"""What tables and JSON show of real runs is what these were given, took and spent."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import understudy as us
from understudy.config.resolve import resolve
from understudy.config.schema import Live
from understudy.data.settings import DataSettings
from understudy.errors import UserError
from understudy.federation.round_record import RoundRecord
from understudy.methods.fedavg import fedavg
from understudy.methods.shared.averaging import AveragingSettings
from understudy.runs.asked import next_folder
from understudy.runs.compare import Row, compare
from understudy.runs.folder import RunFolder
from understudy.runs.lost_work import Spent, UnderWay, lost
from understudy.runs.measure import cost_of
from understudy.runs.watching import Observer
from understudy.view.numbers import epsilon_shown, megabytes
from understudy.view.tables import comparison_notes, summary_lines

QUICK: dict[str, Any] = {"model": "softmax", "method": {"name": "fedavg", "rounds": 1, "local": {"epochs": 1}}}


def arrays(seed: int, n: int = 8) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 255, (n, 4, 4)).astype(np.uint8), np.arange(n) % 2


@pytest.fixture
def sites(tmp_path: Path) -> dict[str, str]:
    for number, name in enumerate(("north", "south")):
        x, y = arrays(number)
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    return {name: str(tmp_path / f"{name}.npz") for name in ("north", "south")}


# ---- the data that a run was on


def test_beside_own_sites_nothing_of_a_named_data_set_is_written(sites: dict[str, str], tmp_path: Path) -> None:
    folder = us.run({**QUICK, "data": {"sites": sites, "held_out": 0.25}}, out=tmp_path / "run").folder
    data = RunFolder(folder).config()["data"]
    assert data["sites"] == sites
    assert data["held_out"] == 0.25
    assert (
        not {"name", "clients", "split", "validation", "limit", "folder", "shapes", "canvases", "flair"} & data.keys()
    )
    assert compare([folder])[0].data == "own sites north, south"


def test_own_sites_that_take_a_presets_place_are_not_called_by_its_name(sites: dict[str, str], tmp_path: Path) -> None:
    folder = us.run("digits-skewed", out=tmp_path / "run", changes={**QUICK, "data.sites": sites}).folder
    assert compare([folder])[0].data == "own sites north, south"


def test_a_folder_that_still_has_the_unused_words_is_named_rightly_and_resumed(
    sites: dict[str, str], tmp_path: Path
) -> None:
    folder = us.run({**QUICK, "data": {"sites": sites}}, out=tmp_path / "run").folder
    words = RunFolder(folder).config()
    before = DataSettings(sites=dict(sites)).model_dump(mode="json")
    assert before["name"] == "digits"
    (folder / "config.yaml").write_text(yaml.safe_dump({**words, "data": before}))
    assert compare([folder])[0].data == "own sites north, south"
    assert us.run(out=folder, resume=True, rounds=2).summary["rounds"] == 2
    with pytest.raises(UserError, match=r"another config: data\.held_out is 0\.0 there and 0\.5 here"):
        us.run({**QUICK, "data": {"sites": sites, "held_out": 0.5}}, out=folder, resume=True)


OWN = {  # only for records that you bring
    *("test", "classes", "labels", "shape", "pixels", "multilabel"),
    *("label", "ignore", "missing", "vocabulary", "scale", "mode", "fit", "kind", "tokens", "categories"),
    *("memory", "ranges", "scale_noise", "person"),
}


@pytest.mark.parametrize(
    ("given", "unused"),
    [
        ({}, {"sites", *OWN}),
        ({"name": "all.npz"}, {"sites", "folder", "shapes", "canvases", "flair", "memory"}),
        ({"name": "canvases"}, {"sites", "clients", *OWN}),
    ],
)
def test_of_other_data_only_what_counts_is_written_and_read_back_it_is_the_same(
    given: dict[str, Any], unused: set[str]
) -> None:
    settings = DataSettings.model_validate(given)
    assert set(DataSettings.model_fields) - set(settings.words()) == unused
    assert resolve({"data": settings.words()}).data == settings


def test_many_sites_are_named_by_the_first_and_data_from_python_is_called_so(tmp_path: Path) -> None:
    federation = us.Federation.from_arrays({f"site-{n}": arrays(n) for n in range(2)}, test=arrays(9))
    live = us.run(QUICK, data=federation, out=tmp_path / "live").folder
    assert compare([live])[0].data == "data passed in Python"
    words = RunFolder(live).config() | {"data": {"sites": dict.fromkeys("abcd")}}
    (live / "config.yaml").write_text(yaml.safe_dump(words))
    assert compare([live])[0].data == "own sites a, b, c, …"


def test_the_folder_of_a_method_passed_in_python_has_a_name_that_people_understand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = resolve({}, live=Live(method=fedavg(AveragingSettings())))
    assert next_folder(None, config) == Path("runs/run-own-method-1")


# ---- what a run that was stopped took and spent


class Stops(Observer):
    """A person who stops the run when this many replies have come."""

    def __init__(self, after: int):
        self.left = after

    def heard(self, client: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


THREE = {
    "data": {"name": "digits", "clients": 3, "limit": 60, "split": "iid"},
    "model": "softmax",
    "method": {"name": "fedavg", "rounds": 3, "local": {"epochs": 1}},
    "engine": "inline",
}


def stopped(out: Path, replies: int, **changes: Any) -> Row:
    with pytest.raises(KeyboardInterrupt):
        us.run(THREE, out=out, observer=Stops(replies), changes=changes)
    return compare([out])[0]


def test_a_run_stopped_in_a_round_shows_the_seconds_and_bytes_that_went_into_it(tmp_path: Path) -> None:
    straight = us.run(THREE, out=tmp_path / "straight").metrics
    # Of round 2 two replies came, and the third client was sent the model too.
    row = stopped(tmp_path / "run", 5)
    each_up, each_down = next(iter(straight[1]["bytes_by_client"].values()))
    assert (row.rounds, row.finished, row.lost_work) == (1, False, True)
    assert row.bytes_up == 5 * each_up
    assert row.bytes_down == 6 * each_down
    counted = RunFolder(tmp_path / "run").metrics()
    assert row.seconds is not None
    assert row.seconds > sum(line["seconds"] for line in counted)
    assert "including interrupted rounds" in " ".join(comparison_notes([row]))


def test_resumed_it_still_shows_them_and_so_does_the_summary(tmp_path: Path) -> None:
    before = stopped(tmp_path / "run", 4)
    result = us.run(out=tmp_path / "run", resume=True)
    (row,) = compare([tmp_path / "run"])
    each_up, each_down = result.metrics[1]["bytes_by_client"]["client-0"]
    assert (row.bytes_up, row.bytes_down) == (10 * each_up, 11 * each_down)  # nine of three rounds, and the lost ones
    assert (result.summary["bytes_up"], result.summary["bytes_down"]) == (row.bytes_up, row.bytes_down)
    assert result.summary["seconds"] == row.seconds
    assert dict(summary_lines(result.folder, result.summary))["sent"].endswith("interrupted rounds that were repeated")
    assert row.seconds is not None
    assert before.seconds is not None
    assert row.seconds > before.seconds
    straight = us.run(THREE, out=tmp_path / "straight")
    assert straight.metrics[-1]["accuracy"] == row.accuracy
    assert not (tmp_path / "straight" / "under-way.json").exists()


def test_a_kill_leaves_what_was_known_at_the_last_pulse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.runs.lost_work.PULSE", 0.0)
    folder = us.run(THREE, out=tmp_path / "run", rounds=1).folder
    under_way, file = UnderWay(folder), folder / "under-way.json"
    with under_way.of_round(2, RoundRecord(up={"a": 70}, down={"a": 30})):
        under_way.beat()
        kept = file.read_text()  # what a kill leaves now
    assert not file.exists()
    file.write_text(kept)
    assert (lost(folder, 1).bytes_up, lost(folder, 1).bytes_down) == (70, 30)
    assert lost(folder, 2) == Spent()  # the round came to count before the file was gone
    file.write_text("{")
    assert lost(folder, 1) == Spent()


@pytest.mark.parametrize("replies", [0, 2])
def test_a_private_run_stopped_in_its_first_round_does_not_show_an_epsilon_of_nought(
    replies: int, tmp_path: Path
) -> None:
    changes = {"method.name": "dp-fedavg", "privacy": {"delta": 1e-3, "records": 20}}
    row = stopped(tmp_path / "run", replies, **changes)
    assert row.epsilon != 0.0
    assert row.seconds is not None


def test_rounds_that_clients_have_not_scored_yet_are_in_the_sums(tmp_path: Path) -> None:
    federation = us.Federation.from_arrays({f"site-{n}": arrays(n) for n in range(3)}, held_out=0.25)
    with pytest.raises(KeyboardInterrupt):  # in round 3: round 2 counts, its score comes with the replies of round 3
        us.run({**QUICK, "engine": "inline"}, data=federation, rounds=4, out=tmp_path / "run", observer=Stops(6))
    scored = RunFolder(tmp_path / "run").metrics()
    (row,) = compare([tmp_path / "run"])
    assert [line["round"] for line in scored] == [0, 1]
    assert row.rounds == 2
    assert row.accuracy == scored[-1]["accuracy"]
    assert row.bytes_up > scored[-1]["bytes_up"]


def test_what_a_private_run_spent_in_the_round_that_it_was_stopped_in_is_in_its_epsilon(tmp_path: Path) -> None:
    changes = {"method.name": "dp-fedavg", "privacy": {"delta": 1e-3, "records": 20}}
    row = stopped(tmp_path / "run", 5, **changes)
    run = RunFolder(tmp_path / "run")
    counted = run.metrics()[-1]
    assert (counted["round"], row.rounds) == (1, 1)
    assert row.epsilon == run.ledger()["epsilon"]
    assert row.epsilon is not None
    assert row.epsilon > counted["epsilon"] > 0


def test_a_last_round_that_was_undone_is_not_the_one_that_the_accuracy_is_of(tmp_path: Path) -> None:
    # Three rounds cost more than 12; the third is refused by every client.
    changes = {
        "method.name": "dp-fedavg",
        "method.noise": 1.0,
        "privacy": {"epsilon": 6.0, "delta": 1e-3, "records": 20},
    }
    result = us.run(THREE, out=tmp_path / "run", changes=changes)
    undone = [line["round"] for line in result.metrics if line["undone"]]
    assert undone
    assert result.summary["rounds"] == undone[0] - 1
    assert compare([result.folder])[0].rounds == undone[0] - 1


# ---- what is written beside the numbers


def at_home(out: Path, **changes: Any) -> us.Result:
    federation = us.Federation.from_arrays({f"site-{n}": arrays(n) for n in range(3)}, held_out=0.25)
    return us.run({**QUICK, "engine": "inline"}, data=federation, rounds=2, out=out, changes=changes)


def test_bytes_by_client_add_up_to_the_rounds_bytes_also_after_the_last_scores_were_asked_for(tmp_path: Path) -> None:
    result = at_home(tmp_path / "run", **{"method.cohort": 2})
    for line in result.metrics:
        up, down = (sum(both[way] for both in line["bytes_by_client"].values()) for way in (0, 1))
        assert (line["bytes_up"], line["bytes_down"]) == (up, down), line["round"]
    # Two of three clients took part in each of two rounds; being asked for scores at the end is not a round.
    found = cost_of(result.metrics, [], 10, 3)
    assert found is not None
    assert found.rounds == pytest.approx(4 / 3)


def test_accuracy_on_held_out_records_is_not_called_test_accuracy(tmp_path: Path) -> None:
    at_clients = compare([at_home(tmp_path / "run").folder])
    assert comparison_notes(at_clients)[0] == "last, best: accuracy in %, on records held out at the clients."
    at_server = compare([us.run(THREE, out=tmp_path / "other", changes={"method.name": "fedprox"}).folder])
    assert comparison_notes(at_server)[0] == "last, best: accuracy in %, on the test records."
    both = comparison_notes([*at_clients, *at_server])[0]
    assert both == "last, best: accuracy in %, on the test records, that of fedavg on records held out at the clients."


def test_an_epsilon_above_nought_and_bytes_above_none_are_never_written_as_nought() -> None:
    assert [epsilon_shown(value) for value in (None, 0.0, 0.0042, 0.014, 8.0397)] == [
        "–",
        "0.00",
        "0.004",
        "0.01",
        "8.04",
    ]
    assert epsilon_shown(0.00042, 3) == "0.0004"
    assert [megabytes(count) for count in (0, 340, 4_200, 14_000)] == ["0.0", "0.0003", "0.004", "0.01"]
