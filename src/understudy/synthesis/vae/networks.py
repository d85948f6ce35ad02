"""Encoder and decoder of the β-VAE, for images of 8×8 to 64×64 pixels and for rows of numbers.

At 64×64 they are the published ones: four 4×4 convolutions of stride 2 with 32 channels, then 256 and 256. Smaller
images get fewer stages, so that a map of at least 4×4 is left; a side that does not halve evenly is padded with black
and cropped again in the output. Rows have the dense layers alone.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from understudy.synthesis.image_layout import ImageLayout
from understudy.synthesis.vae.rows import LEAST_SPREAD


class Encoder(nn.Module):
    """Pixels between 0 and 1, and encoded labels -> mean and log-variance of the latent."""

    def __init__(self, layout: ImageLayout, told: int, latent: int, width: int, hidden: int) -> None:
        super().__init__()
        self.layout = layout
        convolutions: list[nn.Module] = []
        for stage in range(layout.stages):
            channels = layout.channels if stage == 0 else width
            convolutions += [nn.Conv2d(channels, width, 4, stride=2, padding=1), nn.ReLU()]
        self.convolutions = nn.Sequential(*convolutions, nn.Flatten())
        self.dense = nn.Sequential(
            *[nn.Linear(width * layout.rows * layout.columns + told, hidden), nn.ReLU()],
            *[nn.Linear(hidden, hidden), nn.ReLU()],
            nn.Linear(hidden, 2 * latent),
        )
        self.apply(_he_start)

    def forward(self, x: Tensor, told: Tensor) -> tuple[Tensor, Tensor]:
        padded = functional.pad(x, (0, self.layout.beside, 0, self.layout.below))
        found = self.dense(torch.cat([self.convolutions(padded), told], 1))
        mean, log_variance = found.chunk(2, 1)
        return mean, log_variance


class Decoder(nn.Module):
    """Latent and encoded labels -> logits of the pixels; the encoder mirrored."""

    def __init__(self, layout: ImageLayout, told: int, latent: int, width: int, hidden: int) -> None:
        super().__init__()
        self.layout = layout
        self.dense = nn.Sequential(
            *[nn.Linear(latent + told, hidden), nn.ReLU()],
            *[nn.Linear(hidden, hidden), nn.ReLU()],
            *[nn.Linear(hidden, width * layout.rows * layout.columns), nn.ReLU()],
            nn.Unflatten(1, (width, layout.rows, layout.columns)),
        )
        convolutions: list[nn.Module] = []
        for _ in range(layout.stages - 1):
            convolutions += [nn.ConvTranspose2d(width, width, 4, stride=2, padding=1), nn.ReLU()]
        convolutions.append(nn.ConvTranspose2d(width, layout.channels, 4, stride=2, padding=1))
        self.convolutions = nn.Sequential(*convolutions)
        self.apply(_he_start)

    def forward(self, z: Tensor, told: Tensor) -> Tensor:
        grown: Tensor = self.convolutions(self.dense(torch.cat([z, told], 1)))
        return grown[:, :, : self.layout.high, : self.layout.wide]


class RowEncoder(nn.Module):
    """Rows of numbers, and encoded labels -> mean and log-variance of the latent."""

    def __init__(self, row: int, told: int, latent: int, hidden: int) -> None:
        super().__init__()
        self.dense = _dense(row + told, hidden, 2 * latent)
        self.apply(_he_start)

    def forward(self, x: Tensor, told: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.dense(torch.cat([x, told], 1)).chunk(2, 1)
        return mean, log_variance


class RowDecoder(nn.Module):
    """Latent and encoded labels -> (n, 2, row): what to expect at each place of a row, and ln σ there."""

    def __init__(self, row: int, told: int, latent: int, hidden: int) -> None:
        super().__init__()
        self.dense = _dense(latent + told, hidden, row)
        self.log_spread = nn.Parameter(torch.zeros(row))
        self.apply(_he_start)

    def forward(self, z: Tensor, told: Tensor) -> Tensor:
        middle = self.dense(torch.cat([z, told], 1))
        return torch.stack([middle, self.log_spread.clamp(min=LEAST_SPREAD).expand_as(middle)], 1)


class Autoencoder(nn.Module):
    """Both, so that a record's gradient is clipped as a whole; ``noise``: (n, latent), standard normal.

    ``layout``: of images, or how many numbers are in a row.
    """

    encoder: Encoder | RowEncoder
    decoder: Decoder | RowDecoder

    def __init__(self, layout: ImageLayout | int, told: int, latent: int, width: int, hidden: int) -> None:
        super().__init__()
        if isinstance(layout, int):
            self.encoder = RowEncoder(layout, told, latent, hidden)
            self.decoder = RowDecoder(layout, told, latent, hidden)
        else:
            self.encoder = Encoder(layout, told, latent, width, hidden)
            self.decoder = Decoder(layout, told, latent, width, hidden)

    def forward(self, x: Tensor, told: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The decoder's outputs; mean and log-variance of the latent."""
        mean, log_variance = self.encoder(x, told)
        return self.decoder(mean + noise * (log_variance / 2).exp(), told), mean, log_variance


def _dense(first: int, hidden: int, last: int) -> nn.Sequential:
    layers = [nn.Linear(first, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, last)]
    return nn.Sequential(*layers)


def _he_start(layer: nn.Module) -> None:
    """He's initialisation; torch's own is so small that the first epochs are wasted."""
    if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
        nn.init.kaiming_normal_(layer.weight)
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
