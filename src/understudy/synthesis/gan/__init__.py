"""A conditional GAN."""

from understudy.synthesis.gan.gan import ConditionalGan

__all__ = ["ConditionalGan"]
