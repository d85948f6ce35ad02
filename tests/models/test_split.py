"""Any module as a network: where its head is found, that nothing about it changes, and what is refused."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from own_networks import (
    ResNetStyle,
    SwinStyle,
    TimmStyle,
    Tutorial,
    VggStyle,
    VitStyle,
    nested_sequential,
    plain_sequential,
)
from torch import Tensor, nn
from torch.nn import functional as F

import understudy as us
from understudy.config.resolve import resolve
from understudy.config.schema import Live
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.models.fitness import fitted
from understudy.models.network import Network
from understudy.models.split import SplitNetwork
from understudy.privacy.gradients import clipped_gradient_sum
from understudy.randomness import generator
from understudy.runs.play import play
from understudy.runs.watching import Observer

PROBLEM = Problem(shape=(1, 8, 8), classes=3)
X = torch.randn(6, 1, 8, 8, generator=generator("x"))
Y = torch.tensor([0, 1, 2, 0, 1, 2])
HEADS: list[tuple[Callable[[], nn.Module], str]] = [
    (ResNetStyle, "fc"),
    (VggStyle, "classifier.3.0"),
    (SwinStyle, "head"),
    (VitStyle, "heads.head"),
    (TimmStyle, "last"),
    (Tutorial, "fc3"),
    (plain_sequential, "4"),
    (nested_sequential, "1.2"),
]
NAMES = [head for _, head in HEADS]


@pytest.mark.parametrize(("build", "head"), HEADS, ids=NAMES)
def test_the_head_is_found_and_the_rest_are_features(build: Callable[[], nn.Module], head: str) -> None:
    module = build().eval()
    network = fitted(module, PROBLEM)
    assert isinstance(network, SplitNetwork)
    assert network.head_name == head
    assert network.head is module.get_submodule(head)
    with torch.no_grad():
        features = network.features(X)
        assert torch.equal(network.head(features), module(X))
    assert features.shape == (6, network.head.in_features)


def test_of_two_layers_that_could_be_the_head_one_must_be_named() -> None:
    module = Tutorial()
    module.fc, module.classifier = nn.Linear(8, 3), nn.Linear(8, 3)
    with pytest.raises(UserError, match=r'several .* us.split\(network, head="fc" or head="classifier"\)'):
        us.split(module)
    assert us.split(module, head="fc3").head_name == "fc3"


@pytest.mark.parametrize(("build", "head"), HEADS, ids=NAMES)
def test_names_order_and_values_of_weights_are_the_modules_own(build: Callable[[], nn.Module], head: str) -> None:
    """So what a run saves loads into the module as it is, nothing missing and nothing else."""
    module = build()
    before = copy.deepcopy(module.state_dict())
    assert list(us.split(module, head).state_dict()) == list(before)
    net = Network(lambda: fitted(copy.deepcopy(module), PROBLEM), PROBLEM)
    saved = net.named(net.initial() + 1)
    assert set(saved) == set(before)
    module.load_state_dict(saved)
    counted = {name: int("num_batches" not in name) for name in before}
    assert all(torch.equal(module.state_dict()[name], before[name] + counted[name]) for name in before)


@pytest.mark.parametrize(("build", "head"), HEADS, ids=NAMES)
def test_a_split_network_is_the_same_function_of_its_flat_vector(build: Callable[[], nn.Module], head: str) -> None:
    module = build()
    net = Network(lambda: fitted(copy.deepcopy(module), PROBLEM), PROBLEM)
    other = net.initial() + 0.01 * torch.randn(net.size, generator=generator("other"))
    module.load_state_dict(net.named(other), strict=False)
    with torch.no_grad():
        module.eval()
        net.load(other)
        assert torch.allclose(net.logits(X), module(X), atol=1e-6)
        net.module.eval()
        assert torch.allclose(net.at(other, X)[1], module(X), atol=1e-6)
    assert net.head.stop - net.head.start == sum(p.numel() for p in module.get_submodule(head).parameters())


@pytest.mark.parametrize("build", [SwinStyle, VitStyle, Tutorial, nested_sequential])
def test_clipped_gradients_of_single_records_are_those_of_the_module(build: Callable[[], nn.Module]) -> None:
    module = build()
    net = Network(lambda: fitted(copy.deepcopy(module), PROBLEM), PROBLEM)
    found = clipped_gradient_sum(net, X, Y, clip=0.5)
    total = torch.zeros(net.parameters)
    for x, y in zip(X, Y, strict=True):  # the slow way, over the user's module
        module.zero_grad()
        F.cross_entropy(module(x[None]), y[None]).backward()  # type: ignore[no-untyped-call]
        named = dict(module.named_parameters())
        gradient = torch.cat([named[name].grad.flatten() for name in net.trained])  # type: ignore[union-attr]
        total += gradient * min(1.0, 0.5 / float(gradient.norm()))
    assert torch.allclose(found, total, atol=1e-5)


METHODS: list[dict[str, Any]] = [
    {"name": "fedavg"},
    {"name": "fedrep"},
    {"name": "fedpvr", "block": "fully-connected"},
    {"name": "moon"},
    {"name": "feddecorr"},
    {"name": "vhl", "noise_images": 8},
    {"name": "feddm", "ipc": 1, "steps": 2, "server": {"epochs": 1}},
]


@pytest.mark.parametrize("method", METHODS, ids=[str(method["name"]) for method in METHODS])
def test_methods_that_need_features_or_heads_take_it_and_a_run_tells_its_head(
    method: dict[str, Any], tmp_path: Path
) -> None:
    said: list[str] = []

    class Listening(Observer):
        def says(self, text: str) -> None:
            said.append(text)

    data = us.Federation.from_arrays({"a": (X, Y), "b": (X, Y)}, held_out=0.4)
    words = {"method": {**method, "rounds": 1}, "engine": "inline"}
    result = play(resolve(words, {}, Live(data=data, model=Tutorial())), tmp_path / "run", observer=Listening())
    assert result.metrics[-1]["failed"] == 0, result.metrics[-1]["failures"]
    assert any("The network's head is its layer 'fc3'" in text for text in said)


def test_an_own_file_may_build_any_module(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from torch import nn\n"
        "def build(problem, width=5):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, problem.classes))\n"
        "def nothing():\n    pass\n"
        "def kind(problem):\n    return nn.Linear\n"
    )
    data = us.Federation.from_arrays({"a": (X, Y)}, held_out=0.4)
    plan: dict[str, Any] = {"rounds": 1, "engine": "inline", "out": tmp_path / "run"}
    result = us.run(data=data, model={"name": f"{mine}:build", "width": 4}, **plan)
    assert result.weights["3.weight"].shape == (3, 4)
    plan["out"] = tmp_path / "other"
    with pytest.raises(UserError, match=r"nothing is called with \(problem\), which it does not take"):
        us.run(data=data, model=f"{mine}:nothing", **plan)
    with pytest.raises(UserError, match=r"kind gave the class Linear; let it return a network, Linear\("):
        us.run(data=data, model=f"{mine}:kind", **plan)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.fc = nn.Linear(64, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.fc(self.one(x.flatten(1))))
        return logits


class Softened(Tutorial):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).log_softmax(1)


class Dropped(nn.Module):
    """In evaluation mode dropout hands on its input: only training shows that something comes after the head."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.drop = nn.Linear(64, 3), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.drop(self.fc(x.flatten(1)))
        return logits


