"""Where `model.precision: bfloat16` is refused; tests/devices show what it does."""

from typing import Any

import pytest

from understudy.config.build import build_data, build_method
from understudy.config.resolve import resolve
from understudy.errors import UserError

PRIVACY = {"delta": 1e-5, "records": 100}


def refusal(words: dict[str, Any]) -> str:
    given = {"data": "digits", "model": {"precision": "bfloat16"}, "device": "cpu", **words}
    config = resolve(given)
    with pytest.raises(UserError) as refused:
        build_method(config, build_data(config))
    return str(refused.value)


def test_the_processor_refuses_it_in_one_sentence() -> None:
    said = refusal({})
    assert said == "model.precision is bfloat16, which is for accelerators only; write float32, or device: cuda."


@pytest.mark.parametrize("method", ["dp-fedavg", "fedlap-dp"])
def test_a_private_run_refuses_it_wherever_it_computes(method: str) -> None:
    said = refusal({"method": {"name": method, "noise": 1.0}, "privacy": PRIVACY})
    assert said.startswith("model.precision is bfloat16, but clipping and noise are accounted for in float32; ")


def test_other_names_are_refused() -> None:
    with pytest.raises(UserError, match=r"model\.precision.*float32"):
        resolve({"data": "digits", "model": {"precision": "float16"}})


def test_it_names_no_network() -> None:
    assert resolve({"data": "digits", "model": {"precision": "bfloat16", "fast": "eager"}}).network_open
