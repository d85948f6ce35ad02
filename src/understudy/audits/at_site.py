"""A site's own audit: what it sent, or would send once a person has approved, against its own records.

The site's folder has the config and where its records are (``site.json``), its transcript of the newest run if the
config keeps one, and the replies that wait for approval. Its held-out records are the non-members.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from understudy.audits.members import judged
from understudy.audits.scene import Scene
from understudy.audits.sighting import Seen, Sighting
from understudy.audits.what_left import WhatLeft, images_of, sightings
from understudy.config.resolve import resolve
from understudy.data.federation import Federation
from understudy.data.spread import Spread
from understudy.data.standardise import by_agreement
from understudy.errors import UserError
from understudy.federation.approval import ApprovalQueue
from understudy.federation.column_sums import MEAN, spread_in
from understudy.federation.method import Method
from understudy.federation.scaled import Scaled
from understudy.federation.site import Site
from understudy.federation.transcript import Exchanged
from understudy.privacy.charges import epsilon_of
from understudy.runs.compare import label_of
from understudy.runs.remote import SITE_FILE, SiteFile, build_site


def is_site(folder: Path) -> bool:
    return (folder / SITE_FILE).exists()


def scene_at_site(folder: Path, source: Path | None = None) -> Scene:
    """``source``: its records, if they are no longer where they were."""
    told = SiteFile.read(folder)
    config = resolve(dict(told.words), dict(told.changes))
    at = source or (None if told.source is None else Path(told.source))
    site, method = build_site(config, told.name, source=at, folder=folder, policy=None)
    data = Federation(method.net.problem, {site.name: site.holding}, None)
    run = _newest_run(folder)
    transcript = site.transcript(run)
    exchanges = list(transcript.of(site.name))
    if isinstance(method, Scaled):
        data, method = by_agreement(data, _agreed(exchanges, folder)), method.inner
    seen = (*sightings(method, exchanges), *_waiting(folder))
    if not seen:
        raise UserError(
            f"{folder} kept nothing of what left, and nothing waits for approval: write `transcript: true` in the "
            "config, or `approval: [examples]` in the site's policy, and run again."
        )
    left = WhatLeft({site.name: Seen(site.name, seen)}, sum(map(images_of, seen)), whole=bool(exchanges))
    words = {"method": {"name": config.plan.name}, "with": [{"name": one.name} for one in config.add_ons]}
    rounds = max(one.round for one in seen)
    return Scene(
        folder, label_of(words), config.top.seed, data, method, judged(data, config.top.seed), left, transcript, run,
        rounds, _epsilon(site, method),
    )  # fmt: skip


def _agreed(exchanges: Sequence[Exchanged], folder: Path) -> Spread:
    """The scale that the server handed out."""
    for one in exchanges:
        if MEAN in one.brief:
            return spread_in(one.brief)
    raise UserError(f"{folder} kept no brief that tells the scale of its records; run again with `transcript: true`.")


def _newest_run(folder: Path) -> str:
    kept = sorted(folder.glob("*/transcript"), key=lambda path: path.stat().st_mtime)
    return kept[-1].parent.name if kept else ""


def _waiting(folder: Path) -> Sequence[Sighting]:
    found = [(one.about["round"], one.left()) for one in ApprovalQueue(folder).held()]
    return [Sighting(round, None, examples) for round, examples in found if examples is not None]


def _epsilon(site: Site, method: Method) -> float | None:
    """Of its charge log, if its method is private; None: something that left is not covered."""
    charges = site.charge_log.charges()
    if not method.private or not charges:
        return None
    found = epsilon_of(charges, charges[0].delta, charges[0].accountant)
    return found if math.isfinite(found) else None
