"""The engine that a config asks for."""

from collections.abc import Mapping

from understudy.config.schema import EngineSettings
from understudy.engines.inline import Inline
from understudy.engines.workers import Workers
from understudy.federation.exchange import Engine
from understudy.federation.method import Method
from understudy.federation.site import Site


def choose_engine(settings: EngineSettings, sites: Mapping[str, Site], method: Method) -> Engine:
    """Forked workers share an accelerator badly, so off the CPU clients run one after another."""
    if settings.name == "inline" or method.net.device.type != "cpu":
        return Inline(sites, method)
    return Workers(sites, method, settings.workers)
