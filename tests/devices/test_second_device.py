"""The device that other tests run on: it refuses what an accelerator refuses, and counts what one waits for."""

from collections.abc import Callable

import pytest
import torch
from on_both import DEVICE
from torch import nn

from second_device import reads_back, uploads, without_doubles


def test_operands_on_two_devices_are_refused() -> None:
    here, there = torch.ones(3, 4), torch.ones(3, 4, device=DEVICE)
    image, kernel = torch.ones(1, 1, 5, 5, device=DEVICE), torch.ones(1, 1, 3, 3)
    mistakes: tuple[Callable[[], object], ...] = (
        lambda: here + there,
        lambda: torch.cat([here, there]),
        lambda: there @ here.T,
        lambda: here[torch.zeros(2, dtype=torch.int64, device=DEVICE)],
        lambda: nn.functional.conv2d(image, kernel),
        lambda: nn.functional.cross_entropy(there, torch.zeros(3, dtype=torch.int64)),
    )
    for mixed in mistakes:
        with pytest.raises(RuntimeError, match="device"):
            mixed()
    assert (there * torch.tensor(2.0)).sum().item() == 24  # single numbers may mix, as on other devices


def test_a_generator_of_the_processor_is_refused() -> None:
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(3, device=DEVICE, generator=torch.Generator())


def test_float64_is_refused_where_asked() -> None:
    x = torch.ones(3, device=DEVICE)
    assert x.double().dtype == torch.float64
    with without_doubles():
        for wide in (
            x.double,
            lambda: torch.zeros(2, dtype=torch.float64, device=DEVICE),
            lambda: torch.ones(2, dtype=torch.float64).to(DEVICE),
        ):
            with pytest.raises(TypeError, match="float64"):
                wide()
        assert x.cpu().double().sum().item() == 3


def test_it_counts_what_the_processor_waits_for_and_what_is_sent() -> None:
    x = torch.randn(5).to(DEVICE)
    for read, waits in (
        (lambda: x * 2 + 1, 0),
        (lambda: torch.where(x > 0, x, 0.0), 0),
        (lambda: x[torch.zeros(2, dtype=torch.int64, device=DEVICE)], 0),
        (lambda: float(x.sum()), 1),
        (lambda: bool((x > 0).any()), 1),
        (x.cpu, 1),
        (lambda: x[x > 0], 1),
        (lambda: torch.nonzero(x), 1),
    ):
        before = reads_back()
        read()
        assert reads_back() - before == waits
    before = uploads()
    torch.ones(3).to(DEVICE)
    assert uploads() - before == 1


def test_a_gradient_is_the_processors() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 2))
    x, y = torch.randn(4, 1, 5, 5), torch.tensor([0, 1, 1, 0])
    found = []
    for device in ("cpu", DEVICE):
        net = net.to(device).requires_grad_()
        loss = nn.functional.cross_entropy(net(x.to(device)), y.to(device))
        found.append([g.cpu() for g in torch.autograd.grad(loss, list(net.parameters()))])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)
