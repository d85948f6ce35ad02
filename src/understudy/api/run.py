"""``understudy.run`` and ``understudy.load``: the same as the command line, from Python.

Nothing heavy is imported here, so that a call says something within two seconds.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.api.shown import shown

if TYPE_CHECKING:
    from torch import nn

    from understudy.api.result import Result
    from understudy.data.federation import Federation
    from understudy.federation.method import Method
    from understudy.runs.watching import Observer

Settled = str | Mapping[str, Any] | None  # a name, or settings


def run(
    config: str | Path | Mapping[str, Any] | None = None,
    *,
    data: "Federation | Settled" = None,
    model: "nn.Module | Settled" = None,
    method: "Method | type[Method] | Settled" = None,
    add: Sequence[str | Mapping[str, Any]] | str | None = None,
    changes: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    observer: "Observer | None" = None,
    progress: bool | None = None,
    **more: Any,
) -> "Result":
    """Runs a federation: a preset, a YAML file or a mapping, changed by keywords.

    ``data``, ``model`` and ``method`` take a name, settings, or your own object; ``add`` lists add-ons; ``changes``
    are settings by their names (``{"method.local.lr": 0.1}``), and so is every other keyword (``rounds=5``, ``lr=0.1``:
    the last part of a name is enough where no other setting ends in it). Without ``out`` the folder is
    ``runs/NAME-1``, ``-2``, …; with ``resume`` the run in ``out`` goes on where it stopped.

    ``progress``: show how far it is; by default in a terminal and in a notebook. An ``observer`` is told instead.

    >>> import understudy as us
    >>> result = us.run("digits-skewed", rounds=2, lr=0.1, model="softmax")
    >>> result.accuracy > 0.1
    True
    """
    with shown(observer, progress) as watching:
        from understudy.api.result import played

        return played(
            config,
            out,
            resume,
            watching,
            data=data,
            model=model,
            method=method,
            add=add,
            changes=changes,
            **more,
        )


def load(
    folder: str | Path,
    *,
    data: "Federation | None" = None,
    model: "nn.Module | None" = None,
    method: "Method | type[Method] | None" = None,
) -> "Result":
    """An earlier run, from its folder, as `run` returned it.

    Objects that the run was given in Python are not in its folder: to predict or to resume, pass them again.

    >>> import understudy as us
    >>> folder = us.run("digits-skewed", rounds=1, model="softmax").folder
    >>> us.load(folder).summary["rounds"]
    1
    """
    from understudy.api.result import loaded

    return loaded(folder, data=data, model=model, method=method)
