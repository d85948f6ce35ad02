"""A client's folder on a node that does not share the run's disk: sent with a request, and what changed sent back.

Memory, charges and replies are files there as at any site, so nothing of what they mean is repeated here.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

FolderContent = dict[str, bytes]  # by path below the folder
FolderChange = dict[str, bytes | None]  # likewise; None: the file is gone


def content_of(folder: Path) -> FolderContent:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file()) if folder.is_dir() else iter(())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def lay_out(content: Mapping[str, bytes], folder: Path) -> None:
    """The folder holds this and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    apply(dict(content), folder)


def change_of(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> FolderChange:
    gone: FolderChange = dict.fromkeys(before.keys() - after.keys())
    return gone | {path: data for path, data in after.items() if before.get(path) != data}


def apply(change: Mapping[str, bytes | None], folder: Path) -> None:
    for path, data in change.items():
        file = folder / path
        if data is None:
            file.unlink(missing_ok=True)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
