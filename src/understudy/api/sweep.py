"""``understudy.sweep``: many runs in one call. Nothing heavy is imported here."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.api.shown import shown

if TYPE_CHECKING:
    from torch import nn

    from understudy.api.run import Settled
    from understudy.api.sweep_result import Sweep
    from understudy.data.federation import Federation
    from understudy.federation.method import Method
    from understudy.runs.watching import Observer


def sweep(
    config: str | Path | Mapping[str, Any] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    seeds: Sequence[int] | int = (0,),
    *,
    data: "Federation | Settled" = None,
    model: "nn.Module | Settled" = None,
    method: "type[Method] | Settled" = None,
    add: Sequence[str | Mapping[str, Any]] | str | None = None,
    changes: Mapping[str, Any] | None = None,
    out: str | Path = "sweeps",
    workers: int | None = None,
    address: str | None = None,
    observer: "Observer | None" = None,
    progress: bool | None = None,
    **more: Any,
) -> "Sweep":
    """Runs every combination of the values in ``grid``, with every seed, over all cores; otherwise like `run`.

    Combinations are chosen on validation records, a share of the training records (``data.validation``, here 0.2 if the
    config keeps none back), and the test set is only reported. Where clients score at home, their held-out records
    choose. A combination that fails is written down, and the others go on.

    Runs are kept in ``out`` by what they are, so the same call goes on after a stop or a kill, and a wider one repeats
    nothing. ``workers``: processes, by default one per core. ``address``: whole runs go to the Ray
    cluster there instead (its head's host:port, or auto).

    >>> import understudy as us
    >>> found = us.sweep("digits-skewed", {"lr": [0.01, 0.3]}, seeds=[0, 1], rounds=2, model="softmax")
    >>> sorted(found.best)
    ['lr']
    >>> len(found.rows())
    4
    """
    with shown(observer, progress) as watching:
        from understudy.api.sweep_result import swept

        words = {"data": data, "model": model, "method": method, "add": add, "changes": changes, **more}
        return swept(config, grid, seeds, out, workers, address, watching, **words)
