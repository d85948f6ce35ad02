"""The base of everything that is read from a config."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Frozen values with defaults; a key that is not a field is an error."""

    instead: ClassVar[tuple[tuple[str, str], ...]] = ()  # pairs of keys of which one takes the other's place

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
