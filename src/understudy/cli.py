"""The command. It only reads words, calls the rooms, and prints; heavy imports wait until they are needed."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy import __version__
from understudy.errors import UserError

app = typer.Typer(
    help="Federated learning in which synthetic data stands in for private data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
data_app = typer.Typer(help="Data sets, and how a split deals them out.", no_args_is_help=True)
app.add_typer(data_app, name="data")
privacy_app = typer.Typer(help="What noise promises, and what a promise costs.", no_args_is_help=True)
app.add_typer(privacy_app, name="privacy")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Rate = Annotated[float, typer.Option(help="With which each record is in a release; 1: always.")]
Steps = Annotated[int, typer.Option(help="Releases, one after another.")]
Delta = Annotated[float, typer.Option(help="Probability with which ε may fail; below 1/n.")]
By = Annotated[str, typer.Option("--accountant", help="rdp, as papers print, or pld, which is tighter.")]
Overrides = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE ...]", help="Settings to change.")]


def main() -> None:
    try:
        app()
    except UserError as error:
        print(f"understudy: {error}", file=sys.stderr)
        sys.exit(2)


def _print_json(content: Any) -> None:
    print(json.dumps(content, indent=1))


@app.command()
def run(
    config: Annotated[str | None, typer.Argument(help="A YAML file or a preset (see `understudy presets`).")] = None,
    changes: Overrides = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; by default a new one below runs/.")] = None,
    engine: Annotated[str | None, typer.Option(help="inline or workers.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    as_json: Json = False,
) -> None:
    """Run one federation from a config or a preset."""
    from understudy.config.read import pairs, read
    from understudy.config.resolve import resolve
    from understudy.studies.api import next_folder, resolve_for_resume
    from understudy.studies.run import play
    from understudy.view.progress import RichProgress
    from understudy.view.tables import print_summary

    words = [*([config] if config and "=" in config else []), *(changes or [])]
    source = None if config is None or "=" in config else config
    overrides = pairs(words) | ({"engine": {"name": engine}} if engine else {})
    if resume and out is None:
        raise UserError("--resume needs --out, the folder of the run to go on with.")
    if resume and out is not None and source is None:
        resolved = resolve_for_resume(out, overrides)
    elif source is None:
        raise UserError("Name a config file or a preset, such as `understudy run digits-skewed`.")
    else:
        resolved = resolve(read(source), overrides)
    folder = out or next_folder(source, resolved)
    try:
        with RichProgress() as progress:
            result = play(resolved, folder, resume=resume, observer=progress)
    except KeyboardInterrupt:
        print(f"\nStopped. Go on with: understudy run --resume --out {folder}", file=sys.stderr)
        raise typer.Exit(130) from None
    if as_json:
        _print_json({"folder": str(folder), **result.summary})
    else:
        print_summary(folder, result.summary)


@app.command()
def compare(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run folders.")],
    target: Annotated[float | None, typer.Option(help="Accuracy that rounds are counted to, such as 0.8.")] = None,
    as_json: Json = False,
) -> None:
    """Compare runs in a table."""
    from understudy.studies.compare import compare as rows_of
    from understudy.view.tables import print_comparison

    rows = rows_of(folders, target=target)
    if as_json:
        _print_json([row.as_dict() for row in rows])
    else:
        print_comparison(rows)


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(help="A study; without a name they are listed.")] = None,
    scale: Annotated[str, typer.Option(help="smoke, desk or paper.")] = "desk",
    out: Annotated[Path | None, typer.Option(help="Where its runs, table and picture go.")] = None,
    as_json: Json = False,
) -> None:
    """Run a study that compares methods, each tuned alike; a stopped one goes on where it was."""
    from understudy.studies.reproduce import STUDIES
    from understudy.view.standings import show_study

    if name is None:
        listed = {one.name: {"about": one.about, "scales": list(one.scales)} for one in STUDIES.values()}
        lines = [f"{key:24} {one['about']} ({', '.join(one['scales'])})" for key, one in listed.items()]
        _print_json(listed) if as_json else print("\n".join(lines))
        return
    table = show_study(name, scale, out or Path("studies", f"{name}-{scale}"), quiet=as_json)
    if as_json:
        _print_json(table)


@app.command()
def sheet(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run with fedcog.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The picture: .png, .svg or .pdf.")],
    client: Annotated[str | None, typer.Option(help="Whose images; by default the first client's.")] = None,
) -> None:
    """Draw what a fedcog client generates and learns from in the next round."""
    from understudy.view.generated import generated_sheet

    print(f"Picture: {generated_sheet(folder, out, client=client)}")


@app.command()
def methods(name: Annotated[str | None, typer.Argument()] = None, as_json: Json = False) -> None:
    """What methods and add-ons there are, their settings, and what each sends."""
    from understudy.studies.catalogue import describe_methods
    from understudy.view.tables import print_methods

    found = describe_methods(name)
    _print_json(found) if as_json else print_methods(found, whole=name is not None)


@app.command()
def models(as_json: Json = False) -> None:
    """Networks by name, with their parameter counts."""
    from understudy.studies.catalogue import describe_models
    from understudy.view.tables import print_models

    found = describe_models()
    _print_json(found) if as_json else print_models(found)


@app.command()
def presets(as_json: Json = False) -> None:
    """Configs that come with the package."""
    from understudy.config.read import presets as found

    _print_json(found()) if as_json else print("\n".join(f"{name:24} {about}" for name, about in found().items()))


@data_app.command("list")
def data_list(as_json: Json = False) -> None:
    """Data sets by name, and which of them are here."""
    from understudy.data.sets import names
    from understudy.view.tables import print_data_sets

    rows = [entry.as_dict() for entry in names()]
    _print_json(rows) if as_json else print_data_sets(rows)


@data_app.command("get")
def data_get(
    name: str, folder: Annotated[Path | None, typer.Option("--data-dir", help="Where the files go.")] = None
) -> None:
    """Fetch a data set from its home, with a checksum."""
    from understudy.data.sets import get

    print(f"{name} is in {get(name, folder)}")


@data_app.command("describe")
def data_describe(
    name: str,
    changes: Overrides = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the split into this file.")] = None,
    seed: int = 0,
    as_json: Json = False,
) -> None:
    """How skewed a split is: `understudy data describe digits clients=10 split.alpha=0.1 --plot split.png`."""
    from understudy.config.build import build_data
    from understudy.config.read import pairs
    from understudy.config.resolve import resolve
    from understudy.data.picture import draw_split
    from understudy.data.skew import measure_skew
    from understudy.view.tables import print_skew

    inside = {key if key.startswith("data.") else f"data.{key}": value for key, value in pairs(changes or []).items()}
    config = resolve({"seed": seed, "data": {"name": name}}, inside)
    federation = build_data(config)
    skew = measure_skew(federation)
    if plot is not None:
        draw_split(federation, plot)
    _print_json(skew.as_dict()) if as_json else print_skew(skew)
    if plot is not None and not as_json:
        print(f"Picture: {plot}")


@privacy_app.command("epsilon")
def privacy_epsilon(
    rate: Rate,
    noise: Annotated[float, typer.Option(help="σ, in units of the clip.")],
    steps: Steps,
    delta: Delta,
    by: By = "rdp",
    as_json: Json = False,
) -> None:
    """ε of so many releases of the sampled Gaussian mechanism."""
    from understudy.privacy.accounting import Spending, account, accountant_named

    claim = account([Spending(rate, noise, steps)], delta, accountant_named(by))
    if as_json:
        _print_json(claim.as_dict())
    else:
        print(f"ε = {claim.epsilon:.4g} at δ = {delta:g} ({by}{'; ' * bool(claim.note)}{claim.note})")


@privacy_app.command("noise")
def privacy_noise(
    epsilon: Annotated[float, typer.Option(help="What may be spent.")],
    rate: Rate,
    steps: Steps,
    delta: Delta,
    by: By = "rdp",
    as_json: Json = False,
) -> None:
    """The least noise with which so many releases fit ε."""
    from understudy.privacy.accounting import Spending, account, accountant_named, noise_for

    accountant = accountant_named(by)
    noise = noise_for(epsilon, delta, rate, steps, accountant)
    claim = account([Spending(rate, noise, steps)], delta, accountant)
    if as_json:
        _print_json({"noise": noise, **claim.as_dict()})
    else:
        print(f"noise = {noise:.4f} times the clip gives ε = {claim.epsilon:.4g} at δ = {delta:g} ({by})")


@privacy_app.command("ledger")
def privacy_ledger(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder.")], as_json: Json = False
) -> None:
    """What left each client of a run, what that cost, and what no guarantee covers."""
    from understudy.studies.folder import RunFolder
    from understudy.view.ledger import print_ledger

    _print_json(RunFolder(folder).ledger()) if as_json else print_ledger(folder)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the runs, the table and the pictures go.")] = Path("demo"),
) -> None:
    """Five methods on real images that four clients will not share: one table, two pictures."""
    from understudy.view.demo import show_demo

    show_demo(out)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"understudy {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
