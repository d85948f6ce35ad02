"""A conditional GAN."""

from understudy.synthesis.gan.gan import ConditionalGan as ConditionalGan
