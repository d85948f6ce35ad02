"""Every planted fault and every honest mechanism, audited twenty times on the smallest configs.

    PYTHONPATH=tests:tests/contract:tests/audits/claims python tests/audits/claims/twenty_times.py KEPT [NAME …]

KEPT: a file of JSON lines, one per audit. What it has already is not audited again, so a series that was stopped goes
on. At the end: how often each was refuted, and how long an audit took.
"""

import argparse
import json
import os
import statistics
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from faulty_mechanisms import FAULTS
from smallest import HONEST, PUBLISHED, config_of, faulty

from understudy.audits.claims.audit_claims import HowLong, audit_claims
from understudy.config.schema import Config
from understudy.files import add_line

# Repetitions per arm and half; fewer where one takes hundredths of a second, more where a fault shows least.
RUNS = 60
OTHERWISE = {"fedlap-dp": 32, "psg": 32, "sampling from the public seed": 80}
OTHERWISE |= {"vae, noised label counts": 32, "gan, noised label counts": 24, "diffusion, noised label counts": 20}
EVERYTHING = ["feddm, dp: paper", *FAULTS, *HONEST]


def audited(name: str) -> tuple[Config, Any]:
    """The config, and what is planted for as long as it is audited."""
    if name in FAULTS:
        return faulty(name), FAULTS[name]()
    return config_of(PUBLISHED if name == "feddm, dp: paper" else HONEST[name]), nullcontext()


def one_audit(name: str, number: int, workers: int) -> dict[str, Any]:
    config, planted = audited(name)
    begun = _processor_seconds()
    with planted:
        audit = audit_claims(config, how_long=HowLong(runs=OTHERWISE.get(name, RUNS), workers=workers))
    return {
        "name": name,
        "number": number,
        "refuted": audit.word == "refuted",
        "said": audit.sentence,
        "processor": round(_processor_seconds() - begun, 1),
        "seconds": round(audit.seconds, 1),
    }


def _processor_seconds() -> float:
    """Of this process and those it started."""
    return sum(os.times()[:4])


def read(kept: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []


def summary(lines: list[dict[str, Any]]) -> list[str]:
    by_name: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        by_name[line["name"]].append(line)
    return [
        f"{name}: refuted {sum(line['refuted'] for line in some)} of {len(some)}; seconds of processor each: "
        f"{statistics.median(line['processor'] for line in some):.1f}, "
        f"at most {max(line['processor'] for line in some):.1f}"
        for name, some in by_name.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Audits every planted fault and every honest mechanism many times.")
    parser.add_argument("kept", type=Path, help="a file of JSON lines, one per audit")
    parser.add_argument("names", nargs="*", help="which ones; all by default")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_intermixed_args()
    wanted = given.names or EVERYTHING
    there = {(line["name"], line["number"]) for line in read(given.kept)}
    for number in range(1, given.times + 1):
        for name in wanted:
            if (name, number) not in there:
                line = one_audit(name, number, given.workers)
                add_line(given.kept, line)
                print(f"{number} | {name} | {line['processor']:.1f} s of processor | {line['said']}", flush=True)
    print("\n".join(summary([line for line in read(given.kept) if line["name"] in wanted])))


if __name__ == "__main__":
    main()
