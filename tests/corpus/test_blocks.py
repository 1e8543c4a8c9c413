"""OS errors stop the reading of documents. Errors in one file are problems of that file."""

from __future__ import annotations

import errno
import gzip
import io
import random

import numpy as np
import pyarrow as pa
import pytest
from conftest import SEED
from test_segments import gather
from test_tables import TABLES, VALUES, write_table

from tokenmill.corpus import blocks, documents, find, tables
from tokenmill.corpus.documents import DocumentOptions, Documents, Problem
from tokenmill.corpus.inputs import cuts
from tokenmill.native import _native

OF_MACHINE = [
    errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO
]  # fmt: skip


class Failing(io.FileIO):
    """A file that the system reads some bytes of, and then no more."""

    def __init__(self, name: str, number: int | None, good_bytes: int) -> None:
        super().__init__(name)
        self._number = number
        self._left = good_bytes

    def readinto(self, view) -> int:
        if not self._left:
            raise OSError(self._number, "said by the system")
        count = super().readinto(memoryview(view)[: self._left]) or 0
        self._left -= count
        return count

    def read(self, size=-1) -> bytes:
        data = bytearray(size)
        return bytes(data[: self.readinto(data)])


@pytest.mark.parametrize("name", ["t.txt", "t.jsonl", "t.jsonl.gz", "t.csv", "t.wet"])
@pytest.mark.parametrize("number", [*OF_MACHINE, errno.EACCES, None])
def test_errors_of_the_machine_stop_and_those_of_a_file_do_not(tmp_path, monkeypatch, name, number):
    path = tmp_path / name
    rng = random.Random(SEED)
    data = b"".join(b'{"text": "%d"}\n' % rng.getrandbits(200) for _ in range(3_000))
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    for good_bytes in (0, 70_000):
        monkeypatch.setattr(
            blocks,
            "open_file",
            lambda source, good=good_bytes, **_: Failing(source.name, number, good),
        )
        if number in OF_MACHINE:
            with pytest.raises(OSError, match="said by the system"):
                gather(path, block_bytes=64, checksum=_native.Checksum())
        else:
            assert gather(path, block_bytes=64, checksum=_native.Checksum()).problems


def test_error_in_an_open_document_starts_again_without_it(tmp_path, monkeypatch):
    path = tmp_path / "t.txt"
    path.write_bytes(b"x")

    def read_and_fail(segment, options, stack):
        piece = np.array([[0, 1]])
        yield Documents(b"a", piece)
        if ("t", 1) not in options.skip:
            yield Documents(b"b", piece, goes_on=True, key=("t", 1))
        yield Documents(problems=[Problem("t", -1, 0, 0, "is between")])
        raise OSError("fails")

    monkeypatch.setattr(documents, "_reader", lambda _: read_and_fail)
    found = gather(path)
    assert found.texts == [b"a"]
    assert found.places == [(-1, 0)] * 2


@pytest.mark.parametrize("name", ["t.parquet.gz", "t.arrow.gz"])
def test_full_disk_stops_the_run_and_is_not_a_problem(tmp_path, monkeypatch, name):
    path = tmp_path / name
    write_table(pa.table({"text": VALUES}), path)
    path.write_bytes(gzip.compress(path.read_bytes()))

    class Full(io.BytesIO):
        def write(self, data) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tables.tempfile, "TemporaryFile", Full)
    with pytest.raises(OSError, match="No space left"):
        gather(path)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.EACCES, None])
@pytest.mark.parametrize("name", TABLES)
def test_table_that_the_machine_cannot_read_stops(tmp_path, monkeypatch, name, number):
    path = tmp_path / name
    write_table(pa.table({"text": VALUES * 50}), path)

    def fail(*_):
        raise OSError(number, "said by the system")

    monkeypatch.setattr(tables, "_seekable", fail)
    [source] = find(path)
    for call in (lambda: gather(path), lambda: cuts(source, DocumentOptions(), 1)):
        if number in (errno.EMFILE, errno.EIO):
            with pytest.raises(OSError, match="said by the system"):
                call()
        else:
            call()
    if number not in (errno.EMFILE, errno.EIO):
        assert len(gather(path).problems) == 1
