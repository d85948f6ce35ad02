"""What shuffling gives to the clients of a run, read from the run's folder."""

from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.federation.cohorts import in_order
from understudy.federation.message import labels_from_wire
from understudy.methods.shared.dealing import POOL_X, POOL_Y, slices
from understudy.runs.cost import pool_of
from understudy.runs.folder import RunFolder


def dealt_examples(run: RunFolder, data: Federation) -> dict[str, Examples]:
    """Each client's part of the shuffled pool, whether it was asked yet or not; nobody's where nothing was shuffled."""
    pool = pool_of(run)
    if pool is None:
        return {}
    x, y = pool[POOL_X], labels_from_wire(pool[POOL_Y])
    parts = slices(len(y), len(data.sites))
    return {name: Examples(x[part], y[part]) for name, part in zip(in_order(data.sites), parts, strict=True)}
