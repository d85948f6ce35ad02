"""Text from outside: whatever is wrong with it, one sentence says so."""

import json
from pathlib import Path
from typing import Any

import yaml

from understudy.errors import UserError


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not text in UTF-8; save it as UTF-8, or name another file.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error}).") from None


def yaml_of(text: str, where: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:  # a date such as 2024-13-45 is a ValueError
        raise UserError(f"{where} is not valid YAML: {' '.join(str(error).split())}.") from None
    except RecursionError:
        raise UserError(f"{where} is not valid YAML: it is nested too deeply.") from None


def json_of(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise UserError(f"{where} is damaged; restore it from a copy.") from None
