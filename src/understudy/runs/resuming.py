"""When a folder's run may be resumed: with the config it began with. Only its engine (but not how many clients train
together, which changes last bits), how often it measures, whether it keeps a transcript, who tracks it and, where
nothing depends on them, its rounds may differ.

The requested config must match `config.yaml`, and `config.yaml` must be what the run began with: the checkpoint carries
its digest, so that an edited file is noticed.
"""

import hashlib
import json
from typing import Any

import torch

from understudy.data.federation import Federation
from understudy.data.settings import used
from understudy.errors import UserError, option
from understudy.runs.folder import RunFolder

RECORDS_AT_ONCE = 4096  # large records may be on disk
NEWER = {"data": ("kind", "categories"), "problem": ("floats", "categories")}
FREE = ("engine", "version", "measure", "transcript", "track")


def check_same_run(saved: dict[str, Any], wanted: dict[str, Any]) -> None:
    why_fixed = why_rounds_matter(wanted)
    saved, wanted = _fixed(saved), _fixed(wanted)
    wanted = {section: _without_newer(words, section, saved.get(section)) for section, words in wanted.items()}
    for key in sorted(saved.keys() | wanted.keys()):
        a, b = saved.get(key), wanted.get(key)
        if key == "method" and isinstance(a, dict) and isinstance(b, dict):
            if a.get("rounds") != b.get("rounds") and why_fixed is not None:
                raise UserError(
                    f"{why_fixed}, so it cannot be changed from {a.get('rounds')} to {b.get('rounds')} half-way; "
                    "start a new run."
                )
            a, b = ({k: v for k, v in side.items() if k != "rounds"} for side in (a, b))
        if a != b:
            part = first_difference(a, b, key)
            raise UserError(f"This folder belongs to another config: {part}; choose another {option('out')}.")


def check_not_edited(folder: RunFolder) -> bool:
    """Whether it could be checked: checkpoints from older versions carry no digest."""
    entries = folder.checkpoints.entries()
    digest_begun_with = folder.checkpoints.newest_notes().get("config")
    if digest_begun_with not in (None, digest_of_run(folder.config())):
        raise UserError(
            f"{folder.path / 'config.yaml'} was edited after the run began, and only method.rounds and engine may "
            f"differ: undo the change, or start a new run with another {option('out')}."
        )
    return digest_begun_with is not None or not entries


def digest_of_run(words: dict[str, Any]) -> str:
    """Of everything that must stay the same throughout a run."""
    fixed = {key: _without_newer(value, key, {}) for key, value in _fixed(words).items()}
    if isinstance(fixed.get("method"), dict) and why_rounds_matter(words) is None:
        fixed["method"] = {key: value for key, value in fixed["method"].items() if key != "rounds"}
    return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()[:32]


def _fixed(words: dict[str, Any]) -> dict[str, Any]:
    """What a run keeps to its end, rounds included."""
    fixed = {key: value for key, value in _said(_with_used_data(words)).items() if key not in FREE}
    engine = words.get("engine")
    group = engine.get("together", 1) if isinstance(engine, dict) else 1
    return fixed if group == 1 else {**fixed, "engine": {"together": group}}


def _with_used_data(words: dict[str, Any]) -> dict[str, Any]:
    """Older folders also have defaults of unused settings, such as a data set's name besides own sites."""
    data = words.get("data")
    return {**words, "data": used(data)} if isinstance(data, dict) else words


def _said(words: Any) -> Any:
    """Without nulls: an unused setting that is newer than the folder makes no difference."""
    if isinstance(words, dict):
        return {key: _said(value) for key, value in words.items() if value is not None}
    return [_said(item) for item in words] if isinstance(words, list) else words


def _without_newer(words: Any, section: str, saved: Any) -> Any:
    """What older folders leave to the records themselves, whose shape shows the same."""
    if section not in NEWER or not isinstance(words, dict) or not isinstance(saved, dict):
        return words
    return {key: value for key, value in words.items() if key in saved or key not in NEWER[section]}


def _follows_a_curve(words: object) -> bool:
    if not isinstance(words, dict):
        return False
    return words.get("schedule") == "cosine" or any(_follows_a_curve(below) for below in words.values())


def why_rounds_matter(words: dict[str, Any]) -> str | None:
    """Why the number of rounds changes what a client does in each of them; None: it does not."""
    method = words.get("method")
    if _follows_a_curve(method):
        return "With schedule: cosine the learning rates depend on the number of rounds"
    if words.get("privacy") is not None and isinstance(method, dict) and method.get("noise", 0) is None:
        return "With method.noise: null the noise is solved for all rounds together and depends on their number"
    return None


def first_difference(a: object, b: object, key: str) -> str:
    if isinstance(a, dict) and isinstance(b, dict):
        for name in sorted(a.keys() | b.keys()):
            if a.get(name) != b.get(name):
                return first_difference(a.get(name), b.get(name), f"{key}.{name}")
    return f"{key} is {a!r} there and {b!r} here"


def digest_of_data(data: Federation) -> str:
    """So that a run is not resumed on other records under the same name."""
    if data.population is not None:
        return data.population.digest[:32]
    total = hashlib.sha256()
    for name in sorted(data.sites):
        holding = data.sites[name]
        total.update(name.encode())
        for part in (holding.own.x, holding.own.y, holding.held_out.x, holding.held_out.y):
            total.update(str(tuple(part.shape)).encode())
            for some in torch.split(part, RECORDS_AT_ONCE):
                total.update(some.contiguous().numpy().tobytes())
    return total.hexdigest()[:32]


def digest_of_config(words: dict[str, Any]) -> str:
    """Of what server and clients must agree on."""
    shared = {key: words[key] for key in ("seed", "problem", "model", "method", "with", "privacy")}
    apart = ["cohort", "min_replies", *(("rounds",) if why_rounds_matter(words) is None else ())]
    method = {key: value for key, value in shared["method"].items() if key not in apart}
    agreed = {"scaling": words["scaling"]} if "scaling" in words else {}
    # Where the first weights came from is the server's affair: they travel, and what is frozen has a digest of its own.
    model = {key: value for key, value in shared["model"].items() if not key.startswith("start")}
    whole = {**shared, "method": method, "model": model, **agreed}
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:32]
