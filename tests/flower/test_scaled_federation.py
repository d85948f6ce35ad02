"""A table on real processes, on a scale that its sites found together: the bits of the same run in one process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from federation_of_processes import Federation
from safetensors.torch import load_file

import understudy as us
from understudy.engines.flower.proxy import nginx
from understudy.runs.folder import RunFolder
from understudy.runs.scaling import scaling_of

pytestmark = [pytest.mark.slow, pytest.mark.skipif(nginx() is None, reason="nginx is not installed")]
SITES = ("north", "south")
METHOD = {"name": "fedavg", "rounds": 2, "min_replies": 2, "local": {"epochs": 1, "lr": 0.05}}


def csv(path: Path, records: int, age: float, rng: np.random.Generator) -> None:
    """Glucose is a hundred times as large as the pedigree, and some of it is missing."""
    ages, glucose, pedigree = rng.normal(age, 9, records), rng.normal(120, 30, records), rng.uniform(0, 1, records)
    sick = ages / 40 + glucose / 100 + pedigree > 2.6 + rng.normal(0, 0.2, records)
    rows = [f"{i},{a:.0f},{'' if i % 9 == 0 else f'{g:.1f}'},{p:.3f},{'yes' if s else 'no'}"
            for i, (a, g, p, s) in enumerate(zip(ages, glucose, pedigree, sick, strict=True))]  # fmt: skip
    path.write_text("\n".join(["id,age,glucose,pedigree,sick", *rows]) + "\n")


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    rng = np.random.default_rng(0)
    for name, records, age in (("north", 60, 60), ("south", 90, 35), ("test", 80, 45)):
        csv(tmp_path / f"{name}.csv", records, age, rng)
    made = Federation(tmp_path, SITES)
    yield made
    made.stop()


def words(sites: dict[str, Any], **data: Any) -> dict[str, Any]:
    table = {"label": "sick", "ignore": ["id"], "missing": "mean", "scale": "federated", "labels": ["no", "yes"]}
    return {"data": {"sites": sites, **table, **data}, "method": METHOD}  # no network: the one that vectors have


def test_sites_find_one_scale_and_learn_as_in_one_process(federation: Federation) -> None:
    folder = federation.folder
    federation.write_config(
        **words(dict.fromkeys(SITES), shape=[3], classes=2, test="test.csv"), engine={"timeout": 300}
    )
    for site in SITES:
        federation.start_site(site, "--data", f"{site}.csv")
    federation.start_server()
    federation.finish(400)
    here = words({site: f"{folder}/{site}.csv" for site in SITES}, test=f"{folder}/test.csv")
    alone = us.run(here, engine="inline", out=folder / "alone")
    assert us.load(folder / "run").metrics[-1]["accuracy"] == alone.accuracy
    for name, tensor in load_file(folder / "run" / "model.safetensors").items():
        assert tensor.equal(alone.weights[name]), name
    found, again = scaling_of(folder / "run"), scaling_of(alone.folder)
    assert found is not None
    assert again is not None
    assert (found.mean.tolist(), found.std.tolist()) == (again.mean.tolist(), again.std.tolist())
    sent = RunFolder(folder / "run").ledger()["clients"]
    assert {client: lines[0]["kind"] for client, lines in sent.items()} == dict.fromkeys(SITES, "statistics")
