"""How well the clients' trained models do before they are averaged.

Turned on with ``method.score_local``. Each client that trained scores its personal model (its local one, unless the
method keeps another) and sends seven numbers, which are summed; the means over clients appear in the round's line:

    local_distance              ‖w_k − w‖, over the trainable part
    local_accuracy              on the common test set: how well local models generalise
    personal_accuracy           on the common test set, reweighted by the client's class frequencies d:
                                Σ_c d_c · correct_c / Σ_c d_c · total_c
    personal_held_out_accuracy  on the client's own held-out share

So FedAvg, FedProx or FedCOG "with fine-tuning" (+FT) is that method with ``score_local``: the local model after local
training is the fine-tuned one. The common test set exists only in simulation.
"""

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.federation.client import Client
from understudy.models.network import Network

PART = "local_scores"
SIZE = 7  # clients, distance; clients with a test set, accuracy, personal accuracy; clients with a share, accuracy
BATCH = 512


def local_scores(client: Client, net: Network, start: Tensor, local: Tensor, personal: Tensor) -> Tensor:
    """The seven numbers of one client; ``start`` is the model it was sent."""
    moved = float((local - start)[net.trainable].norm())
    found = [1.0, moved, 0.0, 0.0, 0.0, 0.0, 0.0]
    net.load(personal)
    if client.common is not None and len(client.common):
        right, total = hits_by_class(net, client.common)
        held = client.own.label_counts(net.problem.classes).double()
        found[2:5] = [1.0, _ratio(right.sum(), total.sum()), _ratio(held @ right, held @ total)]
    if len(client.held_out):
        right, total = hits_by_class(net, client.held_out)
        found[5:7] = [1.0, _ratio(right.sum(), total.sum())]
    return torch.tensor(found)


def means(sums: Tensor) -> dict[str, float]:
    """The metrics of a round, from the numbers summed over clients."""
    clients, distance, tested, accuracy, personal, holding, held_out = sums.tolist()
    found = {}
    if clients:
        found["local_distance"] = distance / clients
    if tested:
        found |= {"local_accuracy": accuracy / tested, "personal_accuracy": personal / tested}
    if holding:
        found["personal_held_out_accuracy"] = held_out / holding
    return found


def hits_by_class(net: Network, examples: Examples) -> tuple[Tensor, Tensor]:
    """Correct and total counts per class; with several labels per record, labels are counted."""
    classes = net.problem.classes
    right, total = torch.zeros(classes, dtype=torch.float64), torch.zeros(classes, dtype=torch.float64)
    for some in examples.batches(BATCH):
        logits, y = net.logits(some.x).cpu(), some.y
        if net.problem.multilabel:
            right += ((logits > 0) == (y > 0)).double().sum(0)
            total += len(y)
        else:
            right += torch.bincount(y[logits.argmax(1) == y], minlength=classes)
            total += torch.bincount(y, minlength=classes)
    return right, total


def _ratio(part: Tensor, whole: Tensor) -> float:
    return float(part / whole) if float(whole) else 0.0
