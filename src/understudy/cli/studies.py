"""Tables and figures of the papers, and our own studies."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from understudy.cli.app import ClusterAddress, GpuShare, Json, app, print_json
from understudy.errors import UserError

if TYPE_CHECKING:
    from understudy.papers.published import Experiment
    from understudy.papers.study import Findings, Scale
    from understudy.runs.run_store import RunStore


@app.command()
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(help="A table or figure, such as feddm-table1, or a study of ours; none: all of them."),
    ] = None,
    scale: Annotated[str, typer.Option(help="smoke (seconds), desk (minutes) or paper (as published).")] = "desk",
    out: Annotated[Path, typer.Option(help="Where runs are kept, shared by all studies, and results go.")] = Path(
        "studies"
    ),
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what is missing and what it costs, and run nothing.")
    ] = False,
    draw: Annotated[
        bool, typer.Option("--draw", help="Show what the runs that are there tell so far, and run nothing.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="Every table and figure of the papers.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Run only the lines with this text in their name; may be repeated. The others stay as they are."
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; by default one per core, at most 8.")] = None,
    address: ClusterAddress = None,
    gpus: GpuShare = 0.0,
    html: Annotated[bool, typer.Option("--html", help="Also write the results as a page, table.html.")] = False,
    as_json: Json = False,
) -> None:
    """Repeat a table or figure of a paper: printed numbers beside ours, and whether its claims hold."""
    from understudy.papers.published import Direct
    from understudy.papers.reproduce import ARTEFACTS, experiment
    from understudy.runs.cluster_store import store_at

    if name is not None and every:
        raise UserError(f"--all means every table and figure; leave it out, or leave out '{name}'.")
    if name is None and not every:
        _list(as_json)
        return
    names, store = list(ARTEFACTS) if name is None else [name], store_at(out, address, gpus)
    if only and every:
        raise UserError("--only picks lines of one table or figure; give its name in place of --all.")
    if draw and (plan or only):
        raise UserError("--draw shows all that is there; leave out --plan and --only.")
    if draw and every:
        names = [one for one in names if not isinstance(experiment(one, scale), Direct)]
    try:
        found = [
            _planned(one, scale, store, only or ())
            if plan
            else _carried_out(one, scale, store, workers, html, only or (), draw=draw)
            for one in names
        ]
    except KeyboardInterrupt:
        how = "Finished runs are kept: the same command goes on from there, and with --draw it shows what they tell."
        print(f"\nStopped. {how}", file=sys.stderr)
        raise typer.Exit(130) from None
    if as_json:
        print_json(found[0]["json"] if name is not None else {one["name"]: one["json"] for one in found})
    else:
        print("\n\n".join(one["text"] for one in found))


def _list(as_json: bool) -> None:
    from dataclasses import asdict

    from understudy.papers.reproduce import ARTEFACTS, STUDIES
    from understudy.papers.scoreboard import packaged
    from understudy.view.papers_listed import scoreboard_text

    scores = packaged()
    own = {one.name: one for one in STUDIES.values() if one.name not in ARTEFACTS}
    if as_json:
        ours = {key: {"about": one.about, "scales": list(one.scales)} for key, one in own.items()}
        print_json({"papers": [asdict(one) for one in scores], "ours": ours})
        return
    print(scoreboard_text(scores))
    print("Our own studies:")
    for key, one in own.items():
        print(f"  {key:18} {one.about} ({', '.join(one.scales)})")


def _planned(name: str, scale: str, store: "RunStore", only: Sequence[str]) -> dict[str, Any]:
    from dataclasses import asdict

    from understudy.papers.planning import plan_of
    from understudy.papers.reproduce import experiment
    from understudy.view.papers_listed import plan_text

    found = plan_of(experiment(name, scale), store, only)
    return {"name": name, "json": asdict(found), "text": plan_text(name, scale, found)}


def _drawn(name: str, asked: "Experiment", store: "RunStore") -> "Findings":
    found = asked.read(store)
    if found is None:
        raise UserError(f"{name} is worked out as a whole and has no runs to show; leave out --draw.")
    return found


def _carried_out(
    name: str, scale: str, store: "RunStore", workers: int | None, html: bool, only: Sequence[str], *, draw: bool
) -> dict[str, Any]:
    import os
    from dataclasses import asdict

    from understudy.papers.planning import plan_of
    from understudy.papers.reproduce import STUDIES, experiment
    from understudy.papers.stored import ran_by, write_table
    from understudy.papers.telling import told
    from understudy.runs.made_by import made_by
    from understudy.view.findings import write_findings
    from understudy.view.html.findings_page import findings_page
    from understudy.view.html.report import write_page
    from understudy.view.papers_listed import plan_text
    from understudy.view.progress import RichProgress

    asked, folder = experiment(name, scale), store.root / f"{name}-{scale}"
    with RichProgress() as progress:
        progress.says(plan_text(name, scale, plan_of(asked, store, only)))
        if draw:
            found = _drawn(name, asked, store)
        else:
            found = asked.run(store, progress, workers or min(8, os.cpu_count() or 1), only)
    shown = told(STUDIES[name], found, cast("Scale", scale))
    table = write_table(folder / "table.json", name, scale, found, ran_by(found, made_by()))
    text = write_findings(shown, folder)
    files = sorted(folder.glob("*.png"))
    if html:
        files.append(write_page(findings_page(shown, f"{name}, {scale} scale"), folder / "table.html"))
    published = STUDIES[name].published
    verdicts = [] if published is None else published.verdicts(found, cast("Scale", scale))
    claims = () if published is None else published.claims
    judged = [{"claim": claim.sentence, **asdict(one)} for claim, one in zip(claims, verdicts, strict=True)]
    table = {**table, "verdicts": judged}
    return {"name": name, "json": table, "text": "\n".join([f"{name}: {found.about}", "", text, *map(str, files)])}
