"""Understudy: federated learning in which synthetic data stands in for private data.

import understudy as us
result = us.run("digits-skewed", method="feddm", rounds=5)
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_HOMES = {
    "run": "understudy.api.run",
    "load": "understudy.api.run",
    "sweep": "understudy.api.sweep",
    "report": "understudy.api.reporting",
    "Result": "understudy.api.result",
    "Sweep": "understudy.api.sweep_result",
    "split": "understudy.models.split",
    "Federation": "understudy.data.federation",
    "Examples": "understudy.data.examples",
    "Problem": "understudy.data.problem",
    "Message": "understudy.federation.message",
    "Method": "understudy.federation.method",
    "State": "understudy.federation.method",
    "task": "understudy.federation.method",
    "method": "understudy.federation.registry",
    "add_on": "understudy.federation.registry",
    "Client": "understudy.federation.client",
    "Server": "understudy.federation.server",
    "Settings": "understudy.base_settings",
    "UserError": "understudy.errors",
}
__all__ = [*_HOMES]

if TYPE_CHECKING:
    from understudy.api.reporting import report as report
    from understudy.api.result import Result as Result
    from understudy.api.run import load as load
    from understudy.api.run import run as run
    from understudy.api.sweep import sweep as sweep
    from understudy.api.sweep_result import Sweep as Sweep
    from understudy.base_settings import Settings as Settings
    from understudy.data.examples import Examples as Examples
    from understudy.data.federation import Federation as Federation
    from understudy.data.problem import Problem as Problem
    from understudy.errors import UserError as UserError
    from understudy.federation.client import Client as Client
    from understudy.federation.message import Message as Message
    from understudy.federation.method import Method as Method
    from understudy.federation.method import State as State
    from understudy.federation.method import task as task
    from understudy.federation.registry import add_on as add_on
    from understudy.federation.registry import method as method
    from understudy.federation.server import Server as Server
    from understudy.models.split import split as split


def __getattr__(name: str) -> Any:
    """Imported when first used: torch takes seconds, and ``understudy --help`` does not need it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'understudy' has no attribute '{name}'")
    found = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """For completion, which does not import anything."""
    return sorted({*__all__, "__version__", "__doc__"})
