"""Every planted fault and every honest mechanism, audited twenty times on the smallest configs.

    PYTHONPATH=tests:tests/contract:tests/audits/claims python tests/audits/claims/twenty_times.py [TIMES [NAME …]]

One line per audit, and at the end how often each was refuted. WORKERS in the environment: processes, by default 2.
"""

import os
import sys
from collections import Counter
from contextlib import nullcontext
from typing import Any

from faulty_mechanisms import FAULTS
from smallest import HONEST, PUBLISHED, config_of, faulty

from understudy.audits.claims.audit_claims import HowLong, audit_claims
from understudy.config.schema import Config

RUNS, FEWER_RUNS = 80, 40  # repetitions per arm and half
SLOW = ("fedlap-dp", "psg", *(name for name in HONEST if "counts" in name))  # a repetition takes tenths of a second
WORKERS = int(os.environ.get("WORKERS", "2"))


def audited(name: str) -> tuple[Config, Any]:
    """The config, and what is planted for as long as it is audited."""
    if name in FAULTS:
        return faulty(name), FAULTS[name]()
    return config_of(PUBLISHED if name == "feddm, dp: paper" else HONEST[name]), nullcontext()


def _processor_seconds() -> float:
    """Of this process and those it started: half of it, on two free cores, is how long one waits."""
    return sum(os.times()[:4])


def main(times: int, names: list[str]) -> None:
    wanted = names or ["feddm, dp: paper", *FAULTS, *HONEST]
    refuted: Counter[str] = Counter()
    longest: dict[str, float] = {}
    for number in range(1, times + 1):
        for name in wanted:
            config, planted = audited(name)
            begun = _processor_seconds()
            with planted:
                runs = FEWER_RUNS if name in SLOW else RUNS
                audit = audit_claims(config, how_long=HowLong(runs=runs, workers=WORKERS))
            took = _processor_seconds() - begun
            refuted[name] += audit.word == "refuted"
            longest[name] = max(longest.get(name, 0.0), took)
            print(f"{number} | {name} | {took:.1f} s of processor | {audit.sentence}", flush=True)
    for name in wanted:
        print(f"{name}: refuted {refuted[name]} of {times}, at most {longest[name]:.1f} s of processor each")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2:])
