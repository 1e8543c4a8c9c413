"""Bytes → complete files: old or new ones, never partial ones, with their names in errors."""

import os
import stat

import pytest

from tokenmill.files import write_new, write_together, write_whole


def failing_parts():
    yield b"partial"
    raise RuntimeError("stopped")


def test_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="stopped"):
        write_whole(path, failing_parts())
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_files_are_replaced_together_or_not_at_all(tmp_path):
    first, second = tmp_path / "1", tmp_path / "2"
    write_together({first: b"a", second: iter([b"b", b"c"])})
    with pytest.raises(RuntimeError, match="stopped"):
        write_together({first: b"new", second: failing_parts()})
    assert (first.read_bytes(), second.read_bytes()) == (b"a", b"bc")
    assert sorted(tmp_path.iterdir()) == [first, second]


def test_write_new_keeps_a_file_that_exists(tmp_path):
    path = tmp_path / "x"
    assert write_new(path, b"first") and not write_new(path, b"second")
    assert path.read_bytes() == b"first" and list(tmp_path.iterdir()) == [path]


def test_new_file_has_the_mode_of_open(tmp_path):
    write_whole(tmp_path / "ours", b"")
    (tmp_path / "plain").write_bytes(b"")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ours", "plain")}
    assert len(modes) == 1


@pytest.mark.parametrize("write", [write_whole, write_new])
def test_error_names_the_file_and_not_its_temporary_name(tmp_path, write):
    path = tmp_path / "missing" / "x"
    with pytest.raises(FileNotFoundError) as error:
        write(path, b"")
    assert error.value.filename == os.fspath(path)
