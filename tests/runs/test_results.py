"""A result, or a folder read again, predicts as the run did, and shows itself."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch import Tensor, nn

import understudy as us
from in_a_fork import in_a_fork
from understudy.config.build import build_data
from understudy.config.resolve import resolve
from understudy.errors import UserError
from understudy.runs.folder import RunFolder
from understudy.runs.watching import Observer

PIXELS: dict[str, Any] = {
    "data": {"name": "digits", "limit": 200, "clients": 3, "split": "iid"},
    "model": "softmax",
    "method": {"name": "fedavg", "rounds": 2, "local": {"epochs": 2, "lr": 0.3}},
    "engine": "inline",
}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(2), nn.Linear(2, 2)

    def features(self, x: Tensor) -> Tensor:
        found: Tensor = self.norm(x.flatten(1))
        return found


class Wider(Net):
    def __init__(self) -> None:
        super().__init__()
        self.more = nn.Linear(2, 2)


def arrays(size: float = 1.0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Two features of very different size; the label follows the small one."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2)) * (1.0, 1000.0) + (3.0, 5000.0)
    return x * size, (x[:, 0] > 3).astype(int)


@pytest.fixture(scope="module")
def pixels(tmp_path_factory: pytest.TempPathFactory) -> us.Result:
    return us.run(PIXELS, out=tmp_path_factory.mktemp("runs") / "pixels")


def test_predictions_on_the_test_set_give_the_accuracy_of_the_run(pixels: us.Result) -> None:
    test = build_data(resolve(pixels.config)).test
    assert test is not None
    labels = pixels.predict(test.x)
    assert labels.dtype == np.int64
    assert (labels == test.y.numpy()).mean() == pytest.approx(pixels.accuracy)
    again = us.load(pixels.folder)
    assert np.array_equal(again.predict(test.x.numpy()), labels)
    whole_numbers = test.x.numpy().astype(np.int64)[:, 0]  # without a channel, as sklearn and files have them
    assert np.array_equal(again.predict(whole_numbers), labels)


def test_probabilities_are_the_softmax_of_the_models_logits_on_scaled_pixels(pixels: us.Result) -> None:
    x = torch.randint(0, 255, (5, 1, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    model = pixels.model()
    assert not model.training
    mean, std = (pixels.config["problem"][key] for key in ("mean", "std"))
    scaled = x / 255 if not mean else (x / 255 - mean[0]) / std[0]
    by_hand = model(scaled).softmax(1).detach().numpy()
    found = pixels.probabilities(x)
    assert np.allclose(found, by_hand, atol=1e-6)
    assert np.array_equal(found.argmax(1), pixels.predict(x))


def test_a_model_is_a_copy_with_storage_of_its_own(pixels: us.Result) -> None:
    first, x = pixels.model(), np.zeros((1, 8, 8), np.uint8)
    before = pixels.probabilities(x)
    state = first.state_dict()
    assert state.keys() == pixels.weights.keys()
    assert all(tensor.untyped_storage().nbytes() == tensor.nbytes for tensor in state.values())
    for parameter in first.parameters():
        parameter.data.zero_()
    assert np.array_equal(pixels.probabilities(x), before)


WRONG: list[tuple[Any, str]] = [
    (np.zeros((3, 8, 8)), "learnt from pixels: pass whole numbers from 0 to 255, unscaled, not float64"),
    (np.full((3, 8, 8), 256), "whole numbers from 0 to 255"),
    (np.zeros((8, 8), np.uint8), r"records have shape \(8, 8\), which is one record; pass several, or record\[None\]"),
    (np.zeros((1, 8, 8), np.uint8)[0][None].repeat(3, 0)[:, :, :4], r"\(3, 1, 8, 4\); this run learnt from"),
    (5, "records: pass an array"),
    ("digits", "records: there is no file or folder digits"),
]


@pytest.mark.parametrize(("records", "sentence"), WRONG, ids=[sentence[:30] for _, sentence in WRONG])
def test_records_that_do_not_fit_get_a_sentence(pixels: us.Result, records: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        pixels.predict(records)


def test_one_record_alone_is_told_how_to_be_passed(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(12, 3, 9)).astype(np.float32), np.arange(12) % 2
    data = us.Federation.from_arrays({"a": (x, y)}, held_out=0.25)
    result = us.run(data=data, model="softmax", rounds=1, engine="inline", out=tmp_path / "run")
    with pytest.raises(UserError, match=r"records have shape \(3, 9\), which is one record; pass .* record\[None\]"):
        result.predict(x[0])
    assert result.predict(x[0][None]).shape == (1,)


def test_floats_are_scaled_by_the_constants_of_the_training(tmp_path: Path) -> None:
    x, y = arrays()
    data = us.Federation.from_arrays({"a": (x, y), "b": (x, y)}, mean=(3.0, 5000.0), std=(1.0, 1000.0), held_out=0.25)
    plan = {**PIXELS, "method": {"name": "fedavg", "rounds": 8, "local": {"epochs": 4, "lr": 0.3}}}
    del plan["data"]
    result = us.run(plan, data=data, out=tmp_path / "run")
    assert (result.predict(x) == y).mean() > 0.9
    assert (us.load(tmp_path / "run").predict(torch.tensor(x)) == y).mean() > 0.9
    with pytest.raises(UserError, match=r"values that are missing \(NaN\)"):
        result.predict(x * np.nan)


def table(path: Path, size: float) -> str:
    x, y = arrays(size)
    np.savez(path, x=x.astype(np.float32), y=y)
    return str(path)


def test_with_a_scale_per_site_the_site_must_be_named_and_its_statistics_count(tmp_path: Path) -> None:
    sites = {"small": table(tmp_path / "small.npz", 1.0), "large": table(tmp_path / "large.npz", 100.0)}
    local = {"epochs": 4, "lr": 0.3}
    words = {
        "data": {"sites": sites, "scale": "site", "held_out": 0.25},
        "model": "softmax",
        "engine": "inline",
        "method": {"name": "fedavg", "rounds": 8, "local": local},
    }
    result = us.run(words, out=tmp_path / "run")
    large, y = arrays(100.0)
    assert (result.predict(large, site="large") == y).mean() > 0.9
    assert (result.predict(large, site="small") == y).mean() < 0.7  # everything looks huge there
    with pytest.raises(UserError, match=r"a scale of its own; name one of small, large"):
        result.predict(large)
    with pytest.raises(UserError, match=r"There is no site 'medium'.*small, large"):
        result.predict(large, site="medium")


def test_a_network_passed_in_python_is_passed_again_to_load(tmp_path: Path) -> None:
    x, y = arrays()
    data = us.Federation.from_arrays({"a": (x / 1000, y), "b": (x / 1000, y)}, held_out=0.25)
    plan = {"method": {"name": "fedavg", "rounds": 2, "local": {"epochs": 2, "lr": 0.1}}, "engine": "inline"}
    result = us.run(plan, data=data, model=Net(), out=tmp_path / "run")
    assert isinstance(result.model(), Net)
    with pytest.raises(
        UserError, match=r"given its network in Python; pass it again: understudy\.load\('.*', model=…\)"
    ):
        us.load(tmp_path / "run").model()
    again = us.load(tmp_path / "run", model=Net())
    assert np.array_equal(again.probabilities(x / 1000), result.probabilities(x / 1000))
    with pytest.raises(UserError, match=r"weights in .* are not those of Wider; pass model="):
        us.load(tmp_path / "run", model=Wider()).model()
    with pytest.raises(UserError, match="model: pass the object that the run was given, not str"):
        us.load(tmp_path / "run", model="mlp")  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["fedrep", "ditto"])
def test_a_personal_model_is_the_one_that_its_client_scored(method: str, tmp_path: Path) -> None:
    data = {"name": "digits", "limit": 200, "clients": 2, "split": "iid", "held_out": 0.3}
    local = {"epochs": 2, "lr": 0.1}
    words = {**PIXELS, "model": "mlp", "data": data, "method": {"name": method, "rounds": 2, "local": local}}
    result = us.run(words, out=tmp_path / "run")
    held = build_data(resolve(result.config)).sites
    right = [
        float((result.predict(one.held_out.x, site=name) == one.held_out.y.numpy()).sum()) for name, one in held.items()
    ]
    if method == "fedrep":
        assert sum(right) / sum(len(one.held_out) for one in held.values()) == pytest.approx(result.accuracy)
        likely = [
            result.probabilities(one.held_out.x, site=name)[np.arange(len(one.held_out)), one.held_out.y]
            for name, one in held.items()
        ]
        assert -np.log(np.concatenate(likely)).mean() == pytest.approx(result.metrics[-1]["loss"], rel=1e-4)
        with pytest.raises(UserError, match=r"Part of every model .* stayed with its client .* pass site="):
            result.model()
    else:
        x = held["client-0"].held_out.x
        assert not np.array_equal(result.probabilities(x, site="client-0"), result.probabilities(x))
    with pytest.raises(UserError, match=r"no client in .* of the name 'nobody'"):
        result.model(site="nobody")


def test_resuming_gives_what_a_longer_run_gives(pixels: us.Result, tmp_path: Path) -> None:
    short = us.run(PIXELS, rounds=1, out=tmp_path / "short")
    longer = us.load(short.folder).resume(rounds=2)
    assert longer.folder == short.folder
    assert all(torch.equal(longer.weights[name], pixels.weights[name]) for name in pixels.weights)


def test_a_run_that_was_killed_can_be_looked_at_and_goes_on(pixels: us.Result, tmp_path: Path) -> None:
    class KilledInRoundTwo(Observer):
        def heard(self, client: str) -> None:
            if (tmp_path / "run/metrics.jsonl").read_text().count("\n") == 2:
                os._exit(9)

    def is_killed() -> None:
        us.run(PIXELS, out=tmp_path / "run", observer=KilledInRoundTwo())

    assert in_a_fork(is_killed, tmp_path).returncode == 9
    found = us.load(tmp_path / "run")
    assert found.accuracy == pixels.metrics[1]["accuracy"]
    assert found.summary["rounds"] == 1
    assert not found.summary["finished"]
    assert "data:image/png;base64," in found._repr_html_()
    with pytest.raises(UserError, match=r"has not finished, so there is no model yet; resume\(\) goes on with it"):
        found.predict(np.zeros((1, 8, 8), np.uint8))
    whole = found.resume()
    assert whole.summary["rounds"] == 2
    assert all(torch.equal(whole.weights[name], pixels.weights[name]) for name in pixels.weights)


def test_a_resumed_run_uses_its_objects_again(tmp_path: Path) -> None:
    x, y = arrays()
    data = us.Federation.from_arrays({"a": (x / 1000, y)}, held_out=0.25)
    plan = {"method": {"name": "fedavg", "rounds": 1, "local": {"epochs": 1, "lr": 0.1}}, "engine": "inline"}
    result = us.run(plan, data=data, model=Net(), out=tmp_path / "run")
    assert result.resume(rounds=2).summary["rounds"] == 2
    with pytest.raises(UserError, match="given its network in Python; pass `model=` again"):
        us.load(tmp_path / "run").resume(rounds=3)


def test_synthetic_sets_are_read_one_by_one(tmp_path: Path) -> None:
    method = {"name": "feddm", "rounds": 1, "steps": 1, "server": {"epochs": 1}}
    result = us.run({**PIXELS, "method": method}, out=tmp_path / "run")
    assert list(result.synthetic) == ["client-0", "client-1", "client-2"]
    (tmp_path / "run/synthetic/client-1.npz").write_bytes(b"broken")
    assert len(result.synthetic["client-0"]) > 0
    with pytest.raises(UserError, match="cannot be read"):
        result.synthetic["client-1"]
    assert set(result.ledger["clients"]) == set(result.synthetic)


def test_a_frame_has_one_row_per_round_and_needs_pandas(pixels: us.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    frame = pixels.frame()
    assert list(frame["round"]) == [0, 1, 2]
    assert frame["accuracy"].iloc[-1] == pixels.accuracy
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match="needs pandas, which is not installed here: pip install pandas"):
        pixels.frame()


def test_a_result_shows_itself(pixels: us.Result, tmp_path: Path) -> None:
    assert repr(pixels) == f"<Result '{pixels.folder}': accuracy {pixels.accuracy:.3f} after 2 rounds>"
    card = pixels._repr_html_()
    assert f"{100 * (pixels.accuracy or 0):.1f} %" in card
    assert "not audited" in card  # never accuracy alone
    assert "data:image/png;base64," in card
    figure: Any = pixels.plot()
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["over rounds", "over what was sent"]
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert pixels.report(tmp_path / "page.html", quality=False).read_text().startswith("<!doctype html>")


def test_nothing_in_a_folder_becomes_html_in_a_notebook(pixels: us.Result, tmp_path: Path) -> None:
    import shutil

    copy = shutil.copytree(pixels.folder, tmp_path / "<b>bold")
    config = RunFolder(copy).config()
    config["data"]["name"] = "<script>alert(1)</script>"
    (copy / "config.yaml").write_text(yaml.safe_dump(config))
    card = us.load(copy)._repr_html_()
    assert "<script" not in card
    assert "<b>" not in card


def test_classes_have_their_names(pixels: us.Result) -> None:
    assert pixels.classes == tuple("0123456789")
