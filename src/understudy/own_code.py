"""A user's own method, network or generator, named as ``mine.py:Mine``."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from understudy.errors import UserError
from understudy.randomness import seed_from


def is_own(name: str) -> bool:
    return ".py:" in name


def full_name(name: str) -> str:
    """With the file's full path, so that a run can be resumed from anywhere."""
    if not is_own(name):
        return name
    file, _, attribute = name.rpartition(":")
    return f"{Path(file).expanduser().resolve()}:{attribute}"


def own(name: str) -> Any:
    file, _, attribute = name.rpartition(":")
    module = _module(Path(file))
    if not hasattr(module, attribute):
        there = [word for word in vars(module) if not word.startswith("_")]
        raise UserError(f"{file} has no '{attribute}'; it has {', '.join(there) or 'nothing'}.")
    return getattr(module, attribute)


def _module(file: Path) -> ModuleType:
    known_as = f"understudy_own_{seed_from(str(file.resolve())):x}"
    if known_as in sys.modules:
        return sys.modules[known_as]
    if not file.is_file():
        raise UserError(f"There is no file {file}.")
    spec = importlib.util.spec_from_file_location(known_as, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[known_as] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # their file may do anything
        del sys.modules[known_as]
        raise UserError(f"{file} cannot be imported: {type(error).__name__}: {error}.") from error
    return module
