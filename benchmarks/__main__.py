"""``python -m benchmarks [PART ...] [--json FILE]``; every part without a name."""

import argparse
import importlib
import json
import os
from pathlib import Path

from benchmarks.report import Row, machine, table
from benchmarks.timing import Elsewhere

PARTS = (
    "start",
    "memory",
    "matching",
    "gradient_matching",
    "terms",
    "private",
    "diffusion",
    "opening",
    "training",
    "small_clients",
    "population",
    "federation",
)
ASKED_FOR = ("peers", "scale")  # installs other frameworks; prints no ratios


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed and memory, as ratios in one run.")
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all of them by default; peers, scale"
    )
    parser.add_argument("--env", type=Path, metavar="FOLDER", help="peers: where other frameworks are, or are put")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    asked = parser.parse_args()
    unknown = [part for part in asked.parts if part not in (*PARTS, *ASKED_FOR)]
    if unknown:
        parser.error(f"there is no part '{unknown[0]}'; choose among {', '.join((*PARTS, *ASKED_FOR))}")
    if asked.env is not None:
        os.environ["UNDERSTUDY_PEERS_ENV"] = str(asked.env.absolute())
    here = machine()
    print(
        f"{here['cores']} cores ({here['processor']}), Python {here['python']}, torch {here['torch']}, "
        f"{here['threads']} thread; load {here['load']} before the start"
    )
    rows: list[Row] = []
    for part in asked.parts or PARTS:
        print(f"{part} …", flush=True)
        elsewhere = Elsewhere()
        rows += importlib.import_module(f"benchmarks.{part}").rows()
        taken = here["taken by others"][part] = elsewhere.share()
        if taken is not None:
            print(f"  other processes took {taken:.0%} of the machine meanwhile{'; measure again' * (taken > 0.1)}")
    if rows:
        print(f"\n{table(rows)}")
    if asked.json is not None:
        asked.json.write_text(json.dumps({"machine": here, "rows": [row.as_dict() for row in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
