"""What a setting means is read from the comment behind it, or above it."""

from typing import Literal

import pytest
from pydantic import Field

from understudy.base_settings import Settings, meanings, settings_in
from understudy.config.describe import SettingLine, defaults, reference
from understudy.config.schema import EngineSettings, MethodPlan, ModelPlan, Top
from understudy.data.settings import DataSettings
from understudy.federation import registry
from understudy.models import zoo as models
from understudy.privacy.policy import Policy
from understudy.synthesis import generator as generators


class Inner(Settings):
    way: Literal["near", "far"]  # where to
    lr: float = 0.5  # step size


class Base(Settings):
    steps: int = Field(
        default=3,  # of the walk,
        ge=1,
    )  # at least one
    plain: bool = False
    inner: Inner = Inner(way="far", lr=0.1)


class Derived(Base):
    steps: int = 7
    # why there is a limit: the meaning of a field is first of all what is behind it
    most: int | None = None  # None: no limit
    again: Inner | None = None  # a second one
    kinds: tuple[Literal["a", "b"], ...] = ("a",)


def test_a_meaning_is_the_comment_on_the_lines_of_a_field() -> None:
    assert meanings(Base) == {"steps": "of the walk, at least one", "plain": "", "inner": ""}


def test_a_meaning_without_room_behind_the_field_is_above_it() -> None:
    class Crowded(Settings):
        first: int = 1  # behind
        second: int = 2
        # of the third alone
        third: Literal["one", "two", "three"] = "one"

    assert meanings(Crowded) == {"first": "behind", "second": "", "third": "of the third alone"}


def test_a_meaning_above_a_field_may_take_several_lines() -> None:
    class Long(Settings):
        first: int = 1  # behind
        # by what: nothing, or
        # something
        second: int = 2

        # not next to a field

        # of the third
        third: int = 3

    assert meanings(Long) == {"first": "behind", "second": "by what: nothing, or something", "third": "of the third"}


def test_a_field_with_another_default_keeps_its_meaning() -> None:
    assert meanings(Derived)["steps"] == "of the walk, at least one"


def test_settings_without_a_file_have_no_meanings() -> None:
    names: dict[str, type[Settings]] = {}
    exec("class Typed(Settings):\n    a: int = 1  # lost", {"Settings": Settings}, names)
    assert meanings(names["Typed"]) == {"a": ""}


def test_settings_inside_are_found_through_unions_and_lists() -> None:
    assert settings_in(tuple[Inner | None, ...] | Base) == [Inner, Base]


def test_every_field_is_a_line_as_it_is_typed() -> None:
    assert reference(Derived) == [
        SettingLine("steps", 7, "of the walk, at least one"),
        SettingLine("plain", False, ""),
        SettingLine("inner.way", "must be chosen", "where to (near, far)"),
        SettingLine("inner.lr", 0.1, "step size"),
        SettingLine("most", None, "null: no limit"),
        SettingLine("again", None, "a second one"),
        SettingLine("again.way", "must be chosen", "where to (near, far)"),
        SettingLine("again.lr", 0.5, "step size"),
        SettingLine("kinds", ["a"], "a, b"),
    ]


def test_where_a_choice_must_be_made_the_first_one_stands_for_it() -> None:
    assert defaults(Inner) == Inner(way="near")


@pytest.mark.parametrize("name", ["fedssyn", "central"])
def test_a_generator_is_shown_with_its_own_settings(name: str) -> None:
    from understudy.config.describe import describe_methods

    lines = {line["setting"]: line for line in describe_methods(name)[0]["reference"]}
    assert lines["generator.name"]["default"] == "vae"
    assert lines["generator.width"]["meaning"] == "channels of every convolution"


def _with_inner(kind: type[Settings]) -> set[type[Settings]]:
    inside = [inner for field in kind.model_fields.values() for inner in settings_in(field.annotation)]
    return {kind}.union(*map(_with_inner, inside))


def test_every_setting_has_a_meaning() -> None:
    by_name: list[type[Settings]] = [one.settings for one in registry.entries()]
    by_name += [models.entry(name).settings for name in models.names()]
    by_name += [generators.entry(name).settings for name in generators.names()]
    general: list[type[Settings]] = [Top, DataSettings, ModelPlan, MethodPlan, EngineSettings, Policy]
    kinds = {kind for one in general + by_name for kind in _with_inner(one)}
    missing = [f"{kind.__name__}.{name}" for kind in kinds for name, meaning in meanings(kind).items() if not meaning]
    assert not missing
