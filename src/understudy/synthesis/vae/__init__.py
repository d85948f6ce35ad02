"""A variational autoencoder."""

from understudy.synthesis.vae.vae import Vae as Vae
