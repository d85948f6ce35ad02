"""How far apart two models are, and the ball around one of them."""

import torch
from torch import Tensor

PIECE = 65_536


def into_ball(w: Tensor, centre: Tensor, radius: float) -> None:
    """w ← centre + (w − centre) · min(1, ρ/‖w − centre‖), in place."""
    away = w - centre
    distance = length(away)
    back = torch.addcmul(centre, away, (radius / distance).to(w.dtype))
    w.copy_(torch.where(distance > radius, back, w))  # no wait to learn which it was


def length(v: Tensor) -> Tensor:
    """‖v‖, piece by piece: torch's single sum has a relative error of 4e-4 for the 11 million numbers of a ResNet-18.

    On the processor the pieces are combined in double precision, which other devices may lack.
    """
    pieces = torch.stack([piece.norm() for piece in torch.split(v, PIECE)])
    found: Tensor = (pieces.double() if v.device.type == "cpu" else pieces).norm()
    return found
