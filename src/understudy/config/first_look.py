"""Methods whose defaults are their papers' sizes: a word about what that costs, and how to have a first look."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from understudy.config.build import completed, method_with_add_ons
from understudy.config.schema import Chosen, Config
from understudy.data.federation import Federation
from understudy.errors import UserError

DESK = "desk"  # the preset for a first look at some hundred records
MANY, LESS = 20_000, 0.5  # samples of one client in one round; only if the preset takes at most this share of them


def cost_of_a_first_run(config: Config, data: Federation) -> str:
    """Empty if there is nothing to save, or if the config's objects cannot tell."""
    if config.live.method is not None or data.remote:
        return ""
    config = completed(config, data.problem)
    now = _samples(config, data)
    if now < MANY:
        return ""
    for where, chosen, smaller in _with_presets(config):
        share = _samples(completed(smaller, data.problem), data) / now
        if share <= LESS:
            return (
                f"{chosen.name} has sizes for a full study: in each round a client puts about {_rounded(now)} samples "
                f"through the network, which may take minutes; for a first look write {where}.preset: {DESK}, "
                f"which takes {max(1, round(100 * share))} % of that."
            )
    return ""


def _with_presets(config: Config) -> list[tuple[str, Chosen, Config]]:
    """(section, part, config) for each part that has such a preset, with it in place of its settings."""
    found = []
    if DESK in config.method.entry.presets:
        found.append(("method", config.method, replace(config, method=_at_desk(config.method))))
    for number, chosen in enumerate(config.add_ons):
        if DESK in chosen.entry.presets:
            others = (*config.add_ons[:number], _at_desk(chosen), *config.add_ons[number + 1 :])
            found.append((f"with.{chosen.name}", chosen, replace(config, add_ons=others)))
    return found


def _at_desk(chosen: Chosen) -> Chosen:
    preset: Mapping[str, Any] = chosen.entry.presets[DESK]
    return replace(chosen, settings=chosen.entry.settings.model_validate(preset))


def _samples(config: Config, data: Federation) -> float:
    """Of a client of mean size, in a mean round."""
    rounds = config.plan.rounds
    if not rounds:
        return 0.0
    privacy = config.top.privacy
    records = data.records // len(data.sites) if privacy is None else privacy.records
    if records is None:
        return 0.0  # how many there are is nobody's business
    try:
        method = method_with_add_ons(config)
    except UserError:
        return 0.0  # other checks report what is wrong
    return method.samples(records, data.problem.classes, range(1, rounds + 1)) / rounds


def _rounded(count: float) -> str:
    digits = len(str(int(count))) - 2
    return f"{round(count, -digits):,.0f}"
