"""From words to a config: names, overrides, and what is said of words that are wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch import Tensor

from understudy.config.build import build_data, build_method
from understudy.config.read import pairs, presets, read
from understudy.config.resolve import _over_preset, resolve
from understudy.config.schema import Config
from understudy.data import sets
from understudy.data.cifar import CifarSet
from understudy.data.dataset import Dataset
from understudy.data.examples import Examples
from understudy.data.flair import FlairSettings
from understudy.data.mnist import IdxSet
from understudy.data.problem import Problem
from understudy.data.published import PublishedFile
from understudy.data.shapes import ShapesSettings, read_shapes
from understudy.errors import UserError
from understudy.federation.registry import Entry
from understudy.methods.fedavg import fedavg
from understudy.methods.shared.averaging import AveragingSettings
from understudy.own_code import own


def words_of(config: Config) -> dict[str, Any]:
    return config.words("test", build_data(config).problem, "eager", "cpu", "digest")


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:1", "mps", "mps:0"])
def test_a_device_may_be_named_as_a_run_writes_it_down(device: str) -> None:
    assert resolve({"device": device}).top.device == device


@pytest.mark.parametrize("device", ["meta", "hpu", "privateuseone", "cuda:-1", "cuda:", "cpu:zero"])
def test_devices_that_torch_does_not_have_here_are_refused(device: str) -> None:
    with pytest.raises(UserError, match="write auto, cpu, mps, cuda"):
        resolve({"device": device})


def test_an_empty_config_is_fedavg_on_digits() -> None:
    words = words_of(resolve({}))
    assert words["method"]["name"] == "fedavg"
    assert words["data"]["name"] == "digits"
    assert words["method"]["local"]["epochs"] == 5
    assert words["problem"] == {
        "shape": [1, 8, 8],
        "classes": 10,
        "multilabel": False,
        "mean": words["problem"]["mean"],
        "std": words["problem"]["std"],
    }


@pytest.fixture
def published_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blank images and labels in turn in place of files that nobody has to have; as many as were published.

    Of shapes there are few.
    """

    def array(_: IdxSet, file: PublishedFile, __: Path | None) -> Tensor:
        records = 60_000 if file.name.startswith("train") else 10_000
        labels = torch.arange(records, dtype=torch.uint8) % 10
        return labels if "labels" in file.name else torch.zeros(records, 28, 28, dtype=torch.uint8)

    def batch(one: CifarSet, file: PublishedFile, _: Path | None) -> dict[str, object]:
        records = 50_000 // len(one.train) if file in one.train else 10_000
        labels = [at % one.problem.classes for at in range(records)]
        return {"data": np.zeros((records, 3072), dtype=np.uint8), one.label_key: labels}

    def thinned(settings: ShapesSettings) -> Dataset:  # 737 280 images would take minutes
        return read_shapes(settings.model_copy(update={"scales": 1, "rotations": 2, "positions": 8}))

    def of_two_hundred_users(_: Path | None, settings: FlairSettings) -> Dataset:
        labels = (torch.arange(400)[:, None] % 17 == torch.arange(17)).to(torch.uint8)
        blank = Examples(torch.zeros(400, 3, settings.size, settings.size, dtype=torch.uint8), labels)
        problem = Problem((3, settings.size, settings.size), 17, multilabel=True)
        return Dataset("flair", problem, blank, blank, users=torch.arange(400) % 200)

    monkeypatch.setattr(sets, "read_flair", of_two_hundred_users)
    monkeypatch.setattr(IdxSet, "array", array)
    monkeypatch.setattr(CifarSet, "batch", batch)
    monkeypatch.setattr(sets, "read_shapes", thinned)


@pytest.mark.usefixtures("published_files")
@pytest.mark.parametrize("preset", presets())
def test_every_preset_resolves_and_builds(preset: str) -> None:
    config = resolve(read(preset))
    build_method(config, build_data(config), "eager")


@pytest.mark.usefixtures("published_files")
@pytest.mark.parametrize("preset", presets())
def test_a_resolved_config_read_back_is_the_same_run(preset: str) -> None:
    words = words_of(resolve(read(preset), {"with": ["fedssyn", {"name": "fedcog", "kd_weighting": "fixed"}]}))
    again = words_of(resolve(yaml.safe_load(yaml.safe_dump(words))))
    assert again == words


