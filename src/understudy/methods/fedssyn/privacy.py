"""Fedssyn's exchange under record-level privacy: what is planned, what is charged, and what a client then does.

The generator takes DP-SGD steps (`privacy.sgd`) at rate q = batch / (ρ n̄), with n̄ the planned number of records, for
the number of epochs in its settings: epochs · round(1/q) steps, charged before a record is touched. Labels are uniform,
or follow noised class counts (one Gaussian release: a record changes one count by one). Whether the generator sees a
record is decided by a secret coin for that record, of probability ρ; with a permutation, one more record would change
everyone's place. The sampling does not reduce the cost, since training touches the same records later.

Nothing else may depend on records. Any number of records works, including none; ñ is planned; and images are checked
only by themselves, which is post-processing and free.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.method import Method
from understudy.methods.fedssyn.settings import ExchangePrivacy, FedssynSettings
from understudy.methods.shared.imitation import Imitation, require_fitting
from understudy.privacy.accounting import Spending
from understudy.privacy.mechanism import poisson_rows, with_noise
from understudy.privacy.planning import Spendings, cost_of, noise_within, planned_records
from understudy.privacy.promise import PrivacySettings
from understudy.privacy.sgd import PrivateSteps
from understudy.randomness import generator as stream
from understudy.synthesis.generator import Generator, Stage
from understudy.synthesis.labels import largest_remainder

WHERE = "with.fedssyn.dp"


@dataclass(frozen=True)
class PrivateExchange:
    """The promise of one config, for clients of any size."""

    settings: FedssynSettings
    dp: ExchangePrivacy
    privacy: PrivacySettings
    before: Callable[[int], Spendings] = lambda own: ()  # spent on the same records before the exchange

    def steps(self, own: int) -> Spending:
        """The generator's steps, for a client with ``own`` records, a number that matters only if it is public."""
        words = _said(self.settings.generator)
        rate = min(1.0, words["batch"] / self._seen(own))
        steps = max(words["epochs"] * max(1, round(1 / rate)), words.get("least_steps", 0))
        before = self._labels() if self.dp.epsilon is not None else (*self.before(own), *self._labels())
        noise = self.dp.noise or noise_within(self._epsilon(), self.privacy, rate, steps, before)
        return Spending(rate, noise, steps)

    def spendings(self, own: int) -> Spendings:
        return (*self._labels(), self.steps(own))

    def _labels(self) -> Spendings:
        return (Spending(1.0, self.dp.label_noise, 1),) if self.dp.labels == "noised" else ()

    def _seen(self, own: int) -> float:
        """ρ n̄"""
        return self.settings.records * planned_records(self.privacy, own)

    def _epsilon(self) -> float:
        whole = self.privacy.epsilon
        if self.dp.epsilon is not None:
            return self.dp.epsilon
        if self.dp.scope == "all" or whole is None:
            why = "; training draws on privacy.epsilon as well" if self.dp.scope == "all" else ", or its noise"
            raise UserError(f"{WHERE}.epsilon: set how much the generator may spend{why}.")
        return whole

    # ---- on the client

    def of(self, client: Client, imitation: Imitation, keep: Callable[[Stage], None]) -> Examples:
        require_fitting(client, imitation.problem)
        own, plan = client.own, self.steps(len(client.own))
        expected = plan.rate * self._seen(len(own))
        self._charge(client, plan, expected)
        some = own.take(poisson_rows(len(own), self.settings.records, client.secret_rng("fedssyn records")))
        private = PrivateSteps(
            rate=plan.rate,
            steps=plan.steps,
            clip=self.dp.clip,
            noise=plan.noise,
            expected=expected,
            sampling=client.secret_rng("fedssyn sampling"),
            noises=client.secret_rng("fedssyn noise"),
            coins=client.secret_rng("fedssyn coins"),
        )
        state = imitation.learn(client, some, private, keep)
        wanted = imitation.wanted(planned_records(self.privacy, len(own)))
        return imitation.painted(client, state, largest_remainder(wanted, self._shares(client, some, imitation)))

    def _charge(self, client: Client, plan: Spending, expected: float) -> None:
        noised = self.dp.labels == "noised"
        if noised:
            client.budget.charge(
                rate=1.0, noise=self.dp.label_noise, steps=1, clip=1.0, covers=("y",), mechanism="Gaussian"
            )
        client.budget.charge(
            rate=plan.rate,
            noise=plan.noise,
            steps=plan.steps,
            clip=self.dp.clip,
            covers=("x",) if noised else ("x", "y"),
            divisor=expected,
        )

    def _shares(self, client: Client, some: Examples, imitation: Imitation) -> Tensor:
        """Shares of the classes among the images; only classes the client holds, if those are not secret."""
        classes = imitation.problem.classes
        shares = torch.ones(classes, dtype=torch.int64)
        if self.dp.labels == "noised":
            counts = some.label_counts(classes).to(torch.float64)
            noised = with_noise(counts, clip=1.0, noise=self.dp.label_noise, rng=client.secret_rng("fedssyn labels"))
            shares = noised.round().clamp(min=0).to(torch.int64)
        if "labels" in self.privacy.public:
            held = client.own.label_counts(classes) > 0
            shares = shares * held if bool((shares * held).any()) else held.to(torch.int64)
        return shares


