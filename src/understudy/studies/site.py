"""A site of a real federation, built from the config that all parties share and from what lies here alone."""

from dataclasses import replace
from pathlib import Path

from understudy import __version__
from understudy.config.build import build_data, build_method, build_network, choose_fast_path, device
from understudy.config.schema import Config
from understudy.data.federation import Federation, Holding
from understudy.data.settings import at_site
from understudy.errors import UserError
from understudy.federation.method import Method
from understudy.federation.site import Site
from understudy.privacy.policy import Policy
from understudy.studies.resuming import digest_of_config


def build_site(
    config: Config, name: str, *, source: Path | None, folder: Path, policy: Policy | None
) -> tuple[Site, Method]:
    """Without a ``source`` the site takes its part of the config's own split, as in a simulation."""
    data = build_data(_without_test(config))
    if name not in data.sites:
        raise UserError(f"The config knows no site '{name}'; it has {', '.join(data.sites)}.")
    fast = choose_fast_path(config, data)
    method = build_method(config, build_network(config, data.problem, fast))
    words = config.words(__version__, data.problem, fast, str(device(config)), "")
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
    )
    return site, method


def _without_test(config: Config) -> Config:
    """Where records lie with the sites, the file to score on lies with the server."""
    if config.data is None:
        raise UserError("A site reads its config from a file; data that was passed in Python cannot be in it.")
    remote = config.data.sites is not None and not any(config.data.sites.values())
    return replace(config, data=config.data.model_copy(update={"test": None})) if remote else config


def _holding(config: Config, data: Federation, name: str, source: Path | None) -> Holding:
    assert config.data is not None
    if source is None and data.remote:
        raise UserError(f"Say with --data where the records of {name} are: an .npz or .parquet file, or a folder.")
    if source is None:
        return data.sites[name]
    return at_site(config.data, name, source, data.problem, config.top.seed)