def test_overrides_reach_inside_by_dots_and_by_their_short_names() -> None:
    words = words_of(resolve(read("digits-skewed"), pairs(["rounds=3", "method.local.lr=0.2", "clients=4"])))
    assert words["method"]["rounds"] == 3
    assert words["method"]["local"]["lr"] == 0.2
    assert words["method"]["local"]["batch"] == 32, "what was not changed stays"
    assert words["data"]["clients"] == 4


SHORT: list[tuple[list[str], str, Any]] = [
    (["lr=0.2"], "method.local.lr", 0.2),
    (["local.lr=0.2"], "method.local.lr", 0.2),
    (["alpha=0.7"], "data.split.alpha", 0.7),
    (["epsilon=3", "delta=1e-5"], "privacy.epsilon", 3),
    (["hidden=[7]", "model=mlp"], "model.hidden", [7]),
    (["mu=0.3", "method=fedprox"], "method.mu", 0.3),
    (["preset=desk", "method=feddm"], "method.server.epochs", 100),
    (["lr=0.2", "local={epochs: 3}"], "method.local.lr", 0.2),  # whichever comes first
    (["local={epochs: 3}", "lr=0.2"], "method.local.epochs", 3),
]


@pytest.mark.parametrize(("changes", "full", "value"), SHORT, ids=lambda part: str(part))
def test_the_last_name_of_a_setting_is_enough_where_it_is_the_only_one(
    changes: list[str], full: str, value: Any
) -> None:
    found: Any = words_of(resolve(read("digits-skewed"), pairs(changes)))
    for part in full.split("."):
        found = found[part]
    assert found == value


def test_the_last_name_of_an_add_ons_setting_is_enough_where_the_add_on_is_there() -> None:
    changes = pairs(["images=7", "with=fedssyn"])
    assert words_of(resolve({}, changes))["with"][0]["images"] == 7
    with pytest.raises(UserError, match=r"There is no setting 'images'\."):
        resolve({}, pairs(["images=7"]))


def test_a_short_name_that_several_settings_have_lists_their_full_names() -> None:
    with pytest.raises(UserError, match=r"^'steps' could be 'method\.steps' or 'method\.server\.steps'; write"):
        resolve({}, pairs(["method=feddm", "steps=3"]))
    with pytest.raises(UserError, match=r"'name' could be 'data\.name', 'model\.name', .* or 'engine\.name'"):
        resolve({}, pairs(["name=digits"]))


def test_a_setting_given_by_two_names_is_refused() -> None:
    with pytest.raises(UserError, match=r"'method\.local\.lr' and 'lr' are the same setting; give it once"):
        resolve({}, pairs(["method.local.lr=0.1", "lr=0.2"]))


def test_a_config_file_has_full_names_only() -> None:
    with pytest.raises(UserError, match=r"There is no setting 'lr'\. Did you mean 'method\.local\.lr'\?"):
        resolve({"lr": 0.1}, {"rounds": 2})


def test_a_split_may_be_named_by_its_kind_alone_and_is_dirichlet_otherwise() -> None:
    assert words_of(resolve({}, pairs(["split=iid"])))["data"]["split"] == {"kind": "iid"}
    assert words_of(resolve({}, pairs(["split.alpha=0.7"])))["data"]["split"]["kind"] == "dirichlet"


def test_another_kind_of_split_does_not_inherit_the_settings_of_the_old_one() -> None:
    words = {"data": {"split": {"kind": "dirichlet", "alpha": 0.3}}}
    other = resolve(words, pairs(["data.split={kind: label-groups, labels_per_client: 5}"]))
    assert words_of(other)["data"]["split"] == {"kind": "label-groups", "labels_per_client": 5}
    same = resolve(words, pairs(["data.split={style: fedssyn}"]))
    assert words_of(same)["data"]["split"]["alpha"] == 0.3