class Tupled(Tutorial):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x), x


class Masked(Tutorial):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x) * mask


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.fc = nn.Linear(64, 64), nn.Linear(64, 3)
        self.two = nn.Linear(64, 3)
        self.two.weight = self.fc.weight

    def forward(self, x: Tensor) -> Tensor:
        x = self.one(x.flatten(1))
        logits: Tensor = self.fc(x + self.two(x).mean())
        return logits


def embedded() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Embedding(9, 2), nn.Flatten(), nn.Linear(128, 3))


def convolved() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 8), nn.Flatten())


def softened() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3), nn.Softmax(1))


def lazy() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(3))


WRONG: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: ResNetStyle(7),
        r"the head of ResNetStyle gives \(2, 7\) .* must give \(2, 3\).*: network.fc = nn.Linear\(16, 3\)\.",
    ),
    (lambda: ResNetStyle, r"model: ResNetStyle is a class; pass a network, such as ResNetStyle\(\)"),
    (lazy, r"model: layer '1' of Sequential is lazy .* network\(torch.zeros\(2, 1, 8, 8\)\)"),
    (embedded, "model: Sequential has an Embedding, which takes whole numbers, but the records are floats"),
    (convolved, 'has no Linear layer, .* us.split\\(network, head="NAME"\\)'),
    (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 3), nn.Softmax(1)),
        "ends with Softmax, not with a Linear layer",
    ),
    (Softened, "'fc3' is not the last step of Softened"),
    (Twice, "'fc' is not the last step of Twice, or is used more than once"),
    (Dropped, "'fc' is not the last step of Dropped"),
    (Tupled, "Tupled returns a tuple of 2, not a tensor of logits; wrap it"),
    (Masked, "Masked needs more than the records .*mask"),
    (Tied, "the head of Tied shares its 'weight' with another layer"),
    (lambda: Tutorial().double(), r"'conv1.weight' of Tutorial is float64, .* pass network.float\(\)"),
    (lambda: us.split(Tutorial(), head="fc1"), "'fc1' is not the last step of Tutorial"),
    (lambda: us.split(Tutorial(), head="fc4"), "no layer of Tutorial 'fc4'. Did you mean 'fc3'?"),
]


