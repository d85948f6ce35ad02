"""``play``: one run, checked and built before its folder is touched."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from understudy import __version__
from understudy.config.build import build_data, build_method, completed, decide_together, device
from understudy.config.first_look import cost_of_a_first_run
from understudy.config.schema import Config, Live
from understudy.data.federation import Federation, persons_on_both_sides
from understudy.data.inspection import about_sequences, kind_in_words
from understudy.data.kinds import PLURAL
from understudy.data.standardise import advice
from understudy.engines.choose import OpenEngine, on_this_machine
from understudy.errors import TOO_LITTLE_MEMORY, UserError, no_memory, resuming
from understudy.federation.cohorts import cohort_size
from understudy.federation.method import Method
from understudy.heap import keep_freed_memory
from understudy.learning.local import Local
from understudy.models.split import SplitNetwork
from understudy.models.zoo import FastPath
from understudy.runs.folder import RunFolder
from understudy.runs.holdings import note_holdings
from understudy.runs.machine import note_machine
from understudy.runs.resuming import check_not_edited, check_same_run, digest_of_data
from understudy.runs.rounds import Rounds, RunResult
from understudy.runs.scaling import note_scaling
from understudy.runs.status import StatusKeeper
from understudy.runs.tracking.tracking import tracked, trackers_named
from understudy.runs.watching import Observer, RunStopped
from understudy.threads import one_thread


def play(
    config: Config,
    out: Path,
    *,
    resume: bool = False,
    observer: Observer | None = None,
    engine: OpenEngine | None = None,
    wait: float = 60.0,
) -> RunResult:
    """Everything is checked and built before the folder is touched. An ``engine`` overrides the config's: then sites
    are elsewhere, and the run's folder, with what they sent, is private to the user who runs the server.
    ``wait``: seconds that a resumed run waits for another process in its folder.
    """
    watcher = observer if isinstance(observer, StatusKeeper) else _keeper(config, out, observer or Observer())
    keep_freed_memory()
    with one_thread(), _memory_errors_said():
        folder, trackers = RunFolder(out), trackers_named(config.top.track)
        going_on = resume and folder.holds_a_run
        data = build_data(config)
        method, words = built(config, data, folder.config()["model"]["fast"] if going_on else None)
        config, why = decide_together(config, data, method)
        if why:
            watcher.says(f"engine.together: the clients train one by one, because {why}.")
        _check(config, data, method, words, watcher)
        here = _engine(config, data, words, out, watcher) if engine is None else engine
        if not going_on:
            if config.branched is not None:
                raise UserError("This config is a branch of another run; to start a new run, leave out 'branched'.")
            folder.create(private=engine is not None)
        with folder.locked(wait=wait if resume else 0, waiting=watcher.says), _disk_errors_said(out):
            if going_on:
                if not check_not_edited(folder):
                    watcher.says(f"{out} is from an older version: edits of its config.yaml cannot be detected.")
                check_same_run(folder.config(), words)
            folder.write_config(words)
            note_machine(folder)
            note_holdings(folder, data)
            note_scaling(folder.path, data)
            with (
                watcher.of_run(words, [] if data.population is not None else list(data.sites)),
                tracked(trackers, folder, words, data.problem, watcher) as observed,
            ):
                rounds = Rounds(config, data, method, folder, words, observed, sites_elsewhere=engine is not None)
                result = rounds.to_the_end(here)
                watcher.ended(result.summary["finished"])
                return result


def _keeper(config: Config, out: Path, observer: Observer) -> StatusKeeper:
    """No command can name objects that were passed in Python."""
    by_hand = None if config.live == Live() else f"understudy.run(…, out={str(out)!r}, resume=True)"
    return StatusKeeper(out, observer, by_hand)


def built(config: Config, data: Federation, fast: FastPath | None) -> tuple[Method, dict[str, Any]]:
    """The method, and the config as written to the run's folder."""
    config = completed(config, data.problem)
    method = build_method(config, data, fast)
    where, digest = str(device(config)), digest_of_data(data)
    decided, _ = decide_together(config, data, method)
    words = decided.words(
        __version__,
        data.problem,
        method.net.fast,
        where,
        digest,
        data.found,
        data.scale,
        method.net.frozen_digest,
    )
    return method, words


