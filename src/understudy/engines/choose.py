"""Chooses the engine that a config asks for, among those that run on this machine."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from understudy import patience
from understudy.config.schema import EngineSettings
from understudy.engines.inline import Inline
from understudy.engines.workers import Workers
from understudy.federation.exchange import Engine
from understudy.federation.method import Method
from understudy.federation.site import Site

OpenEngine = Callable[[Mapping[str, Site], Method], AbstractContextManager[Engine]]


def choose_engine(settings: EngineSettings, sites: Mapping[str, Site], method: Method) -> Engine:
    """Forked workers do not share an accelerator well, so off the CPU clients run one after another."""
    if settings.name == "inline" or method.net.device.type != "cpu":
        return Inline(sites, method, settings.group)
    return Workers(sites, method, min(settings.workers, len(sites)), settings.group)


def on_this_machine(settings: EngineSettings) -> OpenEngine:
    @contextmanager
    def opened(sites: Mapping[str, Site], method: Method) -> Iterator[Engine]:
        patience.over()  # workers are forked from this process, and a thread that prints must not be forked
        engine = choose_engine(settings, sites, method)
        try:
            yield engine
        finally:
            engine.close()

    return opened
