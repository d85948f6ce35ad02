"""The plain epoch of the diffusion network and ours do the same work."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # the benchmarks lie beside the package, not in it

from benchmarks import diffusion
from understudy.randomness import generator


def test_both_end_with_the_same_weights() -> None:
    problem = diffusion.PROBLEMS[0]
    x, y = (part[:40] for part in diffusion.records(problem))
    ahead = generator("epoch")
    torch.randint(2**62, (1,), generator=ahead)  # ours names the stream of its dropout first
    ours = diffusion.our_epoch(diffusion.network(problem), x, y, generator("epoch"))
    plain = diffusion.plain_epoch(diffusion.network(problem), x, y, ahead)
    start = dict(diffusion.network(problem).named_parameters())
    assert all(torch.allclose(w, plain[name], atol=1e-5) for name, w in ours.items())
    assert (ours["conv_out.weight"] - start["conv_out.weight"]).abs().max() > 1e-4
