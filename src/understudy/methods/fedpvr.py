"""FedPVR: "On the Effectiveness of Partial Variance Reduction in Federated Learning with Heterogeneous Data".

SCAFFOLD (option II) on the classifier block, FedAvg on the rest. With h the block of the vector and r the rest,

    client   y_r ← y_r − η g_r,      y_h ← y_h − η (g_h − c_k + c)
             c_k⁺ = c_k − c + (w_h − y_h) / Σ rates of the steps taken
    server   w ← w + η_g · mean (y − w),      c ← c + (1/N) Σ_S (c_k⁺ − c_k)

so c and its change are sent for the block only. ``block`` chooses it: ``head`` is the network's last layer,
``fully-connected`` every linear layer, and anything else the parameters whose names start with it. Several may be
listed; with none it is FedAvg. The releases of FedPVR and Fedssyn correct all three linear layers of VGG-11, Fedssyn
with equally weighted clients (preset ``fedssyn``). Local momentum is refused, as in SCAFFOLD.
"""

from collections.abc import Iterator, Sequence

from pydantic import Field
from torch import nn

from understudy.base_settings import Settings
from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.methods.scaffold import ControlVariate
from understudy.methods.shared.averaging import AveragingSettings
from understudy.methods.shared.term_registration import term
from understudy.methods.shared.terms_and_rules import Rule, Term
from understudy.models.network import Network

HEAD, FULLY_CONNECTED = "head", "fully-connected"


class BlockSettings(Settings):
    block: str | tuple[str, ...] = HEAD  # what is corrected: head, fully-connected, or prefixes of parameter names


class FedPvrSettings(BlockSettings, AveragingSettings):
    server_lr: float = Field(default=1.0, gt=0)  # η_g, learning rate of the server


def block_of(net: Network, names: Sequence[str]) -> list[slice]:
    """The pieces of the vector with these names, in order; adjacent ones are merged."""
    wanted = {name for given in names for name in _parameters(net, given)}
    pieces: list[slice] = []
    for name, (where, _) in net.windows.items():
        if name not in wanted:
            continue
        if pieces and pieces[-1].stop == where.start:
            pieces[-1] = slice(pieces[-1].start, where.stop)
        else:
            pieces.append(where)
    return pieces


def _parameters(net: Network, given: str) -> list[str]:
    trained = [name for name, (where, _) in net.windows.items() if where.stop <= net.parameters]
    if given == HEAD:
        return [name for name in trained if net.windows[name][0].start >= net.head.start]
    if given == FULLY_CONNECTED:
        linear = set(_linear_parameters(net))
        return [name for name in trained if name in linear]
    found = [name for name in trained if f"{name}.".startswith(f"{given.rstrip('.')}.")]
    if not found:
        layers = ", ".join(dict.fromkeys(name.rpartition(".")[0] or name for name in trained))
        raise UserError(
            f"fedpvr: block has '{given}', but no parameter's name starts with it; "
            f"write {HEAD}, {FULLY_CONNECTED} or some of {layers}."
        )
    return found


def _linear_parameters(net: Network) -> Iterator[str]:
    for prefix, layer in net.module.named_modules():
        if isinstance(layer, nn.Linear):
            yield from (f"{prefix}.{name}" for name, _ in layer.named_parameters(recurse=False))


@term(
    "fedpvr",
    settings=BlockSettings,
    alone=FedPvrSettings,
    rule=lambda settings: Rule(settings.server_lr),
    sends="its change and a control variate",
    presets={"fedssyn": {"block": FULLY_CONNECTED, "weights": "uniform"}},
)
def fedpvr(settings: BlockSettings, local: Local) -> Term:
    names = (settings.block,) if isinstance(settings.block, str) else settings.block
    return ControlVariate("II", local.batch, lambda net: block_of(net, names))
