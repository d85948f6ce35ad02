"""Reads text from outside; whatever is wrong with it is reported in one sentence."""

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


class _EachKeyOnce(yaml.SafeLoader):
    """YAML would silently take the last of two equal keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if twice := [key for key in keys if keys.count(key) > 1]:
            raise yaml.constructor.ConstructorError(None, None, f"the key '{twice[0]}' appears twice", node.start_mark)
        return super().construct_mapping(node, deep)


def yaml_of(text: str, where: str) -> Any:
    try:
        return yaml.load(text, Loader=_EachKeyOnce)
    except (yaml.YAMLError, ValueError) as error:  # a date such as 2024-13-45 is a ValueError
        raise UserError(f"{where} is not valid YAML: {' '.join(str(error).split())}.") from None
    except RecursionError:
        raise UserError(f"{where} is not valid YAML: it is nested too deeply.") from None


def json_of(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise UserError(f"{where} is damaged; restore it from a copy.") from None
