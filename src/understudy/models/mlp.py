"""Networks that take a record as one row of numbers, whatever its shape."""

import math
from typing import Annotated

from pydantic import Field
from torch import nn

from understudy.base_settings import NoSettings, Settings
from understudy.data.kinds import NUMBERS
from understudy.data.problem import Problem
from understudy.models.classifier import Classifier
from understudy.models.zoo import model


class MlpSettings(Settings):
    # units of each hidden layer
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(200, 200), min_length=1)


@model("mlp", settings=MlpSettings, takes=NUMBERS, together=8)
def mlp(problem: Problem, settings: MlpSettings) -> nn.Module:
    """Hidden layers with ReLU, 200 and 200 by default; takes records of any shape."""
    size = math.prod(problem.shape)
    layers: list[nn.Module] = [nn.Flatten()]
    for hidden in settings.hidden:
        layers += [nn.Linear(size, hidden), nn.ReLU()]
        size = hidden
    return Classifier(nn.Sequential(*layers), nn.Linear(size, problem.classes))


@model("softmax", takes=NUMBERS, together=16)
def softmax(problem: Problem, _: NoSettings) -> nn.Module:
    """Softmax regression: one linear layer, a convex problem; takes records of any shape."""
    return Classifier(nn.Flatten(), nn.Linear(math.prod(problem.shape), problem.classes))
