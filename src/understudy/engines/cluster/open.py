"""Opens the engine that a config with `engine: ray` asks for."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from understudy import patience
from understudy.config.schema import EngineSettings
from understudy.engines.choose import OpenEngine
from understudy.engines.cluster.engine import RayEngine
from understudy.engines.cluster.record_block import block_of
from understudy.engines.cluster.session import Cluster, connected, sent_to_nodes
from understudy.engines.cluster.slot import RunOnNodes
from understudy.federation.exchange import Engine
from understudy.federation.method import Method
from understudy.federation.site import Site


def on_ray(settings: EngineSettings, words: Mapping[str, Any], says: Callable[[str], None]) -> OpenEngine:
    """``words``: the run's config as in its folder, from which every slot builds the method."""

    @contextmanager
    def opened(sites: Mapping[str, Site], method: Method) -> Iterator[Engine]:
        patience.over()
        first = next(iter(sites.values()))
        block = block_of(sites)
        run = RunOnNodes(
            words,
            first.config,
            block.places,
            None if first.policy is None else first.policy.model_dump(mode="json"),
            str(first.folder.parent.absolute()),
            str(Path.cwd()),
        )
        says("Starting Ray." if settings.address is None else f"Connecting to the Ray cluster at {settings.address}.")
        with connected(settings.address):
            run = sent_to_nodes(run, shared=settings.shared or settings.address is None)
            cluster = Cluster(run, block.arrays, gpus=settings.gpus)
            engine = RayEngine(sites, method, cluster, patience=settings.timeout)
            try:
                yield engine
            finally:
                engine.close()

    return opened
