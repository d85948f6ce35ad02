"""A diffusion model."""

from understudy.synthesis.diffusion.diffusion import Diffusion

__all__ = ["Diffusion"]
