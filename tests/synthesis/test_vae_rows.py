"""The VAE on floats: what a row costs by hand, and what it makes of tables and sequences that anyone can tell apart."""

import math

import pytest
import torch

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.privacy.sgd import PrivateSteps, clipped_sum
from understudy.randomness import generator
from understudy.synthesis.generator import entry
from understudy.synthesis.vae.networks import Autoencoder
from understudy.synthesis.vae.rows import LEAST_SPREAD, FloatRows
from understudy.synthesis.vae.training import VaeSettings, record_objective
from understudy.synthesis.vae.vae import Vae

TABLE = Problem((4,), 2, floats=True, categories=((1, 2),))  # a number, two words, a number
ROWS = FloatRows(TABLE.shape, TABLE.categories)
QUICK = VaeSettings(epochs=120, batch=32, lr=5e-3, hidden=32, latent=3, gamma=1.0, capacity=3, spread="class")


def test_a_row_costs_what_its_numbers_and_words_do_by_hand() -> None:
    # Numbers: 1 at N(0, 2²) and 5 at N(5, 1). Words: logits 0 and ln 3 have chances 1/4 and 3/4.
    x = torch.tensor([[1.0, 0.0, 1.0, 5.0]])
    middle, spread = [0.0, 0.0, math.log(3), 5.0], [math.log(2), 9.0, 9.0, 0.0]
    outputs = torch.tensor([[middle, spread]])
    of_numbers = 0.5 * (1 / 2) ** 2 + math.log(2) + 2 * 0.5 * math.log(2 * math.pi)
    assert float(ROWS.cost(outputs, x)) == pytest.approx(of_numbers - math.log(3 / 4))
    without = torch.tensor([[1.0, 0.0, 0.0, 5.0]])  # a missing word counts for nothing
    assert float(ROWS.cost(outputs, without)) == pytest.approx(of_numbers)
    both = ROWS.cost(outputs.repeat(2, 1, 1), torch.cat([x, without]))
    assert float(both) == pytest.approx(of_numbers - math.log(3 / 4) / 2)  # the mean over a batch


def test_rows_are_drawn_with_the_spread_of_numbers_and_the_chances_of_words() -> None:
    outputs = torch.tensor([[[2.0, 0.0, math.log(3), -1.0], [math.log(0.5), 0.0, 0.0, 0.0]]]).repeat(4000, 1, 1)
    made = ROWS.drawn(outputs, generator("rows"))
    assert made[:, 1:3].sum(1).tolist() == [1.0] * 4000
    assert set(made[:, 1:3].flatten().tolist()) == {0.0, 1.0}
    assert float(made[:, 2].mean()) == pytest.approx(3 / 4, abs=0.03)
    assert [float(made[:, 0].mean()), float(made[:, 0].std())] == pytest.approx([2, 0.5], abs=0.05)


def test_numbers_are_scaled_by_the_records_and_back_and_words_are_not() -> None:
    x = torch.tensor([[10.0, 1.0, 0.0, 7.0], [30.0, 0.0, 1.0, 7.0]])
    rows = FloatRows.scaled_by(x, TABLE)
    assert rows.seen(x).tolist() == [[-1, 1, 0, 0], [1, 0, 1, 0]]
    outputs = torch.tensor([[[1.0, 50.0, 0.0, 3.0], [-50.0, 0.0, 0.0, 0.0]]])
    made = rows.drawn(outputs, generator("back"))
    assert made[0].tolist() == [30, 1, 0, 7]  # what never changes stays exactly so, whatever its noise
    again = FloatRows.of(rows.learnt, TABLE)
    assert torch.equal(again.drawn(outputs, generator("back")), made)


def table(n: int) -> Examples:
    """Class 0: about -300, word 0, about 2; class 1: about 300, word 1 nine times in ten, about -2."""
    rng, y = generator("table"), torch.arange(n) % 2
    side = 2.0 * y - 1
    word = torch.where(torch.rand(n, generator=rng) < 0.1, 1 - y, y)
    columns = [300 * side + 50 * torch.randn(n, generator=rng), 1.0 - word, 1.0 * word]
    return Examples(torch.stack([*columns, -2 * side + 0.5 * torch.randn(n, generator=rng)], 1), y)


