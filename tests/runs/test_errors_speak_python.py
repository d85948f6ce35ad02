"""Errors of calls from Python name arguments and calls, not options and commands; and all of it can be completed."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import understudy as us
from understudy.errors import UserError, speaking_to_a_command_line

COMMAND_LINE = re.compile(r"--\w|`understudy |\bunderstudy (run|compare|report|data|sweep) |KEY=VALUE")
X, Y = np.zeros((8, 2, 2), np.uint8), np.arange(8) % 2
PLAN: dict[str, Any] = {
    "model": "softmax",
    "method": {"name": "fedavg", "rounds": 1, "local": {"epochs": 1}},
    "engine": "inline",
}


class Stays(us.Method):
    def round(self, server: us.Server, state: us.State) -> us.State:
        return state


class Forgets(us.Method):
    def round(self, server: us.Server, state: us.State) -> us.State:
        return None  # type: ignore[return-value]


def federation() -> us.Federation:
    return us.Federation.from_arrays({"a": (X, Y)}, held_out=0.25)


def finished(folder: Path) -> us.Result:
    return us.run(PLAN, data=federation(), out=folder / "run")


def with_a_file(folder: Path) -> Path:
    (folder / "x").touch()
    return folder


def without_model(folder: Path) -> Path:
    finished(folder)
    (folder / "run/model.safetensors").unlink()
    return folder / "run"


CALLS: dict[str, Callable[[Path], object]] = {
    "run: resume without out": lambda at: us.run(resume=True),
    "run: resume nothing": lambda at: us.run(out=at / "none", resume=True),
    "run: a folder that holds a run": lambda at: us.run(PLAN, data=federation(), out=finished(at).folder),
    "run: a folder that is not empty": lambda at: us.run(PLAN, data=federation(), out=with_a_file(at)),
    "run: a file as a folder": lambda at: us.run(PLAN, data=federation(), out=with_a_file(at) / "x"),
    "run: an unknown preset": lambda at: us.run("digits-skewd", out=at / "run"),
    "run: an unknown setting": lambda at: us.run(PLAN, data=federation(), lrr=1, out=at / "run"),
    "run: an unknown method": lambda at: us.run(PLAN, data=federation(), method="fedvag", out=at / "run"),
    "run: an add-on as a method": lambda at: us.run(PLAN, data=federation(), method="fedssyn", out=at / "run"),
    "run: a method as an add-on": lambda at: us.run(PLAN, data=federation(), add=["feddyn"], out=at / "run"),
    "run: an add-on twice": lambda at: us.run(PLAN, data=federation(), add=["fedssyn", "fedssyn"], out=at / "run"),
    "run: add-ons of a wrong kind": lambda at: us.run(PLAN, data=federation(), add=[3], out=at / "run"),  # type: ignore[list-item]
    "run: a data set that is not here": lambda at: us.run(PLAN, data="mnist", out=at / "run"),
    "run: a setting beside a Federation": lambda at: us.run(PLAN, data=federation(), clients=3, out=at / "run"),
    "run: an ambiguous name": lambda at: us.run(PLAN, data=federation(), name="x", out=at / "run"),
    "run: a network that does not fit": lambda at: us.run(PLAN, data=federation(), model=nn.Linear(1, 1), out=at / "r"),
    "run: nothing held out": lambda at: us.run(
        PLAN, data=us.Federation.from_arrays({"a": (X, Y)}), model="mlp", method="fedrep", out=at / "run"
    ),
    "run: flower with objects": lambda at: us.run(PLAN, data=federation(), engine="flower", out=at / "run"),
    "run: another config in the folder": lambda at: us.run(
        PLAN, data=federation(), lr=0.5, out=finished(at).folder, resume=True
    ),
    "load: no folder": lambda at: us.load(at / "none"),
    "load: of a wrong kind": lambda at: us.load(5),  # type: ignore[arg-type]
    "Result.predict: one image": lambda at: finished(at).predict(X[0]),
    "run: arrays as data": lambda at: us.run(PLAN, data=(X, Y), out=at / "run"),  # type: ignore[arg-type]
    "run: a round without a State": lambda at: us.run(PLAN, data=federation(), method=Forgets(), out=at / "run"),
    "task: an unknown kind": lambda at: us.task(x="pictures"),  # type: ignore[arg-type]
    "Message: no tensor": lambda at: us.Message(x=3),  # type: ignore[arg-type]
    "load: no model": lambda at: us.load(without_model(at)),
    "report: no folder": lambda at: us.report(at / "none", at / "page.html"),
    "report: no runs": lambda at: us.report([], at / "page.html"),
    "report: of a wrong kind": lambda at: us.report(None, at / "page.html"),  # type: ignore[arg-type]
    "report: not a page": lambda at: us.report(at, at / "page.pdf"),
    "Result.predict": lambda at: finished(at).predict(np.zeros((3, 9))),
    "Result.model: an unknown site": lambda at: finished(at).model(site="b"),
    "Result.resume: nothing passed again": lambda at: us.load(finished(at).folder).resume(rounds=2),
    "Result.report": lambda at: finished(at).report(at / "page.pdf"),
    "Federation: of a wrong kind": lambda at: us.Federation.from_arrays(5),  # type: ignore[arg-type]
    "Federation: no pair": lambda at: us.Federation.from_arrays({"a": X}),  # type: ignore[dict-item]
    "Federation: a bad share": lambda at: us.Federation.from_arrays({"a": (X, Y)}, held_out=2),
    "Federation: a bad name": lambda at: us.Federation.from_arrays({"a/b": (X, Y)}),
    "Federation: too few labels": lambda at: us.Federation.from_arrays({"a": (X, Y[:3])}),
    "Examples: no tensors": lambda at: us.Examples(X, Y),  # type: ignore[arg-type]
    "sweep: an unknown setting": lambda at: us.sweep(PLAN, {"lrr": [1]}, data=federation(), out=at / "s"),
    "sweep: a bad value": lambda at: us.sweep(PLAN, {"lr": [-1]}, data=federation(), out=at / "s"),
    "sweep: a file as a folder": lambda at: us.sweep(
        PLAN, {"lr": [0.1]}, data=federation(), out=with_a_file(at) / "x", workers=1
    ),
    "sweep: no list": lambda at: us.sweep(PLAN, {"lr": 1}, data=federation(), out=at / "s"),  # type: ignore[dict-item]
    "sweep: a method that is an object": lambda at: us.sweep(
        PLAN,
        {"rounds": [1]},
        data=federation(),
        method=Stays(),  # type: ignore[arg-type]
        out=at / "s",
    ),
    "sweep: nothing to choose on": lambda at: (
        us.sweep(PLAN, {"lr": [0.1]}, data=us.Federation.from_arrays({"a": (X, Y)}), out=at / "s", workers=1).best
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_error_from_python_speaks_python_in_one_sentence(call: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        CALLS[call](tmp_path)
    said = str(error.value)
    assert not COMMAND_LINE.search(said), said
    assert "\n" not in said
    assert said.endswith((".", "?")), said


def test_the_same_errors_name_options_and_commands_on_a_command_line(tmp_path: Path) -> None:
    for call in ("run: a folder that holds a run", "report: no folder", "run: a data set that is not here"):
        with speaking_to_a_command_line(), pytest.raises(UserError, match=COMMAND_LINE):
            CALLS[call](tmp_path)


def in_a_new_python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_names_are_listed_for_completion_without_torch() -> None:
    program = "import sys, understudy as us; print(*dir(us)); print('torch' in sys.modules)"
    names, torch = in_a_new_python(program).splitlines()
    assert {"run", "load", "sweep", "report", "Result", "Sweep", "Federation", "Method"} <= set(names.split())
    assert torch == "False"


def test_a_call_is_there_before_torch_is() -> None:
    program = "import sys, understudy as us; us.run, us.sweep, us.load; print('torch' in sys.modules)"
    assert in_a_new_python(program) == "False"


def test_every_name_that_is_listed_is_there() -> None:
    for name in us.__all__:
        assert getattr(us, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'swep'"):
        us.swep  # noqa: B018