def private_exchange(
    settings: FedssynSettings,
    privacy: PrivacySettings | None,
    inner: Method,
    before: Callable[[int], Spendings] = lambda own: (),
) -> PrivateExchange:
    """Refuses, before anything runs, what cannot be guaranteed."""
    dp = settings.dp
    assert dp is not None
    if privacy is None:
        raise UserError(f"{WHERE} needs a promise; write `privacy: {{epsilon: 10, delta: 1e-5, records: 1000}}`.")
    if dp.scope == "all" and not inner.private:
        sends = next((name for name, job in inner.jobs().items() if job.kinds), type(inner).__name__)
        raise UserError(
            f"{WHERE}.scope: 'all' promises privacy for what {sends} sends as well, but that has no noise; "
            "choose a private method such as dp-fedavg, or write scope: exchange."
        )
    found = PrivateExchange(settings, dp, privacy, before)
    _check_budget(found, privacy)
    return found


def rehearse(generator: Generator, problem: Problem) -> None:
    """One step without records, so that a private generator refuses before anything is charged."""
    coins = stream("rehearsal")
    nobody = Examples(torch.empty(0, *problem.shape, dtype=problem.dtype), torch.empty(0, dtype=torch.int64))
    step = PrivateSteps(rate=1.0, steps=1, clip=1.0, noise=0.0, expected=1.0, sampling=coins, noises=coins, coins=coins)
    for _ in generator.course(nobody, problem, coins, step):
        pass


def _check_budget(exchange: PrivateExchange, privacy: PrivacySettings) -> None:
    exchange.steps(1)  # refuses a promise from which nothing can be planned
    if privacy.epsilon is None:
        return
    if exchange.dp.epsilon is not None and exchange.dp.epsilon > privacy.epsilon:
        raise UserError(f"{WHERE}.epsilon is {exchange.dp.epsilon:g}, above privacy.epsilon; write a smaller one.")
    if privacy.records is None:
        return
    cost = cost_of((*exchange.before(privacy.records), *exchange.spendings(privacy.records)), privacy)
    if cost > privacy.epsilon:
        raise UserError(
            f"{WHERE}: the generator alone would cost {cost:.3g}, but privacy.epsilon is {privacy.epsilon:g}; use "
            "more noise, fewer epochs or smaller batches, or write noise: null to have it solved."
        )


def _said(words: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(words.get("epochs"), int) or not isinstance(words.get("batch"), int):
        raise UserError(
            f"{WHERE}: the generator '{words['name']}' has no epochs and batch to plan private steps from; "
            "choose another, such as vae."
        )
    return words
