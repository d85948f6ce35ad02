"""A contender in another environment: it reads what to train on, and does one round whenever a line comes in."""

import json
import sys
import time
from pathlib import Path

import numpy as np


class Given:
    """What `benchmarks.peers` wrote: records of all clients, and who trains on which of them, round by round."""

    def __init__(self, folder):
        folder = Path(folder)
        told = json.loads((folder / "workload.json").read_text())
        self.name, self.rounds, self.batch, self.lr = told["name"], told["rounds"], told["batch"], told["lr"]
        self.epochs = told["epochs"]
        arrays = np.load(folder / "records.npz")
        pixels = arrays["x"].astype(np.float32) / np.float32(255)
        self.x = (pixels - np.float32(told["mean"])) / np.float32(told["std"])  # (clients, records, 1, 28, 28)
        self.y = arrays["y"].astype(np.int64)
        self.cohorts, self.orders = arrays["cohorts"], arrays["orders"]  # (rounds, cohort), (rounds, cohort, records)
        self.first = dict(np.load(folder / "first.npz"))  # weights, by torch's names

    def client(self, round, place):
        """Records of the cohort's client at this place, in the order in which it trains on them."""
        who, order = int(self.cohorts[round, place]), self.orders[round, place]
        return self.x[who][order], self.y[who][order]


def say(**told):
    print(json.dumps(told), flush=True)


def wait():
    """Until it is our turn."""
    return sys.stdin.readline().strip() == "go"


class Clock:
    """Tells how long a turn took, and how much of it the processor worked: more than the time itself would be more than
    one thread."""

    def begin(self):
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def end(self):
        say(seconds=time.perf_counter() - self._wall, worked=time.process_time() - self._cpu)


def save(path, weights):
    np.savez(path, **weights)
