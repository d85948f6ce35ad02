"""Which code made a number: the version, and the commit where the package is read from a clone."""

import subprocess
from functools import cache
from pathlib import Path

from understudy import __version__


@cache
def made_by() -> str:
    here = Path(__file__).parent
    try:
        asked = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
        commit = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        commit = ""
    return f"understudy {__version__}" + (f", commit {commit}" if commit else "")
