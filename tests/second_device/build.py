"""Compiles the second device once for a machine: ``python tests/second_device/build.py``.

With the compiler alone: no ninja, no Python headers. The library is kept outside the clone, under a name that says
what it was made from, so that it is made anew only where its source, torch or the compiler changed.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

SOURCE = Path(__file__).with_name("device.cpp")
KEPT_IN = "UNDERSTUDY_TESTS_CACHE"  # the user's cache folder; in a test run, XDG_CACHE_HOME is an empty one
FLAGS = ["-shared", "-fPIC", "-std=c++20", "-O1", "-w", "-DAT_PER_OPERATOR_HEADERS"]


def compiler() -> str | None:
    return next((found for name in ("g++", "c++", "clang++") if (found := shutil.which(name))), None)


def built() -> Path:
    """The library; several processes may ask at once, and one of them builds."""
    program = compiler()
    assert program is not None, "there is no C++ compiler"
    folder = _cache()
    library = folder / f"second-device-{_digest(program)}.so"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            _compile(program, library)
    return library


def _compile(program: str, library: Path) -> None:
    torch_at = Path(torch.__file__).parent
    unfinished = library.with_suffix(f".{os.getpid()}")
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    found = [f"-I{torch_at / 'include'}", f"-L{torch_at / 'lib'}", "-lc10", "-ltorch_cpu"]
    command = [program, *FLAGS, abi, str(SOURCE), "-o", str(unfinished), *found]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the second device could not be compiled:\n{done.stderr[-4000:]}"
    unfinished.replace(library)


def _cache() -> Path:
    """Of this user; beside other temporary files where there is no home to write to."""
    place = os.environ.get(KEPT_IN) or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    wanted = Path(place) / "understudy-tests"
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted
    except OSError:
        instead = Path(tempfile.gettempdir()) / f"understudy-tests-{os.getuid()}"
        instead.mkdir(exist_ok=True)
        return instead


def _digest(program: str) -> str:
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    words = [SOURCE.read_text(), *FLAGS, torch.__version__, str(Path(torch.__file__).parent), version]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


if __name__ == "__main__":
    print(built() if compiler() else "No C++ compiler here: tests on the second device will be skipped.")
