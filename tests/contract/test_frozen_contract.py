"""The contract on a network whose body is frozen: one method of each kind, and only the rest of the network travels."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from contract_checks import (
    Case,
    check_bytes_are_what_was_serialised,
    check_it_learns_and_stays_finite,
    check_same_bits_after_stopping_and_resuming,
    check_same_bits_wherever_clients_run,
    model_bytes,
)
from test_contract import CASES

from understudy.config.schema import Config
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.runs.folder import RunFolder

# small-convnet of width 4 on 8×8: convolutions 36 + 4 and 144 + 4, norms 8 and 8, the head 16·3 + 3.
TWO_BLOCKS = {"name": "small-convnet", "width": 4, "fast": "eager"}
FROZEN_BODY = {**TWO_BLOCKS, "frozen": ["body"]}
FIRST_BLOCK = {**TWO_BLOCKS, "frozen": ["body.0", "body.1"]}
HEAD, FIRST, REST = 51, 48, 207
QUICK = ("fedavg", "feddm", "dp-fedavg", "fedavg+secure-aggregation")
SLOW = ("scaffold", "fedrep", "moon", "fedlap", "dc", "fedlap-dp", "feddm privately", "fedavg+fedssyn", "fedavg+fedcog")
NAMES = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
CHECKS = (
    check_same_bits_wherever_clients_run,
    check_same_bits_after_stopping_and_resuming,
    check_it_learns_and_stays_finite,
    check_bytes_are_what_was_serialised,
)


class FrozenCase(Case):
    model: dict[str, Any] = FIRST_BLOCK

    def config(self, data: Federation, **changes: Any) -> Config:
        return super().config(data, **{"model": self.model, **changes})


def frozen(name: str) -> FrozenCase:
    one = CASES[name]
    return FrozenCase(one.method, one.settings, one.add_ons, one.held_out, one.privacy, one.drops_in)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_the_contract_holds_with_a_frozen_first_block(
    name: str, check: Callable[[Case, Path], None], tmp_path: Path
) -> None:
    check(frozen(name), tmp_path)


def test_only_the_trainable_part_travels_and_the_saved_model_is_whole(tmp_path: Path) -> None:
    whole = Case("fedavg", CASES["fedavg"].settings).play(tmp_path / "whole", model=TWO_BLOCKS)
    head = Case("fedavg", CASES["fedavg"].settings).play(tmp_path / "head", model=FROZEN_BODY)
    first = frozen("fedavg").play(tmp_path / "first")
    # 4 bytes for each number, once per client and round in each direction: three rounds and four clients.
    for less, left_out in ((head, FIRST + REST - HEAD), (first, FIRST)):
        for way in ("bytes_up", "bytes_down"):
            assert whole.summary[way] - less.summary[way] == 4 * left_out * 3 * 4
    assert set(head.weights) == set(whole.weights)
    start = whole_start(tmp_path)
    same = {name for name in head.weights if torch.equal(head.weights[name], start[name])}
    assert same == {name for name in head.weights if name.startswith("body")}


def whole_start(folder: Path) -> dict[str, torch.Tensor]:
    """What the seed draws."""
    return Case("fedavg").play(folder / "start", model=TWO_BLOCKS, rounds=0).weights


def test_frozen_weights_have_a_digest_in_the_config_and_others_are_refused(tmp_path: Path) -> None:
    case = frozen("fedavg")
    begun = case.play(tmp_path / "run", rounds=1)
    words = RunFolder(begun.folder).config()["model"]
    assert len(words["frozen_digest"]) == 32
    assert "frozen_digest" not in RunFolder(Case("fedavg").play(tmp_path / "plain", rounds=0).folder).config()["model"]
    with pytest.raises(UserError, match="frozen weights are not those that this config was written for"):
        case.play(tmp_path / "other", model={**FIRST_BLOCK, "frozen_digest": "0" * 32})
    again = case.play(tmp_path / "run", resume=True, model={**FIRST_BLOCK, "frozen_digest": words["frozen_digest"]})
    assert model_bytes(again) == model_bytes(case.play(tmp_path / "straight"))


def test_a_frozen_body_is_the_same_at_a_head_start_and_after_many_rounds_of_feddm(tmp_path: Path) -> None:
    """Images are matched under the whole network, though only its head is trained."""
    result = Case("feddm", CASES["feddm"].settings).play(tmp_path / "run", model=FROZEN_BODY)
    start = whole_start(tmp_path)
    assert torch.equal(result.weights["body.4.weight"], start["body.4.weight"])
    assert not torch.equal(result.weights["head.weight"], start["head.weight"])
