"""`understudy view` and `understudy server --view`: a link on the terminal, one sentence where it cannot be, and an end
in good order."""

import importlib.util
import os
import signal
import socket
import sys
import threading
from pathlib import Path

import pytest

from in_a_fork import Done, in_a_fork, understudy
from understudy import patience
from understudy.cli import main, pages


def ended_by(signum: int, *words: str, cwd: Path) -> Done:
    """The command, sent a signal once it has told its link."""

    def work() -> None:
        def say(sentence: str) -> None:
            print(sentence, file=sys.stderr, flush=True)
            threading.Timer(0.5, os.kill, (os.getpid(), signum)).start()

        signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in a shell's background ignore Ctrl-C
        pages.say, patience.FIRST = say, 3600  # a busy machine makes no test wordy
        sys.argv = ["understudy", *words]
        main()

    return in_a_fork(work, cwd, seconds=60)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_view_tells_its_link_and_ends_in_good_order(tmp_path: Path, signum: int) -> None:
    done = ended_by(signum, "view", ".", "--port", "0", cwd=tmp_path)
    assert done.returncode == 130
    link, *rest = done.stderr.splitlines()
    assert link.startswith("Open http://127.0.0.1:")
    assert "/enter?token=" in link
    assert rest == ["", "Stopped."]


@pytest.mark.parametrize("words", [("view", "."), ("server", "digits-skewed", "--view")])
def test_a_port_in_use_is_one_sentence_before_anything_is_done(tmp_path: Path, words: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        option = ("--port", str(port)) if words[0] == "view" else (str(port),)
        done = understudy(*words, *option, cwd=tmp_path, code=2)
    name = "--port" if words[0] == "view" else "--view"
    assert done.stderr == (
        f"understudy: {name} {port} of 127.0.0.1 cannot be used (Address already in use); choose another {name}.\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = understudy("view", "nothing", cwd=tmp_path, code=2)
    assert done.stderr == "understudy: There is no folder nothing; name one that holds runs.\n"


@pytest.mark.parametrize(
    ("words", "what"), [(("view",), "`understudy view`"), (("server", "digits-skewed", "--view", "1"), "--view")]
)
def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], what: str
) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr("understudy.web.find_spec", lambda name: None if name == "uvicorn" else there(name))
    done = understudy(*words, cwd=tmp_path, code=2)
    install = "in the clone of understudy: pip install -c constraints.txt '.[web]'."
    assert done.stderr == f"understudy: {what} needs more packages; {install}\n"
