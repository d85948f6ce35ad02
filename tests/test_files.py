"""Lines in files that are only ever added to."""

from pathlib import Path

import pytest

from understudy.files import add_line


@pytest.mark.parametrize("before", [b"", b'{"a": 1}\n', b'{"a": 1}\n{"b"', b'{"b"'])
def test_half_a_line_does_not_spoil_the_next(before: bytes, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(before)
    add_line(tmp_path / "lines", {"c": 3})
    whole = b'{"a": 1}\n' if b"\n" in before else b""
    assert (tmp_path / "lines").read_bytes() == whole + b'{"c": 3}\n'