@pytest.mark.parametrize(("build", "sentence"), WRONG, ids=[sentence[:40] for _, sentence in WRONG])
def test_what_cannot_be_a_network_is_told_in_one_sentence(build: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as told:
        fitted(build(), PROBLEM)
    assert str(told.value).count("\n") == 0


def test_a_network_for_floats_is_told_that_tokens_are_whole_numbers() -> None:
    tokens = Problem((12,), 3, tokens=9)
    with pytest.raises(
        UserError, match="model: Sequential takes floats, but the records are whole numbers; begin with"
    ):
        fitted(nn.Sequential(nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 3)), tokens)
    fitted(nn.Sequential(nn.Embedding(9, 2), nn.Flatten(), nn.Linear(24, 3)), tokens)


def test_weights_that_layers_of_the_body_share_train_together_and_are_saved_under_both_names() -> None:
    class Echo(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.fc = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 3)
            self.two.weight = self.one.weight

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.fc(torch.tanh(self.two(torch.tanh(self.one(x.flatten(1))))))
            return logits

    net = Network(lambda: fitted(Echo(), PROBLEM), PROBLEM)
    assert net.size == 64 * 64 + 64 + 64 + 3 * 64 + 3
    saved = net.named(net.initial() + 1)
    assert torch.equal(saved["one.weight"], saved["two.weight"])
    Echo().load_state_dict(saved)


def test_a_module_that_was_tried_is_as_it_was() -> None:
    module, stream = plain_sequential(), torch.get_rng_state()
    before = copy.deepcopy(module.state_dict())
    network = fitted(module, PROBLEM)
    assert all(part.training for part in (network, *module.modules()))
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert torch.equal(torch.get_rng_state(), stream)
    assert module[4] is network.head


def test_one_linear_layer_is_a_network() -> None:
    flat = Problem(shape=(5,), classes=3)
    net = Network(lambda: fitted(nn.Linear(5, 3), flat), flat)
    examples = Examples(torch.randn(4, 5, generator=generator("x")), torch.tensor([0, 1, 2, 0]))
    features, logits = net(examples.x)
    assert torch.equal(features, examples.x)
    assert logits.shape == (4, 3)
    assert (net.body.stop, net.size) == (0, 18)
