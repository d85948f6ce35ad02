"""Records as a trained model takes them: scaled as in training. Everything that predicts comes through here."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.config.resolve import resolve
from understudy.config.schema import LIVE
from understudy.data.assemble import scale_of_site
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.data.spread import by_constants
from understudy.errors import UserError
from understudy.runs.holdings import read_holdings


def as_trained(records: object, folder: Path, words: Mapping[str, Any], problem: Problem, site: str | None) -> Tensor:
    """(n, …) pixels, which the network scales itself, or floats scaled as the run's were. ``words``: its config."""
    x = _like_the_runs(records, folder)
    if tuple(x.shape[1:]) != problem.shape:
        one = " (one record alone is records[None])" if tuple(x.shape) == problem.shape else ""
        raise UserError(f"records have shape {tuple(x.shape)}; this run learnt from (n, {_shown(problem.shape)}){one}.")
    if x.dtype == torch.uint8:
        return x
    if not bool(torch.isfinite(x).all()):
        raise UserError("Some records hold values that are not finite; remove or repair them.")
    part = Examples(x, torch.zeros(len(x), dtype=torch.int64))
    if dict(words.get("data") or {}).get("scale") == "site":
        return _by_site(part, words, site).x
    return by_constants(part, problem.mean, problem.std).x


def _by_site(part: Examples, words: Mapping[str, Any], site: str | None) -> Examples:
    if words["data"].get("name") == LIVE:
        raise UserError("These records were scaled by each site's own statistics, which the folder does not hold.")
    if site is None:
        raise UserError("Each site scaled its records by its own statistics (data.scale: site); pass site=, its name.")
    config = resolve({"seed": words["seed"], "data": words["data"]})
    assert config.data is not None
    return scale_of_site(config.data, site, seed=config.top.seed).applied(part)


def _like_the_runs(records: object, folder: Path) -> Tensor:
    """uint8 if the run learnt from pixels, float32 if it did not; older folders do not tell."""
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
    x = Examples.from_arrays(given, np.zeros(_count(given), dtype=np.int64)).x
    return x.to(torch.float32) if pixels is False else x


def _count(given: object) -> int:
    try:
        return len(given)  # type: ignore[arg-type]
    except TypeError:
        raise UserError(f"records: pass an array, (n, …), not {type(given).__name__}.") from None


def _shown(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))
