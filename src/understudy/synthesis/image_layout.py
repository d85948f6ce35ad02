"""How a convolutional network halves images of 8×8 to 64×64 pixels, and doubles them again."""

from understudy.data.problem import Problem
from understudy.errors import UserError

SMALLEST_SIDE, LARGEST_SIDE = 8, 64


class ImageLayout:
    """How often the sides are halved, and their size after that."""

    def __init__(self, channels: int, high: int, wide: int) -> None:
        self.channels, self.high, self.wide = channels, high, wide
        self.stages = max(1, (min(self.high, self.wide) // 4).bit_length() - 1)
        step = 2**self.stages
        self.rows, self.columns = -(-self.high // step), -(-self.wide // step)
        self.below, self.beside = self.rows * step - self.high, self.columns * step - self.wide


def layout_of(problem: Problem, generator: str) -> ImageLayout:
    return ImageLayout(*image_shape_for(problem, generator))


def image_shape_for(problem: Problem, generator: str) -> tuple[int, ...]:
    """Channels, height and width, or an error if ``generator`` cannot make such records."""
    shape = problem.shape
    if len(shape) != 3 or not SMALLEST_SIDE <= min(shape[1:]) <= max(shape[1:]) <= LARGEST_SIDE:
        raise UserError(
            f"Generator '{generator}' makes images (channels, height, width) of "
            f"{SMALLEST_SIDE} to {LARGEST_SIDE} pixels per side, but the records have shape {shape}; "
            f"resize them or use another generator."
        )
    return shape
