"""Membership inference, one file per attack: pure functions of tensors."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from understudy.audits.attacks.density import by_density
from understudy.audits.attacks.distance import by_distance
from understudy.audits.attacks.embedding import by_embedding
from understudy.audits.attacks.loss import by_loss
from understudy.audits.attacks.mixture import by_mixture
from understudy.audits.attacks.tracing import by_tracing
from understudy.audits.sighting import Attack


@dataclass(frozen=True)
class AttackEntry:
    attack: Attack
    about: str
    needs: Literal["examples", "model", "sums"]  # what must have left the client
    quick: bool = True


ATTACKS: Mapping[str, AttackEntry] = MappingProxyType(
    {
        "distance": AttackEntry(
            by_distance, "How near the record lies to the nearest shared image of its class.", "examples"
        ),
        "density": AttackEntry(
            by_density, "How much denser shared images lie around the record than other records do.", "examples"
        ),
        "embedding": AttackEntry(
            by_embedding,
            "Whether the record is one of those behind the shared images' mean embedding under the broadcast model.",
            "examples",
        ),
        "mixture": AttackEntry(
            by_mixture, "Whether the record is one of the few that a shared image is an average of.", "examples"
        ),
        "loss": AttackEntry(
            by_loss, "How much surer of the record the client's model is than the broadcast one.", "model"
        ),
        "tracing": AttackEntry(
            by_tracing, "Whether the record is one of those behind the sums that were sent, noise and all.", "sums"
        ),
    }
)
