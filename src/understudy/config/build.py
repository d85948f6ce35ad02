"""From a Config to the objects a run works with."""

import copy
import inspect
import math
import shutil
import warnings
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from understudy import patience
from understudy.config.declared import declared_data
from understudy.config.schema import Config, ModelPlan
from understudy.data.assemble import build_federation
from understudy.data.federation import Federation
from understudy.data.kinds import PLURAL, listed
from understudy.data.problem import Problem
from understudy.errors import UserError, no_memory
from understudy.federation.cohorts import cohort_size
from understudy.federation.column_sums import ColumnSums
from understudy.federation.method import Method
from understudy.federation.registry import AROUND_SUMS
from understudy.federation.scaled import Scaled
from understudy.heap import memory_of_machine
from understudy.models import zoo as models
from understudy.models.fitness import fitted
from understudy.models.frozen import freeze
from understudy.models.network import Network
from understudy.models.start import begin_at, read_start, start_file
from understudy.models.zoo import FastPath
from understudy.own_code import is_own, own


def build_data(config: Config) -> Federation:
    if config.live.data is not None:
        return config.live.data
    assert config.data is not None
    if config.top.privacy is None:
        return build_federation(config.data, seed=config.top.seed)
    return declared_data(config, config.data, _method_alone, build_method)


def build_method(config: Config, data: Federation, fast: FastPath | None = None, *, at_site: bool = False) -> Method:
    """The method with its add-ons, bound to its network; combinations that make no sense are refused here.

    It is built once: it tells how much work it is, which decides the ``fast`` path if none is given, then what its
    network must look like, and is bound to that network. ``at_site``: where the file to start from may be missing,
    since the model travels.
    """
    patience.doing("Building the network")
    config = completed(config, data.problem)
    method = _on_scaled_records(config, data, method_with_add_ons(config, data.problem))
    path = fast or choose_fast_path(config, data, method)
    method.privacy = config.top.privacy
    method.bind(_network(config, data.problem, path, method, at_site=at_site), config.plan.rounds)
    return method


def completed(config: Config, problem: Problem) -> Config:
    """With what the config leaves to the kind of its records: the network, and defaults of its method."""
    kind = problem.kind
    add_ons = tuple(chosen.as_usual(kind) for chosen in config.add_ons)
    return _with_network(replace(config, method=config.method.as_usual(kind), add_ons=add_ons), problem)


def _with_network(config: Config, problem: Problem) -> Config:
    """If the config names no network, the usual one for its records."""
    usual = models.USUAL[problem.kind]
    if not config.network_open or config.model.name == usual:
        return config
    plan = config.model.model_copy(update={"name": usual})
    return replace(config, model=plan, model_settings=models.entry(usual).settings().model_dump(mode="json"))


def method_with_add_ons(config: Config, problem: Problem | None = None) -> Method:
    """With a ``problem``, one whose records a part of it does not take is refused."""
    method = _method_alone(config, problem)
    for chosen in config.add_ons:
        method = chosen.entry.build(chosen.settings, method)
        if problem is not None:
            _check_takes(method, chosen.entry.name, problem, "leave it out of 'with'")
    return method


def _method_alone(config: Config, problem: Problem | None) -> Method:
    method = config.method.entry.build(config.method.settings)
    if problem is not None:
        _check_takes(method, config.method.entry.name, problem, "choose another method, such as fedavg")
    return method


def _check_takes(method: Method, name: str, problem: Problem, instead: str) -> None:
    kind = problem.kind
    if kind not in method.takes:
        perhaps = ", or write data.kind: vector if they are numbers" if kind == "tokens" else ""
        raise UserError(
            f"{name} takes {listed(tuple(method.takes))}, but the records are {PLURAL[kind]} of shape "
            f"{problem.shape}; {instead}{perhaps} (`understudy methods` tells what each takes)."
        )


