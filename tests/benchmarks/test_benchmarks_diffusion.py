"""The plain epoch of the diffusion network and ours do the same work."""

import sys
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # the benchmarks lie beside the package, not in it

from benchmarks import diffusion
from understudy.randomness import generator


def test_both_end_with_the_same_weights() -> None:
    problem = diffusion.PROBLEMS[0]
    all_own = diffusion.records(problem)
    own = replace(all_own, x=all_own.x[:40], y=all_own.y[:40])
    ahead = generator("epoch")
    torch.randint(2**62, (1,), generator=ahead)  # ours names the stream of its dropout first
    ours = diffusion.our_epoch(diffusion.network(problem), own, generator("epoch"))
    plain = diffusion.plain_epoch(diffusion.network(problem), own.x, own.y, ahead)
    start = dict(diffusion.network(problem).named_parameters())
    assert all(torch.allclose(w, plain[name], atol=1e-5) for name, w in ours.items())
    assert (ours["conv_out.weight"] - start["conv_out.weight"]).abs().max() > 1e-4
