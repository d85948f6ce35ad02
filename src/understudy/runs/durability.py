"""When a run waits for the disk, so that not even a power cut takes what it has done."""

import math
import time

SYNC_EVERY = 1.0  # seconds of a simulation that a power cut may take; a kill takes nothing


class Durability:
    """Waiting for the disk takes longer than a short round. What can be repeated for nothing need not wait each time;
    work that cost privacy, or that others did, must."""

    def __init__(self, *, repeatable: bool, last: int):
        self._repeatable, self._last = repeatable, last
        self._synced = -math.inf  # when the last checkpoint was safe from a power cut

    def needed(self, round: int) -> bool:
        """Of the checkpoint that is about to be written, after this round."""
        due = time.monotonic() - self._synced >= SYNC_EVERY or round == self._last
        if due or not self._repeatable:
            self._synced = time.monotonic()
        return due or not self._repeatable
