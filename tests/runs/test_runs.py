"""Runs: the folder, resuming, scores at the clients, and what goes wrong."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file
from torch import nn

import understudy as us
from understudy.config.resolve import resolve
from understudy.engines.choose import on_this_machine
from understudy.errors import UserError
from understudy.runs.folder import RunFolder
from understudy.runs.play import play
from understudy.runs.watching import RunStopped

TINY = {
    "data": {"name": "digits", "limit": 120, "clients": 4},
    "model": "softmax",
    "method": {"name": "fedavg", "rounds": 2, "local": {"epochs": 1, "lr": 0.1}},
    "engine": "inline",
}
Sites = dict[str, tuple[Any, Any]]


def sites(count: int = 3, records: int = 20) -> Sites:
    rng = np.random.default_rng(0)
    found: Sites = {}
    for i in range(count):
        y = rng.integers(0, 2, records)
        found[f"site-{i}"] = ((rng.integers(0, 80, (records, 4, 4)) + 150 * y[:, None, None]).astype(np.uint8), y)
    return found


class TwoLayers(nn.Module):
    """A network of somebody's own: features and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(16, 5)
        self.head = nn.Linear(5, 2)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.hidden(x.flatten(1)))


def test_what_real_sites_sent_is_for_the_servers_owner_only(tmp_path: Path) -> None:
    config = resolve(TINY)
    elsewhere, here = tmp_path / "elsewhere", tmp_path / "here"
    elsewhere.mkdir(mode=0o755)
    play(config, elsewhere, engine=on_this_machine(config.engine))
    play(config, here)
    assert elsewhere.stat().st_mode & 0o777 == 0o700
    assert here.stat().st_mode & 0o777 == 0o777 & ~_umask()


def _umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


def test_a_run_folder_holds_what_the_design_says(tmp_path: Path) -> None:
    result = us.run(TINY, out=tmp_path / "run")
    there = {path.name for path in (tmp_path / "run").iterdir()}
    assert there >= {
        "config.yaml",
        "metrics.jsonl",
        "summary.json",
        "model.safetensors",
        "split.json",
        "ledger.json",
        "checkpoint",
    }
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [0, 1, 2]
    wanted = {"round", "accuracy", "loss", "bytes_up", "bytes_down", "epsilon", "clients", "failed", "seconds"}
    assert all(wanted <= line.keys() for line in lines)
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert {"accuracy", "best_accuracy", "rounds", "bytes_up", "bytes_down", "epsilon", "seconds"} <= summary.keys()
    assert summary["epsilon"] is None, "nothing covers the weights that left"
    assert result.accuracy == lines[-1]["accuracy"] == summary["accuracy"]
    assert set(load_file(tmp_path / "run/model.safetensors")) == {"head.weight", "head.bias"}


def test_bytes_of_fedavg_are_within_one_per_cent_of_its_parameters(tmp_path: Path) -> None:
    result = us.run({**TINY, "model": "small-convnet"}, out=tmp_path / "run", rounds=1)
    plain = 4 * 10_986 * 4  # float32, parameters, clients
    line = result.metrics[1]
    assert plain < line["bytes_up"] < 1.01 * plain
    assert plain < line["bytes_down"] < 1.01 * plain


def test_the_ledger_lists_what_left_each_client(tmp_path: Path) -> None:
    us.run(TINY, out=tmp_path / "run")
    ledger = json.loads((tmp_path / "run/ledger.json").read_text())
    lines = {line["part"]: line for line in ledger["clients"]["client-0"]}
    assert lines["change"] == {
        "task": "Averaging.train",
        "part": "change",
        "kind": "weights",
        "releases": 2,
        "bytes": 2 * 650 * 4,
        "covered": 0,
        "mechanism": None,
    }
    assert ledger["epsilon"] is None


