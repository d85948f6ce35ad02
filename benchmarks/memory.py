"""Peak memory of a run of FedAvg over 1000 clients, when 10 or 500 of them take part in each round."""

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from benchmarks.report import Row

CLIENTS, SMALL, LARGE, ROUNDS = 1000, 10, 500, 2


def rows() -> list[Row]:
    peaks = {cohort: _in_a_fresh_process(cohort) for cohort in (SMALL, LARGE)}
    for cohort, peak in peaks.items():
        print(f"  {cohort} of {CLIENTS} clients a round: {peak:.0f} MB at most")
    what = f"peak memory: cohort of {LARGE} / of {SMALL}"
    return [Row(what, "MB", peaks[LARGE], peaks[SMALL], 1.1, wanted="at most")]


def _in_a_fresh_process(cohort: int) -> float:
    command = [sys.executable, "-m", "benchmarks.memory", str(cohort)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["clients"] == cohort  # everybody answered
    return float(found["peak"])


def run_once(cohort: int) -> int:
    """A network of a million numbers and 6 kB of records a client; gives how many answered in the last round."""
    import understudy as us
    from understudy.randomness import generator

    rng = generator("benchmark", "memory")
    x = torch.randint(256, (CLIENTS, 8, 1, 28, 28), generator=rng, dtype=torch.uint8)
    y = torch.randint(10, (CLIENTS, 8), generator=rng)
    sites = [us.Examples(x[i].clone(), y[i].clone()) for i in range(CLIENTS)]
    with tempfile.TemporaryDirectory() as folder:
        result = us.run(
            data=us.Federation.from_arrays(sites, test=sites[0], classes=10),
            model={"name": "mlp", "hidden": [1000, 200]},
            method={"name": "fedavg", "rounds": ROUNDS, "cohort": cohort, "local": {"steps": 1, "batch": 8}},
            changes={"engine": {"name": "inline"}},
            out=Path(folder) / "run",
        )
    return int(result.metrics[-1]["clients"])


def peak_megabytes() -> float:
    """Of this process since it began. Linux's `ru_maxrss` also remembers the process that started it, before
    exec, so where the kernel tells the peak of this memory alone, that is taken."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024


if __name__ == "__main__":
    answered = run_once(int(sys.argv[1]))
    print(json.dumps({"clients": answered, "peak": peak_megabytes()}))
