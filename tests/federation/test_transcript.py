"""The transcript: every brief and reply, as the server saw them, without changing a run."""

from pathlib import Path
from typing import Any

import torch

from understudy.config.build import build_data, build_method
from understudy.config.resolve import resolve
from understudy.federation.client import Client, Memory
from understudy.federation.message import Message
from understudy.federation.transcript import Exchanged, Transcript
from understudy.methods.fednova import FedNova
from understudy.runs.folder import RunFolder
from understudy.runs.play import play

TINY: dict[str, Any] = {
    "data": {"name": "digits", "limit": 120, "clients": 3, "split": {"kind": "iid"}},
    "model": "softmax",
    "method": {"name": "fedavg", "rounds": 2, "local": {"epochs": 1, "lr": 0.1}},
    "engine": "inline",
}


def test_what_is_added_is_read_back_by_client_and_in_order(tmp_path: Path) -> None:
    transcript = Transcript(tmp_path / "transcript")
    for round in (10, 2):
        for client in ("north", "south.eu"):
            brief, reply = Message(model=torch.tensor([round])), Message(x=torch.tensor([len(client)]))
            transcript.add(Exchanged(client, round, 1, "Some.task", brief, reply))
    assert sorted(transcript.clients()) == ["north", "south.eu"]
    found = list(transcript.of("south.eu"))
    assert [(one.round, one.step, one.task) for one in found] == [(2, 1, "Some.task"), (10, 1, "Some.task")]
    assert [one.brief["model"].item() for one in found] == [2, 10]
    assert [list(one.reply) for one in found] == [["x"], ["x"]]
    assert found[0].reply["x"].item() == len("south.eu")


def test_a_run_keeps_one_only_if_told_to_and_ends_with_the_same_bits(tmp_path: Path) -> None:
    play(resolve(TINY), tmp_path / "without")
    play(resolve(TINY, {"transcript": True}), tmp_path / "with")
    assert not (tmp_path / "without" / "transcript").exists()
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("without", "with")]
    assert models[0] == models[1]


def test_the_local_models_in_it_average_to_the_next_broadcast(tmp_path: Path) -> None:
    for name in ("fedavg", "fednova"):
        config = resolve(TINY, {"transcript": True, "method.name": name})
        play(config, tmp_path / name)
        method = build_method(config, build_data(config))
        run = RunFolder(tmp_path / name)
        exchanged = [one for client in run.transcript.clients() for one in run.transcript.of(client)]
        first = [one for one in exchanged if one.round == 1 and one.task.endswith("train")]
        assert len(first) == 3
        models = [method.local_model(one.brief, one.reply) for one in first]
        weights = torch.stack([one.reply["weight"] for one in first])
        assert all(model is not None for model in models)
        mean = (torch.stack([m for m in models if m is not None]) * weights[:, None]).sum(0) / weights.sum()
        second = next(one.brief["model"] for one in exchanged if one.round == 2)
        assert weights.tolist() == [40, 40, 40]  # equal sizes make equal steps: then FedNova is FedAvg
        torch.testing.assert_close(mean, second, atol=1e-6, rtol=1e-5)


def test_the_local_model_is_recovered_from_a_reply_that_is_scaled_by_steps() -> None:
    config = resolve(TINY, {"method.name": "fednova", "method.local.momentum": 0.9, "method.local.batch": 8})
    data = build_data(config)
    method = build_method(config, data)
    assert isinstance(method, FedNova)
    own = data.sites["client-0"].own
    brief = Message(model=method.net.initial(), common_steps=torch.tensor(11.0))  # it takes 5 steps itself

    def client() -> Client:
        return Client("client-0", 1, own=own, held_out=own.none(), memory=Memory({}), seed=0)

    trained, _ = method.work(client(), brief)
    found = method.local_model(brief, method.train(client(), brief))
    assert found is not None
    torch.testing.assert_close(found, trained.model, atol=1e-6, rtol=1e-5)


def test_a_run_may_begin_to_keep_one_when_it_resumes(tmp_path: Path) -> None:
    play(resolve(TINY), tmp_path)
    play(resolve(TINY, {"transcript": True, "rounds": 3}), tmp_path, resume=True)
    assert {one.round for one in RunFolder(tmp_path).transcript.of("client-0")} == {3}
