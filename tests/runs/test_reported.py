"""What a report reads from a run's folder, whatever state it is in."""

from pathlib import Path

import numpy as np
import pytest

import understudy as us
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.runs.folder import RunFolder
from understudy.runs.holdings import read_holdings
from understudy.runs.machine import note_machine, read_machines, this_machine
from understudy.runs.reported import read_reported
from written_runs import change_config, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    changes = {"data.clients": 3, "model.fast": "eager", "engine": "inline", "method.local": {"epochs": 1}}
    return us.run("digits-skewed", rounds=2, changes=changes, out=tmp_path_factory.mktemp("r") / "run").folder


def test_a_run_notes_who_held_what_where_it_ran_and_how_long_each_client_took(run: Path) -> None:
    found = read_reported([run])[0]
    assert found.holdings is not None
    split = us.load(run)
    assert sum(found.holdings.records.values()) == 1437  # 360 of 1797 digits are for the test
    assert sum(map(sum, map(found.holdings.row, found.holdings.records))) == 1437
    assert found.machines == [this_machine()]
    line = split.metrics[-1]
    asked = set(line["bytes_by_client"])
    assert set(line["seconds_by_client"]) == asked
    assert 0 < sum(line["seconds_by_client"].values()) <= line["seconds"] + 0.01
    assert found.attendance.usual_seconds is not None
    assert (found.sets, found.remarks, found.repeatable) == ({}, [], True)


def test_several_labels_are_counted_by_record_and_by_label(tmp_path: Path) -> None:
    x, y = np.zeros((6, 1, 4, 4), np.uint8), np.array([[1, 1], [1, 0], [0, 0]] * 2, np.float32)
    data = Federation.from_arrays({"north": (x, y)}, test=(x, y))
    out = us.run(
        data=data, model="mlp", method="fedavg", rounds=1, out=tmp_path / "run", changes={"engine": "inline"}
    ).folder
    found = read_holdings(out)
    assert found is not None
    assert (found.records, found.row("north")) == ({"north": 6}, [4, 2])
    assert not read_reported([out])[0].repeatable  # the data was passed in Python


def test_only_the_seed_sets_kin_apart(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name) for name in "abc"]
    for seed, folder in enumerate(folders):
        change_config(folder, seed=seed, data_digest=str(seed), engine={"name": "workers", "workers": seed})
    change_config(folders[2], data={"name": "mnist"})
    first, second, third = (one.family for one in read_reported(folders))
    assert first == second != third


def test_a_run_resumed_elsewhere_has_two_machines(tmp_path: Path) -> None:
    folder = RunFolder(write_run(tmp_path / "run"))
    folder.write_json("machine.json", [{"torch": "1.0", "cores": 64}])
    for _ in range(2):
        note_machine(folder)
    assert read_machines(folder.path) == [{"torch": "1.0", "cores": 64}, this_machine()]


@pytest.mark.parametrize("damage", ["holdings.json", "ledger.json", "synthetic/north.npz"])
def test_what_cannot_be_read_is_left_out_with_a_remark(tmp_path: Path, damage: str) -> None:
    folder = write_run(tmp_path / "run")
    (folder / damage).parent.mkdir(exist_ok=True)
    (folder / damage).write_text('{"clients": 3')
    found = read_reported([folder])[0]
    assert len(found.remarks) == 1
    assert str(folder / damage) in found.remarks[0]
    assert found.row.accuracy == 0.5


def test_half_a_line_and_a_damaged_machine_file_do_no_harm(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", (0.1, 0.2, 0.3))
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"round": 3, "accu')
    (folder / "machine.json").write_text("[7, ")
    found = read_reported([folder])[0]
    assert [line["round"] for line in found.lines] == [0, 1, 2]
    assert (found.machines, found.remarks) == ([], [])


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("metrics.jsonl", '{"round": 0, "accuracy": "<b>", "bytes_up": 0, "bytes_down": 0, "epsilon": null, "failed": 0, "seconds": 1}', "line 1: 'accuracy' is no number"),  # noqa: E501
        ("metrics.jsonl", '{"round": 0, "bytes_up": [], "bytes_down": 0, "epsilon": null, "failed": 0, "seconds": 1}', "line 1: 'bytes_up' is no number"),  # noqa: E501
        ("config.yaml", "method: {name: a, rounds: '<b>'}\ndata: {name: d}", "method.rounds is not a whole number"),
        ("config.yaml", "method: {name: a, rounds: 1}\ndata: {name: d}\nwith: [7]", "'with' does not list add-ons"),
        ("config.yaml", "method: {name: a, rounds: 1}\ndata: {sites: 7}", "data.sites does not name sites"),
    ],
)  # fmt: skip
def test_a_folder_that_is_not_what_it_claims_gets_one_sentence(
    tmp_path: Path, file: str, text: str, sentence: str
) -> None:
    folder = write_run(tmp_path / "run")
    (folder / file).write_text(text + "\n")
    with pytest.raises(UserError, match=sentence):
        read_reported([folder])


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run folder: it has no config"):
        read_reported([tmp_path])
    with pytest.raises(UserError, match="No run folder was given"):
        read_reported([])


def test_a_config_that_yaml_aliases_blow_up_is_read_in_no_time(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    layers = "".join(f"l{at}: &l{at} [{', '.join([f'*l{at - 1}'] * 9)}]\n" for at in range(1, 20))
    (folder / "config.yaml").write_text((folder / "config.yaml").read_text() + "l0: &l0 [1]\n" + layers)
    assert len(read_reported([folder])[0].family) == 16
    (folder / "config.yaml").write_text("method: &m {name: a, rounds: 1, more: *m}\ndata: {name: d}\n")
    with pytest.raises(UserError, match=r"nested too deeply|not valid YAML"):
        read_reported([folder])
