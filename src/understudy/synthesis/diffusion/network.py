"""The U-Net of `diffusers` as in Fedssyn's diffusion code, for images of any small size.

Residual blocks, also where sides are halved and doubled; the time step scales and shifts what a block normalises; the
label's embedding is added to that of the time step. As published, the last layer of each block, of each attention and
of the whole network starts at zero.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn

from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.synthesis.diffusion.schedule import library
from understudy.synthesis.diffusion.settings import DiffusionSettings
from understudy.synthesis.image_layout import image_shape_for


class Frame:
    """How images are presented to the network: with a border, so that sides can be halved at every level, and folded if
    they are large, so that a square of pixels becomes the channels of one."""

    def __init__(self, problem: Problem, levels: int, largest: int):
        shape = image_shape_for(problem, "diffusion")
        self.channels, self.high, self.wide = shape
        self.fold = -(-max(shape[1:]) // largest)
        halvings = 2 ** (levels - 1)
        if halvings * self.fold > min(shape[1:]):
            raise UserError(
                f"Generator 'diffusion' cannot halve images of {self.high}×{self.wide} pixels {levels - 1} times "
                f"(folded by {self.fold}); set fewer multipliers or a larger full_size."
            )
        unit = halvings * self.fold
        self.rows, self.columns = (-(-side // unit) * unit for side in (self.high, self.wide))  # with the border

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape that the network sees."""
        return self.channels * self.fold**2, self.rows // self.fold, self.columns // self.fold

    def put_on(self, x: Tensor) -> Tensor:
        """Folds images and repeats the pixels at the edge as a border."""
        bordered = x[:, :, _repeated(self.high, self.rows)][..., _repeated(self.wide, self.columns)]
        channels, rows, columns = self.shape
        squares = bordered.reshape(len(x), self.channels, rows, self.fold, columns, self.fold)
        return squares.permute(0, 1, 3, 5, 2, 4).reshape(len(x), channels, rows, columns)

    def take_off(self, x: Tensor) -> Tensor:
        above, left = (self.rows - self.high) // 2, (self.columns - self.wide) // 2
        _, rows, columns = self.shape
        squares = x.reshape(len(x), self.channels, self.fold, self.fold, rows, columns)
        unfolded = squares.permute(0, 1, 4, 2, 5, 3).reshape(len(x), self.channels, self.rows, self.columns)
        return unfolded[:, :, above : above + self.high, left : left + self.wide]


def _repeated(side: int, wanted: int) -> Tensor:
    """Which row each of ``wanted`` rows is taken from."""
    return (torch.arange(wanted) - (wanted - side) // 2).clamp(0, side - 1)


def build(settings: DiffusionSettings, frame: Frame, classes: int, private: bool = False) -> nn.Module:
    """Drawn from torch's global stream; a private network has no dropout and does not mix records."""
    levels = len(settings.multipliers)
    low, high = settings.attention
    channels, rows, columns = frame.shape
    sides = [max(rows, columns) // 2**level for level in range(levels)]
    attends = [low <= side <= high for side in sides]
    net: nn.Module = library().UNet2DModel(
        in_channels=channels,
        out_channels=channels,
        down_block_types=tuple("AttnDownBlock2D" if yes else "ResnetDownsampleBlock2D" for yes in attends),
        up_block_types=tuple("AttnUpBlock2D" if yes else "ResnetUpsampleBlock2D" for yes in reversed(attends)),
        block_out_channels=tuple(settings.width * m for m in settings.multipliers),
        layers_per_block=settings.blocks,
        downsample_type="resnet",
        upsample_type="resnet",
        resnet_time_scale_shift="scale_shift",
        attention_head_dim=settings.head,
        norm_num_groups=settings.groups,
        attn_norm_num_groups=settings.groups,
        dropout=0.0 if private else settings.dropout,
        num_class_embeds=classes,
    )
    _begin_at_nought(net)
    if private:
        _spell_out_attention(net)
    return net


def predict(net: Any, noisy: Tensor, t: Tensor, labels: Tensor) -> Tensor:
    """``net``: the U-Net, or a function that calls it at other weights."""
    return cast(Tensor, net(noisy, t, labels, return_dict=False)[0])


def _begin_at_nought(net: nn.Module) -> None:
    last: list[nn.Module] = [net.get_submodule("conv_out")]
    for layer in net.modules():
        if type(layer).__name__ == "ResnetBlock2D":
            last.append(layer.get_submodule("conv2"))
        elif type(layer).__name__ == "Attention":
            last.append(layer.get_submodule("to_out.0"))
    for layer in last:
        for p in layer.parameters():
            nn.init.zeros_(p)


def _spell_out_attention(net: nn.Module) -> None:
    """torch's own attention does not work record by record (``vmap``); products and a softmax do."""
    from diffusers.models.attention_processor import AttnProcessor

    for layer in net.modules():
        if type(layer).__name__ == "Attention":
            layer.set_processor(AttnProcessor())  # type: ignore[operator]
