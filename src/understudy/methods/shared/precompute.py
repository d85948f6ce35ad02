"""Whether to compute a frozen model's outputs on a client's records once, before training.

Without augmentation a record looks the same in every epoch, and frozen networks see each record by itself, so one pass
over all records serves every batch. With augmentation, or if training sees only some of the records, outputs are
computed batch by batch.
"""

from understudy.federation.client import Client
from understudy.learning.local import Local

MOST = 2**26  # numbers to keep: a quarter of a gigabyte


def worth_keeping(local: Local, client: Client, numbers: int) -> bool:
    """``numbers``: how many would be kept per record."""
    records = len(client.examples)
    trained_on = local.step_count(len(client.own)) * local.batch
    return not local.augment and records < trained_on and records * numbers <= MOST
