"""The base of everything that is read from a config."""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Frozen values with defaults; a key that is not a field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
