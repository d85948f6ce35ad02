"""The images that left the clients of a run: all of the last round, or those of any round from its transcript."""

import torch

from understudy.data.examples import Examples
from understudy.federation.message import labels_from_wire
from understudy.runs.folder import RunFolder


def all_images(run: RunFolder) -> Examples:
    """Of the last round, of all clients."""
    sets = list(run.synthetic().values())
    return Examples(torch.cat([one.x for one in sets]), torch.cat([one.y for one in sets]))


def images_by_round(run: RunFolder) -> dict[int, dict[str, Examples]]:
    """By round and client, from its transcript; empty where it kept none."""
    found: dict[int, dict[str, Examples]] = {}
    for client in run.transcript.clients():
        for one in run.transcript.of(client):
            if "x" in one.reply:
                sent = Examples(one.reply["x"], labels_from_wire(one.reply["y"]))
                found.setdefault(one.round, {})[client] = sent
    return dict(sorted(found.items()))
