"""``understudy measure``: the quantities in the theory of data shuffling, measured on your own run.

Paper: Synthetic data shuffling accelerates the convergence of federated learning under data heterogeneity.
At one shared model: ζ², σ² and L over the clients' own records, and over these plus the synthetic ones that each client
is dealt, even if it was not asked yet; next to them the bounds of Lemma 1. In the lemma every client mixes with the
whole pool in the same share p, and then the bounds are met exactly. Real clients each have a finite part and may differ
in size, so measured values may lie on either side. Clients without records of their own never train, so they do not
count. If nothing was shuffled (``deal: own``) there is no pool, and the lemma says nothing.

What a run sent is compared with data shuffling's formula 2·M_s + 2·R·M_c: M_s are the synthetic images that a client
sends once and gets once, M_c the model that goes down and up in each of R rounds. What is measured is everything that
went over the wire. Images travel together with other things, so M_s is counted in what the server keeps to deal out:
its tensors as sent, one or four bytes per number, and the labels.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from understudy.config.build import build_data, build_method
from understudy.config.read import pairs, read
from understudy.config.resolve import resolve
from understudy.config.schema import Config, Live
from understudy.data.standardise import as_if_agreed
from understudy.errors import UserError, option
from understudy.federation.cohorts import in_order
from understudy.federation.message import Message
from understudy.federation.method import Dealt
from understudy.models.network import Network
from understudy.runs.compare import compare, label_of, read_config
from understudy.runs.folder import Line, RunFolder
from understudy.runs.quantities import Shuffled, dealt_examples, quantities
from understudy.runs.scaling import data_of_run
from understudy.threads import one_thread

FLOAT = 4  # bytes
POWER_STEPS = 50  # of the power iteration for L
SMOOTHNESS_IS = f"approximate, from below: the largest curvature after at most {POWER_STEPS} steps of power iteration"


@dataclass(frozen=True)
class Speed:
    """Rounds to a target accuracy, and how many times as many another run needs; None: not reached."""

    target: float | None
    rounds: int | None
    against: str | None = None
    rounds_against: int | None = None

    @property
    def speed_up(self) -> float | None:
        return self.rounds_against / self.rounds if self.rounds and self.rounds_against else None


@dataclass(frozen=True)
class Cost:
    """Bytes per client: means over all clients."""

    rounds: float  # R: the rounds a client took part in
    model: int  # M_c, from its parameter count
    images: float  # M_s: its share of the pool; 0 if nothing was shuffled
    images_dealt: float  # the part of it already sent down: a client gets its share when first asked
    measured: float  # everything a client sent and received

    @property
    def formula(self) -> float:
        return 2 * self.images + 2 * self.rounds * self.model

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "formula": self.formula}


@dataclass(frozen=True)
class Measured:
    label: str
    at: str  # which model
    clients: int  # with records
    records: int
    parameters: int
    zeta2: float
    sigma2: float
    smoothness: float
    shuffled: Shuffled | None
    speed: Speed | None
    cost: Cost | None

    def as_dict(self) -> dict[str, Any]:
        found = {**asdict(self), "smoothness_is": SMOOTHNESS_IS}
        if self.shuffled is not None:
            found["shuffled"] |= {"holds": self.shuffled.holds, "verdict": self.shuffled.verdict}
        if self.speed is not None:
            found["speed"]["speed_up"] = self.speed.speed_up
        if self.cost is not None:
            found["cost"] = self.cost.as_dict()
        return found


def measure(
    source: str,
    changes: list[str] | None = None,
    *,
    at: str = "final",
    target: float | None = None,
    against: Path | None = None,
    live: Live | None = None,
) -> Measured:
    """Of a run folder, or of a config that has not been run (then at the initial model, with nothing shuffled)."""
    if at not in ("final", "initial"):
        raise UserError(f"{option('at')} is '{at}'; write final (the run's model) or initial.")
    folder = Path(source)
    if not folder.is_dir():
        if against is not None or target is not None:
            raise UserError(
                f"{option('target')} and {option('against')} compare runs; name a run folder, not a config."
            )
        return _measured(resolve(read(source), pairs(changes or []), live), None, "initial")
    words = read_config(folder)
    if changes:
        raise UserError(f"{folder} is a run, whose settings are fixed; leave out {changes[0]}.")
    run = RunFolder(folder)
    return _measured(resolve(words, live=live), run, at, _speed(folder, target, against))


def _measured(config: Config, run: RunFolder | None, at: str, speed: Speed | None = None) -> Measured:
    with one_thread():
        data = as_if_agreed(build_data(config)) if run is None else data_of_run(config, run.path)
        method = build_method(config, data, "eager")
        net, state = method.net, Message() if run is None else run.newest_state()
        w = net.initial() if at == "initial" else _final(run, net)
        found = quantities(net, w, data, dealt_examples(method, state, data), POWER_STEPS)
        label = label_of(config.words("", data.problem, "eager", "", ""))
        dealt = method.dealt(state, in_order(data.sites)).values()
        cost = None if run is None else cost_of(run.metrics(), dealt, net.size, len(data.sites))
        return Measured(label, at, **vars(found), parameters=net.parameters, speed=speed, cost=cost)


def cost_of(metrics: Sequence[Line], dealt: Collection[Dealt], numbers: int, clients: int) -> Cost | None:
    """``numbers``: the size of the model, including buffers. None if no round is written yet."""
    if not metrics:
        return None
    return Cost(
        sum(line["clients"] for line in metrics if line["round"] > 0) / clients,
        FLOAT * numbers,
        sum(part.nbytes for part in dealt) / clients,
        sum(part.nbytes for part in dealt if part.given) / clients,
        sum(line["bytes_up"] + line["bytes_down"] for line in metrics) / clients,
    )


def _final(run: RunFolder | None, net: Network) -> Tensor:
    file = None if run is None else run.path / "model.safetensors"
    if file is None or not file.exists():
        whose, at = "A config" if run is None else run.path, option("at initial", "at='initial'")
        raise UserError(f"{whose} has no model.safetensors yet; let the run finish, or measure with {at}.")
    try:
        return net.vector_of(load_file(file))
    except (SafetensorError, KeyError, RuntimeError, OSError):
        raise UserError(f"{file} is damaged or of another network; restore it from a copy.") from None


def _speed(folder: Path, target: float | None, against: Path | None) -> Speed | None:
    rows = compare([folder] if against is None else [folder, against], target=target)
    if rows[0].target is None:
        return None
    beside = [(row.label, row.rounds_to_target) for row in rows[1:]]
    return Speed(rows[0].target, rows[0].rounds_to_target, *(beside[0] if beside else ()))
