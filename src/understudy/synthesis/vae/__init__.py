"""A variational autoencoder."""

from understudy.synthesis.vae.vae import Vae

__all__ = ["Vae"]
