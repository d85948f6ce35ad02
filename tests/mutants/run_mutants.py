"""Plants bugs, one at a time, and runs the tests that should find each; prints those that nobody found.

    make mutants                                   all of them, two at a time
    make mutants ARGS="scaffold fedlap -n 1"       those whose names begin so, one at a time

The working tree is copied and never changed. A bug counts as found when a test that passes without it fails, or does
not end; code that cannot even be imported is no bug that a person would leave, and is reported as an error.
"""

import argparse
import compileall
import contextlib
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from typing import Literal

from planted import ROOT, Mutant, Stale, load, named

SECONDS = 300  # after which tests that still run count as failed
Outcome = Literal["killed", "survived", "error"]


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    outcome: Outcome
    seconds: float
    said: str  # by pytest


class Copy:
    """Code and tests in a folder of their own."""

    def __init__(self, folder: Path, root: Path = ROOT):
        self.folder = folder
        unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", ".hypothesis")
        for part in ("src", "tests"):
            shutil.copytree(root / part, folder / part, ignore=unwanted)
        if (root / "pyproject.toml").exists():
            shutil.copy(root / "pyproject.toml", folder)
        # By content: an edit within the same second that keeps the length must not be overlooked.
        by_content = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(folder / "src", quiet=1, invalidation_mode=by_content)

    @contextlib.contextmanager
    def with_bug(self, mutant: Mutant) -> Iterator[None]:
        file = self.folder / "src" / "understudy" / mutant.file
        sound, text = file.read_text(), mutant.planted(self.folder)
        file.write_text(text)
        try:
            yield
        finally:
            file.write_text(sound)

    def run(self, tests: Sequence[str], seconds: float) -> tuple[int | None, str]:
        """What pytest returns, None where it did not end, and what it said."""
        options = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--no-header"]
        command = [sys.executable, "-m", "pytest", *options, *(f"tests/{test}" for test in tests)]
        threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        env = {**os.environ, **threads, "PYTHONPATH": str(self.folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, cwd=self.folder, env=env, stdout=pipe, stderr=subprocess.STDOUT, text=True, start_new_session=True
        ) as process:
            try:
                said, _ = process.communicate(timeout=seconds)
                return process.returncode, said
            except subprocess.TimeoutExpired:
                return None, f"no end within {seconds:.0f} s"
            finally:
                with contextlib.suppress(ProcessLookupError):  # workers that a test began as well
                    os.killpg(process.pid, signal.SIGKILL)

    def judge(self, mutant: Mutant) -> Verdict:
        began = time.monotonic()
        with self.with_bug(mutant):
            returned, said = self.run(mutant.tests, SECONDS)
        outcome: Outcome = "error"
        if returned in (None, 1):
            outcome = "killed"
        elif returned == 0:
            outcome = "survived"
        return Verdict(mutant, outcome, time.monotonic() - began, said)


def without_bugs(copies: Sequence[Copy], mutants: Sequence[Mutant]) -> str | None:
    """What pytest says where a named test fails on sound code, and so would find bugs that are not there."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    single = [test for test in tests if test.partition("::")[0] not in tests]
    whole = [test for test in tests if "::" not in test]
    shares = [[*whole, *single][at :: len(copies)] for at in range(len(copies))]
    with ThreadPoolExecutor(len(copies)) as pool:
        found = pool.map(lambda copy, share: copy.run(share, 3600) if share else (0, ""), copies, shares)
    return next((said for returned, said in found if returned != 0), None)


def judged(copies: Sequence[Copy], mutants: Sequence[Mutant]) -> Iterator[Verdict]:
    """As many at a time as there are copies."""
    free: Queue[Copy] = Queue()
    for copy in copies:
        free.put(copy)

    def one(mutant: Mutant) -> Verdict:
        copy = free.get()
        try:
            return copy.judge(mutant)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        yield from pool.map(one, mutants)


def report(verdicts: Sequence[Verdict]) -> int:
    for verdict in verdicts:
        if verdict.outcome != "killed":
            mutant = verdict.mutant
            print(f"\n{verdict.outcome}: {mutant.name} ({mutant.file}): {mutant.about}")
            print(f"  - {mutant.old}\n  + {mutant.new}\n  tests: {' '.join(mutant.tests)}")
        if verdict.outcome == "error":
            print(verdict.said[-2000:])
    killed = sum(verdict.outcome == "killed" for verdict in verdicts)
    print(f"\n{killed} of {len(verdicts)} planted bugs were found ({killed / len(verdicts):.1%}).")
    return 0 if killed == len(verdicts) else 1


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Plants bugs and looks whether the tests find them.")
    parser.add_argument("names", nargs="*", help="how the names of the bugs begin; all without any")
    parser.add_argument("-n", "--processes", type=int, default=2)
    parser.add_argument("--trust", action="store_true", help="do not look first whether the tests pass without a bug")
    given = parser.parse_args(words)
    mutants = named(load(), given.names)
    for mutant in mutants:
        mutant.planted()
        mutant.check_tests()
    with TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Copy(Path(folder) / str(number)) for number in range(max(1, given.processes))]
        if not given.trust:
            print(f"The tests of {len(mutants)} bugs, on sound code first …", flush=True)
            wrong = without_bugs(copies, mutants)
            if wrong is not None:
                print(f"{wrong[-4000:]}\nA named test fails without any bug; mend that first.")
                return 2
        verdicts = []
        for verdict in judged(copies, mutants):
            print(f"{verdict.outcome:9}{verdict.seconds:6.1f} s  {verdict.mutant.name}", flush=True)
            verdicts.append(verdict)
    return report(verdicts)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Stale as stale:
        sys.exit(f"{stale}.")
