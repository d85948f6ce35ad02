"""Registers a term under one name as a method (FedAvg with this term) and as an add-on to the averaging family."""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, cast

from pydantic import create_model

from understudy.base_settings import Settings
from understudy.errors import UserError
from understudy.federation.method import Method
from understudy.federation.registry import Presets, add_on, method
from understudy.learning.local import Local
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.methods.shared.terms_and_rules import Rule, Term

Own = TypeVar("Own", bound=Settings)
BuildTerm = Callable[[Own, Local], Term]


def term(
    name: str,
    *,
    settings: type[Own],
    presets: Presets = MappingProxyType({}),
    alone: type[AveragingSettings] | None = None,
    rule: Callable[[Any], Rule] = lambda settings: Rule(),
    needs: str = "",
    sends: str = "",
) -> Callable[[BuildTerm[Own]], Callable[[Any], Averaging]]:
    """Decorates a function from ``settings`` and the local training to a Term; the result builds the method.

    The add-on has ``settings``. The method also has those of averaging, and those of its ``rule`` if it has its own:
    ``alone`` is then the class with all of them.
    """
    whole = alone or create_model(f"{settings.__name__}Alone", __base__=cast(Any, (settings, AveragingSettings)))

    def take(build: BuildTerm[Own]) -> Callable[[Any], Averaging]:
        @functools.wraps(build)
        def join(chosen: Own, inner: Method) -> Method:
            return joined(name, inner, lambda local: build(chosen, local))

        @functools.wraps(build)
        def by_itself(chosen: Any) -> Averaging:
            return joined(name, Averaging(chosen, rule=rule(chosen)), lambda local: build(chosen, local))

        add_on(name, settings=settings, presets=_own(presets, settings), needs=needs)(join)
        by_itself.__understudy_entries__ = join.__understudy_entries__  # type: ignore[attr-defined]
        return method(name, settings=whole, presets=presets, needs=needs, sends=sends)(by_itself)

    return take


def joined(name: str, inner: Method, build: Callable[[Local], Term]) -> Averaging:
    """The method with one more term, called ``name``."""
    if not isinstance(inner, Averaging):
        raise UserError(
            f"{name} joins methods in which clients train and the server averages, but {type(inner).__name__} has no "
            "local training to join; leave it out, or add it to a method such as fedavg."
        )
    made = build(inner.settings.local)
    made.name = name
    return inner.and_term(made)


def _own(presets: Presets, settings: type[Settings]) -> dict[str, Mapping[str, Any]]:
    """The part of each preset that concerns the term; presets without one belong to the method alone."""
    cut = {
        name: {key: value for key, value in values.items() if key in settings.model_fields}
        for name, values in presets.items()
    }
    return {name: values for name, values in cut.items() if values}
