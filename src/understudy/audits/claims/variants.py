"""The config under audit, made small: few steps, few images, a plan for few records, the same σ and C.

Claims are not carried over: each variant charges for itself, and what it charged is what is tested.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from understudy.base_settings import Settings
from understudy.config.schema import Chosen, Config
from understudy.data.federation import Federation
from understudy.learning.local import Local
from understudy.privacy.charges import Charge

EXCHANGE = "fedssyn"  # the add-on with a mechanism of its own
FEW_RECORDS = 2  # planned, in the variant in which every record is in every release


def planned_records_of(config: Config, data: Federation) -> int:
    """n̄ as the config plans it; where counts are public, that of a client in the middle."""
    privacy = config.top.privacy
    if privacy is not None and privacy.records is not None:
        return privacy.records
    sizes = sorted(len(holding.own) for holding in data.sites.values())
    return max(1, sizes[len(sizes) // 2])


def with_plan(config: Config, records: int) -> Config:
    """Planned for so many records per client."""
    if config.top.privacy is None:
        return config
    privacy = config.top.privacy.model_copy(update={"records": records})
    return replace(config, top=config.top.model_copy(update={"privacy": privacy}))


def with_steps(config: Config, most: int, charges: Mapping[str, Sequence[Charge]]) -> Config:
    """At most so many releases per round where a setting says how many, and σ as in ``charges``, by task."""
    exchanged = [charge for task, some in charges.items() if task.startswith("Fedssyn.") for charge in some]
    inner = [charge for task, some in charges.items() if not task.startswith("Fedssyn.") for charge in some]
    method = _chosen(config.method, _fewer(config.method.settings, most, inner[-1].noise if inner else None))
    add_ons = [
        _chosen(one, _fewer_epochs(one.settings, most, exchanged[-1].noise if exchanged else None))
        if one.name == EXCHANGE
        else one
        for one in config.add_ons
    ]
    return replace(config, method=method, add_ons=tuple(add_ons))


def unlimited(config: Config) -> Config:
    """Counted, and never refused: with few steps and another plan, σ may be too small for the run's budget."""
    privacy = config.top.privacy
    if privacy is None:
        return config
    return replace(config, top=config.top.model_copy(update={"privacy": privacy.model_copy(update={"epsilon": None})}))


def with_every_record(config: Config) -> Config:
    """Planned for so few records that every record is in every release (q = 1)."""
    fields = type(config.method.settings).model_fields
    free: dict[str, Any] = {name: None for name in ("rate", "class_records") if name in fields}
    planned = replace(config, method=_chosen(config.method, free))
    return with_plan(planned, FEW_RECORDS)


def _fewer(settings: Settings, most: int, noise: float | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    fields = type(settings).model_fields

    def value(name: str) -> Any:
        return getattr(settings, name) if name in fields else None

    if noise is not None and "noise" in fields:
        found["noise"] = noise
    if isinstance(value("local"), Local) and "noise" in fields:
        local: Local = value("local")
        steps = most if local.steps is None else min(most, local.steps)
        found["local"] = local.model_copy(update={"steps": steps, "epochs": None})
    for name in ("steps", "stat_releases"):
        if isinstance(value(name), int):
            found[name] = min(most, value(name))
    if "real_batches" in fields:  # FedLAP: batches of a stage, stages of a path, paths of a round
        found |= {"restarts": 1, "stages": 1, "real_batches": most, "image_steps": 1, "ipc": 1}
    if "iterations" in fields and "batches" in fields:  # PSG: gradients at a point, points of a path, paths
        found |= {"iterations": 1, "outer": 1, "inner": 1, "batches": most, "ipc": 1}
    return found


def _fewer_epochs(settings: Settings, most: int, noise: float | None) -> dict[str, Any]:
    """Fedssyn's: at q = 1 an epoch is one step."""
    dp, words = getattr(settings, "dp", None), dict(getattr(settings, "generator", {}))
    if dp is None:
        return {}
    if "epochs" in words:
        words |= {"epochs": min(most, words["epochs"]), **({"least_steps": 0} if "least_steps" in words else {})}
    pinned = dp if noise is None else dp.model_copy(update={"noise": noise, "epsilon": None})
    return {"generator": words, "dp": pinned}


def _chosen(one: Chosen, update: Mapping[str, Any]) -> Chosen:
    return replace(one, settings=one.settings.model_copy(update=dict(update)))
