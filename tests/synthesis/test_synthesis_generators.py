"""Generators by name."""

from collections.abc import Iterator, Mapping

import pytest
import torch
from torch import Tensor

from understudy.base_settings import Settings
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.privacy.sgd import PrivateSteps
from understudy.randomness import generator as random_generator
from understudy.synthesis import generator as generators
from understudy.synthesis.generator import Generator, Stage, entry, generator, names


@pytest.fixture(autouse=True)
def _untouched() -> Iterator[None]:
    """What a test registers is forgotten after it."""
    before = dict(generators._entries)
    yield
    generators._entries.clear()
    generators._entries.update(before)


class CopySettings(Settings):
    pass


class Copy(Generator):
    """Gives a record back as it was."""

    smallest = 3

    def __init__(self, settings: CopySettings) -> None:
        self.settings = settings

    def course(
        self, examples: Examples, problem: Problem, rng: torch.Generator, private: PrivateSteps | None = None
    ) -> Iterator[Stage]:
        self.require_enough(examples)
        yield Stage(1, {"x": examples.x})

    def sample(self, state: Mapping[str, Tensor], labels: Tensor, problem: Problem, rng: torch.Generator) -> Tensor:
        return state["x"][: len(labels)]


def test_the_vae_is_found_and_built_from_its_settings() -> None:
    found = entry("vae")
    assert isinstance(found.build(found.settings()), Generator)
    assert "β-VAE" in found.about


def test_one_of_ones_own_is_registered_by_its_decorator() -> None:
    generator("copy", settings=CopySettings)(Copy)
    assert {"copy", "vae"} <= set(names())
    assert entry("copy").about == "Gives a record back as it was."


def test_an_unknown_name_is_answered_with_the_closest() -> None:
    with pytest.raises(UserError, match=r"no generator 'vea'\. Did you mean 'vae'\?"):
        entry("vea")


def test_a_name_that_is_taken_is_refused() -> None:
    entry("vae")
    with pytest.raises(UserError, match="already a generator 'vae'"):
        generator("vae", settings=CopySettings)(Copy)


def test_too_few_records_are_refused_for_every_generator() -> None:
    problem = Problem(shape=(1, 1, 1), classes=1)
    two = Examples(torch.zeros(2, 1, 1, 1, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(UserError, match=r"at least 3 records, but was given 2"):
        Copy(CopySettings()).fit(two, problem, random_generator(0))
