"""A site's policy: what may leave, whatever a server asks for. Read only on the client's side."""

from pathlib import Path
from typing import Literal, get_args

from pydantic import Field

from understudy.base_settings import Settings
from understudy.complaints import checked
from understudy.errors import UserError
from understudy.reading import text_of, yaml_of

# What a part of a message reveals about the data; keys (and shares of them) reveal nothing. Labels are class numbers
# (n,), or a row of numbers per record: several labels, or soft ones.
Kind = Literal["weights", "examples", "labels", "statistics", "scalars", "keys"]


class Policy(Settings):
    epsilon: float | None = Field(default=None, gt=0)  # largest ε over all runs; what no mechanism covers stays here
    delta: float = Field(default=1e-5, gt=0, lt=1)  # δ at which that ε is counted
    kinds: tuple[Kind, ...] = get_args(Kind)  # kinds of parts that may leave
    examples_a_round: int | None = Field(default=None, ge=0)  # records or synthetic images that may leave per round
    smallest_class: int = Field(default=0, ge=0)  # examples of a class leave only if it has at least this many records
    approval: tuple[Kind, ...] = ()  # kinds that leave only after a person at the site approves
    test_noise: bool = True  # False: refuse runs whose noise can be repeated


def read_policy(path: Path) -> Policy:
    """A YAML file."""
    try:
        words = yaml_of(text_of(path), f"The policy {path}")
    except UserError as wrong:
        raise UserError(f"{str(wrong).rstrip('.')}; a site cannot work without its policy.") from None
    if not isinstance(words, dict):
        raise UserError(f"The policy {path} must hold keys and values, such as `epsilon: 8`.")
    policy: Policy = checked(Policy, words, f"policy {path.name}")
    return policy
