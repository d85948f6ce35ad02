"""The network that draws images: its sizes, its scaling, and inversion through it."""

import pytest
import torch
from torch import nn

from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.randomness import generator
from understudy.synthesis.image_network import ImageNetwork, new_image_network
from understudy.synthesis.inversion import Inversion, invert_by_network

GREY = Problem(shape=(1, 5, 6), classes=3, mean=(0.5,), std=(0.25,))


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 5, 6), (4, 9, 3), (2, 1, 1)])
def test_any_size_and_any_number_of_channels(shape: tuple[int, ...]) -> None:
    pixels = new_image_network(Problem(shape=shape, classes=2), generator(0)).pixels(torch.randn(2, 256))
    assert pixels.shape == (2, *shape)
    assert 0 <= pixels.min() <= pixels.max() <= 1


def test_the_published_network_at_32_by_32_has_so_many_parameters() -> None:
    # linear 256·8192 + 8192; BatchNorm 2·128; conv 128·128·9, BN 2·128; conv 128·64·9, BN 2·64; conv 64·3·9 + 3.
    counted = sum(p.numel() for p in ImageNetwork(Problem(shape=(3, 32, 32), classes=10)).parameters())
    by_hand = (256 * 8192 + 8192) + 2 * 128 + (128 * 128 * 9 + 2 * 128) + (128 * 64 * 9 + 2 * 64) + (64 * 3 * 9 + 3)
    assert counted == by_hand


def test_pixels_are_scaled_as_the_classifier_was_taught() -> None:
    # (pixel − 0.5) / 0.25
    network, z = new_image_network(GREY, generator(0)), torch.randn(3, 256)
    assert torch.allclose(network(z), (network.pixels(z) - 0.5) * 4)
    plain = new_image_network(Problem(shape=(1, 5, 6), classes=3), generator(0))
    assert torch.equal(plain(z), plain.pixels(z))


def test_the_weights_come_from_the_generator_alone() -> None:
    before = torch.random.get_rng_state()
    one, same, other = (new_image_network(GREY, generator(word)).linear.weight for word in ("a", "a", "b"))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_records_that_are_no_images_are_refused() -> None:
    with pytest.raises(UserError, match=r"shape \(7,\)"):
        ImageNetwork(Problem(shape=(7,), classes=2))


def classifier(seed: int = 0) -> Network:
    def build() -> nn.Module:
        return Classifier(nn.Sequential(nn.Flatten(), nn.Linear(30, 8), nn.Tanh()), nn.Linear(8, 3))

    return Network(build, GREY, seed=seed)


def drawn(net: Network, steps: int, previous: Network | None = None, disagreement: float = 0.0) -> torch.Tensor:
    labels, rng = torch.tensor([0, 0, 1, 1, 2, 2]), generator("z")
    return invert_by_network(net, labels, rng, previous, Inversion(steps, lr=0.01, disagreement=disagreement))


def test_network_and_noise_learn_to_please_the_classifier() -> None:
    net = classifier()
    x = drawn(net, 25)
    assert not x.requires_grad
    assert torch.equal(net.logits(x).argmax(1), torch.tensor([0, 0, 1, 1, 2, 2]))
    assert x.min() >= -2 - 1e-5  # the pixel 0
    assert x.max() <= 2 + 1e-5  # the pixel 1
    assert torch.equal(net.vector, net.initial())
    assert all(p.requires_grad for p in net.module.parameters())


def test_it_is_made_anew_each_time_and_hears_the_disagreement() -> None:
    net, other = classifier(), classifier(1)
    assert torch.equal(drawn(net, 3, other, 1.0), drawn(net, 3, other, 1.0))
    assert not torch.equal(drawn(net, 3, other, 1.0), drawn(net, 3))
