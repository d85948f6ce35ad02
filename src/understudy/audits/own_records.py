"""The records behind what waits for review: those of one site, or of every client of a simulation, read when needed."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from understudy.audits.at_site import is_site
from understudy.audits.near_copies import NearCopies, near_copies, near_copies_by_own
from understudy.config.resolve import resolve
from understudy.data.examples import Examples
from understudy.data.federation import Holding
from understudy.errors import UserError
from understudy.federation.held import Held
from understudy.runs.compare import read_config
from understudy.runs.folder import RunFolder
from understudy.runs.remote import SiteFile, build_site
from understudy.runs.scaling import data_of_run


@dataclass(frozen=True)
class NearestRecords:
    """For each example that waits, the nearest own record and how near that is."""

    records: Examples  # one per example
    copies: NearCopies
    held_out: bool  # what distances are compared with: held-out records, or else the own records among themselves


@dataclass
class OwnRecords:
    folder: Path  # a site's, or a run's
    source: Path | None = None  # a site's records, if they are no longer where they were
    labels: Sequence[str] = field(default=(), init=False)  # names of classes, once records were read
    _holdings: dict[str, Holding] = field(default_factory=dict, init=False, repr=False)
    _found: dict[str, NearestRecords] = field(default_factory=dict, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def nearest(self, one: Held) -> NearestRecords:
        """A UserError says why there is nothing to show beside it."""
        with self._lock:
            if one.sha256 not in self._found:
                self._found[one.sha256] = self._nearest(one)
            return self._found[one.sha256]

    def _nearest(self, one: Held) -> NearestRecords:
        holding, shared, problem = self._holding(one.about["client"]), one.examples(), one.problem
        if shared is None or not len(shared):
            raise UserError("It holds no examples that could be compared with records.")
        if not len(holding.own):
            raise UserError("This site has no records to compare with.")
        problem.check(holding.own, one.about["client"])
        compared = near_copies(shared, holding.own, holding.held_out, problem) if len(holding.held_out) else None
        copies = compared or near_copies_by_own(shared, holding.own, problem)
        if copies is None:
            raise UserError("The records of this site do not differ from one another, so no distance says anything.")
        return NearestRecords(holding.own.take(copies.record), copies, held_out=compared is not None)

    def _holding(self, client: str) -> Holding:
        if not self._holdings:
            self._holdings = self._of_site() if is_site(self.folder) else self._of_run()
        if client not in self._holdings:
            raise UserError(f"There are no records of {client} here.")
        return self._holdings[client]

    def _of_site(self) -> dict[str, Holding]:
        told = SiteFile.read(self.folder)
        at = self.source or (None if told.source is None else Path(told.source))
        config = resolve(dict(told.words), dict(told.changes))
        if config.data is not None and config.data.scale == "federated":
            raise UserError("Records of this site were scaled after it was asked, so here they cannot be compared.")
        site, _ = build_site(config, told.name, source=at, folder=self.folder, policy=None)
        self.labels = () if config.data is None else config.data.labels or ()
        return {site.name: site.holding}

    def _of_run(self) -> dict[str, Holding]:
        run = next((at for at in (self.folder, *self.folder.absolute().parents[:2]) if RunFolder(at).holds_a_run), None)
        if run is None:
            raise UserError(f"{self.folder} belongs to no site and no run, so its records cannot be found.")
        data = data_of_run(resolve(read_config(run)), run)
        if data.remote:
            raise UserError(f"{run} is a server's run: the records are at the sites.")
        self.labels = data.label_names
        return dict(data.sites)
