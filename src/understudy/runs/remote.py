"""A run whose sites are elsewhere: the server's side and the client's."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from understudy import __version__
from understudy.config.build import build_data, build_method, completed, device
from understudy.config.schema import Config
from understudy.data.assemble import at_site
from understudy.data.federation import Federation, Holding
from understudy.data.persons import most_of_one
from understudy.engines.flower.attending import Says
from understudy.engines.flower.engine import Flower
from understudy.engines.flower.keys import Certificates, server_certificates
from understudy.engines.flower.link import superlink
from understudy.engines.flower.node import SECRET
from understudy.engines.flower.proxy import check_free, installed_nginx, make_way, port_of, proxy
from understudy.engines.flower.quiet import switch_off
from understudy.engines.flower.runtime import Door
from understudy.engines.flower.serving import serve
from understudy.errors import UserError
from understudy.federation.exchange import Engine, Request
from understudy.federation.method import Method
from understudy.federation.site import Site
from understudy.files import write_whole
from understudy.heap import keep_freed_memory
from understudy.printable import printable
from understudy.privacy.policy import Policy
from understudy.reading import json_of, text_of
from understudy.runs.play import play
from understudy.runs.resuming import digest_of_config
from understudy.runs.rounds import RunResult
from understudy.runs.scaling import note_own
from understudy.runs.status import WAITING_FOR_SITES, StatusKeeper
from understudy.runs.watching import Observer
from understudy.threads import one_thread


def play_as_server(
    config: Config,
    out: Path,
    *,
    keys: Path | None,
    listen: str,
    state: Path,
    resume: bool,
    observer: Observer,
    command: str | None = None,
) -> RunResult:
    """Without ``keys``: no TLS, and only sites on this machine can reach it. ``command`` continues the run."""
    certificates = None if keys is None else server_certificates(keys)
    port_of(listen)
    if certificates is not None:  # before the run's folder is touched
        installed_nginx()
        _check_admitted(certificates, list(config.data.sites or ()) if config.data else [])

    watcher = StatusKeeper(out, observer, command)

    @contextmanager
    def opened(sites: Mapping[str, Site], _: Method) -> Iterator[Engine]:
        with ExitStack() as open_things:
            engine = _engine(open_things, config, list(sites), certificates, listen, state, watcher)
            yield engine

    return play(config, out, resume=resume, observer=watcher, engine=opened)


def _engine(
    open_things: ExitStack,
    config: Config,
    names: list[str],
    certificates: Certificates | None,
    listen: str,
    state: Path,
    observer: Observer,
) -> Engine:
    port = port_of(listen)
    if certificates is None:
        check_free(f"127.0.0.1:{port}")
    else:
        _check_admitted(certificates, names)
        make_way(state / "proxy", listen)
    link = open_things.enter_context(superlink(state, certificates, port=None if certificates else port))
    if certificates is None:
        observer.says(f"--insecure: anyone on this machine can join, or submit runs, at {link.door.address}.")
    else:
        link.register(certificates.nodes())
        open_things.enter_context(proxy(state / "proxy", listen, certificates, link.door))
        observer.says(f"Sites reach this server at {listen}.")
    grid = open_things.enter_context(link.run())
    timeout, enough = config.engine.timeout, config.plan.min_replies
    insecure, attends = certificates is None, observer.attends
    engine = Flower(grid, state / "incoming", timeout, insecure=insecure, check=link.check, attends=attends)
    observer.phase(-1, WAITING_FOR_SITES)
    engine.wait_for(names, lambda missing: observer.says(f"Waiting for {', '.join(missing)}."), enough=enough)
    return engine


def _check_admitted(certificates: Certificates, names: list[str]) -> None:
    missing = [name for name in names if name not in certificates.nodes()]
    if missing:
        raise UserError(
            f"There is no key for {missing[0]} in {certificates.folder / 'nodes'}; let it join with "
            f"`understudy keys admit {missing[0]}.pub --keys {certificates.folder}`."
        )


def answer_at(
    door: int, config: Config, name: str, *, source: Path | None, policy: Policy | None, folder: Path, says: Says
) -> None:
    """The answering process, until it is stopped; its imports and its records are loaded once."""
    switch_off(folder / "flower")
    keep_freed_memory()
    with one_thread():
        site, method = build_site(config, name, source=source, folder=folder, policy=policy)
        note_own(folder, name, site.holding.spread)
        if policy is None:
            says("There is no policy: everything the config asks for may leave.")
        most = most_of_one(site.holding.own)
        of_one = "" if most is None else f", up to {most} of one person"
        says(f"{name} takes part with {len(site.holding.own)} records{of_one}.")

        def heard(request: Request, outcome: str) -> None:
            says(f"round {request.round}, {printable(request.task)}: {printable(outcome)}")

        serve(site, method, Door(door, folder / SECRET), going=lambda: True, heard=heard)


# ---- what a site remembers of how it was started, so that it can be audited later

SITE_FILE = "site.json"


@dataclass(frozen=True)
class SiteFile:
    name: str
    words: Mapping[str, Any]  # the config that all parties share
    changes: Mapping[str, Any]
    source: str | None  # where its records are

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / SITE_FILE, (json.dumps(asdict(self), indent=1) + "\n").encode())

    @classmethod
    def read(cls, folder: Path) -> "SiteFile":
        file = folder / SITE_FILE
        try:
            return cls(**json_of(text_of(file), str(file)))
        except TypeError:
            raise UserError(f"{file} is damaged; start `understudy client` here once more to write it again.") from None


# ---- a site, from the config that all parties share and from what only this machine has


def build_site(
    config: Config, name: str, *, source: Path | None, folder: Path, policy: Policy | None
) -> tuple[Site, Method]:
    """Without a ``source`` the site takes its part of the config's split, as in a simulation."""
    data = build_data(_without_test(config))
    if name not in data.sites:
        raise UserError(f"The config has no site '{name}'; it has {', '.join(data.sites)}.")
    config = completed(config, data.problem)
    method = build_method(config, data, at_site=True)
    net, here = method.net, str(device(config))
    frozen = net.frozen_digest
    words = config.words(__version__, data.problem, net.fast, here, "", scale=data.scale, frozen_digest=frozen)
    holding = _holding(config, data, name, source)
    site = Site(
        name,
        holding,
        folder,
        config.top.seed,
        digest_of_config(words),
        data.test,
        config.top.privacy,
        policy,
        logs_replies=True,
        keeps_transcript=config.top.transcript,
    )
    return site, method


def _without_test(config: Config) -> Config:
    """If the records are at the sites, the test file is at the server."""
    if config.data is None:
        raise UserError("A site reads its config from a file, which cannot hold data passed in Python.")
    remote = config.data.sites is not None and not any(config.data.sites.values())
    return replace(config, data=config.data.model_copy(update={"test": None})) if remote else config


def _holding(config: Config, data: Federation, name: str, source: Path | None) -> Holding:
    assert config.data is not None
    if source is None and data.remote:
        raise UserError(f"Name the records of {name} with --data: an .npz, .parquet or .csv file, or a folder.")
    if source is None:
        return data.sites[name]
    return at_site(config.data, name, source, data.problem, config.top.seed)