@pytest.mark.parametrize("conditional", [False, True])
def test_a_mixed_table_is_made_with_its_classes_means_spreads_and_words(conditional: bool) -> None:
    vae, real = Vae(QUICK.model_copy(update={"conditional": conditional})), table(200)
    labels = torch.arange(400) % 2
    made = vae.sample(vae.fit(real, TABLE, generator(0)), labels, TABLE, generator(1))
    assert made.dtype == torch.float32
    for c in (0, 1):
        ours, theirs = made[labels == c], real.x[real.y == c]
        assert (ours[:, 0].mean() - theirs[:, 0].mean()).abs() < 60
        assert (ours[:, 3].mean() - theirs[:, 3].mean()).abs() < 0.6
        assert (ours[:, 2].mean() - theirs[:, 2].mean()).abs() < 0.2
        assert 20 < float(ours[:, 0].std()) < 150
    assert bool((made[:, 1:3].sum(1) == 1).all())


def test_sequences_keep_their_shape_and_their_waves() -> None:
    problem, t = Problem((2, 12), 2, floats=True), torch.arange(12) / 12 * 2 * math.pi
    y = torch.arange(80) % 2
    waves = torch.stack([t.sin(), (2 * t).sin()])[y][:, None].repeat(1, 2, 1)
    real = Examples(waves + 0.1 * torch.randn(80, 2, 12, generator=generator("waves")), y)
    vae = Vae(QUICK)
    made = vae.sample(vae.fit(real, problem, generator(0)), torch.tensor([0, 1] * 50), problem, generator(1))
    assert made.shape == (100, 2, 12)
    for c, wave in enumerate((t.sin(), (2 * t).sin())):
        mean = made[c::2].mean((0, 1))
        assert float((mean - wave).abs().max()) < 0.35


def test_no_number_is_copied_to_the_last_digit() -> None:
    decoder = Autoencoder(3, 0, 2, 4, 8).decoder
    decoder.log_spread.data.fill_(-9.0)  # type: ignore[operator]
    _, spread = decoder(torch.zeros(1, 2), torch.zeros(1, 0)).unbind(1)
    assert spread.tolist() == [[pytest.approx(LEAST_SPREAD)] * 3]


PRIVATE = VaeSettings(epochs=2, batch=8, hidden=8, latent=2, conditional=True, spread="prior")


def steps(noise: float) -> PrivateSteps:
    rng = generator("coins")
    return PrivateSteps(rate=0.5, steps=3, clip=1.0, noise=noise, expected=4.0, sampling=rng, noises=rng, coins=rng)


def test_a_private_table_needs_no_record_and_releases_nothing_but_weights() -> None:
    vae = Vae(PRIVATE)
    for real in (table(8), table(0)):
        state = vae.fit(real, TABLE, generator(0), steps(1.0))
        assert all(name.startswith("decoder.") for name in state)
        made = vae.sample(state, torch.tensor([0, 1, 1]), TABLE, generator(1))
        assert made.shape == (3, 4)
        assert made[:, 1:3].sum(1).tolist() == [1, 1, 1]


def test_clipped_gradients_of_rows_equal_a_loop_over_records() -> None:
    net, real = Autoencoder(4, 2, 2, 4, 8), table(5)
    x, told = real.x / 300, torch.nn.functional.one_hot(real.y, 2).float()
    noise = torch.randn(5, 2, generator=generator("noise"))
    loss = record_objective(PRIVATE, 1.0, ROWS.cost)
    total = torch.zeros(sum(p.numel() for p in net.parameters()))
    for i in range(5):
        one = loss(net, x[i], told[i], noise[i])
        flat = torch.cat([g.flatten() for g in torch.autograd.grad(one, list(net.parameters()))])
        total += flat * min(1.0, 30.0 / float(flat.norm()))
    torch.testing.assert_close(clipped_sum(net, loss, x, told, noise, clip=30.0), total, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "problem", "sentence"),
    [
        ("gan", TABLE, r"Generator 'gan' makes images, but the records are vectors of shape \(4,\); choose 'vae'\."),
        ("gan", Problem((1, 8, 8), 2, floats=True), "Generator 'gan' learns from uint8 pixels, but the records are fl"),
        ("vae", Problem((9,), 2, tokens=5), "no generator makes tokens, so choose a method that sends models"),
        ("vae", Problem((9,), 2), "makes vectors of floats; write uint8 records as floats"),
        ("vae", Problem((1, 100, 100), 2), "of 8 to 64 pixels per side"),
    ],
)
def test_what_a_generator_cannot_make_is_told_beforehand(name: str, problem: Problem, sentence: str) -> None:
    found = entry(name)
    with pytest.raises(UserError, match=sentence):
        found.build(found.settings()).check(problem)
    Vae(VaeSettings()).check(TABLE)
