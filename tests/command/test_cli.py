"""The command as a person types it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from in_a_fork import understudy

QUICK = ["data.limit=80", "clients=3", "model=softmax", "method.local.epochs=1"]
OWN_METHOD = '''
"""Lazy: half of FedAvg's step."""
import torch
from understudy import Message, Method, Settings, method, task
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Feed, train
from understudy.learning.plan import passes


class LazySettings(Settings):
    share: float = 0.5


@method("lazy", settings=LazySettings)
class Lazy(Method):
    def __init__(self, settings):
        self.settings = settings

    @task(model="weights")
    def fit(self, client, brief):
        local = Local(epochs=1, lr=0.1)
        plan = passes(len(client.own), local.step_count(len(client.own)), local.batch, client.rng("batches"))
        return Message(model=train(self.net, brief["model"], Feed(client.own, plan), Descent(local, 0.1)).model)

    def round(self, server, state):
        replies = list(server.ask(self.fit, state.only("model"), to=server.cohort()))
        mean = torch.stack([reply["model"] for reply in replies]).mean(0)
        return state.but(model=torch.lerp(state["model"], mean, self.settings.share))
'''


def test_run_compare_and_resume(tmp_path: Path) -> None:
    first = json.loads(
        understudy("run", "digits-skewed", *QUICK, "rounds=2", "--out", "a", "--json", cwd=tmp_path).stdout
    )
    assert first["rounds"] == 2
    more = understudy("run", "--resume", "--out", "a", "rounds=3", "--engine", "inline", "--json", cwd=tmp_path)
    assert json.loads(more.stdout)["rounds"] == 3
    understudy("run", "digits-skewed", *QUICK, "rounds=1", "method=scaffold", cwd=tmp_path)
    assert (tmp_path / "runs/digits-skewed-scaffold-1/summary.json").exists()
    table = understudy("compare", "a", "runs/digits-skewed-scaffold-1", cwd=tmp_path).stdout
    assert "fedavg" in table
    assert "scaffold" in table
    rows = json.loads(understudy("compare", "a", "--target", "0.1", "--json", cwd=tmp_path).stdout)
    assert rows[0]["rounds"] == 3


def test_a_new_method_in_one_file_outside_the_package_runs_by_name(tmp_path: Path) -> None:
    (tmp_path / "lazy.py").write_text(OWN_METHOD)
    words = ["run", "digits-skewed", *QUICK[:3], "method=lazy.py:Lazy", "rounds=2", "--out", "lazy", "--json"]
    shown = json.loads(understudy(*words, "method.share=0.25", cwd=tmp_path).stdout)
    assert shown["finished"]
    assert "share: 0.25" in (tmp_path / "lazy/config.yaml").read_text()
    (tmp_path / "elsewhere").mkdir()
    again = understudy("run", "--resume", "--out", "../lazy", "rounds=3", "--json", cwd=tmp_path / "elsewhere")
    assert json.loads(again.stdout)["rounds"] == 3


WRONG = [
    (["run", "digits-skewd"], "Did you mean 'digits-skewed'?"),
    (["run", "digits-skewed", "method=fedvag"], "Did you mean 'fedavg'?"),
    (["run", "digits-skewed", "data.nam=mnist"], "There is no setting 'data.nam'. Did you mean 'data.name'?"),
    (["run"], "Name a config file or a preset"),
    (["run", "--resume"], "--resume needs --out"),
    (["run", "--resume", "--out", "nowhere"], "nowhere holds no run to resume"),
    (["run", "digits-skewed", "data.name=missing.npz"], "missing.npz"),
    (["compare", "nowhere"], "nowhere"),
    (["methods", "fedvag"], "There is no method 'fedvag'"),
    (["data", "describe", "digitz"], "Did you mean 'digits'?"),
    (["data", "describe", "digits", "alfa=1"], "There is no setting 'data.alfa'. Did you mean 'data.split.alpha'?"),
    (["data", "describe", "digits", "rounds=1"], "'method.rounds' is not a setting of 'data'; leave it out."),
    (["run", "digits-skewed", "method=feddm", "steps=1"], "'steps' could be 'method.steps' or 'method.server.steps'"),
    (["data", "get", "digitz"], "Did you mean 'digits'?"),
]


@pytest.mark.parametrize(
    ("words", "sentence"), WRONG, ids=lambda part: " ".join(part) if isinstance(part, list) else ""
)
def test_bad_words_get_one_sentence_and_a_code(words: list[str], sentence: str, tmp_path: Path) -> None:
    done = understudy(*words, cwd=tmp_path, code=2)
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout
    assert list(tmp_path.iterdir()) == []


def test_what_there_is_can_be_listed(tmp_path: Path) -> None:
    methods = json.loads(understudy("methods", "--json", cwd=tmp_path).stdout)
    assert {"fedavg", "scaffold", "feddm", "fedcog", "fedssyn"} <= {one["name"] for one in methods}
    assert "kd_weighting" in understudy("methods", "fedcog", cwd=tmp_path).stdout
    models = {one["name"]: one for one in json.loads(understudy("models", "--json", cwd=tmp_path).stdout)}
    assert models["convnet"]["parameters"]["32×32 colour"] == 320_010
    sets = {one["name"]: one for one in json.loads(understudy("data", "list", "--json", cwd=tmp_path).stdout)}
    assert sets["digits"]["here"]
    kinds = {one["name"]: one for one in json.loads(understudy("generators", "--json", cwd=tmp_path).stdout)}
    assert {"vae", "gan", "diffusion"} <= kinds.keys()
    assert "channels of every convolution" in understudy("generators", "vae", cwd=tmp_path).stdout
    assert "mnist-disjoint" in understudy("presets", cwd=tmp_path).stdout


def test_a_split_is_described_in_numbers_and_drawn(tmp_path: Path) -> None:
    words = ["data", "describe", "digits", "clients=5", "split.alpha=0.05", "--plot", "split.png"]
    assert "split.png" in understudy(*words, cwd=tmp_path).stdout
    assert (tmp_path / "split.png").stat().st_size > 5000
    skew = json.loads(understudy(*words[:5], "--json", cwd=tmp_path).stdout)
    assert len(skew["clients"]) == 5
    assert 0 < skew["mean_distance"] < 1


def test_what_left_the_clients_is_drawn_and_what_fedcog_generates_when_asked_for(tmp_path: Path) -> None:
    quick = ["data.limit=60", "clients=3", "model=softmax", "rounds=1"]
    slight = ["method.steps=1", "method.server.epochs=1"]
    understudy("run", "digits-skewed", *quick, "data.limit=200", "method=feddm", *slight, "--out", "dm", cwd=tmp_path)
    understudy("sheet", "dm", "-o", "left.png", cwd=tmp_path)
    assert (tmp_path / "left.png").stat().st_size > 5000
    cog = "with=[{name: fedcog, kd_weighting: fixed, images: 10, steps: 1}]"
    understudy("run", "digits-skewed", *quick, "method.local.epochs=1", cog, "--out", "cog", cwd=tmp_path)
    assert "--generated" in understudy("sheet", "cog", "-o", "none.png", cwd=tmp_path, code=2).stderr
    understudy("sheet", "cog", "-o", "made.png", "--generated", "--client", "client-1", cwd=tmp_path)
    assert (tmp_path / "made.png").stat().st_size > 5000
    assert (
        "a plain sheet shows all clients"
        in understudy("sheet", "dm", "-o", "x.png", "--client", "client-1", cwd=tmp_path, code=2).stderr
    )


def test_help_says_what_the_words_of_a_command_are(tmp_path: Path) -> None:
    said = " ".join(understudy("run", "--help", cwd=tmp_path).stdout.split())
    assert "A YAML file or a preset" in said
    assert "Settings to change." in said


def _heeds_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a suite that a shell runs in the background inherits deafness


def test_ctrl_c_leaves_a_folder_that_can_be_resumed(tmp_path: Path) -> None:
    words = ["run", "digits-skewed", *QUICK, "rounds=2000", "--out", "long"]
    process = subprocess.Popen(
        [sys.executable, "-m", "understudy", *words],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_heeds_interrupts,
    )
    metrics = tmp_path / "long/metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.exists() and metrics.read_text().count("\n") >= 3):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the whole group
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "Stopped. Resume with: understudy run --resume --out long" in said
    done = metrics.read_text().count("\n")
    resumed = understudy("run", "--resume", "--out", "long", f"rounds={done + 1}", "--json", cwd=tmp_path)
    assert json.loads(resumed.stdout)["rounds"] == done + 1


def test_help_does_not_import_torch() -> None:
    code = "import sys; from understudy.cli import app; import understudy; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
