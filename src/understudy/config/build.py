"""From a Config to the objects that a run works with."""

import copy
import shutil
from typing import Any

import torch
from torch import nn

from understudy.config.schema import Config
from understudy.data.federation import Federation
from understudy.data.problem import Problem
from understudy.data.settings import federation
from understudy.errors import UserError
from understudy.federation.cohorts import cohort_size
from understudy.federation.method import Method
from understudy.models import registry as models
from understudy.models.network import Network
from understudy.models.registry import FastPath
from understudy.own_code import is_own, own


def build_data(config: Config) -> Federation:
    if config.live.data is not None:
        return config.live.data
    assert config.data is not None
    return federation(config.data, seed=config.top.seed)


def build_method(config: Config, net: Network) -> Method:
    """The method with its add-ons, bound to a network; combinations that make no sense are refused here."""
    method = _joined(config)
    method.privacy = config.top.privacy
    method.bind(net, config.plan.rounds)
    return method


def _joined(config: Config) -> Method:
    method = config.method.entry.build(config.method.settings)
    for chosen in config.add_ons:
        method = chosen.entry.build(chosen.settings, method)
    return method


def build_network(config: Config, problem: Problem, fast: FastPath) -> Network:
    """The network of the config, dressed as its method needs it."""
    dress = _joined(config).dress

    def build() -> nn.Module:
        return dress(_module(config, problem), problem)

    return Network(build, problem, seed=config.top.seed, fast=fast, device=device(config))


def _module(config: Config, problem: Problem) -> nn.Module:
    name, settings = config.model.name, dict(config.model_settings)
    if config.live.model is not None:
        return copy.deepcopy(config.live.model)
    if is_own(name):
        module = own(name)(problem, **settings)
        if not isinstance(module, nn.Module):
            raise UserError(f"{name} gave a {type(module).__name__}, not a torch.nn.Module.")
        return module
    entry = models.entry(name)
    return entry.build(problem, entry.settings(**settings))


def device(config: Config) -> torch.device:
    if config.top.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=config.top.device).device
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise UserError(f"device '{config.top.device}' cannot be used here: {first}.") from None


def choose_fast_path(config: Config, data: Federation) -> FastPath:
    """What the network declares, unless the config says otherwise; compiling only where it repays itself."""
    wanted = config.model.fast
    if wanted == "compiled" and not can_compile():
        raise UserError("model.fast is 'compiled', but there is no C++ compiler here; write 'eager'.")
    if wanted != "auto":
        return wanted
    if config.live.model is not None or is_own(config.model.name):
        return "eager"
    entry = models.entry(config.model.name)
    if entry.fast != "compiled":
        return entry.fast
    if data.remote:
        return "eager"  # parties must choose alike, and none knows the others' records and compilers
    return "compiled" if can_compile() and _effort(config, data) >= entry.repays_after else "eager"


def can_compile() -> bool:
    return any(shutil.which(name) for name in ("c++", "g++", "clang++"))


def _effort(config: Config, data: Federation) -> int:
    """How many samples the run will send through the network, roughly."""
    method: Any = config.method.entry.build(config.method.settings)
    method.problem = data.problem
    records = sum(len(holding.own) for holding in data.sites.values()) // len(data.sites)
    clients = cohort_size(config.plan.cohort, len(data.sites))
    return config.plan.rounds * clients * int(method.effort(records))
