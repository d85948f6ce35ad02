"""Fedssyn's veto: near-copies of records are found before images leave, and with them a generator that overfits.

What is near is calibrated on records that the generator did not see (`synthesis.duplicates`): those outside its share
ρ, and the client's held-out ones. How many near-copies there were leaves with the images; of a generator that made too
many (``veto: stop``) only a code leaves, and the numbers stay in the site's log.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.kinds import of_shape, stand_ins
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.methods.fedssyn.settings import FedssynSettings
from understudy.methods.shared.imitation import SeenAndUnseen
from understudy.synthesis.duplicates import near_copies


class Overfit(UserError):
    """A generator copies its records."""

    code = "overfit"


def after_veto(
    settings: FedssynSettings,
    client: Client,
    made: Examples,
    shares: SeenAndUnseen,
    features: Callable[[Tensor], Tensor],
) -> tuple[Examples, Tensor | None]:
    """The images to send, and how many of all images were near-copies of records, out of how many."""
    if settings.veto is None:
        return made, None
    unseen = torch.cat([shares.unseen.x, client.held_out.x])
    near = near_copies(made.x, shares.seen.x, unseen, features=features if settings.veto_space == "features" else None)
    found, kind = int(near.sum()), of_shape(tuple(made.x.shape[1:]), made.x.dtype == torch.int32)
    if settings.veto == "stop" and found > settings.veto_share * len(made):
        raise Overfit(
            f"The generator copies records: {found} of {len(made)} {stand_ins(kind)} are near-copies, above the share "
            f"{settings.veto_share:g} of with.fedssyn.veto_share; train it for fewer epochs, or on more records."
        )
    kept = made if settings.veto == "flag" else made.take(torch.nonzero(~near).flatten())
    return kept, torch.tensor([found, len(made)])