def test_a_preset_of_settings_lies_below_what_is_said_beside_it() -> None:
    entry = Entry("x", "method", fedavg, AveragingSettings, presets={"authors": {"local": {"lr": 0.3, "batch": 7}}})
    words = _over_preset({"preset": "authors", "local": {"batch": 9}}, entry, "method")
    assert words == {"local": {"lr": 0.3, "batch": 9}}
    with pytest.raises(UserError, match=r"preset of x 'author'.*Did you mean 'authors'"):
        _over_preset({"preset": "author"}, entry, "method")
    with pytest.raises(UserError, match=r"method\.preset: y has no presets"):
        _over_preset({"preset": "a"}, Entry("y", "method", fedavg, AveragingSettings), "method")


def test_a_part_of_a_group_keeps_the_methods_own_defaults_of_the_rest() -> None:
    # FedRep's own: 11 epochs in batches of 10, momentum 0.5; steps take the place of epochs.
    def local(**said: object) -> dict[str, object]:
        settings = resolve({"method": {"name": "fedrep", "local": said}}).method.settings
        return {key: settings.model_dump()["local"][key] for key in ("epochs", "steps", "batch", "lr", "momentum")}

    assert local(lr=0.3) == {"epochs": 11, "steps": None, "batch": 10, "lr": 0.3, "momentum": 0.5}
    assert local(steps=4) == {"epochs": None, "steps": 4, "batch": 10, "lr": 0.01, "momentum": 0.5}


def test_settings_of_an_add_on_are_reached_by_its_name() -> None:
    changes = pairs(["with=[fedssyn]", "with.fedssyn.images=7", "with.fedcog.kd_weighting=fixed"])
    add_ons = {one["name"]: one for one in words_of(resolve({}, changes))["with"]}
    assert add_ons["fedssyn"]["images"] == 7
    assert add_ons["fedcog"]["kd_weighting"] == "fixed"


def test_what_is_said_of_a_part_holds_wherever_the_whole_is_named() -> None:
    changes = pairs(["with.fedssyn.images=7", "method.mu=0.3", "with=[fedssyn]", "method=fedprox"])
    words = words_of(resolve({}, changes))
    assert (words["with"][0]["images"], words["method"]["mu"]) == (7, 0.3)


@pytest.mark.parametrize("wrong", ["with=5", "with=[3]", "with=[[a]]", "seed.x=3", "method.cohort=true"])
def test_values_of_the_wrong_make_get_a_sentence(wrong: str) -> None:
    with pytest.raises(UserError):
        resolve({"seed": 1}, pairs([wrong]))


def test_another_method_keeps_rounds_and_what_it_knows_of_the_settings() -> None:
    preset = {"method": {"name": "scaffold", "rounds": 7, "option": "I", "local": {"lr": 0.3}}}
    to_fedavg = words_of(resolve(preset, {"method": "fedavg"}))["method"]
    assert (to_fedavg["rounds"], to_fedavg["local"]["lr"], "option" in to_fedavg) == (7, 0.3, False)
    to_feddm = words_of(resolve(preset, {"method.name": "feddm"}))["method"]
    assert (to_feddm["rounds"], "local" in to_feddm) == (7, False)


