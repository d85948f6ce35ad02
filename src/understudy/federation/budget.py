"""What a task may spend: it charges here before it touches a record."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from understudy.errors import UserError
from understudy.privacy.charges import Charge, ChargeLog, Limit
from understudy.privacy.mechanism import secret_generator
from understudy.privacy.policy import Policy
from understudy.privacy.promise import PrivacySettings, no_promise
from understudy.randomness import generator


class Occasion(NamedTuple):
    """The task that spends."""

    run: str
    round: int
    step: int
    task: str


class Budget:
    """What one task may still spend."""

    def __init__(
        self, log: ChargeLog, occasion: Occasion, privacy: PrivacySettings | None, policy: Policy | None, records: int
    ):
        self.privacy = privacy
        self._log, self._occasion, self._policy, self._records = log, occasion, policy, records
        self.charged: list[Charge] = []  # by this run of the task

    def charge(
        self,
        *,
        rate: float,
        noise: float,
        steps: int,
        clip: float,
        covers: Sequence[str],
        divisor: float | None = None,
        mechanism: str = "sampled Gaussian",
    ) -> None:
        """``steps`` releases at ``rate`` with σ = ``noise``; ``covers`` names the parts of the reply that depend on
        records only through them, ``divisor`` is what each sum is divided by. Raises if the budget does not suffice."""
        privacy = self._promise()
        charge = Charge(
            *self._occasion,
            self.charged[-1].number + 1 if self.charged else 0,
            mechanism,
            clip,
            noise,
            rate,
            steps,
            privacy.delta,
            privacy.accountant,
            tuple(covers),
            privacy.public,
            divisor,
            test_noise=privacy.test_noise,
        )
        self.charged.append(self._log.open(charge, self._limits(privacy)))

    def _promise(self) -> PrivacySettings:
        """The guarantee that the config promises, if it can be kept."""
        privacy = self.privacy
        if privacy is None:
            raise UserError(f"{self._occasion.task} spends privacy; write `privacy: {{delta: 1e-5}}` in the config.")
        records = privacy.records or (self._records if "counts" in privacy.public else 0)  # never a secret count
        if records and (why := no_promise(privacy.delta, records)):
            raise UserError(f"privacy.{why}.")
        if privacy.test_noise and self._policy is not None and not self._policy.test_noise:
            raise UserError("the site's policy does not allow repeatable noise (privacy.test_noise)")
        return privacy

    def _limits(self, privacy: PrivacySettings) -> list[Limit]:
        limits = []
        if privacy.epsilon is not None:
            limits.append(Limit("the config", privacy.epsilon, privacy.delta, privacy.accountant))
        if self._policy is not None and self._policy.epsilon is not None:
            limits.append(Limit("the site's policy", self._policy.epsilon, self._policy.delta, privacy.accountant))
        return limits

    def secret_stream(self, seed: int, *words: int | str) -> torch.Generator:
        """Seeded by the operating system, so that nobody can repeat it; with test noise, from the run's seed."""
        if self.privacy is not None and self.privacy.test_noise:
            return generator(seed, *words)
        return secret_generator()


def no_budget(id: str, round: int) -> Budget:
    """For a client outside any run, which cannot spend."""
    return Budget(ChargeLog(Path(f"no-charges-of-{id}")), Occasion("", round, 0, "A task"), None, None, 0)
