"""A diffusion model."""

from understudy.synthesis.diffusion.diffusion import Diffusion as Diffusion