def test_own_arrays_own_network_and_scores_at_the_clients(tmp_path: Path) -> None:
    """Without a test set on the server the clients score, a round later, and one last ask closes the run."""
    torch.manual_seed(0)
    federation = us.Federation.from_arrays(sites(), held_out=0.25)
    result = us.run(
        {"method": {"local": {"lr": 0.5, "epochs": 30}}},
        data=federation,
        model=TwoLayers(),
        method="fedavg",
        rounds=3,
        engine="inline",
        out=tmp_path / "run",
    )
    assert [line["round"] for line in result.metrics] == [0, 1, 2, 3]
    assert all(line["scored_at"] == "clients" for line in result.metrics)
    assert result.accuracy is not None
    assert result.accuracy > 0.8
    assert set(result.weights) == {"hidden.weight", "hidden.bias", "head.weight", "head.bias"}


def test_scores_at_the_clients_survive_a_stop(tmp_path: Path) -> None:
    federation = us.Federation.from_arrays(sites(), held_out=0.25)
    base: dict[str, Any] = {"data": federation, "model": "softmax", "engine": "inline"}
    straight = us.run(**base, rounds=3, out=tmp_path / "straight")
    us.run(**base, rounds=1, out=tmp_path / "resumed")
    resumed = us.run(**base, rounds=3, out=tmp_path / "resumed", resume=True)
    assert [line["accuracy"] for line in resumed.metrics] == [line["accuracy"] for line in straight.metrics]
    assert [line["round"] for line in resumed.metrics] == [0, 1, 2, 3]


def test_a_missing_last_line_is_made_again(tmp_path: Path) -> None:
    first = us.run(TINY, out=tmp_path / "run")
    metrics = tmp_path / "run/metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join(lines[:2]) + lines[2][:30])  # killed while the last line was written
    again = us.run(TINY, out=tmp_path / "run", resume=True)
    assert [line["accuracy"] for line in again.metrics] == [line["accuracy"] for line in first.metrics]


def test_a_learning_rate_that_diverges_ends_the_run_with_a_sentence_and_keeps_the_folder(tmp_path: Path) -> None:
    wild = {**TINY, "model": "mlp", "method": {"name": "fedavg", "rounds": 5, "local": {"lr": 1e20}}}
    with pytest.raises(RunStopped, match=r"3 rounds in a row had too few replies \(client-0: its reply is not finite"):
        us.run(wild, out=tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["undone"] for line in lines] == [False, True, True, True]
    assert all("not finite" in failure["why"] for failure in lines[1]["failures"])
    assert lines[1]["accuracy"] == lines[0]["accuracy"], "nothing of it was averaged in"
    assert (tmp_path / "run/model.safetensors").exists()


def test_clients_with_no_record_one_record_and_one_class(tmp_path: Path) -> None:
    holders = sites(2)
    x, y = holders["site-0"]
    holders |= {"empty": (x[:0], y[:0]), "single": (x[:1], y[:1]), "one-class": (x[y == 1], y[y == 1])}
    federation = us.Federation.from_arrays(holders, test=holders["site-1"])
    result = us.run(data=federation, model="softmax", rounds=2, engine="inline", out=tmp_path / "run")
    assert result.summary["failed"] == 0
    assert result.metrics[-1]["clients"] == 5


def test_a_federation_of_empty_clients_is_left_as_it_was(tmp_path: Path) -> None:
    x, y = sites(1)["site-0"]
    federation = us.Federation.from_arrays({"a": (x[:0], y[:0]), "b": (x[:0], y[:0])}, test=(x, y))
    result = us.run(data=federation, model="softmax", rounds=1, engine="inline", out=tmp_path / "run")
    assert result.metrics[1]["accuracy"] == result.metrics[0]["accuracy"]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"method.cohort": 9}, r"method\.cohort is 9, but there are 4 clients"),
    ({"method.cohort": 0.0}, r"method\.cohort is 0\.0"),
    ({"method.min_replies": 5}, r"method\.min_replies is 5, but a round asks only 4"),
    ({"device": "cuda:7"}, r"device 'cuda:7' cannot be used here"),
    ({"model": "vgg11"}, r"vgg11"),
    ({"policy": "nope.yaml"}, r"nope\.yaml.*a site cannot work without its policy"),
    (
        {"data": {"limit": None, "sites": {"ash": None}, "classes": 2, "shape": [4]}},
        r"This config's records are at its sites",
    ),
    ({"engine": "flower", "data.clients": 60}, r"at most 50 sites, not 60"),
]