def test_a_setting_written_for_the_new_method_must_be_known_to_it() -> None:
    with pytest.raises(UserError, match=r"There is no setting 'method\.option'"):
        resolve(read("digits-skewed"), {"method": {"name": "fedavg", "option": "I"}})


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"sed": 1}, r"There is no setting 'sed'\. Did you mean 'seed'\?"),
    ({"method": "feddm", "steps": 20}, r"There is no setting 'steps'\. Did you mean 'method\.steps'\?"),
    ({"method": "fedavg", "lr": 1}, r"There is no setting 'lr'\. Did you mean 'method\.local\.lr'\?"),
    (
        {"method": "fedlap", "labels": "all"},
        r"There is no setting 'labels'\. Did you mean 'data\.labels' or 'method\.labels'\?",
    ),
    ({"method": {"round": 3}}, r"There is no setting 'method\.round'\. Did you mean 'method\.rounds'\?"),
    ({"method": {"lr": 3}}, r"There is no setting 'method\.lr'\. Did you mean 'method\.local\.lr'\?"),
    ({"lrr": 3}, r"There is no setting 'lrr'\. Did you mean 'method\.local\.lr'\?"),
    ({"epoch": 3}, r"There is no setting 'epoch'\. Did you mean 'method\.local\.epochs'\?"),
    ({"modle": 3}, r"There is no setting 'modle'\. Did you mean 'model'\?"),
    ({"alfa": 3}, r"There is no setting 'alfa'\. Did you mean 'data\.split\.alpha'\?"),
    ({"learning_rate": 3}, r"There is no setting 'learning_rate'\. Did you mean 'method\.local\.lr'\?"),
    ({"method": "feddm", "learning-rate": 3}, r"'learning-rate'\. Did you mean 'method\.server\.lr'\?"),
    (
        {"method": {"local": {"lrr": 3}}},
        r"no setting 'method\.local\.lrr'\. Did you mean 'method\.local\.lr'\?",
    ),
    ({"data": {"name": "a.csv", "ignore": "id"}}, r"'data\.ignore': write a list, such as data\.ignore=\[id\] "),
    ({"method": {"local": {"lr": "fast"}}}, r"'method\.local\.lr': .*valid number.*\(it is 'fast'\)"),
    ({"method": {"local": {"lr": -1}}}, r"'method\.local\.lr': .*greater than 0"),
    ({"method": {"local": {"epochs": 1, "steps": 2}}}, r"'method\.local': give either epochs or steps"),
    ({"method": {"rounds": -1}}, r"'method\.rounds'"),
    ({"method": "fedavgg"}, r"There is no method 'fedavgg'\. Did you mean 'fedavg'\?"),
    ({"method": "fedssyn"}, r"'fedssyn' is an add-on: write it under `with`"),
    ({"with": ["feddyn"]}, "'feddyn' is a method: write it under `method`"),
    ({"with": [{"name": "fedcog", "kd_weighting": "both"}]}, r"'with\.fedcog\.kd_weighting': .*'fixed' or 'balanced'"),
    ({"sizes": ["feddm"]}, r"'sizes' must list settings by method or add-on, such as \{feddm: \{steps: 30\}\}"),
    ({"with": [{"name": "fedssyn", "generator": "gann"}]}, r"There is no generator 'gann'"),
    (
        {"with": [{"name": "fedssyn", "generator": {"name": "vae", "epoch": 3}}]},
        r"generator\.epoch'\. Did you mean 'with\.fedssyn\.generator\.epochs'",
    ),
    ({"model": "convnett"}, r"There is no model 'convnett'\. Did you mean 'convnet'\?"),
    ({"model": {"name": "mlp", "hiden": [3]}}, r"There is no setting 'model\.hiden'\. Did you mean 'model\.hidden'\?"),
    (
        {"data": {"split": {"kind": "dirichlet", "alfa": 1}}},
        r"split\.alfa'\. Did you mean 'data\.split\.alpha'\?",
    ),
    ({"data": {"split": {"kind": "dirichlett"}}}, r"'data\.split'.*dirichlet"),
    ({"data": {"clients": 0}}, r"'data\.clients'"),
    ({"engine": "rays"}, r"'engine\.name'.*'inline', 'workers', 'ray' or 'flower'"),
    ({"device": "tpu"}, r"'device': write auto, cpu, mps, cuda"),
    ({"privacy": {"epsilom": 1}}, r"'privacy\.epsilom'\. Did you mean 'privacy\.epsilon'\?"),
    ({"method": ["fedavg"]}, r"'method' must be a name or keys and values"),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=lambda part: str(part)[:50])
