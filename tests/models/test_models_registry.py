"""Networks by name."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from understudy.base_settings import NoSettings
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.models import zoo as registry
from understudy.models.classifier import Classifier
from understudy.models.zoo import entry, model, names

ALL = ["cifar100-cnn", "convnet", "mlp", "resnet18", "simple-cnn", "small-convnet", "softmax", "vgg11"]


@pytest.fixture
def untouched() -> Iterator[None]:
    """What a test registers is forgotten after it."""
    before = dict(registry._entries)
    yield
    registry._entries.clear()
    registry._entries.update(before)


def test_every_network_is_found_without_importing_its_file() -> None:
    assert set(ALL) <= set(names())


def test_an_unknown_name_is_answered_with_the_closest_and_the_list() -> None:
    with pytest.raises(UserError, match=r"no model 'conv-net'\. Did you mean 'convnet'\?.*mlp.*vgg11"):
        entry("conv-net")


@pytest.mark.parametrize("name", ALL)
def test_each_entry_says_what_it_is_and_whether_compiling_pays(name: str) -> None:
    found = entry(name)
    assert found.name == name
    assert len(found.about) > 20
    assert (found.repays_after > 0) == (found.fast == "compiled")


@pytest.mark.parametrize("name", ALL)
def test_forward_is_the_head_of_the_features(name: str) -> None:
    found = entry(name)
    net = found.build(Problem(shape=(3, 32, 32), classes=7), found.settings()).eval()
    assert isinstance(net, Classifier)
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    features = net.features(x)
    assert features.ndim == 2
    assert len(features) == 2
    assert net(x).shape == (2, 7)
    assert torch.equal(net(x), net.head(features))


@pytest.mark.parametrize("name", ALL)
def test_only_batch_norm_would_bring_buffers_and_no_network_has_it_by_default(name: str) -> None:
    found = entry(name)
    net = found.build(Problem(shape=(3, 32, 32), classes=10), found.settings())
    assert not list(net.buffers())


@pytest.mark.usefixtures("untouched")
def test_a_network_of_ones_own_is_registered_by_its_decorator() -> None:
    @model("mean-pixel")
    def mean_pixel(problem: Problem, _: NoSettings) -> nn.Module:
        """The mean of all pixels."""
        return Classifier(nn.Flatten(), nn.Linear(4, problem.classes))

    assert entry("mean-pixel").build is mean_pixel
    assert entry("mean-pixel").about == "The mean of all pixels."
    assert entry("mean-pixel").settings is NoSettings


@pytest.mark.usefixtures("untouched")
def test_a_name_that_is_taken_is_refused() -> None:
    entry("mlp")
    with pytest.raises(UserError, match="already a model 'mlp'"):

        @model("mlp")
        def another(_: Problem, __: NoSettings) -> nn.Module:
            return nn.Identity()