@pytest.mark.parametrize(("changes", "sentence"), BAD, ids=lambda part: str(part)[:40])
def test_what_cannot_be_run_is_refused_before_the_folder_is_touched(
    changes: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=sentence) as error:
        us.run(TINY, out=tmp_path / "run", changes=changes)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_a_run_or_anything_else_is_left_alone(tmp_path: Path) -> None:
    us.run(TINY, out=tmp_path / "run")
    before = (tmp_path / "run/metrics.jsonl").read_text()
    with pytest.raises(UserError, match="already holds a run; add resume=True"):
        us.run(TINY, out=tmp_path / "run")
    assert (tmp_path / "run/metrics.jsonl").read_text() == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    with pytest.raises(UserError, match=r"is not empty \(it has letter.txt\)"):
        us.run(TINY, out=tmp_path / "mine")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="choose another out"):
        us.run(TINY, out=tmp_path / "file")
    with pytest.raises(UserError, match="choose another out"):
        us.run(TINY, out=tmp_path / "file" / "below")


def test_a_folder_that_is_not_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", closed)
    with pytest.raises(UserError, match=r"cannot be written to \(Permission denied\); choose another out"):
        us.run(TINY, out=tmp_path / "run")


def test_resuming_with_another_config_names_the_difference(tmp_path: Path) -> None:
    us.run(TINY, out=tmp_path / "run")
    with pytest.raises(UserError, match=r"belongs to another config: method\.local\.lr is 0\.1 there and 0\.2 here"):
        us.run(TINY, out=tmp_path / "run", resume=True, changes={"method.local.lr": 0.2})
    more = us.run(TINY, out=tmp_path / "run", resume=True, rounds=3, engine={"name": "workers", "workers": 1})
    assert more.summary["rounds"] == 3


def test_a_checkpoint_cut_in_half_is_said_to_be(tmp_path: Path) -> None:
    us.run(TINY, out=tmp_path / "run")
    checkpoint = next((tmp_path / "run/checkpoint").glob("*.json"))
    checkpoint.write_bytes(checkpoint.read_bytes()[:40])
    with pytest.raises(UserError, match="is damaged; restore it from a copy"):
        us.run(TINY, out=tmp_path / "run", resume=True)
    assert (tmp_path / "run/model.safetensors").exists()


def test_a_network_that_is_nothing_but_a_layer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model: "):
        us.run(TINY, model=nn.ReLU(), out=tmp_path / "run")


def test_synthetic_sets_are_kept_as_they_left(tmp_path: Path) -> None:
    feddm = {"name": "feddm", "ipc": 2, "steps": 2, "real_batch": 4, "min_class_records": 1, "server": {"epochs": 1}}
    us.run({**TINY, "method": feddm}, rounds=1, out=tmp_path / "run")
    sets = RunFolder(tmp_path / "run").synthetic()
    assert set(sets) == {f"client-{i}" for i in range(4)}
    assert all(examples.x.dtype == torch.float32 and len(examples) % 2 == 0 for examples in sets.values())


def test_settings_of_an_add_on_that_is_named_beside_them(tmp_path: Path) -> None:
    short = {"with.fedssyn.generator": {"name": "vae", "epochs": 1}, "with.fedssyn.sound_only": False}
    us.run(TINY, add=["fedssyn"], changes=short, rounds=1, out=tmp_path / "run")
    (fedssyn,) = yaml.safe_load((tmp_path / "run/config.yaml").read_text())["with"]
    assert fedssyn["generator"]["epochs"] == 1
