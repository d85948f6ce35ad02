"""How long `understudy --help` takes, from the shell and back; and what `understudy run` computes before its first
line, in processor seconds, against `import torch`."""

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.report import Row
from benchmarks.timing import Turn, take_turns

TIMES = 5


def rows() -> list[Row]:
    script = Path(sys.executable).with_name("understudy")
    command = [str(script)] if script.exists() else [sys.executable, "-c", "from understudy.cli import main; main()"]
    turn = Turn(lambda: subprocess.run([*command, "--help"], check=True, stdout=subprocess.DEVNULL), 1)
    pace = take_turns({"help": turn}, 5)["help"]
    print(f"  five times: {', '.join(f'{s:.2f}' for s in pace.seconds)} s")
    to_line, to_torch = first_line(command)
    return [
        Row("understudy --help", "s", 1 / pace.a_second, None, 0.4, wanted="at most"),
        Row("understudy run, to its first line / import torch", "s", to_line, to_torch, 1.5, wanted="at most"),
    ]


def first_line(command: list[str]) -> tuple[float, float]:
    """Processor seconds until a run's first line of its own, after its opening was scored, and those of the import."""

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            words = [*command, "run", "digits-skewed", "engine=inline", "--out", f"{folder}/run"]
            with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
                assert process.stderr is not None
                for line in process.stderr:
                    if not line.startswith(("Working", "Building")):
                        break
                process.kill()

    def imports() -> None:
        subprocess.run([sys.executable, "-c", "import torch"], check=True)

    both = [(_of_children(run), _of_children(imports)) for _ in range(TIMES)]
    print(f"  to the first line and to torch: {', '.join(f'{a:.2f} and {b:.2f}' for a, b in both)} s")
    to_line, to_torch = (min(side) for side in zip(*both, strict=True))
    return to_line, to_torch


def _of_children(work: Callable[[], object]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
