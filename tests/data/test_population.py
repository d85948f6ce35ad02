"""Very many clients: the same split as an index, holdings made when they are asked for, a folder that stays small."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import understudy as us
from understudy.data import assemble
from understudy.data.dataset import Dataset
from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.data.population import NumberedNames, PopulationSites
from understudy.data.problem import Problem
from understudy.data.splits.dirichlet import Dirichlet, fill_up
from understudy.data.splits.kind import SplitKind
from understudy.data.splits.make import make_population, make_split
from understudy.data.splits.simple import Iid, Users
from understudy.federation.cohorts import in_order
from understudy.runs.folder import RunFolder


def dataset(records: int = 103, users: int = 12) -> Dataset:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.integers(0, 256, (records, 1, 2, 2), dtype=np.uint8))
    train = Examples(x, torch.from_numpy(rng.integers(0, 3, records)))
    whose = torch.from_numpy(7 * rng.integers(0, users, records))
    return Dataset("made-up", Problem((1, 2, 2), 3), train, train.take([0, 1, 2]), users=whose)


@pytest.mark.parametrize(
    "kind", [Iid(), Users(), Dirichlet(alpha=0.5, min_records=2)], ids=["iid", "users", "dirichlet"]
)
@pytest.mark.parametrize(("held_out", "validation"), [(0.0, 0.0), (0.3, 0.1)])
def test_an_index_deals_out_the_same_records_as_a_split(kind: SplitKind, held_out: float, validation: float) -> None:
    how: dict[str, Any] = {"clients": 12, "seed": 3, "held_out": held_out, "validation": validation}
    made = Federation.from_split(dataset(), make_split(dataset(), kind, **how))
    indexed = Federation.from_population(dataset(), *make_population(dataset(), kind, **how))
    assert list(indexed.sites) == in_order(made.sites)
    for name, holding in made.sites.items():
        for part in ("own", "held_out"):
            one, other = getattr(holding, part), getattr(indexed.sites[name], part)
            assert torch.equal(one.x, other.x)
            assert torch.equal(one.y, other.y)
    assert indexed.holds_out == made.holds_out == (held_out > 0)


@pytest.mark.parametrize(
    "name", ["client-12", "client--1", "client-01", "client-", "client-¹", "user-3", "client-" + "9" * 30]
)
def test_a_name_that_no_client_has_is_nobodys(name: str) -> None:
    assert NumberedNames("client-", np.arange(12)).place(name) is None
    assert NumberedNames("client-", np.array([3, 11])).place(name) is None
    with pytest.raises(KeyError):
        Federation.from_population(dataset(), *make_population(dataset(), Iid(), clients=12, seed=3)).sites[name]


def test_names_are_those_of_a_list() -> None:
    names = NumberedNames("user-", np.array([2, 10, 11]))
    assert [*names] == ["user-2", "user-10", "user-11"] == [names[at] for at in range(3)] == in_order([*names])
    assert [names.place(name) for name in names] == [0, 1, 2]


def run(out: Path, **more: Any) -> us.Result:
    data = {"name": "digits", "limit": 300, "clients": 30, "split": "iid"}
    method = {"name": "scaffold", "rounds": 3, "cohort": 5, "local": {"steps": 2, "batch": 4, "lr": 0.1}}
    words = {"data": data, "model": {"name": "softmax"}, "method": method, "engine": {"name": "inline"}}
    return us.run(words, out=out, **more)


def test_a_population_learns_what_as_many_clients_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = run(tmp_path / "listed")
    monkeypatch.setattr(assemble, "MANY", 30)
    indexed = run(tmp_path / "indexed")
    both = [(folder / "model.safetensors").read_bytes() for folder in (listed.folder, indexed.folder)]
    assert both[0] == both[1]
    assert RunFolder(listed.folder).ledger() == RunFolder(indexed.folder).ledger()
    split = json.loads((indexed.folder / "split.json").read_text())
    assert (split["rule"], split["clients"], split["seed"]) == ({"kind": "iid"}, 30, 0)
    assert not (indexed.folder / "holdings.json").exists()


def test_the_folder_of_a_run_does_not_grow_with_its_population(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "MANY", 30)
    sizes = []
    for clients in (30, 300):
        folder = run(tmp_path / str(clients), changes={"data.clients": clients}).folder
        sizes.append(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert [len(line["bytes_by_client"]) for line in lines] == [0, 5, 5, 5]
    assert sizes[1] < 1.05 * sizes[0] + 1000


def test_a_run_makes_the_holdings_of_those_it_asks_and_of_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, make = [], PopulationSites._make

    def counted(self: PopulationSites, *given: Any) -> Any:
        made.append(given)
        return make(self, *given)

    monkeypatch.setattr(assemble, "MANY", 30)
    monkeypatch.setattr(PopulationSites, "_make", counted)
    run(tmp_path / "run", changes={"data.clients": 300, "method.rounds": 1})
    assert 5 <= len(made) <= 12  # five clients; who looks first finds one or two more


def test_a_population_that_scores_at_home_asks_one_more_cohort_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assemble, "MANY", 30)
    result = run(
        tmp_path / "run", changes={"data.held_out": 0.3, "model": "mlp", "method": "fedrep", "rounds": 3, "cohort": 5}
    )
    assert len(result.metrics[-1]["bytes_by_client"]) <= 10
    assert result.accuracy is not None


def test_clients_are_filled_up_from_the_largest_without_looking_at_all_of_them() -> None:
    """The slow, obvious version beside it."""
    rng = np.random.default_rng(1)
    parts = [np.arange(size) + 1000 * at for at, size in enumerate(rng.integers(0, 40, 60).tolist())]
    filled, many = fill_up(parts, 12)
    slow = list(parts)
    for needy in range(len(slow)):
        while (lacking := 12 - len(slow[needy])) > 0:
            largest = max(range(len(slow)), key=lambda k: len(slow[k]))
            moved = min(lacking, len(slow[largest]) - 12)
            slow[needy] = np.concatenate([slow[needy], slow[largest][-moved:]])
            slow[largest] = slow[largest][:-moved]
    assert many == sum(len(part) < 12 for part in parts)
    assert all(np.array_equal(one, other) for one, other in zip(filled, slow, strict=True))
