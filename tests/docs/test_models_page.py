"""The code on the page about your own network runs, and does what the page says."""

import re
from pathlib import Path
from typing import Any

import pytest
from torch import nn

PAGE = Path(__file__).parents[2] / "docs/models.md"


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    first, second = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    exec(first, found)
    network, trained = found["network"], found["result"].weights
    assert set(network.state_dict()) == set(trained)
    exec(second, found)
    assert isinstance(found["network"].head, nn.Linear)
    assert found["network"].head is network[3]