def _on_scaled_records(config: Config, data: Federation, method: Method) -> Method:
    """Add-ons around sums, such as masks, are around the sums of columns too."""
    if data.scale is None:
        return method

    def around_sums(opening: Method) -> Method:
        for chosen in config.add_ons:
            if chosen.entry.layer == AROUND_SUMS:
                opening = chosen.entry.build(chosen.settings, opening)
        return opening

    return Scaled(ColumnSums(data.scale), method, around_sums)


def _network(config: Config, problem: Problem, fast: FastPath, method: Method, *, at_site: bool) -> Network:
    """The config's network, adapted to its method."""
    _check_memory(config, problem)
    _check_precision(config, method)
    plan, missing = config.model, _why_without_start(config.model) if at_site else None
    weights = None if plan.start is None or missing else read_start(start_file(plan.start), plan.start_digest)

    def build() -> nn.Module:
        module = module_of(config, problem)
        if weights is not None:
            begin_at(module, weights, head=plan.start_head)
        freeze(module, plan.frozen)
        return method.adapt_network(module, problem)

    how: dict[str, Any] = {"seed": config.top.seed, "fast": fast, "precision": plan.precision}
    how |= {"keeps": config.engine.device_memory * 2**20}
    net = Network(build, problem, **how, device=device(config), unknown=missing)
    if missing and net.frozen_digest is not None:
        raise UserError(f"{missing.rstrip('.')}: what is frozen does not travel.")
    if plan.frozen_digest not in (None, net.frozen_digest):
        raise UserError(
            "model.frozen: the frozen weights are not those that this config was written for; restore what they came "
            "from (model.start, or your own code), or leave out model.frozen_digest for a new run."
        )
    return net


def _check_precision(config: Config, method: Method) -> None:
    if config.model.precision == "float32":
        return
    if config.top.privacy is not None or method.private:
        raise UserError(
            "model.precision is bfloat16, but clipping and noise are accounted for in float32; write float32 in a "
            "private run."
        )
    where = device(config)
    if where.type == "cpu":
        raise UserError("model.precision is bfloat16, which is for accelerators only; write float32, or device: cuda.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # torch would go on in float32
            torch.autocast(where.type, dtype=torch.bfloat16)
    except (RuntimeError, AssertionError, UserWarning) as error:
        first = str(error).splitlines()[0].rstrip(".")
        raise UserError(f"model.precision is bfloat16, which {where} does not have ({first}); write float32.") from None


def _why_without_start(plan: ModelPlan) -> str | None:
    """None if the file to start from is here, or if there is none."""
    if plan.start is None or start_file(plan.start).is_file():
        return None
    return f"model.start: this site needs {plan.start} as well; copy it there."


def module_of(config: Config, problem: Problem) -> nn.Module:
    name, settings = config.model.name, dict(config.model_settings)
    if config.live.model is None and not is_own(name):
        entry = models.entry(name)
        models.check_takes(entry, problem)
        return entry.build(problem, entry.settings(**settings))
    module = _own_module(name, problem, settings) if config.live.model is None else _copy(config.live.model)
    return fitted(module, problem)


def _copy(module: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(module)
    except Exception as error:  # user code may raise anything
        raise UserError(f"model: {type(module).__name__} cannot be copied: {error}.") from error


def _own_module(name: str, problem: Problem, settings: dict[str, Any]) -> nn.Module:
    build = own(name)
    try:
        inspect.signature(build).bind(problem, **settings)
    except (TypeError, ValueError) as error:
        given = ", ".join(["problem", *(f"{key}=…" for key in settings)])
        raise UserError(
            f"model: {name} is called with ({given}), which it does not take ({error}); name a function of the problem "
            "(its shape and classes) that returns a network."
        ) from None
    module = build(problem, **settings)
    if isinstance(module, type):
        raise UserError(f"{name} gave the class {module.__name__}; let it return a network, {module.__name__}(…).")
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
    if config.model.precision != "float32":
        why = f"programs of many clients compute in float32, and model.precision is {config.model.precision}"
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
