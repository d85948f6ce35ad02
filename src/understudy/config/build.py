"""From a Config to the objects a run works with."""

import copy
import math
import shutil
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from understudy import patience
from understudy.config.schema import Config
from understudy.data.assemble import build_federation, check_private
from understudy.data.federation import Federation
from understudy.data.problem import Problem
from understudy.errors import UserError, no_memory
from understudy.federation.cohorts import cohort_size
from understudy.federation.method import Method
from understudy.heap import memory_of_machine
from understudy.models import zoo as models
from understudy.models.network import Network, check_outputs
from understudy.models.zoo import FastPath
from understudy.own_code import is_own, own


def build_data(config: Config) -> Federation:
    if config.live.data is not None:
        return config.live.data
    assert config.data is not None
    data = build_federation(config.data, seed=config.top.seed)
    if config.top.privacy is not None:
        check_private(config.data, data)
    return data


def build_method(config: Config, data: Federation, fast: FastPath | None = None) -> Method:
    """The method with its add-ons, bound to its network; combinations that make no sense are refused here.

    It is built once: it tells how much work it is, which decides the ``fast`` path if none is given, then what its
    network must look like, and is bound to that network.
    """
    patience.doing("Building the network")
    method = method_with_add_ons(config)
    path = fast or choose_fast_path(config, data, method)
    method.privacy = config.top.privacy
    method.bind(_network(config, data.problem, path, method), config.plan.rounds)
    return method


def method_with_add_ons(config: Config) -> Method:
    method = config.method.entry.build(config.method.settings)
    for chosen in config.add_ons:
        method = chosen.entry.build(chosen.settings, method)
    return method


def _network(config: Config, problem: Problem, fast: FastPath, method: Method) -> Network:
    """The config's network, adapted to its method."""
    _check_memory(config, problem)

    def build() -> nn.Module:
        return method.adapt_network(module_of(config, problem), problem)

    return Network(build, problem, seed=config.top.seed, fast=fast, device=device(config))


def module_of(config: Config, problem: Problem) -> nn.Module:
    name, settings = config.model.name, dict(config.model_settings)
    if config.live.model is None and not is_own(name):
        entry = models.entry(name)
        return entry.build(problem, entry.settings(**settings))
    module = _own_module(name, problem, settings) if config.live.model is None else _copy(config.live.model)
    check_outputs(module, problem)
    return module


def _copy(module: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(module)
    except Exception as error:  # user code may raise anything
        raise UserError(f"model: {type(module).__name__} cannot be copied: {error}.") from error


def _own_module(name: str, problem: Problem, settings: dict[str, Any]) -> nn.Module:
    module = own(name)(problem, **settings)
    if not isinstance(module, nn.Module):
        raise UserError(f"{name} gave a {type(module).__name__}, not a torch.nn.Module.")
    return module


def _check_memory(config: Config, problem: Problem) -> None:
    """Counts a named network before any of it is in memory; its gradient takes as much again."""
    if config.live.model is not None or is_own(config.model.name):
        return
    try:
        with torch.device("meta"):
            parameters = sum(p.numel() for p in module_of(config, problem).parameters())
    except RuntimeError as error:
        if not no_memory(error):
            raise
        raise UserError(f"model: {config.model.name} is too large for any memory with these settings.") from None
    needed, here = 2 * 4 * parameters, memory_of_machine()
    if needed > here:
        raise UserError(
            f"model: {config.model.name} would have {parameters:,} parameters with these settings, "
            f"{needed / 1e9:,.0f} GB with their gradient, but this machine has {here / 1e9:,.0f} GB; make it smaller."
        )


def device(config: Config) -> torch.device:
    """The network's device, with its number if there are several."""
    wanted = config.top.device
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=wanted).device
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise UserError(f"device '{wanted}' cannot be used here: {first}.") from None


def choose_fast_path(config: Config, data: Federation, method: Method) -> FastPath:
    """What the network declares, unless the config says otherwise; compiled only where that pays off.

    What it declares was measured on a CPU and says nothing about other devices. In a federation of machines all parties
    must choose alike without knowing each other's devices: there, on an accelerator, a network does what it can.
    """
    wanted, on_processor = config.model.fast, data.remote or device(config).type == "cpu"
    if wanted == "compiled" and on_processor and not can_compile():
        raise UserError("model.fast is 'compiled', but there is no C++ compiler here; write 'eager'.")
    if wanted == "batch-last" and not on_processor:
        raise UserError("model.fast is 'batch-last', which only works on the CPU; write 'eager', or device: cpu.")
    if wanted != "auto":
        return wanted
    if not on_processor or config.live.model is not None or is_own(config.model.name):
        return "eager"
    entry = models.entry(config.model.name)
    if entry.fast != "compiled":
        return entry.fast
    if data.remote:
        return "eager"  # parties must choose alike without knowing each other's records and compilers
    return "compiled" if can_compile() and _effort(config, data, method) >= entry.repays_after else "eager"


def decide_together(config: Config, data: Federation, method: Method) -> tuple[Config, str]:
    """The config with the number of clients that train as one program; 1 if they train one by one, with half a sentence
    why if the config asks for more.

    ``auto`` divides a cohort evenly into groups of at most as many as the network declares.
    """
    wanted = config.engine.together
    if wanted == 1:
        return config, ""
    apart = data.remote or config.engine.name in ("flower", "ray")
    why = "this engine has a place for each of them" if apart else method.why_one_by_one()
    if why:
        return _trained_by(config, 1), why if wanted != "auto" else ""
    if wanted != "auto":
        return config, ""
    most, cohort = _declared(config), cohort_size(config.plan.cohort, len(data.sites))
    return _trained_by(config, math.ceil(cohort / math.ceil(cohort / most)) if cohort else 1), ""


def _declared(config: Config) -> int:
    """How many clients at once pay for this network, as measured on a CPU."""
    if config.live.model is not None or is_own(config.model.name) or device(config).type != "cpu":
        return 1
    return models.entry(config.model.name).together


def _trained_by(config: Config, together: int) -> Config:
    return replace(config, engine=config.engine.model_copy(update={"together": together}))


def can_compile() -> bool:
    return any(shutil.which(name) for name in ("c++", "g++", "clang++"))


def _effort(config: Config, data: Federation, method: Method) -> int:
    """How many samples the run will send through the network, roughly."""
    records = data.records // len(data.sites)
    clients = cohort_size(config.plan.cohort, len(data.sites))
    return config.plan.rounds * clients * method.effort(records, data.problem.classes)
