"""The `privacy` part of a config: what is promised, how it is counted, and what is public anyway."""

from typing import Literal, Self

from pydantic import Field, model_validator

from understudy.base_settings import Settings

Accountant = Literal["rdp", "pld"]
Fact = Literal["counts", "labels"]  # how many records a client holds; which classes it holds


class PrivacySettings(Settings):
    """For one labelled record, added or removed, against a server that sees every message."""

    epsilon: float | None = Field(default=None, gt=0)  # hard budget of each client; None: counted, not limited
    delta: float = Field(default=1e-5, gt=0, lt=1)  # δ; should be below 1 / number of records
    accountant: Accountant = "rdp"  # how charges are composed: Rényi, or loss distributions (tighter)
    records: int | None = Field(default=None, ge=1)  # planned records per client; None: its own count, if public
    public: tuple[Fact, ...] = ()  # what the parties declare public
    test_noise: bool = False  # draw noise from the run's seed, for tests; no guarantee holds

    @model_validator(mode="after")
    def _is_a_promise(self) -> Self:
        if self.records is not None and (why := no_promise(self.delta, self.records)):
            raise ValueError(why)
        return self


def no_promise(delta: float, records: int) -> str:
    """Why that δ promises nothing: a δ of 1/n allows publishing one of n records whole. Empty: it does promise."""
    if delta < 1 / records:
        return ""
    return f"delta is {delta:g}, which promises nothing for {records} records; write less than {1 / records:.1g}"
