"""Files that are whole or not there."""

import os
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """The file has its old content or its new one, never half of it, come a kill or a power cut."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
