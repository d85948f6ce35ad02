"""A store whose runs are played elsewhere: what travels, what comes back, and runs that die on the way."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from understudy.config.resolve import resolve
from understudy.papers.carrying_out import carry_out, played_lines
from understudy.papers.comparison import Comparison, Contender, FirstRounds, ShuffledImages
from understudy.runs import cluster_store, run_store
from understudy.runs.asked import asked
from understudy.runs.cluster_store import ClusterStore, RunForNode
from understudy.runs.run_store import FinishedRun, RunStore, StoredConfig
from understudy.runs.sweep import sweep
from understudy.runs.watching import Observer

SMALL: dict[str, Any] = {
    "data": {"name": "digits", "limit": 150, "clients": 2, "split": "iid"},
    "model": "softmax",
    "method": {"name": "fedavg", "rounds": 1, "local": {"epochs": 1}},
    "engine": {"name": "workers", "workers": 2},
}


class Nodes:
    """Stands for a cluster: calls go through pickle, as they do there, and come back last first."""

    def __init__(self, dying: Sequence[int] = ()):
        self.dying, self.jobs = dying, list[RunForNode]()

    def __call__(
        self, work: Callable[[Any], Any], items: Sequence[Callable[[], Any]], address: str, *, gpus: float
    ) -> Iterator[tuple[int, Any]]:
        for number in reversed(range(len(items))):
            job = pickle.loads(pickle.dumps(items[number]()))
            self.jobs.append(job)
            yield number, None if number in self.dying else pickle.loads(pickle.dumps(work(job)))


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Nodes:
    made = Nodes()
    monkeypatch.setattr(cluster_store, "spread_on_ray", made)
    return made


def stored(rate: float, **more: Any) -> StoredConfig:
    return StoredConfig(resolve(SMALL, {"method.local.lr": rate, **more}))


@pytest.mark.usefixtures("nodes")
def test_a_run_from_a_node_is_the_one_that_this_machine_would_have_played(tmp_path: Path) -> None:
    runs, there, here = (
        [stored(0.1), stored(0.5)],
        ClusterStore(tmp_path / "there", "auto"),
        RunStore(tmp_path / "here"),
    )
    assert sorted(there.play_all(runs, Observer(), 1)) == [(0, ""), (1, "")]
    for run in runs:
        away, home = there.find(run), here.play(run, Observer())
        assert isinstance(away, FinishedRun)
        assert isinstance(home, FinishedRun)
        model = "model.safetensors"
        assert (away.folder / model).read_bytes() == (home.folder / model).read_bytes()
    assert [folder.name for folder in (tmp_path / "there" / "runs").iterdir() if folder.name.startswith("arriv")] == []


def test_a_sweep_over_a_cluster_finds_what_a_sweep_here_does(nodes: Nodes, tmp_path: Path) -> None:
    found = [
        sweep(asked(SMALL), {"lr": [0.1, 0.5]}, [0], store=store, observer=Observer(), workers=1).rows()
        for store in (ClusterStore(tmp_path / "there", "auto"), RunStore(tmp_path / "here"))
    ]
    shown = [[(row["lr"], row["validation_accuracy"], row["test_accuracy"]) for row in rows] for rows in found]
    assert shown[0] == shown[1]
    assert len(nodes.jobs) == 2


def test_a_run_whose_node_dies_is_told_of_and_the_others_are_kept(nodes: Nodes, tmp_path: Path) -> None:
    nodes.dying = [0]
    store, runs = ClusterStore(tmp_path, "auto"), [stored(0.1), stored(0.5)]
    assert dict(store.play_all(runs, Observer(), 1)) == {0: cluster_store.DIED, 1: ""}
    assert store.find(runs[0]) is None
    assert isinstance(store.find(runs[1]), FinishedRun)


@pytest.mark.usefixtures("nodes")
def test_a_run_that_fails_on_a_node_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise ValueError("no such layer")

    monkeypatch.setattr(run_store, "play", fails)
    assert list(ClusterStore(tmp_path, "auto").play_all([stored(0.1)], Observer(), 1)) == [
        (0, "ValueError: no such layer")
    ]


class Stop(Exception):
    pass


class StopsAfter(Observer):
    def __init__(self, round: int):
        self.round = round

    def scored(self, line: dict[str, Any]) -> None:
        if line["round"] == self.round:
            raise Stop


def test_a_begun_run_goes_on_from_where_it_was(nodes: Nodes, tmp_path: Path) -> None:
    run = stored(0.5, **{"method.rounds": 3})
    store = ClusterStore(tmp_path, "auto")
    with pytest.raises(Stop):
        RunStore(tmp_path).play(run, StopsAfter(2))
    begun = (store.folder(run) / "run-id").read_bytes()
    assert list(store.play_all([run], Observer(), 1)) == [(0, "")]
    assert (store.folder(run) / "run-id").read_bytes() == begun
    assert nodes.jobs[0].folders[store.folder(run).name]["run-id"] == begun


def test_first_rounds_and_generators_travel_with_the_runs_that_need_them(nodes: Nodes, tmp_path: Path) -> None:
    plan = Comparison(
        "two",
        "",
        SMALL,
        (0.5,),
        (0,),
        [
            Contender("after FedAvg", {"method.name": "fedprox", "method.rounds": 2}, begins=FirstRounds({}, 1)),
            Contender("with images", {}, images=ShuffledImages({"name": "vae", "epochs": 1})),
        ],
    )
    stores = ClusterStore(tmp_path / "there", "auto"), RunStore(tmp_path / "here")
    for store in stores:
        carry_out([plan], store, Observer(), 1)
    there, here = (played_lines([plan], store) for store in stores)
    assert {label: line.accuracies for label, line in there.items()} == {
        label: line.accuracies for label, line in here.items()
    }
    assert set(there) == {"after FedAvg", "with images"}
    assert [len(job.folders) for job in nodes.jobs] == [0, 0, 1, 1]


def test_a_node_with_other_code_is_told_of(nodes: Nodes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store, run = ClusterStore(tmp_path, "auto"), stored(0.1)
    monkeypatch.setattr(cluster_store.RunInWords, "read", lambda self, runs: stored(0.2))
    assert list(store.play_all([run], Observer(), 1)) == [(0, cluster_store.OTHER_CODE)]
    assert len(nodes.jobs) == 1
    assert not store.folder(run).exists()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"method.name": "feddm", "method.steps": 2},
        {"with": [{"name": "fedssyn", "generator": {"name": "vae", "epochs": 2}}, "fedcog"]},
        {"privacy": {"epsilon": 8, "delta": 1e-4, "records": 100}, "method.name": "dp-fedavg"},
        {"data.split": {"kind": "dirichlet", "alpha": 0.1}, "engine.together": 2, "transcript": True},
        {"model": {"name": "mlp", "hidden": [8]}, "data.size": 8},
    ],
)
def test_a_config_in_words_is_the_same_config(changes: dict[str, Any]) -> None:
    config = resolve(SMALL, changes)
    assert StoredConfig(resolve(config.asked(), {})).digest == StoredConfig(config).digest
