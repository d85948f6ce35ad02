"""Records under a privacy budget: what would have to be read off them is refused, and all that is to be written said at
once."""

from collections.abc import Callable
from dataclasses import replace

from understudy.config.schema import Config
from understudy.data.assemble import build_federation
from understudy.data.federation import Federation
from understudy.data.problem import Problem
from understudy.data.settings import DataSettings
from understudy.data.undeclared import columns_left_open, readable, undeclared_columns, undeclared_records
from understudy.errors import UserError

OF_THE_PROMISE = ("privacy.", "method.")  # what a method's complaint begins with if it is about these settings


def declared_data(
    config: Config,
    settings: DataSettings,
    takes: Callable[[Config, Problem], object],
    build: Callable[[Config, Federation], object],
) -> Federation:
    """``takes`` refuses records that the method cannot take, ``build`` what it cannot promise."""
    columns, seed = columns_left_open(settings), config.top.seed
    wanted = undeclared_columns(settings, columns)
    lenient = readable(settings, columns) if wanted else settings
    try:
        data = build_federation(lenient, seed=seed)
    except UserError:
        if wanted:
            raise _all_of(wanted) from None
        raise
    takes(config, data.problem)  # where it cannot take such records, no promise is worth writing
    wanted += undeclared_records(settings, data)
    if wanted:
        raise _all_of([*wanted, *_of_the_promise(replace(config, data=lenient), data, build)])
    return data


def _of_the_promise(config: Config, data: Federation, build: Callable[[Config, Federation], object]) -> list[str]:
    """What the method would ask for next. Other complaints may come from the columns that were left out to ask it."""
    try:
        build(config, data)
    except UserError as error:
        return [str(error)] if str(error).startswith(OF_THE_PROMISE) else []
    return []


def _all_of(wanted: list[str]) -> UserError:
    if len(wanted) == 1:
        return UserError(wanted[0])
    listed = " ".join(f"({number}) {sentence}" for number, sentence in enumerate(wanted, 1))
    return UserError(f"Under a privacy budget {len(wanted)} things are still to be written: {listed}")
