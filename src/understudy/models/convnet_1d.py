"""The ConvNet for sequences: that of `models.convnet` with one axis less.

Each block is conv3 → GroupNorm with one group per channel → ReLU → average pool by 2. As there, the norm sees one
record at a time, so the network can be trained privately.
"""

from pydantic import Field
from torch import nn

from understudy.base_settings import Settings
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.models.classifier import Classifier
from understudy.models.zoo import model


class ConvNet1dSettings(Settings):
    width: int = Field(default=64, ge=1)  # channels of every block
    depth: int = Field(default=3, ge=1)  # number of blocks; each halves the length


@model("convnet-1d", settings=ConvNet1dSettings, takes=("sequence",))
def convnet_1d(problem: Problem, settings: ConvNet1dSettings) -> nn.Module:
    """ConvNet for sequences (channels, steps): three blocks of 64 channels, one linear layer."""
    channels, steps = problem.shape
    if steps >> settings.depth < 1:
        raise UserError(
            f"Model 'convnet-1d' halves a sequence {settings.depth} times, but the records have only {steps} steps; "
            "write a smaller model.depth, or use 'mlp'."
        )
    layers: list[nn.Module] = []
    for block in range(settings.depth):
        layers += [
            nn.Conv1d(channels if block == 0 else settings.width, settings.width, 3, padding=1),
            nn.GroupNorm(settings.width, settings.width),
            nn.ReLU(),
            nn.AvgPool1d(2),
        ]
    features = settings.width * (steps >> settings.depth)
    return Classifier(nn.Sequential(*layers, nn.Flatten()), nn.Linear(features, problem.classes))
