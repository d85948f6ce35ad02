"""Programs that are started here: where they listen, what they are told, and what happens when they cannot start."""

import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from understudy.engines.flower import attending, node
from understudy.engines.flower.dialling import ServerAddress
from understudy.engines.flower.keys import Certificates
from understudy.engines.flower.node import Node
from understudy.engines.flower.processes import dialled, free_port, is_free
from understudy.engines.flower.proxy import config
from understudy.engines.flower.runtime import Door
from understudy.errors import UserError


@pytest.mark.parametrize(
    ("listen", "where"),
    [
        ("0.0.0.0:8443", ("127.0.0.1", 8443)),
        ("[::]:8443", ("::1", 8443)),
        ("10.0.0.5:8443", ("10.0.0.5", 8443)),
        ("[fd00::5]:8443", ("fd00::5", 8443)),
        ("server.example.org:8443", ("server.example.org", 8443)),
    ],
)
def test_what_listens_is_dialled_where_it_listens(listen: str, where: tuple[str, int]) -> None:
    assert dialled(listen) == where


def nginx_config(folder: Path) -> str:
    return config(folder, "0.0.0.0:8443", Certificates(folder / "keys"), Door(1, folder / "secret"))


def test_paths_with_spaces_and_quotes_are_one_word_to_nginx(tmp_path: Path) -> None:
    folder = tmp_path / 'my "own" server'
    quoted = str(folder).replace('"', '\\"')
    assert f'pid "{quoted}/nginx.pid";' in nginx_config(folder)
    assert f'ssl_certificate_key "{quoted}/keys/server.key";' in nginx_config(folder)
    with pytest.raises(UserError, match=r"not accept a path with a \$"):
        nginx_config(tmp_path / "$HOME")


@pytest.mark.parametrize(("user", "says"), [(0, True), (1000, False)])
def test_workers_of_roots_nginx_can_reach_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, says: bool
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: user)
    assert ("user root;" in nginx_config(tmp_path)) is says
    assert "proxy_max_temp_file_size 0;" in nginx_config(tmp_path)


def made(folder: Path, said: list[str]) -> Node:
    return Node(Door(free_port(), folder / "secret"), ServerAddress("127.0.0.1:1", None, None), folder, said.append)


def until(happened: Any) -> None:
    end = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_node_that_cannot_be_started_is_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(node, "AGAIN_AFTER", 0.01)
    monkeypatch.setattr(node, "program", lambda name: f"/nowhere/{name}")
    tried = made(tmp_path, said)
    tried.begin()
    until(lambda: len(said) >= 2)
    tried.end()
    assert "cannot be kept running (FileNotFoundError" in said[0]


def test_a_node_whose_port_was_taken_begins_again_on_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, "_command", lambda self: [sys.executable, "-c", "import time; time.sleep(60)"])
    moving = made(tmp_path, [])
    before = moving.door
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", before.port))
        taken.listen()
        assert not is_free(before.port)
        moving.begin()
        until(lambda: moving.pid is not None)
        moving.end()
    assert moving.door.port != before.port
    assert moving.door.secret == before.secret


def test_the_process_that_answers_goes_along_to_the_new_door(tmp_path: Path) -> None:
    began = tmp_path / "began"

    class Moving:
        @property
        def door(self) -> Door:
            return Door(2 if began.exists() else 1, tmp_path / "secret")

    stays = [sys.executable, "-c", "import sys, time; open(sys.argv[1], 'w').close(); time.sleep(60)", str(began)]
    assert attending._worked(stays, Moving()) is None  # type: ignore[arg-type]
    ends = [sys.executable, "-c", "raise SystemExit(7)"]
    assert attending._worked(ends, Moving()) == 7  # type: ignore[arg-type]
