"""How a run scaled its floats: `scale.json` in its folder, so that new records can be scaled alike.

    {"by": "given" | "federated", "mean": […], "std": […]}          one scale for all
    {"by": "site", "sites": {"north": {"mean": […], "std": […]}}}   each site by its own statistics

With `federated` it is written after the opening. A run whose records stay at their sites knows no site's own scale;
there, the site's folder holds it. Runs that leave records as they are have no such file.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from understudy.complaints import unknown_name
from understudy.config.build import build_data
from understudy.config.schema import Config
from understudy.data.federation import Federation
from understudy.data.spread import Spread
from understudy.data.standardise import by_agreement
from understudy.errors import UserError
from understudy.federation.column_sums import MEAN, spread_in
from understudy.files import write_whole
from understudy.reading import json_of, text_of
from understudy.runs.folder import RunFolder

SCALE_FILE = "scale.json"


def scaling_of(folder: Path, site: str | None = None) -> Spread | None:
    """By what a run's floats were scaled: ``scaling_of(folder).applied(examples)`` scales others alike. None: they were
    not. ``site`` must be named where each site has a scale of its own."""
    run = RunFolder(folder)
    if not (folder / SCALE_FILE).exists():
        return _from_the_run(run)
    found = json_of(text_of(folder / SCALE_FILE), str(folder / SCALE_FILE))
    try:
        if found["by"] != "site":
            return _spread(found)
        return _spread(found["sites"][_chosen(site, found["sites"])])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"{folder / SCALE_FILE} is damaged; restore it from a copy.") from None


def _from_the_run(run: RunFolder) -> Spread | None:
    """Where the file is missing: the run is older, or has not opened yet."""
    words, state = run.config(), run.newest_state()
    if MEAN in state:
        return spread_in(state)
    data = words.get("data") or {}
    if data.get("scale") in ("site", "federated") or words.get("scaling") is not None:
        raise UserError(f"{run.path} does not hold the scale of its records: it has not opened yet, or sites keep it.")
    pixels = len(words["problem"]["shape"]) == 3 and data.get("pixels") is not False
    return None if pixels or not data.get("mean") else _spread(data)


def _chosen(site: str | None, sites: Mapping[str, Any]) -> str:
    if site is None:
        raise UserError(f"Each site of this run has a scale of its own; name one of {', '.join(sites)}.")
    if site not in sites:
        raise unknown_name("site", site, sites)
    return site


def _spread(words: Mapping[str, Any]) -> Spread:
    mean, std = (torch.tensor([float(one) for one in words[key]], dtype=torch.float64) for key in ("mean", "std"))
    if mean.shape != std.shape:
        raise ValueError("mean and std differ in length")
    return Spread(mean, std)


def _words(spread: Spread) -> dict[str, list[float]]:
    return {"mean": spread.mean.tolist(), "std": spread.std.tolist()}


def note_scaling(folder: Path, data: Federation) -> None:
    """What is known before the opening."""
    known = {} if data.population is not None else data.sites  # a population is not scaled site by site
    by_site = {name: _words(one.spread) for name, one in known.items() if one.spread is not None}
    if by_site:
        _write(folder, {"by": "site", "sites": by_site})
    elif data.problem.mean and not data.pixels:
        mean, std = (torch.tensor(values, dtype=torch.float64) for values in (data.problem.mean, data.problem.std))
        _write(folder, {"by": "given", **_words(Spread(mean, std).sparing(data.problem.categories))})


def note_own(folder: Path, site: str, spread: Spread | None) -> None:
    """In a site's own folder, if it scaled its records by itself."""
    if spread is not None:
        _write(folder, {"by": "site", "sites": {site: _words(spread)}})


def note_agreed(folder: Path, spread: Spread) -> None:
    _write(folder, {"by": "federated", **_words(spread)})


def _write(folder: Path, words: Mapping[str, Any]) -> None:
    text = json.dumps(words, indent=1) + "\n"
    if not (folder / SCALE_FILE).exists() or (folder / SCALE_FILE).read_text() != text:
        write_whole(folder / SCALE_FILE, text.encode())


def data_of_run(config: Config, folder: Path) -> Federation:
    """The records of a run as its model learnt from them."""
    data = build_data(config)
    if data.scale is None or data.remote:
        return data
    agreed = scaling_of(folder)
    assert agreed is not None
    return by_agreement(data, agreed)
