"""Commands as pages show them: checked without running, or run in a small size."""

import glob
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import understudy.cli  # noqa: F401 the commands add themselves
from in_a_fork import understudy as typed
from understudy.cli.app import app
from understudy.config.read import pairs, presets, read
from understudy.config.resolve import resolve
from written_pages import ROOT

# Only checked: some serve until somebody ends them, and an audit takes minutes.
NOT_HERE = ("view", "review", "server", "client", "audit")
SMALL = ("rounds=1", "data.limit=100", "clients=3", "model=softmax")
SMALLER = {
    "feddm": ("method.steps=2", "method.server.epochs=2"),
    "fedssyn": ("with.fedssyn.generator.epochs=2", "with.fedssyn.sound_only=false"),
}
ELSEWHERE = {"tensorboard", "mlflow", ".", "python3"}  # programs that are not ours and need no check
SHELL = {"echo", "mkdir", "cd", "cp"}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def commands(text: str) -> Iterator[list[str]]:
    """Of a block for a shell: the words of each line, lines that end in a backslash joined, comments left out."""
    for line in text.replace("\\\n", " ").splitlines():
        for part in line.split(" && "):
            if words := shlex.split(part, comments=True):
                yield words


def check(words: list[str]) -> None:
    """The program is known, and so is all that is typed behind it."""
    program, *rest = words
    if program == "understudy":
        _check_ours(rest)
    elif program == "make":
        named = [word for word in rest if "=" not in word]
        assert set(named) <= TARGETS, f"the Makefile has no {named}"
    elif program == "pip":
        wanted = re.findall(r"\.\[([a-z,]+)\]", " ".join(rest))
        assert set(",".join(wanted).split(",")) <= EXTRAS.keys(), f"pyproject.toml has no extra for {wanted}"
    else:
        assert program in ELSEWHERE | SHELL, f"{program} is unknown; put <!-- not run: why --> above the block"


def run_small(words: list[str], folder: Path) -> None:
    program, *rest = words
    if program in SHELL:
        subprocess.run(" ".join(map(_for_the_shell, words)), shell=True, check=True, cwd=folder)
    if program == "understudy" and rest[0] not in NOT_HERE and "flower" not in rest:
        told = [found for word in rest for found in sorted(glob.glob(word, root_dir=folder)) or [word]]
        typed(*told, *_sizes(rest), cwd=folder)


def _for_the_shell(word: str) -> str:
    return word if word in (">", ">>") else shlex.quote(word)


def _sizes(words: list[str]) -> list[str]:
    if words[0] != "run" or words[1] not in presets():
        return ["rounds=1"] if words[0] == "run" and "--resume" not in words else []
    named = " ".join(words)
    return [*SMALL, *(size for name, sizes in SMALLER.items() if name in named for size in sizes)]


def parsed(words: list[str]) -> dict[str, Any]:
    """What the words mean to the command that they name; nothing is run."""
    command = typer.main.get_command(app)
    context = command.make_context("understudy", list(words), resilient_parsing=False)
    while hasattr(command, "resolve_command"):
        _, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(command.name, rest, parent=context)
    return dict(context.params)


def _check_ours(words: list[str]) -> None:
    if "--help" in words or "--version" in words:
        return
    told = parsed(words)
    source, changes = str(told.get("config") or told.get("source") or ""), told.get("changes") or []
    if "=" in source:
        source, changes = "", [source, *changes]
    if words[0] in ("run", "audit", "measure", "server") and (source in presets() or os.path.isfile(source)):
        resolve(read(source), pairs(changes))
    else:
        pairs(changes)


def check_in_passing(text: str) -> None:
    """`understudy run … --out DIR` in a sentence: the command is one, and so are its options. What ends in a full stop
    is a message of ours."""
    if text.endswith("."):
        return
    command, words = typer.main.get_command(app), text.split()[1:]
    while words and hasattr(command, "commands"):
        name, *words = words
        if not name.isalpha() or not name.islower():  # a placeholder, an option, or …
            return
        assert name in command.commands, f"`{text}`: there is no command {name}"
        command = command.commands[name]
    known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
    given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert given <= known, f"`{text}`: unknown are {given - known}"
