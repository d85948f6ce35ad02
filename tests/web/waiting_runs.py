"""Small runs that stop because a person must review what would leave."""

from pathlib import Path
from typing import Any

import pytest

import understudy as us
from understudy.runs.watching import RunStopped


def stopped_run(out: Path, policy: str = "approval: [examples]", **changes: Any) -> Path:
    out.parent.mkdir(parents=True, exist_ok=True)
    (out.parent / "site.yaml").write_text(policy)
    words = {
        "data": {"name": "digits", "limit": 60, "clients": 2, "held_out": 0.2},
        "model": "softmax",
        "method": {
            "name": "real",
            "ipc": 2,
            "min_class_records": 1,
            "rounds": 1,
            "min_replies": 2,
            "server": {"epochs": 2},
        },
        "engine": "inline",
        "policy": str(out.parent / "site.yaml"),
        **changes,
    }
    with pytest.raises(RunStopped):
        us.run(words, out=out)
    return out
