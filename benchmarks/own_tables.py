"""Two medical-style tables at four sites, with every way to scale their columns: the numbers of docs/own-tables.md.

    python benchmarks/own_tables.py FOLDER

The first is scikit-learn's breast cancer data with up to two records per person. The second is made here: visits of
patients, with categories, missing values, and hospitals that differ in the age of their patients.
"""

import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer

import understudy as us
from understudy.data.assemble import build_federation
from understudy.data.settings import DataSettings
from understudy.data.spread import Spread
from understudy.runs.watching import Observer

SITES = ("north", "east", "south", "west")
SEEDS = range(3)
Row = Mapping[str, Any]


def breast_cancer(folder: Path) -> dict[str, Any]:
    found, rng = load_breast_cancer(), np.random.default_rng(0)
    names = [name.replace(" ", "_") for name in found.feature_names]
    person = rng.permutation(len(found.target)) // 2
    who = rng.permutation(np.unique(person))
    parts = [*np.array_split(who[: int(0.8 * len(who))], 4), who[int(0.8 * len(who)) :]]
    rows = [
        {"patient": int(one), **dict(zip(names, map(float, x), strict=True)), "diagnosis": found.target_names[y]}
        for one, x, y in zip(person, found.data, found.target, strict=True)
    ]
    for name, part in zip((*SITES, "test"), parts, strict=True):
        write(folder / f"{name}.csv", [row for row in rows if row["patient"] in part])
    ranges = {name: [0.0, float(f"{1.2 * top:.1g}")] for name, top in zip(names, found.data.max(0), strict=True)}
    return {"label": "diagnosis", "labels": ["malignant", "benign"], "person": "patient", "ranges": ranges}


def visits(folder: Path) -> dict[str, Any]:
    rng, smoking = np.random.default_rng(1), ("never", "former", "current")
    rows: dict[str, list[Row]] = {name: [] for name in (*SITES, "test")}
    for patient in range(1000):
        age, bmi, habit = rng.uniform(20, 90), rng.normal(27, 5), rng.choice(3, p=[0.5, 0.3, 0.2])
        risk = 0.04 * (age - 55) + 0.12 * (bmi - 27) + (-0.2, 0.1, 0.5)[habit] + rng.normal(0, 0.6)
        sex, at = rng.choice(["f", "m"]), int(np.clip((age - 20) / 17.5 + rng.normal(), 0, 3))
        where = "test" if rng.random() < 0.2 else SITES[at]
        for _ in range(rng.integers(1, 5)):
            rows[where].append(
                {
                    "patient": f"P{patient:04d}",
                    "age": round(age, 1),
                    "sex": sex,
                    "smoker": "" if rng.random() < 0.06 else smoking[habit],
                    "bmi": round(bmi, 1),
                    "glucose": round(100 + 22 * risk + rng.normal(0, 12), 1),
                    "insulin": "" if rng.random() < 0.06 else round(max(2, 80 + 60 * risk + rng.normal(0, 60)), 1),
                    "pressure": round(120 + 0.3 * (age - 55) + rng.normal(0, 12)),
                    "diabetes": ["no", "yes"][int(risk + rng.normal(0, 0.5) > 0.3)],
                }
            )
    for name, some in rows.items():
        write(folder / f"{name}.csv", some)
    return {
        "label": "diabetes",
        "labels": ["no", "yes"],
        "person": "patient",
        "missing": "drop",
        "vocabulary": {"sex": ["f", "m"], "smoker": list(smoking)},
        "ranges": {"age": [0, 110], "bmi": [10, 60], "glucose": [0, 300], "insulin": [0, 500], "pressure": [50, 250]},
    }


def write(file: Path, rows: Sequence[Row]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as opened:
        table = csv.DictWriter(opened, [*rows[0]])
        table.writeheader()
        table.writerows(rows)


def ways(folder: Path, about: Mapping[str, Any]) -> dict[str, tuple[dict[str, Any], bool]]:
    """Data sections by name, and whether there is a privacy budget."""
    ranges = {"ranges": about["ranges"]}
    home = {**about, "sites": {name: str(folder / f"{name}.csv") for name in SITES}}
    del home["ranges"]
    data = {**home, "test": str(folder / "test.csv")}
    records = build_federation(DataSettings.model_validate(home), seed=0).sites.values()
    pooled = Spread.of(torch.cat([one.own.x for one in records]))
    given = {"mean": pooled.mean.tolist(), "std": pooled.std.tolist()}
    return {
        "none": ({**data, "scale": "none"}, False),
        "given": ({**data, **given}, False),
        "site": ({**home, "scale": "site", "held_out": 0.2}, False),
        "federated": ({**data, "scale": "federated"}, False),
        "none, ε = 3": ({**data, "scale": "none"}, True),
        "federated, ε = 3": ({**data, "scale": "federated", **ranges}, True),
    }


PLAIN = {"name": "fedavg", "rounds": 10, "local": {"epochs": 2, "lr": 0.05, "batch": 16}}


def ran(out: Path, data: dict[str, Any], private: bool, records: int, seed: int) -> us.Result:
    words: dict[str, Any] = {"data": data, "model": {"name": "mlp", "hidden": [32]}, "seed": seed, "engine": "inline"}
    words["method"] = PLAIN
    if private:
        local = {"epochs": 1, "lr": 0.5, "batch": 32 if records < 200 else 64}
        words["method"] = {"name": "dp-fedavg", "rounds": 10, "noise": None, "clip": 1.0, "local": local}
        words["privacy"] = {"epsilon": 3.0, "delta": 1e-3, "records": records}
    return us.run(words, out=out, observer=Observer())


def main(folder: Path) -> None:
    for name, make, records in (("breast cancer", breast_cancer, 110), ("visits", visits, 400)):
        here = folder / name.replace(" ", "-")
        for way, (data, private) in ways(here, make(here)).items():
            at = here / "runs" / way.replace(", ε = ", "-")
            results = [ran(at / str(seed), data, private, records, seed) for seed in SEEDS]
            accuracy = [100 * (one.accuracy or 0.0) for one in results]
            spent = [results[0].summary.get(key) for key in ("epsilon", "epsilon_per_person", "records_per_person")]
            print(
                f"{name}, {way}: {mean(accuracy):.1f} ({min(accuracy):.1f} to {max(accuracy):.1f}), {spent}", flush=True
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
