"""How long `understudy --help` takes, from the shell and back."""

import subprocess
import sys
from pathlib import Path

from benchmarks.report import Row
from benchmarks.timing import Turn, take_turns


def rows() -> list[Row]:
    script = Path(sys.executable).with_name("understudy")
    command = [str(script)] if script.exists() else [sys.executable, "-c", "from understudy.cli import main; main()"]
    turn = Turn(lambda: subprocess.run([*command, "--help"], check=True, stdout=subprocess.DEVNULL), 1)
    pace = take_turns({"help": turn}, 5)["help"]
    print(f"  five times: {', '.join(f'{s:.2f}' for s in pace.seconds)} s")
    return [Row("understudy --help", "s", 1 / pace.a_second, None, 0.4, wanted="at most")]
