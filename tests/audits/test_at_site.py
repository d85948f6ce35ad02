"""A site's own audit, from its folder: what it sent, or what waits for approval."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from understudy.audits.at_site import is_site, scene_at_site
from understudy.audits.attack_run import audit_scene
from understudy.audits.scene import scene_of
from understudy.config.resolve import resolve
from understudy.errors import UserError
from understudy.federation.answering import answer
from understudy.federation.exchange import NOTHING, Request
from understudy.federation.message import Message
from understudy.privacy.policy import Policy
from understudy.runs.remote import SiteFile, build_site

WORDS: dict[str, Any] = {
    "data": {"sites": {"north": None, "south": None}, "shape": [1, 8, 8], "classes": 10, "held_out": 0.4},
    "model": "softmax",
    "method": {"name": "real", "rounds": 1, "ipc": 5, "min_class_records": 1},
    "transcript": True,
}


def records(tmp_path: Path) -> Path:
    digits = load_digits()
    x = (16 * digits.images).clip(0, 255).astype(np.uint8)
    np.savez(tmp_path / "north.npz", x=x[:400], y=digits.target[:400])
    return tmp_path / "north.npz"


def asked(tmp_path: Path, changes: dict[str, Any], policy: Policy | None = None) -> Path:
    """A site's folder after one request, as `understudy client` leaves it."""
    folder, source = tmp_path / "site", records(tmp_path)
    SiteFile("north", WORDS, changes, str(source)).write(folder)
    site, method = build_site(resolve(WORDS, changes), "north", source=source, folder=folder, policy=policy)
    brief = Message(model=method.net.initial()).to_bytes()
    task = next(name for name in method.jobs() if name.startswith("Real"))
    answer(site, method, Request("a-run", site.config, "north", task, 1, 1, NOTHING, NOTHING, False, brief))
    return folder


def test_what_a_site_sent_is_attacked_with_its_own_records(tmp_path: Path) -> None:
    folder = asked(tmp_path, {})
    assert is_site(folder)
    scene = scene_at_site(folder)
    found = audit_scene(scene)
    assert found.images == 50
    assert found.members == 240
    assert found.leak is not None
    assert found.leak.caught > 0.15  # 50 of 240 left as they are
    assert (folder / "audit.json").exists()
    assert scene.left.whole


def test_what_waits_for_approval_is_attacked_before_it_leaves(tmp_path: Path) -> None:
    folder = asked(tmp_path, {"transcript": False}, Policy(approval=("examples",)))
    found = audit_scene(scene_at_site(folder))
    assert found.images == 50
    assert found.copies is not None
    assert found.copies.share == 1.0


def test_a_site_that_kept_nothing_is_told_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"kept nothing of what left.*transcript: true.*approval: \[examples\]"):
        scene_at_site(asked(tmp_path, {"transcript": False}))


def test_records_that_have_moved_are_named_anew(tmp_path: Path) -> None:
    folder = asked(tmp_path, {})
    moved = (tmp_path / "north.npz").rename(tmp_path / "moved.npz")
    with pytest.raises(UserError, match=r"north\.npz"):
        scene_at_site(folder)
    assert scene_at_site(folder, moved).judged.members == 240


def test_a_server_has_no_records_to_audit_with(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "data: {sites: {north: null}, shape: [1, 8, 8], classes: 10}\nmethod: {name: real, rounds: 1}\n"
    )
    with pytest.raises(UserError, match=r"the records are at the sites, so only a site can audit"):
        scene_of(tmp_path)
