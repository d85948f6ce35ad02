"""An ensemble's logits, what BatchNorm layers are surprised by, and the images that are made to please it."""

import math

import pytest
import torch
from torch import Tensor, nn

from understudy.data.problem import Problem
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.randomness import generator
from understudy.synthesis import ensemble as ensemble_room
from understudy.synthesis.ensemble import Ensemble, Generation, imagine, surprise, wish

PROBLEM = Problem(shape=(1, 4, 4), classes=2)


def linear() -> Network:
    return Network(lambda: Classifier(nn.Flatten(), nn.Linear(16, 2)), PROBLEM)


def normed() -> Network:
    def build() -> nn.Module:
        body = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten())
        return Classifier(body, nn.Linear(48, 2))

    return Network(build, PROBLEM)


def layers(net: Network) -> list[nn.Module]:
    body = net.module.body
    assert isinstance(body, nn.Sequential)
    return list(body)


def constant(first: float, second: float) -> Tensor:
    """Weights of the linear network that say this of everything."""
    return torch.cat([torch.zeros(32), torch.tensor([first, second])])


def test_the_ensemble_says_the_mean_of_its_members_logits() -> None:
    net = linear()
    before = net.vector.clone()
    ensemble = Ensemble(net, [constant(1, 0), constant(3, -2), constant(2, 5)])
    assert ensemble.logits(torch.rand(2, 1, 4, 4)).tolist() == [[2.0, 1.0], [2.0, 1.0]]
    assert ensemble.score(torch.zeros(5, 1, 4, 4, dtype=torch.uint8), batch=2).shape == (5, 2)
    assert torch.equal(net.vector, before)


def test_surprise_by_hand() -> None:
    # The layer remembers mean 0, variance 1 in both channels. It sees 1 and 3 (mean 2, variance 1) in the first and
    # 0 and 0 (mean 0, variance 0) in the second: ‖(2, 0)‖ + ‖(0, 1)‖ = 3.
    layer = nn.BatchNorm1d(2)
    assert surprise(layer, torch.tensor([[1.0, 0], [3, 0]])).item() == pytest.approx(3)
    # The same over places of images: (n, channels, height, width).
    seen = torch.tensor([[1.0, 0], [3, 0]]).T.reshape(1, 2, 2, 1)
    assert surprise(nn.BatchNorm2d(2), seen).item() == pytest.approx(3)


def test_surprise_is_summed_over_members_with_what_each_remembers() -> None:
    net = normed()
    rng = generator("members")
    members = [net.initial() + 0.1 * torch.rand(net.size, generator=rng) for _ in range(2)]
    x = torch.rand(5, 1, 4, 4, generator=rng)
    with net.frozen():
        logits, found = Ensemble(net, members).logits_and_surprise(x)
    expected = 0.0
    for member in members:
        convolution, norm = layers(net.twin(member, "alone"))[:2]
        expected += surprise(norm, convolution(x)).item()
    assert found.item() == pytest.approx(expected, rel=1e-5)
    assert not layers(net)[1]._forward_pre_hooks  # nobody listens any more
    assert torch.allclose(logits, Ensemble(net, members).score(x), atol=1e-6)


def test_without_batch_norm_nothing_surprises() -> None:
    assert Ensemble(linear(), [constant(0, 0)]).logits_and_surprise(torch.rand(2, 1, 4, 4))[1].item() == 0


def weighed(statistics: float, adversarial: float) -> Generation:
    return Generation(steps=0, lr=1.0, statistics_weight=statistics, adversarial_weight=adversarial)


def test_the_wish_by_hand() -> None:
    # The ensemble says (log 3, 0): ¾ and ¼, class 0. A student that says (0, log 3) differs everywhere:
    # KL = ¾·log(¾/¼) + ¼·log(¼/¾) = ½·log 3. Labels 0 and 1: CE = −½·(log ¾ + log ¼).
    ensemble = Ensemble(linear(), [constant(math.log(3), 0)])
    student = linear()
    x, y = torch.rand(2, 1, 4, 4), torch.tensor([0, 1])
    certain = -0.5 * (math.log(0.75) + math.log(0.25))
    student.load(constant(0, math.log(3)))
    assert wish(ensemble, student, x, y, weighed(1.0, 0.7)).item() == pytest.approx(certain - 0.7 * 0.5 * math.log(3))
    # One that agrees on the class is left alone, however far apart the chances are.
    student.load(constant(0.1, 0))
    assert wish(ensemble, student, x, y, weighed(1.0, 0.7)).item() == pytest.approx(certain)


def test_the_statistics_have_their_weight() -> None:
    net, student, x, y = normed(), normed(), torch.rand(4, 1, 4, 4), torch.tensor([0, 1, 0, 1])
    ensemble = Ensemble(net, [net.initial()])
    with net.frozen(), student.frozen():
        _, surprised = ensemble.logits_and_surprise(x)
        some, none = (wish(ensemble, student, x, y, weighed(weight, 0.0)) for weight in (0.5, 0.0))
    assert (some - none).item() == pytest.approx(0.5 * surprised.item(), rel=1e-5)


def made(steps: int, seed: str = "images") -> Tensor:
    bright = torch.cat([torch.full((16,), 1.0), torch.full((16,), -1.0), torch.zeros(2)])  # bright is 0, dark is 1
    return imagine(
        Ensemble(linear(), [bright]),
        linear(),
        8,
        generator(seed),
        Generation(steps, lr=0.01, statistics_weight=1.0, adversarial_weight=0.0),
    )


def test_images_are_bytes_and_depend_on_their_stream_alone() -> None:
    x = made(2)
    assert x.dtype == torch.uint8
    assert x.shape == (8, 1, 4, 4)
    assert torch.equal(x, made(2))
    assert not torch.equal(x, made(2, "others"))


def test_steps_make_images_that_the_ensemble_is_sure_of() -> None:
    # Of class 0 are the bright, of class 1 the dark: the images move apart.
    before, after = (made(steps).float().flatten(1).mean(1).std() for steps in (0, 40))
    assert after > 3 * before


def test_the_images_of_the_best_step_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def made_with(*losses: float) -> Tensor:
        """Images move alike whatever the losses, which are only said to be so."""
        said = iter(losses)
        monkeypatch.setattr(
            ensemble_room, "wish", lambda *given: given[2].mean() - given[2].mean().detach() + next(said)
        )
        return made(len(losses))

    best_in_the_middle = made_with(3, 1, 2)
    assert torch.equal(best_in_the_middle, made_with(3, 1))
    assert not torch.equal(best_in_the_middle, made_with(3, 2, 1))
    assert not torch.equal(best_in_the_middle, made_with(1, 2, 3))


def test_nothing_moves_but_the_images() -> None:
    net, student = normed(), normed()
    w = student.vector.clone()
    how = Generation(steps=2, lr=0.1, statistics_weight=1.0, adversarial_weight=1.0)
    imagine(Ensemble(net, [w]), student, 4, generator("x"), how)
    assert torch.equal(student.vector, w)
    assert torch.equal(net.vector, w)
    assert all(parameter.requires_grad for parameter in student.module.parameters())
