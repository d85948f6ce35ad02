"""Flower without calling home: no usage events, no update checks, no installing at run time."""

import os
from pathlib import Path

from understudy.errors import missing_extra

SWITCHES = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def switches(home: Path) -> dict[str, str]:
    """Environment of Flower's processes; ``home`` is for Flower's own files."""
    return {**SWITCHES, "FLWR_HOME": str(home), "FLWR_LOG_LEVEL": "WARNING"}


def switch_off(home: Path) -> None:
    """Called before any part of Flower is imported here."""
    os.environ.update(switches(home))
    try:
        import flwr  # noqa: F401
    except ImportError:
        raise missing_extra("A federation of machines", "flower") from None
