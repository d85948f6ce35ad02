"""How the server reads what clients send: the result is always a message, or one sentence about that client.

Whatever leaves a client is in the ledger from the moment it arrives, whether it counts or not.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch

from understudy.errors import UserError
from understudy.federation.exchange import Answer
from understudy.federation.failures import smaller_rate
from understudy.federation.message import Kind, Message
from understudy.federation.method import Method, known_jobs
from understudy.federation.round_record import Ask, RoundRecord
from understudy.federation.site import SCORE, check_version
from understudy.learning.evaluate import Tally
from understudy.privacy.charges import Charge, Place, composed
from understudy.privacy.ledger import DECISION, Ledger, Release

LARGEST = 1e15  # limit on numbers in a reply: the squares of millions of them still sum to a float32
UNDECLARED = "undeclared"
MOST_CHARGES = 64  # per reply: one per mechanism, and again for each time the work failed
MOST_WAYS = 256  # pairs of rate and noise per client in a run; each takes time to account for


class Incoming:
    def __init__(
        self, method: Method, run: str, held_out: Mapping[str, int], released: Callable[[Release], None] | None
    ):
        self.ledger = Ledger()
        self.kinds: Mapping[str, Mapping[str, Kind]] = {name: job.kinds for name, job in known_jobs(method).items()}
        self._kinds_in_ledger = {name: {**kinds, SCORE: "statistics"} for name, kinds in self.kinds.items()}
        self._problem, self._promise, self._run = method.net.problem, method.privacy, run
        self._held_out = held_out  # the most records each client may have scored on
        self._released = released or (lambda release: None)  # called with every reply before the method sees it

    def message(self, asked: Ask, answer: Answer, record: RoundRecord, arrived_in: int) -> Message:
        """What a client sent, if it counts; ``arrived_in`` is the round of its arrival."""
        client = answer.client
        data = answer.read() if answer.message is None else b""
        size = len(data) if answer.message is None else answer.message.nbytes
        record.up[client] = record.up.get(client, 0) + size
        try:
            check_version(answer.version)
            message, charges = _read(answer, data), self._charges(asked, answer)
        except UserError:
            parts = {UNDECLARED: (UNDECLARED, size), **_decided(answer)}
            self._write_down(asked, client, _digest(data), parts, (), arrived_in)
            raise
        parts = {**self._parts(asked, message), **_decided(answer)}
        digest = "" if answer.repeatable else _digest(data)
        self._write_down(asked, client, digest, parts, charges, arrived_in)
        reply = message.without(SCORE)
        self._check(asked, reply)
        if SCORE in message:
            record.scores = record.scores + self._tally(asked, client, message[SCORE])
        return reply

    def failure(self, asked: Ask, answer: Answer, arrived_in: int) -> None:
        """Nothing left the client, but the work may have cost privacy."""
        charges = self._charges(asked, answer)
        self._write_down(asked, answer.client, _digest(b""), _decided(answer), charges, arrived_in)

    def _check(self, asked: Ask, reply: Message) -> None:
        undeclared = [part for part in reply if part not in self.kinds[asked.task]]
        if undeclared:
            raise UserError(f"its reply holds {undeclared[0]}, which is not declared")
        if beyond := reply.beyond(LARGEST):
            if broken := reply.not_finite():
                raise UserError(f"its reply is not finite in {', '.join(broken)}")
            hint = smaller_rate(self.kinds[asked.task][beyond[0]])
            raise UserError(f"its reply goes beyond ±{LARGEST:g} in {beyond[0]} ({hint})")

    def _charges(self, asked: Ask, answer: Answer) -> list[Charge]:
        """What the task spent, as its site reports; refused if it could not be accounted for."""
        before = self.ledger.charges.get(answer.client, {})
        if not answer.charges and not before:
            return []
        if len(answer.charges) > MOST_CHARGES:
            raise UserError(f"it sent {len(answer.charges)} privacy charges; at most {MOST_CHARGES} are accepted")
        charges = [Charge.of(charge) for charge in answer.charges]
        for charge in charges:
            self._check_charge(asked, charge, before)
        every = [*before.values(), *charges]
        if len({charge.way for charge in every}) > MOST_WAYS:
            raise UserError(f"it spent privacy at more than {MOST_WAYS} different rates or noise levels")
        if charges:
            composed(every, charges[0].delta, charges[0].accountant)
        return charges

    def _check_charge(self, asked: Ask, charge: Charge, before: Mapping[Place, Charge]) -> None:
        """It belongs to this ask, and is accounted for as the config promises."""
        if self._promise is None:
            raise UserError("it claims to have spent privacy, but the config promises none")
        if (charge.run, charge.round, charge.step) != (self._run, asked.round, asked.step):
            raise UserError("it sent a privacy charge that does not belong to this ask")
        promised = (self._promise.delta, self._promise.accountant, self._promise.test_noise)
        if (charge.delta, charge.accountant, charge.test_noise) != promised:
            raise UserError("it accounts for privacy differently from what the config promises")
        if replace(before.get(charge.place, charge), covers=charge.covers) != charge:
            raise UserError("it changed a privacy charge that it had sent before")

    def _parts(self, asked: Ask, message: Message) -> dict[str, tuple[str, int]]:
        """Kinds and sizes; undeclared parts share one line, whatever the site calls them."""
        kinds = self._kinds_in_ledger[asked.task]
        sizes = {part: tensor.nbytes for part, tensor in message.items()}
        parts: dict[str, tuple[str, int]] = {part: (kinds[part], size) for part, size in sizes.items() if part in kinds}
        if undeclared := [size for part, size in sizes.items() if part not in kinds]:
            parts[UNDECLARED] = (UNDECLARED, sum(undeclared))
        return parts

    def _write_down(
        self,
        asked: Ask,
        client: str,
        digest: str,
        parts: Mapping[str, tuple[str, int]],
        charges: Sequence[Charge],
        arrived_in: int,
    ) -> None:
        release = Release(client, asked.round, asked.step, asked.task, parts, tuple(charges), digest, heard=arrived_in)
        self._released(release)
        self.ledger.record(release)

    def _tally(self, asked: Ask, client: str, numbers: torch.Tensor) -> Tally:
        if client not in asked.scoring:
            raise UserError("it sent scores without being asked for them")
        asked.scoring.remove(client)
        return Tally.from_tensor(numbers, self._problem, self._held_out[client])


def _read(answer: Answer, data: bytes) -> Message:
    if answer.message is None:
        return Message.from_bytes(data)
    answer.message.check_parts()
    return answer.message


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _decided(answer: Answer) -> dict[str, tuple[str, int]]:
    """A decision made with records in view says something about them, a plain no included: a part that nothing
    covers."""
    return {DECISION: ("decision", 0)} if answer.records_seen else {}
