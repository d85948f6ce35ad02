"""Fedssyn in whole runs: generators in trouble, policies, and generators that are kept for later."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from painted import Painted, painted
from torch import Tensor

from understudy.config.resolve import resolve
from understudy.config.schema import Live
from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.data.problem import Problem
from understudy.engines.choose import OpenEngine
from understudy.engines.inline import Inline
from understudy.errors import UserError
from understudy.federation.exchange import Engine
from understudy.federation.memories import memory_of
from understudy.federation.message import Message
from understudy.federation.method import Method
from understudy.federation.site import Site
from understudy.methods.fedssyn.kept_generators import KEPT
from understudy.methods.fedssyn.settings import FedssynSettings
from understudy.methods.shared.imitation import Imitation
from understudy.privacy.policy import Policy
from understudy.runs.play import play
from understudy.runs.rounds import RunResult
from understudy.runs.watching import RunStopped
from understudy.synthesis.vae.vae import Vae


@pytest.fixture(autouse=True)
def _painted() -> Iterator[None]:
    with painted():
        yield


LABELS = {"ash": [0, 0, 1, 1, 2, 2, 2, 2], "beech": [0, 1, 2] * 3, "cedar": [2] * 8, "elm": [1]}


def sites(labels: Mapping[str, list[int]] = LABELS) -> Federation:
    """Smooth pictures, each in a brightness of its own."""
    rng, made = np.random.default_rng(5), {}
    for name, y in labels.items():
        level = rng.integers(10, 200, (len(y), 1, 1, 1)) + np.arange(8).reshape(1, 1, 8, 1) * rng.integers(2, 6)
        made[name] = ((level + rng.integers(0, 4, (len(y), 1, 8, 8))).astype(np.uint8), np.array(y, dtype=np.int64))
    return Federation.from_arrays(made, test=next(iter(made.values())), classes=3)


def run(
    out: Path, data: Federation | None = None, engine: OpenEngine | None = None, rounds: int = 1, **fedssyn: Any
) -> RunResult:
    words = {
        "model": {"name": "mlp", "hidden": [8]},
        "method": {"name": "fedavg", "rounds": rounds, "local": {"epochs": 1, "batch": 4}},
        "with": [{"name": "fedssyn", "generator": "painted", "records": 1.0, **fedssyn}],
        "engine": {"name": "inline"},
    }
    return play(resolve(words, {}, Live(data=data or sites())), out, engine=engine)


def memory(out: Path, client: str) -> Message:
    found = memory_of(out, (out / "run-id").read_text(), client)
    assert found is not None
    return found


def images(out: Path) -> dict[str, Tensor]:
    return {path.stem: Examples.load(path).x for path in sorted((out / "synthetic").iterdir())}


# ---- generators in trouble


def test_where_nobody_makes_an_image_the_run_says_so(tmp_path: Path) -> None:
    result = run(tmp_path / "run", sites({"elm": [1], "fir": [0]}))
    said = "Nothing was shuffled: no client made any images, so the underlying method trains alone."
    assert said in result.metrics[0]["remarks"]
    assert result.metrics[-1]["round"] == 1
    assert not any("Nothing was shuffled" in one for one in run(tmp_path / "other").metrics[0].get("remarks", []))


def test_a_collapsed_generator_sends_nothing_and_the_run_goes_on(tmp_path: Path) -> None:
    result = run(tmp_path / "run", generator={"name": "painted", "flat": 2})
    (failure,) = result.metrics[0]["failures"]
    assert failure["client"] == "cedar"
    assert "100% of them are a flat colour, so its images are not sent" in failure["why"]
    assert "try in generator more epochs than 1, or smaller batches; sound_only: false sends them" in failure["why"]
    assert set(images(tmp_path / "run")) == {"ash", "beech"}
    # 8 + 9 images in four parts: 5, 4, 4 and 4; cedar and elm, who gave nothing, get theirs.
    dealt = {name: len(memory(tmp_path / "run", name)["dealt.y"]) for name in LABELS}
    assert dealt == {"ash": 5, "beech": 4, "cedar": 4, "elm": 4}
    assert result.metrics[1]["failed"] == 0
    assert result.summary["finished"]


def test_it_can_be_told_to_send_them_all_the_same(tmp_path: Path) -> None:
    result = run(tmp_path / "run", generator={"name": "painted", "flat": 2}, sound_only=False)
    assert result.metrics[0]["failures"] == []
    assert set(images(tmp_path / "run")) == {"ash", "beech", "cedar"}


def test_a_diverged_generator_is_that_client_s_failure(tmp_path: Path) -> None:
    vae = {"name": "vae", "epochs": 30, "batch": 4, "width": 4, "hidden": 8, "lr": 1e30}
    with pytest.raises(RunStopped, match=r"The opening failed.*ash: The VAE diverged with lr 1e\+30"):
        run(tmp_path / "run", sites({"ash": LABELS["ash"]}), generator=vae)


def test_a_client_with_too_few_records_is_remarked_on_and_receives(tmp_path: Path) -> None:
    result = run(tmp_path / "run", rounds=2)
    assert result.metrics[0]["failures"] == []
    assert result.metrics[0]["remarks"] == [
        "25 images for 4 clients: parts of 6 and 7.",
        "elm: no images were made, because it has too few records for a generator.",
    ]
    assert "remarks" not in result.metrics[1]
    assert len(memory(tmp_path / "run", "elm")["dealt.y"]) == 6  # 8 + 9 + 8 = 25 in parts of 7, 6, 6 and 6


def test_images_of_one_class_come_from_a_client_of_one_class(tmp_path: Path) -> None:
    vae = {"name": "vae", "epochs": 2, "batch": 4, "width": 4, "hidden": 8}
    result = run(tmp_path / "run", sites({"cedar": [2] * 8}), generator=vae, sound_only=False, images=5)
    assert result.metrics[0]["failures"] == []
    assert np.load(tmp_path / "run/synthetic/cedar.npz")["y"].tolist() == [2] * 5


def with_policy(name: str, policy: Policy) -> OpenEngine:
    def opened(there: Mapping[str, Site], method: Method) -> AbstractContextManager[Engine]:
        changed = {each: replace(site, policy=policy if each == name else None) for each, site in there.items()}
        return nullcontext(Inline(changed, method))

    return opened


def test_a_policy_that_forbids_examples_keeps_a_client_from_giving_only(tmp_path: Path) -> None:
    engine = with_policy("beech", Policy(kinds=("weights", "scalars")))
    result = run(tmp_path / "run", engine=engine)
    (failure,) = result.metrics[0]["failures"]
    assert (failure["client"], failure["why"]) == (
        "beech",
        "its policy does not let examples leave, but the task would send 'x'",
    )
    assert len(Painted.seen) == 2  # it did not even begin
    assert len(memory(tmp_path / "run", "beech")["dealt.y"]) == 4  # of 16
    assert result.metrics[1]["failed"] == 0


def test_own_images_leave_nobody_so_such_a_policy_does_not_mind(tmp_path: Path) -> None:
    engine = with_policy("beech", Policy(kinds=("weights", "scalars")))
    assert run(tmp_path / "run", engine=engine, deal="own").metrics[0]["failures"] == []


# ---- generators that are kept


def test_stages_stay_with_the_client_and_never_travel(tmp_path: Path) -> None:
    kept = {"name": "painted", "epochs": 30, "checkpoints": [10, 20]}
    run(tmp_path / "run", generator=kept, keep_generator=True)
    found = {part: KEPT.fullmatch(part) for part in memory(tmp_path / "run", "ash")}
    assert sorted(int(match[1]) for match in found.values() if match and match[2] == "epoch") == [10, 20, 30]
    run(tmp_path / "forgetful", generator=kept)
    assert not any("generator" in part for part in memory(tmp_path / "forgetful", "ash"))


def test_a_later_run_samples_without_training(tmp_path: Path) -> None:
    # γ = 0 leaves no capacity schedule: a course of 3 epochs is the beginning of one of 6.
    vae = {"name": "vae", "batch": 4, "width": 4, "hidden": 8, "gamma": 0.0}
    data = sites({"ash": LABELS["ash"], "beech": LABELS["beech"]})
    long = {**vae, "epochs": 6, "checkpoints": [3]}
    run(tmp_path / "long", data, generator=long, keep_generator=True, sound_only=False)
    run(tmp_path / "short", data, generator={**vae, "epochs": 3}, sound_only=False)
    with patch.object(Vae, "course", side_effect=AssertionError("nothing is to be trained")):
        for epoch in (3, None):
            again: dict[str, Any] = {
                "generator": long,
                "from_run": str(tmp_path / "long"),
                "epoch": epoch,
                "sound_only": False,
            }
            result = run(tmp_path / f"again-{epoch}", data, **again)
            assert result.metrics[0]["failures"] == []
    made = {name: images(tmp_path / name) for name in ("long", "short", "again-3", "again-None")}
    for client in data.sites:
        assert torch.equal(made["again-3"][client], made["short"][client])
        assert torch.equal(made["again-None"][client], made["long"][client])
        assert not torch.equal(made["short"][client], made["long"][client])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"epoch": 7}, r"with.fedssyn.epoch: .* ash kept no generator after 7 epochs; choose from 2"),
        (
            {"generator": {"name": "vae", "epochs": 2, "width": 8}},
            "what ash kept in .* is not a vae with these settings",
        ),
        ({"from_run": "nowhere"}, "nowhere is not a run folder"),
    ],
)
def test_what_was_not_kept_is_named(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    vae = {"name": "vae", "epochs": 2, "batch": 4, "width": 4, "hidden": 8}
    data = sites({"ash": LABELS["ash"]})
    run(tmp_path / "first", data, generator=vae, keep_generator=True, sound_only=False)
    with pytest.raises(RunStopped, match=why):
        run(tmp_path / "second", data, **{"generator": vae, "from_run": str(tmp_path / "first"), **changes})


def test_a_generator_of_other_records_is_not_sampled(tmp_path: Path) -> None:
    """Another seed, split or data set gives the same name other records."""
    run(tmp_path / "first", sites({"ash": LABELS["ash"]}), keep_generator=True)
    other = sites({"ash": LABELS["beech"]})
    with pytest.raises(RunStopped, match=r"ash had other records in .*first.* use the same data, split and seed"):
        run(tmp_path / "second", other, from_run=str(tmp_path / "first"))


def test_a_run_that_kept_nothing_is_named(tmp_path: Path) -> None:
    data = sites({"ash": LABELS["ash"]})
    run(tmp_path / "first", data)
    with pytest.raises(RunStopped, match="repeat that run with keep_generator: true"):
        run(tmp_path / "second", data, from_run=str(tmp_path / "first"))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"epoch": 3}, "name that run with from_run"),
        ({"source": "real", "veto": "drop"}, "source: real uses no generator"),
    ],
)
def test_settings_without_a_meaning_are_named(given: dict[str, Any], why: str) -> None:
    with pytest.raises(UserError, match=why):
        resolve({"with": [{"name": "fedssyn", "generator": "painted", **given}]})


def test_a_vae_made_for_larger_images_says_what_small_ones_need() -> None:
    vae = Imitation(FedssynSettings(), FedssynSettings().built(), Problem((1, 8, 8), 10))
    assert vae._to_try().startswith(
        "try in generator gamma: 1 and capacity: 0, which few or small records need, or more"
    )
    assert (
        "gamma"
        not in Imitation(FedssynSettings(generator={"name": "vae", "gamma": 1.0}), vae.generator, vae.problem)._to_try()
    )
