"""Methods that make records, on vectors of floats: by hand where that can be done, and on a table that they learn."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fedlap_toys import still as still  # a fixture
from stage import SEED, Stage, bound, records
from torch import nn

import understudy as us
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation import registry
from understudy.federation.message import Message
from understudy.federation.server import Reply
from understudy.learning.local import Local
from understudy.methods.feddm import FedDM, FedDMSettings
from understudy.methods.fedlap import FedLap
from understudy.methods.fedlap.settings import FedLapSettings
from understudy.methods.fedssyn.fedssyn import Fedssyn
from understudy.methods.fedssyn.settings import FedssynSettings
from understudy.methods.real import Real, RealSettings
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.synthesis.duplicates import near_copies

PAIR = Problem((2,), 2, floats=True)
# Class 0 has the mean (2, 1), class 1 the mean (-1, 3).
OWN = records([[0, 0], [4, 2], [-1, 2], [-1, 4]], [0, 0, 1, 1])


def linear(problem: Problem = PAIR) -> Network:
    """Features are the record itself, and every weight is 0."""

    def build() -> nn.Module:
        head = nn.Linear(2, problem.classes)
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        return Classifier(nn.Flatten(), head)

    return Network(build, problem)


def test_feddm_moves_a_vector_towards_the_mean_of_its_class_by_hand() -> None:
    # Next to the zero model logits are 0 and features the record: the loss is |m − x|², its slope 2(x − m). A step of
    # rate 1/4 goes half of the way, two steps go three quarters. Both records are in every batch.
    starts = {0: [[0.0, 0.0], [4.0, 2.0]], 1: [[-1.0, 2.0], [-1.0, 4.0]]}
    means = torch.tensor([[2.0, 1.0], [-1.0, 3.0]])
    for steps, way in ((0, 0.0), (1, 0.5), (2, 0.75)):
        quick = {"ipc": 1, "steps": steps, "real_batch": 2, "image_lr": 0.25, "image_momentum": 0, "radius": 1e-9}
        chosen = FedDM(FedDMSettings(min_class_records=2, **quick))  # type: ignore[arg-type]
        net = linear()
        reply = chosen.distil(Stage(bound(chosen, net), {"a": OWN}).client("a", 1), Message(model=net.initial()))
        assert reply["y"].tolist() == [0, 1]
        for c in (0, 1):
            ends = [(torch.tensor(x) + way * (means[c] - torch.tensor(x))).tolist() for x in starts[c]]
            assert any(reply["x"][c].tolist() == pytest.approx(end, abs=1e-5) for end in ends)


@pytest.mark.usefixtures("still")
def test_fedlaps_server_learns_from_vectors_as_from_records_by_hand() -> None:
    # All four records are sent as they are. At zero p = ½, so output 0 has the slope ¼·½·(class 1 − class 0, summed):
    # one step of 0.1 gives 0.1 · ⅛ · ((0+4) − (-1-1), (0+2) − (2+4)) = (.075, -.05).
    quick = {"ipc": 2, "batch": 4, "server_epochs": 1, "pool_batch": 4, "lr": 0.1, "schedule": "constant"}
    once: dict[str, Any] = {"real_batches": 1, "image_steps": 1, "dsa": False, "radius_rule": "fixed", "momentum": 0}
    known = {key: value for key, value in {**quick, **once}.items() if key in FedLapSettings.model_fields}
    chosen = FedLap(FedLapSettings(**known))
    net = linear()
    state = Stage(bound(chosen, net), {"a": OWN}).play(1)
    learnt = net.named(state["model"])["head.weight"]
    torch.testing.assert_close(learnt, torch.tensor([[0.075, -0.05], [-0.075, 0.05]]))


def test_real_sends_float_records_as_they_are() -> None:
    chosen = Real(RealSettings(ipc=1, min_class_records=2, server=Local(epochs=1)))
    reply = chosen.pick(Stage(bound(chosen, linear()), {"a": OWN}).client("a", 1), Message())
    assert reply["x"].dtype == torch.float32
    assert all(
        row in OWN.x[OWN.y == label].tolist() for row, label in zip(reply["x"].tolist(), reply["y"], strict=True)
    )


# ---- Fedssyn


def shuffled(**given: Any) -> Fedssyn:
    generator = {"name": "vae", "epochs": 3, "batch": 4, "hidden": 8, "latent": 2}
    settings = FedssynSettings.model_validate({"generator": generator, "sound_only": False, **given})
    fedavg = registry.entry("fedavg", "method")
    return Fedssyn(settings, fedavg.build(fedavg.settings()))


def cloud(n: int) -> Examples:
    rng = torch.Generator().manual_seed(SEED)
    return Examples(torch.randn(n, 2, generator=rng), torch.arange(n) % 2)


def test_fedssyn_deals_float_records_and_each_number_takes_four_bytes() -> None:
    chosen = shuffled(images=6)
    stage = Stage(bound(chosen, linear()), {"a": cloud(10), "b": cloud(8)})
    state = chosen.start(stage)
    sent = [reply for _, _, reply in stage.replies]
    assert [(reply["x"].dtype, reply["x"].nbytes) for reply in sent] == [(torch.float32, 6 * 2 * 4)] * 2
    dealt = chosen.dealt(state, ["a", "b"])
    assert [one.nbytes for one in dealt.values()] == [6 * 2 * 4 + 6] * 2
    pool = torch.cat([one.examples.x for one in dealt.values()])
    assert sorted(pool.tolist()) == sorted(torch.cat([reply["x"] for reply in sent]).tolist())


def test_bytes_in_place_of_floats_are_refused_and_floats_in_place_of_bytes() -> None:
    y = torch.zeros(2, dtype=torch.uint8)
    for problem, wrong in ((PAIR, torch.uint8), (Problem((1, 8, 8), 2), torch.float32)):
        chosen = shuffled(images=6)
        size = 2 if problem is PAIR else 64
        net = Network(lambda: Classifier(nn.Flatten(), nn.Linear(size, 2)), problem)  # noqa: B023
        chosen.bind(net, 1)
        reply = Reply("a", Message(x=torch.zeros(2, *problem.shape, dtype=wrong), y=y), lambda why: None)
        right = str(problem.dtype).removeprefix("torch.")
        assert chosen._fault(reply) == f"its records are not in {right}"


def test_the_veto_finds_near_copies_among_floats() -> None:
    rng = torch.Generator().manual_seed(1)
    own, unseen, fresh = (torch.randn(60, 5, generator=rng) for _ in range(3))
    made = torch.cat([own[:3], own[3:6] + 1e-4, fresh])
    assert near_copies(made, own, unseen)[:6].tolist() == [True] * 6
    assert int(near_copies(made, own, unseen)[6:].sum()) <= 3


def test_what_cannot_work_is_refused_before_there_is_a_folder(tmp_path: Path) -> None:
    data = us.Federation.from_arrays({"a": (OWN.x.numpy(), OWN.y.numpy())}, held_out=0.25)
    for changes, sentence in (
        ({"with": [{"name": "fedssyn", "generator": "gan"}]}, "Generator 'gan' makes images, .* choose 'vae'"),
        ({"method.name": "feddm", "method.dsa": True}, "method.dsa needs images .* write dsa: false"),
        ({"method.name": "feddm", "method.pixels": "uint8"}, "method.pixels: uint8 needs images"),
        ({"method.name": "dense"}, "dense takes images, but the records are vectors .* such as fedavg"),
        ({"with": [{"name": "fedcog", "kd_weighting": "fixed", "generator": "network"}]}, "write generator: pixels"),
    ):
        with pytest.raises(UserError, match=sentence):
            us.run(data=data, out=tmp_path / "run", changes=changes)
        assert not (tmp_path / "run").exists()


# ---- whole runs


def table() -> us.Federation:
    """Three classes of six numbers, around points two apart; no site has them in equal parts."""
    rng = np.random.default_rng(3)
    centres = 2 * rng.normal(size=(3, 6)) / np.sqrt(2)

    def some(*counts: int) -> tuple[Any, Any]:
        y = np.repeat(np.arange(3), counts)
        return centres[y] + rng.normal(size=(len(y), 6)), y

    return us.Federation.from_arrays(
        {"a": some(60, 20, 0), "b": some(0, 40, 40), "c": some(20, 0, 60)}, test=some(60, 60, 60)
    )


SURROGATE = {"ipc": 5, "lr": 0.05, "server_epochs": 40, "schedule": "constant"}
LEARNERS: dict[str, dict[str, Any]] = {
    "feddm": {"steps": 40, "ipc": 5, "server": {"epochs": 40, "lr": 0.05}},
    "real": {"ipc": 5, "server": {"epochs": 40, "lr": 0.05}},
    "fedlap": {**SURROGATE, "stages": 2, "real_batches": 4, "image_steps": 4, "batch": 32},
    "fedlap-dp": {**SURROGATE, "stages": 2, "real_batches": 4, "image_steps": 4, "batch": 40, "noise": 1.0},
}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_table_is_learnt(name: str, tmp_path: Path) -> None:
    privacy = {"delta": 1e-3, "records": 80, "test_noise": True} if name == "fedlap-dp" else None
    result = us.run(
        data=table(),
        model={"name": "mlp", "hidden": [16]},
        method={"name": name, "rounds": 3, **LEARNERS[name]},
        privacy=privacy,
        engine="inline",
        out=tmp_path / "run",
    )
    assert result.metrics[-1]["failed"] == 0, result.metrics[-1]["failures"]
    assert result.metrics[-1]["accuracy"] > 0.75


def test_what_fedssyn_remarks_on_a_table_speaks_of_records(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 4)), np.arange(80) % 2
    sites = {"a": (x[:40], y[:40]), "b": (x[40:79], y[40:79]), "c": (x[79:], y[79:])}
    vae = {"name": "vae", "epochs": 1, "hidden": 4, "latent": 2}
    shuffling = {"name": "fedssyn", "generator": vae, "sound_only": False, "records": 1.0}
    data = us.Federation.from_arrays(sites, test=(x, y))
    method = {"name": "fedavg", "rounds": 0}
    result = us.run(data=data, model="softmax", method=method, add=[shuffling], out=tmp_path / "run")
    assert result.metrics[0]["remarks"] == [
        "79 synthetic records for 3 clients: parts of 26 and 27.",
        "c: no synthetic records were made, because it has too few records for a generator.",
    ]


@pytest.mark.parametrize("private", [False, True])
def test_a_model_learns_a_table_from_what_the_vae_made_alone(private: bool, tmp_path: Path) -> None:
    """The server's warm start sees made records only; without rounds nobody trains on a real one."""
    generator = {"name": "vae", "epochs": 150, "batch": 20, "lr": 5e-3, "hidden": 32, "latent": 3}
    generator |= {"gamma": 1, "capacity": 2, "conditional": True, "spread": "prior"}
    shuffling: dict[str, Any] = {"name": "fedssyn", "generator": generator, "images": 200}
    shuffling["warm_start"] = {"epochs": 20, "batch": 32, "lr": 0.05}
    if private:
        shuffling["dp"] = {"scope": "exchange", "noise": 0.7}
    result = us.run(
        data=table(),
        model={"name": "mlp", "hidden": [16]},
        method={"name": "fedavg", "rounds": 0},
        add=[shuffling],
        privacy={"delta": 1e-3, "records": 80, "test_noise": True, "public": ["labels"]} if private else None,
        engine="inline",
        out=tmp_path / "run",
    )
    assert result.metrics[-1]["accuracy"] > (0.6 if private else 0.75)
