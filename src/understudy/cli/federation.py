"""A real federation: a server, its sites, and their keys."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from understudy import patience
from understudy.cli.app import Overrides, app
from understudy.errors import UserError

keys_app = typer.Typer(help="The server's certificates, and the keys that identify sites.", no_args_is_help=True)
app.add_typer(keys_app, name="keys")

ConfigFile = Annotated[str, typer.Argument(help="The YAML file or preset that all parties share.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="No TLS and no keys: for use on one machine only.")]


@app.command()
def server(
    config: ConfigFile,
    changes: Overrides = None,
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("run"),
    keys: Annotated[Path, typer.Option(help="Certificates and sites' keys: see `understudy keys`.")] = Path("keys"),
    listen: Annotated[str, typer.Option(help="Where sites reach this server.")] = "0.0.0.0:8443",
    state: Annotated[Path, typer.Option(help="Flower's own files, which keep the sites registered.")] = Path("server"),
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")] = False,
    insecure: Insecure = False,
    view: Annotated[int | None, typer.Option(metavar="PORT", help="Show the run in a browser on this machine.")] = None,
) -> None:
    """Run a config with sites on other machines."""
    from understudy.cli.pages import shown
    from understudy.config.read import pairs, read
    from understudy.config.resolve import resolve
    from understudy.runs.remote import play_as_server
    from understudy.view.progress import RichProgress
    from understudy.view.tables import print_summary

    resolved = resolve(read(config), pairs(changes or []))
    try:
        with RichProgress() as progress, shown(out, view, progress.says):
            result = play_as_server(
                resolved,
                out,
                keys=None if insecure else keys,
                listen=listen,
                state=state,
                resume=resume,
                observer=progress,
                command=_resuming(sys.argv[1:]),
            )
    except KeyboardInterrupt:
        print("\nStopped. Resume with the same command and --resume.", file=sys.stderr)
        raise typer.Exit(130) from None
    print_summary(out, result.summary)


def _resuming(typed: list[str]) -> str:
    return shlex.join(["understudy", *typed, *([] if "--resume" in typed else ["--resume"])])


@app.command()
def client(
    config: ConfigFile,
    changes: Overrides = None,
    name: Annotated[str, typer.Option(help="The site's name in the config.")] = ...,  # type: ignore[assignment]
    server: Annotated[str, typer.Option(help="HOST:PORT of the server.")] = "127.0.0.1:8443",
    data: Annotated[Path | None, typer.Option(help="Its records: .npz, .parquet, .csv, or a folder of images.")] = None,
    policy: Annotated[Path | None, typer.Option(help="What may leave this site, whatever the server asks for.")] = None,
    keys: Annotated[Path, typer.Option(help="The folder with ca.crt and the site's key.")] = Path("keys"),
    folder: Annotated[Path | None, typer.Option(help="Memory, ledger and replies; by default sites/NAME.")] = None,
    insecure: Insecure = False,
    at_door: Annotated[int | None, typer.Option(hidden=True)] = None,  # for the answering process, see runs.remote
) -> None:
    """Take part in a federation with records that stay here; runs until stopped."""
    from understudy.config.read import check_listed_site, pairs, read

    check_listed_site(name, read(config), pairs(changes or []))
    patience.over()  # it waits for requests, however long that takes
    at = folder or Path("sites", name)
    if at_door is not None:
        try:
            _answer(at_door, config, changes or [], name, data, policy, at)
        except KeyboardInterrupt:  # the attending process reports that it was stopped
            raise typer.Exit(130) from None
    else:
        _attend(name, server, None if insecure else keys, at)


def _attend(name: str, server: str, keys: Path | None, folder: Path) -> None:
    from understudy.engines.flower.attending import attend

    command = [sys.executable, "-m", "understudy", *sys.argv[1:]]
    code = attend(name, server=server, keys=keys, folder=folder, command=command, says=_say)
    raise typer.Exit(code)


def _answer(
    door: int, config: str, changes: list[str], name: str, data: Path | None, policy: Path | None, folder: Path
) -> None:
    from understudy.config.read import pairs, read
    from understudy.config.resolve import resolve
    from understudy.privacy.policy import read_policy
    from understudy.runs.remote import SiteFile, answer_at

    words, overrides = read(config), pairs(changes)
    resolved = resolve(words, overrides)
    SiteFile(name, words, overrides, None if data is None else str(data.absolute())).write(folder)
    rules = read_policy(policy) if policy is not None else resolved.policy
    answer_at(door, resolved, name, source=data, policy=rules, folder=folder, says=_say)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


@keys_app.command("server")
def keys_server(
    folder: Annotated[Path, typer.Argument(help="Where they go; keep it private.")] = Path("keys"),
    host: Annotated[list[str] | None, typer.Option(help="Name or address that sites dial; may be repeated.")] = None,
) -> None:
    """Make a certificate authority and a certificate for the server."""
    from understudy.engines.flower.keys import make_server

    made = make_server(folder, host or [])
    print(f"Give {made.ca} to every site. Sites join by their keys: `understudy keys admit SITE.pub`.")


@keys_app.command("client")
def keys_client(
    name: str, folder: Annotated[Path, typer.Option("--keys", help="Where they go.")] = Path("keys")
) -> None:
    """Make a site's key pair; run it at the site."""
    from understudy.engines.flower.keys import make_node

    print(f"Send {make_node(folder, name)} to the server's operator; {folder / name} stays here.")


@keys_app.command("admit")
def keys_admit(
    public: Annotated[list[Path], typer.Argument(metavar="SITE.pub...", help="Public keys of sites.")],
    folder: Annotated[Path, typer.Option("--keys", help="The server's folder.")] = Path("keys"),
    name: Annotated[str | None, typer.Option(help="A name other than the file's.")] = None,
) -> None:
    """Let sites join; run it at the server, and restart a running server."""
    from understudy.engines.flower.keys import admit

    if name is not None and len(public) > 1:
        raise UserError("--name is for one site at a time.")
    for file in public:
        print(f"{admit(folder, file, name)} may join.")
