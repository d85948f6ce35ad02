"""Published files: found, checked, parsed, fetched; and what a person is told where one is wrong."""

import gzip
import io
import lzma
import pickle
import shutil
import struct
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from understudy.data.cifar import CIFAR10, CifarSet, unpickle
from understudy.data.mnist import FASHION_MNIST, MNIST, NAMES, IdxSet, parse_idx, published
from understudy.data.packaged import packaged_table, read_table
from understudy.data.problem import Problem
from understudy.data.published import PublishedFile, fetch, md5_of, missing, places
from understudy.errors import UserError, speaking_to_a_command_line


def idx(array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def tiny_idx_set(folder: Path) -> IdxSet:
    """Four files of MNIST's form: 3 training and 2 test images of 2 × 2."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = [
        np.arange(12, dtype=np.uint8).reshape(3, 2, 2),
        np.array([0, 1, 1], np.uint8),
        np.full((2, 2, 2), 7, np.uint8),
        np.array([1, 0], np.uint8),
    ]
    sums = []
    for name, array in zip(NAMES, arrays, strict=True):
        content = gzip.compress(idx(array))
        (folder / name).write_bytes(content)
        sums.append(md5_of(content))
    home = f"{folder.resolve().as_uri()}/"
    return IdxSet("tiny", ("tiny",), (), published(home, *sums), Problem((1, 2, 2), 2), ("a", "b"))


def test_four_idx_files_become_a_data_set(tmp_path: Path) -> None:
    data = tiny_idx_set(tmp_path / "tiny").read(tmp_path)
    assert data.train.x[1].tolist() == [[[4, 5], [6, 7]]]
    assert data.train.y.tolist() == [0, 1, 1]
    assert data.test is not None
    assert data.test.y.tolist() == [1, 0]


def test_a_missing_file_is_named_with_the_folders_and_the_command(tmp_path: Path) -> None:
    tiny = tiny_idx_set(tmp_path / "tiny")
    assert tiny.here(tmp_path)
    (tmp_path / "tiny" / NAMES[2]).unlink()
    assert not tiny.here(tmp_path)
    with speaking_to_a_command_line(), pytest.raises(UserError) as wrong:
        tiny.read(tmp_path)
    for part in (NAMES[2], str(tmp_path / "tiny"), "understudy data get tiny"):
        assert part in str(wrong.value)


def test_a_file_that_was_packed_anew_counts_by_its_content(tmp_path: Path) -> None:
    """As Debian does with Fashion-MNIST."""
    tiny = tiny_idx_set(tmp_path / "tiny")
    contents = tuple(md5_of(gzip.decompress((tmp_path / "tiny" / name).read_bytes())) for name in NAMES)
    packed = [file.md5 for file in tiny.files]
    first = tmp_path / "tiny" / NAMES[0]
    first.write_bytes(gzip.compress(gzip.decompress(first.read_bytes()), compresslevel=1, mtime=5))
    with pytest.raises(UserError, match="MD5"):
        tiny.read(tmp_path)
    assert len(replace(tiny, files=published("", *packed, contents=contents)).read(tmp_path).train) == 3


def test_a_file_of_another_set_or_cut_off_fails_its_checksum(tmp_path: Path) -> None:
    tiny = tiny_idx_set(tmp_path / "tiny")
    path = tmp_path / "tiny" / NAMES[0]
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(UserError, match="is not the published train-images"):
        tiny.read(tmp_path)


def test_mnist_files_are_not_taken_for_fashion(tmp_path: Path) -> None:
    tiny_idx_set(tmp_path)
    for one in (MNIST, FASHION_MNIST):
        with pytest.raises(UserError, match="MD5"):
            one.read(tmp_path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not an IDX file"),
        (b"\x00\x00\x0d\x01" + bytes(8), "not an IDX file"),
        (b"\x00\x00\x08\x03\x00\x00", "within its header"),
        (b"\x00\x00\x08\x01\x00\x00\x00\x05abc", "says 5 bytes but holds 3"),
    ],
)
def test_broken_idx_files_are_refused(content: bytes, says: str) -> None:
    with pytest.raises(UserError, match=says):
        parse_idx(content, Path("images"))


def test_the_named_folder_is_the_only_one_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tmp_path / "env"))
    monkeypatch.delenv("XDG_DATA_DIRS")
    mine = [tmp_path / "env" / "a", tmp_path / "env"]
    assert places(["a"], ["sys"], tmp_path) == [tmp_path / "a", tmp_path]
    assert places(["a"], ["sys"]) == [*mine, Path("/usr/local/share/sys"), Path("/usr/share/sys")]
    monkeypatch.setenv("XDG_DATA_DIRS", "/one:/two")
    assert places(["a"], ["sys"]) == [*mine, Path("/one/sys"), Path("/two/sys")]
    monkeypatch.delenv("UNDERSTUDY_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert places([], []) == [tmp_path / "understudy"]
    assert "/sys" in str(missing("x", "f", [Path("/sys")]))


def test_fetching_checks_and_does_not_repeat(tmp_path: Path) -> None:
    tiny = tiny_idx_set(tmp_path / "home")
    got = tiny.get(tmp_path / "data")
    assert got == tmp_path / "data" / "tiny"
    assert sorted(path.name for path in got.iterdir()) == sorted(NAMES)
    assert len(tiny.read(tmp_path / "data").train) == 3
    shutil.rmtree(tmp_path / "home")
    assert tiny.get(tmp_path / "data") == got
    (got / NAMES[0]).write_bytes(b"damaged")
    with pytest.raises(UserError, match="could not be fetched"):
        tiny.get(tmp_path / "data")


def test_a_wrong_download_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "page").write_text("not found")
    file = PublishedFile("page", "0" * 32, (tmp_path / "page").as_uri())
    with pytest.raises(UserError, match="is not the published page"):
        fetch(file, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_without_a_network_it_says_what_to_put_where(tmp_path: Path) -> None:
    file = PublishedFile("far.gz", "0" * 32, (tmp_path / "absent" / "far.gz").as_uri())
    with pytest.raises(UserError) as wrong:
        fetch(file, tmp_path / "data")
    for part in ("far.gz", file.url, str(tmp_path / "data"), "yourself"):
        assert part in str(wrong.value)


def batch(n: int, labels: list[int]) -> bytes:
    pixels = np.arange(n * 12, dtype=np.uint8).reshape(n, 12)
    return pickle.dumps({"data": pixels, "labels": labels})


def tiny_cifar(folder: Path, *, xz: bool = False) -> CifarSet:
    """Two training batches of two 3-channel 2 × 2 images and a test batch of one, and the archive of all."""
    contents = {
        "data_batch_1": batch(2, [0, 1]),
        "data_batch_2": batch(2, [1, 1]),
        "test_batch": batch(1, [0]),
        "batches.meta": pickle.dumps({"label_names": ["cat", "dog"]}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / "tiny.tar.gz", "w:gz") as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"tiny-py/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    for name, content in contents.items():
        where = folder / "tiny-py"
        where.mkdir(exist_ok=True)
        if xz and name != "batches.meta":
            (where / f"{name}.xz").write_bytes(lzma.compress(content))
        else:
            (where / name).write_bytes(content)
    first, second, test, meta = (PublishedFile(name, md5_of(content)) for name, content in contents.items())
    packed = folder / "tiny.tar.gz"
    return CifarSet(
        "tiny",
        "tiny-py",
        PublishedFile("tiny.tar.gz", md5_of(packed.read_bytes()), packed.as_uri()),
        (first, second),
        test,
        meta,
        "labels",
        "label_names",
        Problem((3, 2, 2), 2),
    )


@pytest.mark.parametrize("xz", [False, True])
def test_batches_are_read_plain_and_compressed(tmp_path: Path, xz: bool) -> None:
    data = tiny_cifar(tmp_path, xz=xz).read(tmp_path)
    assert data.train.y.tolist() == [0, 1, 1, 1]
    assert data.train.x.shape == (4, 3, 2, 2)
    assert data.train.x[1, 0].tolist() == [[12, 13], [14, 15]]
    assert data.label_names == ("cat", "dog")


def test_an_archive_is_unpacked_member_by_member(tmp_path: Path) -> None:
    tiny = tiny_cifar(tmp_path / "home")
    got = tiny.get(tmp_path / "data")
    assert sorted(path.name for path in got.iterdir()) == sorted(file.name for file in tiny.files)
    assert len(tiny.read(tmp_path / "data").train) == 4


def test_a_batch_is_compared_with_its_checksum_before_it_is_opened(tmp_path: Path) -> None:
    tiny = tiny_cifar(tmp_path)
    (tmp_path / "tiny-py" / "test_batch").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(UserError, match="is not the published test_batch"):
        tiny.read(tmp_path)


def test_a_truncated_xz_and_a_missing_batch_are_named(tmp_path: Path) -> None:
    tiny = tiny_cifar(tmp_path, xz=True)
    path = tmp_path / "tiny-py" / "data_batch_1.xz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"data_batch_1\.xz cannot be read"):
        tiny.read(tmp_path)
    path.unlink()
    with pytest.raises(UserError, match="needs the file data_batch_1 "):
        tiny.read(tmp_path)


def test_even_a_checked_pickle_may_only_hold_arrays() -> None:
    with pytest.raises(UserError, match=r"asks for os\.system"):
        unpickle(b"cos\nsystem\n(S'false'\ntR.", Path("batch"))
    with pytest.raises(UserError, match=r"asks for numpy\.load"):
        unpickle(b"cnumpy\nload\n(S'file'\ntR.", Path("batch"))
    with pytest.raises(UserError, match="not a batch of arrays"):
        unpickle(pickle.dumps([1]), Path("batch"))


def test_a_batch_of_the_wrong_shape_is_refused(tmp_path: Path) -> None:
    tiny = tiny_cifar(tmp_path)
    with pytest.raises(UserError, match="rows of 48 pixels"):
        replace(tiny, problem=Problem((3, 4, 4), 2)).read(tmp_path)
    with pytest.raises(UserError, match="no list of 'fine_labels'"):
        replace(tiny, label_key="fine_labels").read(tmp_path)
    with pytest.raises(UserError, match="labels run from 0 to 1"):
        replace(tiny, problem=Problem((3, 2, 2), 1)).read(tmp_path)


def test_cifar_is_found_in_the_folders_people_have(tmp_path: Path) -> None:
    folders = CIFAR10.folders(tmp_path)
    assert tmp_path / "cifar-10" / "cifar-10-batches-py" in folders
    assert tmp_path / "cifar-10-batches-py" in folders
    assert tmp_path in folders


def test_a_packaged_table_that_is_broken_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"1,2\n3,4\n"))
    assert read_table(path, 2, 2).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(UserError, match="4 numbers instead of 3 × 2"):
        read_table(path, 3, 2)
    path.write_bytes(gzip.compress(b"1,x\n"))
    with pytest.raises(UserError, match="cannot be read"):
        read_table(path, 1, 2)
    path.write_bytes(gzip.compress(b"1,2\n3,4\n")[:-9])
    with pytest.raises(UserError, match="cannot be read"):
        read_table(path, 2, 2)
    with pytest.raises(UserError, match="pip install nothing-such"):
        packaged_table("nothing_such", "nothing-such", "t.csv.gz", 1, 1)
