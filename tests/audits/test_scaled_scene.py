"""An audit of a run whose sites agreed on a scale sees records on that scale."""

from pathlib import Path

import numpy as np
import torch

import understudy as us
from understudy.audits.scene import scene_of
from understudy.audits.shadows import shadow
from understudy.config.schema import Live
from understudy.runs.scaling import scaling_of


def test_records_are_on_the_agreed_scale_and_shadows_repeat_what_left(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sites = {name: (rng.normal(5, 3, (100, 2)) * [1, 100], np.arange(100) % 2) for name in ("a", "b")}
    data = us.Federation.from_arrays(sites, held_out=0.3, scale="federated")
    folder = us.run(data=data, model="mlp", rounds=2, transcript=True, out=tmp_path / "run").folder
    scene, spread = scene_of(folder, Live(data=data)), scaling_of(folder)
    assert spread is not None
    assert torch.equal(scene.data.sites["a"].own.x, spread.applied(data.sites["a"].own).x)
    assert [one.round for one in scene.left.clients["a"].sightings] == [1, 2]
    candidates = scene.judged.clients["a"]
    again = shadow(scene.method, candidates, list(scene.transcript.of("a")), "a", 0, 0)
    assert len(again.seen.sightings) == 2
