"""Networks as people bring them, in the style of torchvision, timm and tutorials."""

from collections import OrderedDict

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.conv(x)) + x)


class ResNetStyle(nn.Module):
    """torchvision's resnet: a stem, stages, `avgpool`, `torch.flatten`, `fc`."""

    def __init__(self, classes: int = 3, width: int = 4):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width)
        self.layer1 = nn.Sequential(Block(width), Block(width))
        self.avgpool = nn.AdaptiveAvgPool2d(2)
        self.fc = nn.Linear(4 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer1(F.relu(self.bn1(self.conv1(x))))
        logits: Tensor = self.fc(torch.flatten(self.avgpool(x), 1))
        return logits


class VggStyle(nn.Module):
    """torchvision's vgg: `features` is a chain of layers, `classifier` ends with the head, after dropout."""

    def __init__(self, classes: int = 3):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Sequential(
            nn.Linear(64, 8), nn.ReLU(), nn.Dropout(0.5), nn.Sequential(nn.Linear(8, classes))
        )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(x).flatten(1))
        return logits


class SwinStyle(nn.Module):
    """torchvision's swin_t: it has `features` and `head`, but a norm and a pool between them."""

    def __init__(self, classes: int = 3):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU())
        self.norm, self.head = nn.GroupNorm(2, 4), nn.Linear(4, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(self.features(x)).mean((2, 3)))
        return logits


class VitStyle(nn.Module):
    """torchvision's vit: weights of its own beside its layers, and `heads` with one layer `head` in it."""

    def __init__(self, classes: int = 3):
        super().__init__()
        self.class_token = nn.Parameter(torch.full((1, 1, 8), 0.1))
        self.embed = nn.Conv2d(1, 8, 4, stride=4)
        self.mixer = nn.Linear(8, 8)
        self.heads = nn.Sequential(OrderedDict(head=nn.Linear(8, classes)))

    def forward(self, x: Tensor) -> Tensor:
        patches = self.embed(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(x), -1, -1), patches], 1)
        logits: Tensor = self.heads(torch.tanh(self.mixer(tokens)).mean(1))
        return logits


class TimmStyle(nn.Module):
    """timm: `forward_features`, then `forward_head`, which can stop before the classifier."""

    def __init__(self, classes: int = 3):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(1, 6, 4, stride=4), nn.GroupNorm(2, 6)
        self.head_drop, self.last = nn.Dropout(0.2), nn.Linear(6, classes)
        self.head = nn.Linear(6, 1)  # another head than the one that is asked for

    def get_classifier(self) -> nn.Module:
        return self.last

    def forward_features(self, x: Tensor) -> Tensor:
        found: Tensor = self.norm(self.stem(x))
        return found

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        x = self.head_drop(x.mean((2, 3)))
        return x if pre_logits else self.last(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(x))


class Tutorial(nn.Module):
    """As in torch's first tutorial: three Linear layers, and nothing else says which is the last."""

    def __init__(self, classes: int = 3):
        super().__init__()
        self.conv1, self.pool = nn.Conv2d(1, 4, 3), nn.MaxPool2d(2)
        self.fc1, self.fc2, self.fc3 = nn.Linear(36, 12), nn.Linear(12, 8), nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(F.relu(self.conv1(x))).flatten(1)
        logits: Tensor = self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))
        return logits


def plain_sequential(classes: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, classes))


def nested_sequential(classes: int = 3) -> nn.Sequential:
    body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten())
    return nn.Sequential(body, nn.Sequential(nn.Linear(144, 8), nn.Tanh(), nn.Linear(8, classes)))
