"""The ConvNet of the dataset-condensation family (FedDM, FedLAP), and a smaller one for tiny images.

Each block is conv3×3 → GroupNorm with one group per channel → ReLU → average pool by 2. The norm sees one
record at a time and has no running statistics, so only weights ever need averaging or protecting.
"""

from pydantic import Field
from torch import nn

from understudy.base_settings import Settings
from understudy.data.problem import Problem
from understudy.models.classifier import Classifier, image_shape
from understudy.models.zoo import model


class ConvNetSettings(Settings):
    width: int = Field(default=128, ge=1)  # channels of every block
    depth: int = Field(default=3, ge=1)  # number of blocks; each halves the side


class SmallConvNetSettings(Settings):
    width: int = Field(default=32, ge=1)  # channels of every block


@model("convnet", settings=ConvNetSettings, takes=("image",), fast="compiled", repays_after=10_000)
def convnet(problem: Problem, settings: ConvNetSettings) -> nn.Module:
    """ConvNet: three blocks of 128 channels, one linear layer on 2048 features (FedDM, FedLAP)."""
    smaller = "'small-convnet', or a smaller depth"
    shape = image_shape(problem, "convnet", smallest=2**settings.depth, instead=smaller)
    return _of_blocks(problem, shape, settings.width, settings.depth)


@model("small-convnet", settings=SmallConvNetSettings, takes=("image",), fast="compiled", repays_after=300_000)
def small_convnet(problem: Problem, settings: SmallConvNetSettings) -> nn.Module:
    """Two blocks of 32 channels, for images of 8×8 to 14×14 pixels: 128 to 288 features."""
    shape = image_shape(problem, "small-convnet", smallest=4, instead="'mlp'")
    return _of_blocks(problem, shape, settings.width, depth=2)


def _of_blocks(problem: Problem, shape: tuple[int, int, int], width: int, depth: int) -> nn.Module:
    channels, high, wide = shape
    # 28×28 is made 32×32 by the first convolution's padding, as the condensation papers do.
    grown = 4 if depth > 2 and (high, wide) == (28, 28) else 0
    layers: list[nn.Module] = []
    for block in range(depth):
        padding = 1 + grown // 2 if block == 0 else 1
        layers += [
            nn.Conv2d(channels if block == 0 else width, width, 3, padding=padding),
            nn.GroupNorm(width, width),
            nn.ReLU(),
            nn.AvgPool2d(2),
        ]
    features = width * ((high + grown) >> depth) * ((wide + grown) >> depth)
    return Classifier(nn.Sequential(*layers, nn.Flatten()), nn.Linear(features, problem.classes))
