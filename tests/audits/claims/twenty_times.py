"""Every planted fault and every honest mechanism, audited twenty times on the smallest configs.

    PYTHONPATH=tests:tests/contract:tests/audits/claims python tests/audits/claims/twenty_times.py [TIMES [NAME …]]

One line per audit, and at the end how often each was refuted. Twenty repetitions take about an hour on two cores.
"""

import sys
import time
from collections import Counter
from contextlib import nullcontext
from typing import Any

from faulty_mechanisms import FAULTS
from smallest import HONEST, PUBLISHED, config_of, faulty

from understudy.audits.claims.audit_claims import HowLong, audit_claims
from understudy.config.schema import Config

RUNS = 80  # repetitions per arm and half
WORKERS = 2


def audited(name: str) -> tuple[Config, Any]:
    """The config, and what is planted for as long as it is audited."""
    if name in FAULTS:
        return faulty(name), FAULTS[name]()
    return config_of(PUBLISHED if name == "feddm, dp: paper" else HONEST[name]), nullcontext()


def main(times: int, names: list[str]) -> None:
    refuted: Counter[str] = Counter()
    longest: dict[str, float] = {}
    for name in names or ["feddm, dp: paper", *FAULTS, *HONEST]:
        for time_round in range(times):
            config, planted = audited(name)
            begun = time.monotonic()
            with planted:
                audit = audit_claims(config, how_long=HowLong(runs=RUNS, workers=WORKERS))
            took = time.monotonic() - begun
            refuted[name] += audit.word == "refuted"
            longest[name] = max(longest.get(name, 0.0), took)
            print(f"{name} | {time_round + 1} | {took:.1f} s | {audit.sentence}", flush=True)
        print(f"{name}: refuted {refuted[name]} of {times}, at most {longest[name]:.1f} s each", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2:])
