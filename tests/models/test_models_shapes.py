"""Parameter counts that the papers print or imply, and the shapes that each network takes."""

import math

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from understudy.base_settings import Settings
from understudy.data.kinds import KINDS
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.models.classifier import Classifier
from understudy.models.convnet import ConvNetSettings, SmallConvNetSettings
from understudy.models.convnet_1d import ConvNet1dSettings
from understudy.models.embedding_bag import EmbeddingBagSettings, MeanEmbedding
from understudy.models.mlp import MlpSettings
from understudy.models.network import Network
from understudy.models.resnet import ResNetSettings
from understudy.models.zoo import USUAL, check_takes, entry
from understudy.randomness import private_global_stream


def build(name: str, shape: tuple[int, ...], classes: int = 10, settings: Settings | None = None) -> Classifier:
    found = entry(name)
    net = found.build(Problem(shape=shape, classes=classes), settings or found.settings())
    assert isinstance(net, Classifier)
    return net


def parameters(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize(
    ("name", "shape", "classes", "count"),
    [
        ("convnet", (3, 32, 32), 10, 320_010),
        ("convnet", (1, 28, 28), 10, 317_706),
        ("convnet", (3, 32, 32), 100, 504_420),
        ("vgg11", (3, 32, 32), 10, 9_750_922),
        ("vgg11", (3, 32, 32), 100, 9_797_092),
        ("simple-cnn", (3, 32, 32), 10, 62_006),
        ("simple-cnn", (1, 28, 28), 10, 44_426),
        ("cifar100-cnn", (3, 32, 32), 100, 69_380),
    ],
)
def test_the_parameter_counts_of_the_papers(name: str, shape: tuple[int, ...], classes: int, count: int) -> None:
    assert parameters(build(name, shape, classes)) == count


def test_the_parameter_counts_of_the_others_by_hand() -> None:
    assert parameters(build("softmax", (1, 28, 28))) == 784 * 10 + 10
    assert parameters(build("mlp", (5,), 2, MlpSettings(hidden=(4, 3)))) == 5 * 4 + 4 + 4 * 3 + 3 + 3 * 2 + 2
    # conv + norm: 9·1·32 + 32 + 64, then 9·32·32 + 32 + 64; 8×8 leaves 2×2, 14×14 leaves 3×3.
    blocks = (9 * 32 + 32 + 64) + (9 * 32 * 32 + 32 + 64)
    assert parameters(build("small-convnet", (1, 8, 8))) == blocks + 128 * 10 + 10
    assert parameters(build("small-convnet", (1, 14, 14))) == blocks + 288 * 10 + 10


def test_the_parameter_counts_of_networks_for_sequences_and_tokens_by_hand() -> None:
    # conv + norm: 3·3·64 + 64 + 128, then twice 3·64·64 + 64 + 128; 50 steps leave 6.
    blocks = (3 * 3 * 64 + 64 + 128) + 2 * (3 * 64 * 64 + 64 + 128)
    assert parameters(build("convnet-1d", (3, 50))) == blocks + 6 * 64 * 10 + 10 == 29_578
    small = ConvNet1dSettings(width=2, depth=1)
    assert parameters(build("convnet-1d", (1, 5), 2, small)) == (3 * 2 + 2 + 4) + (2 * 2) * 2 + 2
    bag = entry("embedding-bag").build(Problem((4,), 3, tokens=7), EmbeddingBagSettings(dim=5, hidden=(2,)))
    assert parameters(bag) == 7 * 5 + (5 * 2 + 2) + (2 * 3 + 3)


def test_a_text_is_the_mean_of_its_words_and_padding_counts_for_nothing() -> None:
    mean = MeanEmbedding(4, 2)
    mean.embedding.weight.data = torch.tensor([[9.0, 9.0], [1.0, 0.0], [3.0, 4.0], [0.0, 2.0]])
    ids = torch.tensor([[1, 2, 0, 0], [2, 2, 1, 3], [0, 0, 0, 0]], dtype=torch.int32)
    assert mean(ids).tolist() == [[2, 2], [7 / 4, 10 / 4], [0, 0]]
    mean(ids)[0].sum().backward()
    assert mean.embedding.weight.grad is not None
    assert mean.embedding.weight.grad.tolist() == [[0, 0], [0.5, 0.5], [0.5, 0.5], [0, 0]]


def test_a_network_for_tokens_is_one_vector_of_body_and_head() -> None:
    problem = Problem((4,), 3, tokens=7)
    bag = entry("embedding-bag")
    net = Network(lambda: bag.build(problem, bag.settings()), problem)
    assert (net.body, net.head, net.size) == (slice(0, 448), slice(448, 448 + 195), 643)
    features, logits = net(torch.ones(2, 4, dtype=torch.int32))
    assert (features.shape, logits.shape) == ((2, 64), (2, 3))


def test_a_sequence_too_short_for_its_network_is_told() -> None:
    with pytest.raises(UserError, match=r"halves a sequence 3 times, but the records have only 7 steps; .*model.depth"):
        build("convnet-1d", (1, 7))


@pytest.mark.parametrize(
    ("name", "problem", "sentence"),
    [
        ("mlp", Problem((5,), 2, tokens=9), "takes images, vectors and sequences, but the records are tokens of shape"),
        ("mlp", Problem((5,), 2, tokens=9), "use 'embedding-bag', or write data.kind: vector if they are numbers"),
        ("small-convnet", Problem((3, 50), 2), "are sequences of shape .3, 50.; use 'convnet-1d', 'mlp', 'softmax'"),
        (
            "convnet-1d",
            Problem((30,), 2),
            "takes sequences, but the records are vectors of shape .30,.; use 'mlp', 'so",
        ),
    ],
)
def test_a_network_for_other_records_says_which_to_take(name: str, problem: Problem, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        check_takes(entry(name), problem)


def test_the_usual_network_takes_its_kind() -> None:
    assert all(kind in entry(name).takes for kind, name in USUAL.items())
    assert set(USUAL) == set(KINDS)


def test_resnet18_has_as_many_parameters_with_either_norm() -> None:
    # Convolutions of ResNet-18 with a 3×3 stem, two scalars for each of 4 800 normalised channels, the head.
    stages = [(64, 64, False), (64, 128, True), (128, 256, True), (256, 512, True)]
    convolutions = 9 * 3 * 64 + sum(9 * a * b + 27 * b * b + (a * b if cut else 0) for a, b, cut in stages)
    channels = 64 + sum(4 * b + (b if cut else 0) for _, b, cut in stages)
    expected = convolutions + 2 * channels + 512 * 10 + 10
    assert parameters(build("resnet18", (3, 32, 32))) == expected == 11_173_962
    batch = build("resnet18", (3, 32, 32), settings=ResNetSettings(norm="batch"))
    assert parameters(batch) == expected
    assert any(isinstance(layer, nn.BatchNorm2d) for layer in batch.modules())


def test_a_narrower_resnet18_has_every_stage_narrower() -> None:
    # An eighth of the channels: 512/8 = 64 features, and about a 64th of the weights.
    narrow = build("resnet18", (3, 32, 32), settings=ResNetSettings(width=8))
    assert narrow.head.in_features == 64
    assert 11_173_962 / 64 < parameters(narrow) < 11_173_962 / 63
    with pytest.raises(UserError, match="2 groups do not divide 3 channels"):
        build("resnet18", (3, 32, 32), settings=ResNetSettings(width=3))


def test_resnet18_normalises_in_two_groups_by_default() -> None:
    norms = [m for m in build("resnet18", (3, 32, 32)).modules() if isinstance(m, nn.GroupNorm)]
    assert len(norms) == 20
    assert {norm.num_groups for norm in norms} == {2}


@pytest.mark.parametrize(
    ("name", "shape", "features"),
    [
        ("convnet", (1, 28, 28), 2048),
        ("convnet", (3, 32, 32), 2048),
        ("convnet", (1, 14, 14), 128),
        ("small-convnet", (1, 8, 8), 128),
        ("small-convnet", (1, 14, 14), 288),
        ("simple-cnn", (1, 28, 28), 84),
        ("vgg11", (3, 32, 32), 512),
        ("vgg11", (3, 64, 64), 512),
        ("cifar100-cnn", (3, 32, 32), 128),
        ("resnet18", (3, 64, 64), 512),
        ("mlp", (1, 8, 8), 200),
        ("softmax", (1, 8, 8), 64),
    ],
)
def test_how_many_features_a_network_finds(name: str, shape: tuple[int, ...], features: int) -> None:
    net = build(name, shape).eval()
    assert net.features(torch.zeros(1, *shape)).shape == (1, features)


def test_width_and_depth_of_the_convnet_are_settings() -> None:
    net = build("convnet", (3, 16, 16), 10, ConvNetSettings(width=4, depth=2))
    assert parameters(net) == (27 * 4 + 4 + 8) + (36 * 4 + 4 + 8) + 4 * 4 * 4 * 10 + 10
    assert parameters(build("small-convnet", (1, 8, 8), 2, SmallConvNetSettings(width=1))) == 34


def test_the_convnet_makes_28_by_28_into_32_by_32_and_leaves_other_sizes() -> None:
    for side, grown in ((28, 32), (32, 32), (16, 16)):
        first = next(layer for layer in build("convnet", (1, side, side)).modules() if isinstance(layer, nn.Conv2d))
        assert first(torch.zeros(1, 1, side, side)).shape == (1, 128, grown, grown)


def test_each_channel_of_the_convnet_is_normalised_by_itself() -> None:
    # So no record is touched by another in its batch.
    net = build("convnet", (1, 28, 28)).eval()
    x = torch.rand(3, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(net(x)[:1], net(x[:1]))
    assert all(m.num_groups == m.num_channels for m in net.modules() if isinstance(m, nn.GroupNorm))


def test_vgg_weights_have_the_variance_of_their_fan_out() -> None:
    with private_global_stream("vgg"):
        net = build("vgg11", (3, 32, 32))
    convolutions = [m for m in net.modules() if isinstance(m, nn.Conv2d)]
    assert [c.out_channels for c in convolutions] == [64, 128, 256, 256, 512, 512, 512, 512]
    for layer in convolutions[1:]:
        assert float(layer.weight.detach().std()) == pytest.approx(math.sqrt(2 / (9 * layer.out_channels)), rel=0.02)
        assert layer.bias is not None
        assert not bool(layer.bias.any())


def test_vgg_drops_out_in_training_and_not_in_evaluation() -> None:
    net = build("vgg11", (3, 32, 32))
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(2))
    with private_global_stream("dropout"), torch.no_grad():
        assert not torch.equal(net.train()(x), net(x))
        assert torch.equal(net.eval()(x), net(x))


@pytest.mark.parametrize(
    ("name", "shape", "takes", "instead"),
    [
        ("convnet", (1, 7, 28), "at least 8×8", "small-convnet"),
        ("vgg11", (1, 28, 28), "at least 32×32", "convnet"),
        ("simple-cnn", (1, 14, 14), "at least 16×16", "small-convnet"),
        ("cifar100-cnn", (1, 14, 14), "at least 22×22", "small-convnet"),
        ("resnet18", (1, 8, 8), "at least 16×16", "small-convnet"),
        ("small-convnet", (1, 3, 3), "at least 4×4", "mlp"),
        ("convnet", (20,), "images", "mlp"),
    ],
)
def test_a_shape_that_does_not_fit_is_refused_with_a_way_out(
    name: str, shape: tuple[int, ...], takes: str, instead: str
) -> None:
    with pytest.raises(UserError) as refusal:
        build(name, shape)
    for word in (repr(name), str(shape), takes, repr(instead)):
        assert word in str(refusal.value)


@pytest.mark.parametrize(("name", "side"), [("convnet", 8), ("simple-cnn", 16), ("cifar100-cnn", 22), ("resnet18", 16)])
def test_the_smallest_image_that_is_promised_goes_through(name: str, side: int) -> None:
    net = build(name, (1, side, side)).eval()
    assert net(torch.zeros(1, 1, side, side)).shape == (1, 10)


def test_groups_that_do_not_divide_the_channels_cannot_be_asked_for() -> None:
    with pytest.raises(ValidationError):
        ResNetSettings.model_validate({"groups": 3})
