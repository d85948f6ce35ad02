"""What the clients of a run train on besides their own records, read from the run's folder."""

from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.federation.client import Client, Memory
from understudy.federation.shelf import Shelf
from understudy.studies.folder import RunFolder


def dealt_examples(run: RunFolder, data: Federation) -> dict[str, Examples]:
    """The synthetic records in each client's memory, as the newest checkpoint counts it; none where it has none."""
    entries = run.checkpoints.entries()
    versions = run.checkpoints.get(entries[-1])[1]["versions"] if entries else {}
    return {name: _dealt(run, name, versions.get(name), data) for name in data.sites}


def _dealt(run: RunFolder, name: str, version: str | None, data: Federation) -> Examples:
    holding = data.sites[name]
    kept = {}
    if version:  # the first one is empty: nothing was kept yet
        shelf = Shelf(run.path / "clients" / name / (run.path / "run-id").read_text() / "memory")
        kept = dict(shelf.get(version)[0])
    return Client(name, 0, own=holding.own, held_out=holding.held_out, memory=Memory(kept), seed=0).dealt
