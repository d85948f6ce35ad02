"""Files that are whole or not there."""

import os
from pathlib import Path


def write_whole(path: Path, data: bytes, *, durable: bool = True) -> None:
    """The file has its old content or its new one, never half of it, come a kill or a power cut.

    What is not ``durable`` may be gone after a power cut: for files that can be made again.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    with draft.open("wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.replace(draft, path)
    if not durable:
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
