"""The synthetic sets of a run by client, each read when it is asked for."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from understudy.data.examples import Examples
from understudy.federation.cohorts import in_order


class SyntheticSets(Mapping[str, Examples]):
    def __init__(self, folder: Path):
        self._files = {path.stem: path for path in (folder / "synthetic").glob("[!.]*.npz")}

    def __getitem__(self, client: str) -> Examples:
        return Examples.load(self._files[client])

    def __iter__(self) -> Iterator[str]:
        return iter(in_order(self._files))

    def __len__(self) -> int:
        return len(self._files)

    def __repr__(self) -> str:
        return f"<synthetic sets of {', '.join(self) or 'no client'}>"
