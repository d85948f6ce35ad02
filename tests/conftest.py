import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from browser import running_chromium
from second_device.build import KEPT_IN, compiler
from second_device.process import call, close

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """As in a run: two threads give other bits, and tests share the machine's cores."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _only_data_that_came_along(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A test that reaches for a data set of this machine fails on every machine; what tests start inherits it."""
    nothing = tmp_path_factory.mktemp("no-data-sets")
    for name in ("UNDERSTUDY_DATA", "XDG_DATA_HOME", "XDG_DATA_DIRS"):
        os.environ[name] = str(nothing)
    os.environ.setdefault(KEPT_IN, os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"))
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a browser that runs through the whole session."""
    with running_chromium(tmp_path_factory.mktemp("chromium")) as address:
        yield address


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator["Browser"]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright.chromium.connect_over_cdp(chromium)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Federations of real processes mostly wait: begun first, they end while the rest goes on beside them."""
    items.sort(key=lambda item: item.path.name not in ("test_faults.py", "test_same_bits.py"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Tests in the folder ``devices`` run in the process of the second device."""
    if pyfuncitem.path.parent.name != "devices":
        return None
    if compiler() is None:
        pytest.skip("there is no C++ compiler (g++, c++ or clang++) to build the second device with")
    wanted = inspect.signature(pyfuncitem.function).parameters
    given = {name: value for name, value in pyfuncitem.funcargs.items() if name in wanted}
    call(pyfuncitem.module.__name__, pyfuncitem.originalname, given)
    return True


def pytest_sessionfinish() -> None:
    close()
