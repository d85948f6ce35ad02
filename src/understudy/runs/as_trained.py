"""Records as a trained model takes them: scaled as in training. Everything that predicts comes through here."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.runs.holdings import read_holdings
from understudy.runs.scaling import scaling_of


def as_trained(records: object, folder: Path, problem: Problem, site: str | None) -> Tensor:
    """(n, …) pixels, which the network scales itself, tokens, or floats scaled as the run's were."""
    one = problem.shape[1:] if problem.kind == "image" and problem.shape[0] == 1 else problem.shape
    if tuple(getattr(records, "shape", ())) == one:
        raise UserError(f"records have shape {one}, which is one record; pass several, or record[None].")
    x = _like_the_runs(records, folder, problem)
    if tuple(x.shape[1:]) != problem.shape:
        raise UserError(f"records have shape {tuple(x.shape)}; this run learnt from (n, {_shown(problem.shape)}).")
    if x.dtype != torch.float32:
        return x
    if not bool(torch.isfinite(x).all()):
        raise UserError("Some records hold values that are missing (NaN) or infinite; fill them in or leave those out.")
    scaling = scaling_of(folder, site)
    return x if scaling is None else scaling.applied(Examples(x, torch.zeros(len(x), dtype=torch.int64))).x


def _like_the_runs(records: object, folder: Path, problem: Problem) -> Tensor:
    """uint8 if the run learnt from pixels, float32 or tokens if it did not; older folders do not tell."""
    holdings = read_holdings(folder)
    pixels = None if holdings is None else holdings.pixels
    given = records.detach().cpu() if isinstance(records, Tensor) else records
    if pixels:
        array = np.asarray(given)
        if array.dtype.kind not in "iu" or (array.size and not 0 <= array.min() <= array.max() <= 255):
            raise UserError(
                f"This run learnt from pixels: pass whole numbers from 0 to 255, unscaled, not {array.dtype}."
            )
        given = array.astype(np.uint8)
    x = Examples.from_arrays(given, np.zeros(_count(given), dtype=np.int64), kind=problem.kind).x
    return x.to(torch.float32) if problem.floats or (pixels is False and not problem.tokens) else x


def _count(given: object) -> int:
    try:
        return len(given)  # type: ignore[arg-type]
    except TypeError:
        raise UserError(f"records: pass an array, (n, …), not {type(given).__name__}.") from None


def _shown(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))
