"""A Ray cluster of two nodes on this machine, and a run on it: ``python two_ray_nodes.py WHAT FOLDER``.

To be started in a network namespace that has nothing but ``lo``. ``WHAT`` happens in round 2: nothing, an actor is
killed, a node is removed, or the run is stopped (and resumed on one node). ``sweep``: whole runs are spread instead,
and one of the nodes is removed after the first.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Ray's own niceness of 15 starves its processes where something else keeps the processor busy.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - Ray's spelling

import psutil
import ray
from ray.cluster_utils import Cluster

import understudy as us
from understudy.config.read import read
from understudy.config.resolve import resolve
from understudy.runs.play import play
from understudy.runs.watching import Observer

CHANGES: dict[str, Any] = {"method.name": "scaffold", "method.rounds": 3, "method.local.epochs": 1}
GRID = {"lr": [0.05, 0.2]}


class Stop(Exception):
    pass


class InRoundTwo(Observer):
    """After the first answer in round 2, while other clients are at work."""

    def __init__(self, what: str, cluster: Cluster, second: Any):
        self._what, self._cluster, self._second, self._round = what, cluster, second, 0

    def phase(self, round: int, name: str, clients: Sequence[str] = ()) -> None:
        self._round = round

    def heard(self, client: str) -> None:
        if self._round != 2:
            return
        what, self._what = self._what, "nothing"
        if what == "kill":
            below = psutil.Process().children(recursive=True)
            next(one for one in below if one.name().startswith("ray::ClientSlot")).send_signal(signal.SIGKILL)
        elif what == "remove":
            self._cluster.remove_node(self._second, allow_graceful=False)
        elif what == "stop":
            raise Stop


class AfterTheFirst(Observer):
    def __init__(self, cluster: Cluster, second: Any):
        self._cluster, self._second = cluster, second

    def says(self, sentence: str) -> None:
        if sentence.startswith("1 of"):
            self._cluster.remove_node(self._second, allow_graceful=False)


def main(what: str, folder: Path) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = cluster.add_node(num_cpus=1)
    if what == "sweep":
        watching = AfterTheFirst(cluster, second)
        us.sweep("digits-skewed", GRID, seeds=[0, 1], out=folder, address=cluster.address, observer=watching, rounds=2)
        cluster.shutdown()
        return
    engine = {"engine": {"name": "ray", "address": cluster.address, "timeout": 60}}
    config = resolve(read("digits-skewed"), {**CHANGES, **engine})
    try:
        play(config, folder, observer=InRoundTwo(what, cluster, second))
    except Stop:
        ray.shutdown()
        cluster.remove_node(second)
        play(config, folder, resume=True)
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
