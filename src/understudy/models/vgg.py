"""VGG-11 as Fedssyn trains it: no normalisation, dropout in the classifier."""

import math

from pydantic import Field
from torch import nn

from understudy.base_settings import Settings
from understudy.data.problem import Problem
from understudy.models.classifier import Classifier, image_shape
from understudy.models.zoo import model

STAGES = ((64,), (128,), (256, 256), (512, 512), (512, 512))  # each ends with a max pool
HIDDEN = 512


class VggSettings(Settings):
    dropout: float = Field(default=0.5, ge=0, lt=1)  # share of units dropped before each hidden dense layer


@model("vgg11", settings=VggSettings, takes=("image",))
def vgg11(problem: Problem, settings: VggSettings) -> nn.Module:
    """VGG-11 without batch norm, dropout 0.5 before both hidden layers (Fedssyn)."""
    channels, high, wide = image_shape(problem, "vgg11", smallest=32, instead="'convnet'")
    layers: list[nn.Module] = []
    for stage in STAGES:
        for out in stage:
            layers += [_convolution(channels, out), nn.ReLU()]
            channels = out
        layers.append(nn.MaxPool2d(2))
    flat = channels * (high >> len(STAGES)) * (wide >> len(STAGES))
    classifier = [
        nn.Flatten(),
        *[nn.Dropout(settings.dropout), nn.Linear(flat, HIDDEN), nn.ReLU()],
        *[nn.Dropout(settings.dropout), nn.Linear(HIDDEN, HIDDEN), nn.ReLU()],
    ]
    return Classifier(nn.Sequential(*layers, *classifier), nn.Linear(HIDDEN, problem.classes))


def _convolution(channels: int, out: int) -> nn.Conv2d:
    layer = nn.Conv2d(channels, out, 3, padding=1)
    nn.init.normal_(layer.weight, 0.0, math.sqrt(2 / (3 * 3 * out)))
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer
