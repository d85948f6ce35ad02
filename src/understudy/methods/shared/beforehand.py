"""Whether what a frozen model says of a client's records is worth finding out before training.

Without augmentation a record looks the same in every epoch, and frozen networks see each record by itself, so one pass
over all records serves every batch. With augmentation, or where training sees fewer records than there are, it is
found out batch by batch.
"""

from understudy.federation.client import Client
from understudy.learning.local import Local

MOST = 2**26  # numbers to keep: a quarter of a gigabyte


def worth_keeping(local: Local, client: Client, numbers: int) -> bool:
    """``numbers`` are those that would be kept for each record."""
    records = len(client.examples)
    trained_on = local.step_count(len(client.own)) * local.batch
    return not local.augment and records < trained_on and records * numbers <= MOST
