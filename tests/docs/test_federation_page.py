"""The page on federations goes through all steps; tests/docs/test_snippets.py types its commands."""

import re
import shlex
from pathlib import Path

import typer
import yaml

from shown_commands import parsed
from understudy.cli.app import app
from understudy.config.resolve import resolve
from understudy.privacy.policy import read_policy

PAGE = Path(__file__).parents[2].joinpath("docs", "federation.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [
    line
    for language, text in BLOCKS
    if language == "sh"
    for line in text.splitlines()
    if line.startswith("understudy ")
]
YAMLS = [text for language, text in BLOCKS if language == "yaml"]


def test_the_page_goes_through_all_steps() -> None:
    steps = [" ".join(shlex.split(line)[1:3]) for line in COMMANDS]
    for step in ("keys server", "keys client", "keys admit", "server federation.yaml", "client federation.yaml"):
        assert step in steps
    assert parsed(shlex.split(COMMANDS[-1])[1:])["engine"] == "flower"


def test_options_that_the_page_names_in_passing_are_options() -> None:
    known = {word for name in ("server", "client", "approve") for word in _options(name)} | {"--engine"}
    known |= {word for name in ("server", "client", "admit") for word in _options("keys", name)}
    known |= {"--resume"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE)) <= known


def _options(*path: str) -> list[str]:
    command = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]  # type: ignore[attr-defined]
    return [word for parameter in command.params for word in (*parameter.opts, *parameter.secondary_opts)]


def test_the_config_of_the_page_is_read() -> None:
    config = resolve(yaml.safe_load(YAMLS[0]), {})
    assert config.data is not None
    assert config.data.sites == {"north": None, "south": None}
    assert config.plan.rounds == 5


def test_the_policy_of_the_page_is_read(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(YAMLS[1])
    assert read_policy(file).kinds == ("weights", "scalars")
