"""Every public name has a docstring whose example runs and prints what it says."""

import doctest
import sys
from pathlib import Path

import pytest

import understudy as us
from in_a_fork import in_a_fork


@pytest.mark.parametrize("name", us.__all__)
def test_the_example_of_a_public_name_runs(name: str, tmp_path: Path) -> None:
    found = [test for test in doctest.DocTestFinder(recurse=False).find(getattr(us, name), name) if test.examples]
    assert len(found) == 1, f"{name} has no example"

    def work() -> None:
        sys.exit(doctest.DocTestRunner().run(found[0]).failed)

    done = in_a_fork(work, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