def _engine(config: Config, data: Federation, words: dict[str, Any], out: Path, watcher: Observer) -> OpenEngine:
    if data.remote:
        raise UserError("This config's records are at its sites; run it with `understudy server`.")
    if config.engine.name in ("inline", "workers"):
        return on_this_machine(config.engine)
    if config.engine.name == "ray":
        if config.live.model is not None or config.live.method is not None:
            raise UserError(
                "Nodes build a run from its config, so a model or method passed in Python cannot run on Ray."
            )
        from understudy.engines.cluster.open import on_ray

        return on_ray(config.engine, words, watcher.says)
    if config.live != Live():
        raise UserError("Sites read their config from a file, so objects passed in Python cannot run on Flower.")
    from understudy.engines.flower.loopback import loopback

    return loopback(out, list(data.sites), config.engine.timeout, watcher.says, watcher.attends)


def _check(config: Config, data: Federation, method: Method, words: dict[str, Any], watcher: Observer) -> None:
    _ = config.policy  # checks that it exists and can be read
    asked = cohort_size(config.plan.cohort, len(data.sites))
    if config.plan.min_replies > asked:
        raise UserError(
            f"method.min_replies is {config.plan.min_replies}, but a round asks only {asked} clients; "
            f"write at most {asked}."
        )
    at_home = data.remote or data.holds_out
    if method.scored_at_home and not at_home:
        how = "data.held_out, such as 0.2" if config.live.data is None else "Federation.from_arrays(…, held_out=0.2)"
        raise UserError(
            "Part of the model stays with the clients (its head, or its buffers), so they must score it: "
            f"hold out records there with {how}."
        )
    if config.plan.rounds == 0:
        watcher.says("method.rounds is 0: the run ends after its opening.")
    local = getattr(config.method.settings, "local", None)
    if isinstance(local, Local) and local.step_count(1) == 0:
        watcher.says("method.local has neither epochs nor steps: the clients do not train.")
    if data.test is None and not at_home:
        watcher.says("There is nothing to score on: no test set, and no records held out at the clients.")
    if leaked := persons_on_both_sides(data):
        raise UserError(
            f"data.person: {leaked:,} persons are both in the test set and at a site, so scores would be too good; "
            "remove them on one side."
        )
    _say_kind(config, data, words, watcher)
    _check_sizes(config, data, watcher)
    if costly := cost_of_a_first_run(config, data):
        watcher.says(costly)
    _tell_head(method, watcher)
    if config.top.measure and (data.remote or config.top.privacy is not None):
        raise UserError("measure reads all clients' records without noise; leave it out in a real or private run.")
    if config.engine.name == "workers" and method.net.device.type != "cpu":
        watcher.says(_one_after_another(method.net.device))


def _one_after_another(on: torch.device) -> str:
    idle = torch.get_device_module(on.type).device_count() - 1
    said = f"On {on} the clients run one after another in this process"
    if idle < 1:
        return f"{said}."
    others = "another device stays" if idle == 1 else f"{idle} other devices stay"
    return f"{said}, and {others} idle; `engine: ray` with engine.gpus: 1 uses all {idle + 1}."


def _say_kind(config: Config, data: Federation, words: dict[str, Any], watcher: Observer) -> None:
    """What records were taken for, where it was guessed, and the network that followed from it."""
    if "kind" in data.found or config.data is None:
        how = "pass kind=" if config.data is None else "write data.kind"
        watcher.says(f"Records: {kind_in_words(data)}; if that is wrong, {how}.")
    if config.network_open and data.problem.kind != "image":
        watcher.says(f"No network is named: {words['model']['name']}, the usual one for {PLURAL[data.problem.kind]}.")
    if usual := config.method.usual(data.problem.kind):
        which = ", ".join(f"method.{key} is {str(value).lower()}" for key, value in usual.items())
        watcher.says(f"For {PLURAL[data.problem.kind]}, {which} unless the config says otherwise.")
    if warning := about_sequences(data.problem):
        watcher.says(warning)


def _tell_head(method: Method, watcher: Observer) -> None:
    """Which layer of a user's own network was taken for its head; a method may have wrapped the network."""
    for part in method.net.module.modules():
        if isinstance(part, SplitNetwork) and part.guessed:
            watcher.says(
                f"The network's head is its layer '{part.head_name}'; if it is another, name it: "
                'us.split(network, head="NAME").'
            )


def _check_sizes(config: Config, data: Federation, watcher: Observer) -> None:
    """Nobody is told about records under a privacy budget, not even by a warning."""
    scale = None if config.data is None else config.data.scale
    if data.remote or scale is not None or data.scale is not None or config.top.privacy is not None:
        return
    if warning := advice(data, in_python=config.data is None):
        watcher.says(warning)


@contextmanager
def _memory_errors_said() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not no_memory(error):
            raise
        raise UserError(TOO_LITTLE_MEMORY) from error


@contextmanager
def _disk_errors_said(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = error.strerror or str(error)
        raise RunStopped(
            f"{error.filename or out} could not be written or read ({what}); fix that and run again with {resuming()}."
        ) from error
