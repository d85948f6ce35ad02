"""Published files: where to look for them, whether they are intact, and how to download them."""

import hashlib
import http.client
import os
import tarfile
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

from understudy.errors import UserError, command
from understudy.files import write_whole

PATIENCE = 30.0  # seconds without a byte


@dataclass(frozen=True)
class PublishedFile:
    name: str
    md5: str  # as its authors or the first loaders published it
    url: str = ""  # empty: it comes inside an archive
    content_md5: str = ""  # of what is packed in it: a distribution may have repacked it


@dataclass(frozen=True)
class Archive:
    """A tar file that contains the files wanted."""

    file: PublishedFile
    folder: str  # where the files are inside the archive


def md5_of(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def checked(content: bytes, file: PublishedFile, path: Path) -> bytes:
    """The content, if it is what was published."""
    found = md5_of(content)
    if found != file.md5:
        raise UserError(
            f"{path} is not the published {file.name}: its MD5 is {found} instead of {file.md5}; "
            "it is damaged or another file, so delete it and fetch it again."
        )
    return content


def data_folder(folder: Path | None = None) -> Path:
    """Where fetched files go: the folder given, $UNDERSTUDY_DATA, or a folder in the user's home."""
    if folder is not None:
        return folder
    if named := os.environ.get("UNDERSTUDY_DATA"):
        return Path(named)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "understudy"


def places(subfolders: Sequence[str], system: Sequence[str], folder: Path | None = None) -> list[Path]:
    """Folders to search, best first; if a folder is given, it is the only one.

    ``system`` names folders that a distribution fills, below each of $XDG_DATA_DIRS.
    """
    here = data_folder(folder)
    inside = [*(here / name for name in subfolders), here]
    if folder is not None:
        return inside
    shared = (os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(":")
    return [*inside, *(Path(root, name) for name in system for root in shared if root)]


def find(names: Sequence[str], folders: Sequence[Path]) -> Path | None:
    candidates = (folder / name for folder in folders for name in names)
    return next((path for path in candidates if path.is_file()), None)


def missing(data_set: str, file: str, folders: Sequence[Path]) -> UserError:
    searched = ", ".join(str(folder) for folder in folders)
    how = command(f"data get {data_set}", f"understudy.data.sets.get({data_set!r})")
    return UserError(
        f"{data_set} needs the file {file}, which is in none of {searched}; "
        f"fetch it with {how}, or put it there by hand."
    )


def fetch(file: PublishedFile, into: Path) -> Path:
    """Downloads the file into ``into`` and checks it, unless it is there already."""
    path = into / file.name
    if path.is_file() and md5_of(path.read_bytes()) == file.md5:
        return path
    _store(path, checked(_download(file, into), file, path))
    return path


def fetch_members(archive: Archive, members: Sequence[PublishedFile], into: Path) -> None:
    """Unpacks these members of an archive into ``into``, each checked, and nothing else."""
    paths = [into / member.name for member in members]
    if all(p.is_file() and md5_of(p.read_bytes()) == m.md5 for p, m in zip(paths, members, strict=True)):
        return
    packed = fetch(archive.file, into)
    with tarfile.open(packed) as tar:
        for member, path in zip(members, paths, strict=True):
            try:
                content = tar.extractfile(f"{archive.folder}/{member.name}")
            except KeyError:
                content = None
            if content is None:
                raise UserError(f"{packed} has no member {archive.folder}/{member.name}.")
            _store(path, checked(content.read(), member, path))
    packed.unlink()


def _store(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as refused:
        raise UserError(f"{path} cannot be written: {refused.strerror or refused}.") from None


def _download(file: PublishedFile, into: Path) -> bytes:
    try:
        with urllib.request.urlopen(file.url, timeout=PATIENCE) as answer:
            content: bytes = answer.read()
            return content
    except (URLError, http.client.HTTPException, OSError) as unreachable:
        raise UserError(
            f"{file.name} could not be fetched from {file.url} ({unreachable}); "
            f"without a network, copy the file into {into} yourself and run this again."
        ) from None