def test_wrong_words_get_one_sentence_that_names_the_key(words: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as error:
        resolve(words)
    assert "\n" not in str(error.value)


def test_a_data_set_that_does_not_exist_is_named_with_the_nearest() -> None:
    with pytest.raises(UserError, match="Did you mean 'digits'"):
        build_data(resolve({"data": "digit"}))


def test_a_preset_or_file_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Did you mean 'digits-skewed'"):
        read("digits-skewd")
    with pytest.raises(UserError, match="There is no config file"):
        read(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("method: {name: [")
    with pytest.raises(UserError, match="is not valid YAML"):
        read(tmp_path / "bad.yaml")
    (tmp_path / "list.yaml").write_text("- a\n- b\n")
    with pytest.raises(UserError, match="must hold keys and values"):
        read(tmp_path / "list.yaml")


def test_records_in_place_of_a_config_are_told_how_to_be_named_in_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", x=np.zeros((2, 3)), y=[0, 1])
    (tmp_path / "mine.csv").write_text("age,y\n1,0\n")
    (tmp_path / "pictures").mkdir()
    for name in ("mine.npz", "mine.csv", "pictures"):
        with pytest.raises(UserError) as told:
            read(tmp_path / name)
        assert f"`understudy data check {tmp_path / name}`" in str(told.value)
        assert f"data: {{name: {tmp_path / name}, clients: 4}}" in str(told.value)
    (tmp_path / "pictures" / "config.yaml").write_text("seed: 0\n")
    with pytest.raises(UserError, match=r"the folder of a run; .* --resume --out .*pictures\."):
        read(tmp_path / "pictures")


def test_an_override_without_an_equals_sign() -> None:
    with pytest.raises(UserError, match="'rounds' is not KEY=VALUE"):
        pairs(["rounds"])


def test_own_code_that_is_missing_or_broken(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine: pass\n")
    with pytest.raises(UserError, match=r"has no 'Other'; it has Mine"):
        own(f"{tmp_path}/mine.py:Other")
    with pytest.raises(UserError, match="neither a Method class nor registered"):
        resolve({"method": f"{tmp_path}/mine.py:Mine"})
    (tmp_path / "broken.py").write_text("1/0\n")
    with pytest.raises(UserError, match="cannot be imported: ZeroDivisionError"):
        own(f"{tmp_path}/broken.py:Mine")
    with pytest.raises(UserError, match="There is no file"):
        own(f"{tmp_path}/none.py:Mine")


def test_a_momentum_under_scaffold_is_refused_with_the_reason() -> None:
    config = resolve({"method": {"name": "scaffold", "local": {"momentum": 0.9}}})
    with pytest.raises(UserError, match=r"method\.local\.momentum must be 0"):
        build_method(config, build_data(config), "eager")


SIZED = {
    "method": {"name": "fedavg", "rounds": 10, "local": {"epochs": 2}},
    "sizes": {
        "feddm": {"rounds": 5, "steps": 30, "server": {"epochs": 100}},
        "fedssyn": {"generator": {"name": "vae", "epochs": 7, "width": 3}},
    },
}


def test_a_presets_sizes_are_for_the_method_that_is_chosen_and_yield_to_what_is_typed() -> None:
    assert resolve(SIZED).plan.rounds == 10
    sized = resolve(SIZED, {"method": "feddm"})
    assert (sized.plan.rounds, sized.method.settings.steps, sized.method.settings.server.epochs) == (5, 30, 100)  # type: ignore[attr-defined]
    typed = resolve(SIZED, {"method": "feddm", "rounds": 3, "method.steps": 4})
    assert (typed.plan.rounds, typed.method.settings.steps) == (3, 4)  # type: ignore[attr-defined]
    published = resolve(SIZED, {"method": {"name": "feddm", "preset": "paper"}})
    assert (published.plan.rounds, published.method.settings.steps) == (10, 1000)  # type: ignore[attr-defined]
    assert "sizes" not in words_of(sized)


def test_a_presets_sizes_are_for_add_ons_too_but_not_for_another_generator() -> None:
    def generator(*given: object) -> dict[str, Any]:
        found: dict[str, Any] = resolve(SIZED, {"with": list(given)}).add_ons[0].settings.generator  # type: ignore[attr-defined]
        return found

    assert (generator("fedssyn")["epochs"], generator("fedssyn")["width"]) == (7, 3)
    typed = generator({"name": "fedssyn", "generator": {"epochs": 9}})
    assert (typed["epochs"], typed["width"]) == (9, 3)
    other = generator({"name": "fedssyn", "generator": {"name": "gan", "epochs": 2}})
    assert (other["name"], other["epochs"]) == ("gan", 2)
