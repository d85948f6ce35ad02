"""Attacks on what was shared, and tests of privacy claims."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy import patience
from understudy.cli.app import Json, Overrides, app, print_json
from understudy.errors import UserError

if TYPE_CHECKING:
    from understudy.audits.claims.repetitions import AuditProgress
    from understudy.runs.watching import Observer

PICTURE = "audit-nearest.png"
KEPT = Path("runs", "audits")  # scores of an interrupted audit of claims
QUICK, THOROUGH = 80.0, 1000.0  # seconds for an audit of claims, besides what it takes to prepare it


@app.command()
def audit(
    source: Annotated[
        str, typer.Argument(metavar="DIR|CONFIG", help="A run's or a site's folder, or a config or preset.")
    ],
    changes: Overrides = None,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Also likelihood ratios with shadow clients: up to 20 minutes.")
    ] = False,
    canaries: Annotated[
        int | None,
        typer.Option(
            help="Of a config: one run with so many canaries, like 1000, instead of many on neighbouring data."
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="At a site: its records, if they have moved.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; by default one per core.")] = None,
    as_json: Json = False,
) -> None:
    """Measure what a run gave away, or test the privacy that a config claims.

    A folder is attacked: how many of its records can be recognised from what left. A config is put to the test: its own
    tasks run many times on neighbouring data, and what comes out is held against the ε that they claim.
    """
    folder, processes = Path(source), workers or min(8, os.cpu_count() or 1)
    if folder.is_dir():
        if changes:
            raise UserError(f"{folder} is a folder, whose settings are fixed; leave out {changes[0]}.")
        if canaries is not None:
            raise UserError(f"--canaries tests what a config claims, and {folder} is a folder; leave it out.")
        _attack(folder, data, thorough, processes, as_json)
    else:
        if data is not None:
            raise UserError("--data names the records of a site, and this is a config; leave it out.")
        _test_claims(source, changes or [], thorough, processes, canaries, as_json)


def _attack(folder: Path, data: Path | None, thorough: bool, workers: int, as_json: bool) -> None:
    from understudy.audits.at_site import is_site, scene_at_site
    from understudy.audits.attack_run import audit_scene
    from understudy.audits.nearest_pairs import nearest_pairs
    from understudy.audits.scene import scene_of
    from understudy.threads import one_thread
    from understudy.view.attacked import print_audit
    from understudy.view.pairs import draw_pairs
    from understudy.view.progress import RichProgress

    with RichProgress() as progress, one_thread():
        progress.says("Reading what left and what could be judged.")
        scene = scene_at_site(folder, data) if is_site(folder) else scene_of(folder)
        patience.over()
        found = audit_scene(scene, thorough=thorough, workers=workers, observer=progress)
        pairs = nearest_pairs(scene)
    picture = draw_pairs(pairs, scene.data.problem, folder / PICTURE)
    if as_json:
        print_json({"folder": str(folder), **found.as_dict(), "picture": None if picture is None else str(picture)})
        return
    print_audit(found)
    if picture is not None:
        print(f"Picture of the images nearest to a record, with real records in it: {picture}")


def _test_claims(
    source: str, changes: list[str], thorough: bool, workers: int, canaries: int | None, as_json: bool
) -> None:
    from understudy.audits.claims.audit_canaries import audit_canaries
    from understudy.audits.claims.audit_claims import HowLong, audit_claims
    from understudy.config.read import pairs, read
    from understudy.config.resolve import resolve
    from understudy.view.claims_audited import print_claims_audit
    from understudy.view.progress import RichProgress

    config = resolve(read(source), pairs(changes))
    how_long = HowLong(workers=workers, seconds=THOROUGH if thorough else QUICK)
    with RichProgress() as progress:
        where = "on neighbouring data" if canaries is None else f"once, with {canaries} canaries"
        progress.says(f"Running the config's own tasks {where}; a refutation takes one clear contradiction.")
        patience.over()
        if canaries is None:
            found = audit_claims(config, out=KEPT, how_long=how_long, progress=_told(progress))
        else:
            found = audit_canaries(config, canaries, how_long=how_long, progress=_told(progress))
    print_json(found.as_dict()) if as_json else print_claims_audit(found)


def _told(observer: "Observer") -> "AuditProgress":
    """Says what is done when it begins, and now and then how far it is."""
    said: dict[str, float] = {}

    def progress(doing: str, done: int, most: int) -> None:
        now = time.monotonic()
        if doing not in said or (now - said[doing] > patience.NEXT and most):
            said[doing] = now
            observer.says(f"{doing}: {done} of {most} runs" if most else doing)

    return progress
