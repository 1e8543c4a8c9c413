"""Counts ↔ files: spilled, merged and reread counts are equal, or an error is raised."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from conftest import FIXTURES, SEED, examples, sample
from hypothesis import given, settings
from hypothesis import strategies as st
from test_counts import counter, entries, split_counts

from tokenmill import _native
from tokenmill.errors import InputError

FOOTER_LEN = 36


def inventory(counts: dict[bytes, int]) -> _native.Inventory:
    lengths = np.array([len(key) for key in counts], np.uint32)
    return _native.Inventory(b"".join(counts), lengths, np.array([*counts.values()], np.uint64))


def write(path: Path, counts: dict[bytes, int], metadata: str = "{}") -> Path:
    inventory(counts).write(str(path), metadata)
    return path


def read(path: Path) -> dict[bytes, int]:
    return entries(_native.CountsFile(str(path)).load())


def merge(paths: list[Path], weights: list[float], output: Path) -> dict[bytes, int]:
    _native.merge_counts([str(path) for path in paths], np.array(weights, float), str(output), "{}")
    return read(output)


def test_file_is_read_in_parts_from_any_number_of_entries(tmp_path):
    counts = {b"%05d" % i: i + 1 for i in range(3_000)}
    path = write(tmp_path / "c.tmc", counts)
    for entries_max in (1, 7, 2_999, 3_000, 10_000):
        file = _native.CountsFile(str(path))
        for _ in range(2):
            found: dict[bytes, int] = {}
            while (part := file.read(entries_max)) is not None:
                assert 1 <= len(part) <= entries_max
                found |= entries(part)
            assert found == counts
            assert file.read(entries_max) is None
            file.rewind()
    with pytest.raises(ValueError, match="entries_max must be at least 1"):
        file.read(0)


def decode(data: bytes) -> tuple[dict[bytes, int], bytes]:
    """The entries and the metadata of a file, by docs/formats.md alone."""
    assert data[:4] == b"TMC1"
    (metadata_len,) = struct.unpack_from("<I", data, 4)
    at = 8 + metadata_len
    assert struct.unpack_from("<I", data, at) == (zlib.crc32(data[:at]),)
    at += 4
    found: dict[bytes, int] = {}
    while True:
        payload_len, count = struct.unpack_from("<II", data, at)
        if payload_len == 0:
            break
        end = at + 8 + payload_len
        assert struct.unpack_from("<I", data, end) == (zlib.crc32(data[at:end]),)
        entry, place = b"", at + 8
        for _ in range(count):
            numbers = []
            for _ in range(3):
                number = shift = 0
                while True:
                    byte = data[place]
                    number |= (byte & 0x7F) << shift
                    place, shift = place + 1, shift + 7
                    if byte < 0x80:
                        break
                numbers.append(number)
            shared, suffix_len, occurrences = numbers
            entry = entry[:shared] + data[place : place + suffix_len]
            place += suffix_len
            assert entry not in found
            found[entry] = occurrences
        assert place == end
        at = end + 4
    totals = struct.unpack_from("<QQQ", data, at + 8)
    assert totals == (len(found), sum(found.values()), sum(map(len, found)))
    assert struct.unpack_from("<I", data, at + 32) == (zlib.crc32(data[at : at + 32]),)
    assert at + FOOTER_LEN == len(data)
    assert list(found) == sorted(found)
    return found, data[8 : 8 + metadata_len]


@settings(max_examples=max(20, examples(100)))
@given(st.dictionaries(st.binary(max_size=20), st.integers(1, 2**40), max_size=50))
def test_written_counts_are_read_back(tmp_path_factory, counts):
    path = write(tmp_path_factory.mktemp("counts") / "a.tmc", counts, '{"pattern": "é"}')
    file = _native.CountsFile(str(path))
    assert (len(file), file.total()) == (len(counts), sum(counts.values()))
    assert file.metadata().decode() == '{"pattern": "é"}'
    assert list(entries(file.load()).items()) == sorted(counts.items())
    assert decode(path.read_bytes()) == (counts, file.metadata())
    # A second time as well.
    assert entries(file.load()) == counts


def test_file_bytes_depend_only_on_the_counts(tmp_path):
    texts = [path.read_bytes() for path in FIXTURES] * 2
    texts = [text[: max(3_000, examples(len(text)))] for text in texts]
    files = []
    for number, threads in enumerate((1, 2, 3)):
        random.Random(SEED + number).shuffle(texts)
        made = counter("o200k")
        made.add(texts, threads)
        made.spill(str(tmp_path / "run.tmc"))
        files.append((tmp_path / "run.tmc").read_bytes())
        made.add(texts, threads)
        made.take().write(str(tmp_path / "taken.tmc"), "{}")
        files.append((tmp_path / "taken.tmc").read_bytes())
    assert len(set(files)) == 1
    assert decode(files[0])[0] == split_counts(texts, "o200k")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.tmc", "taken.tmc"]


def test_counts_spilled_in_many_runs_and_merged_are_the_same(tmp_path):
    data = b"".join(path.read_bytes() for path in FIXTURES)
    made = counter("cl100k")
    paths = []
    for start in range(0, len(data), len(data) // 20):
        made.add([data[start : start + len(data) // 20]], 2)
        paths.append(tmp_path / f"{start}.tmc")
        made.spill(str(paths[-1]))
        assert (made.unique(), made.total()) == (0, 0)
    made.add([data[i : i + len(data) // 20] for i in range(0, len(data), len(data) // 20)], 3)
    assert merge(paths, [1] * len(paths), tmp_path / "all.tmc") == entries(made.take())


def test_more_runs_than_can_be_open_are_merged_in_passes(tmp_path):
    paths, expected = [], Counter()
    for number in range(600):
        counts = {b"%d" % (number % 7): 1, b"x%d" % number: number + 1}
        expected.update(counts)
        paths.append(write(tmp_path / f"{number}.tmc", counts))
    assert merge(paths, [1] * 600, tmp_path / "all.tmc") == expected
    assert len(list(tmp_path.iterdir())) == 601
    doubled = {key: 2 * count for key, count in expected.items()}
    assert merge(paths, [2] * 600, tmp_path / "all.tmc") == doubled


def test_weights_round_half_up_and_drop_zero_counts(tmp_path):
    first = write(tmp_path / "1.tmc", {b"a": 1, b"b": 2, b"c": 3})
    second = write(tmp_path / "2.tmc", {b"a": 10, b"d": 1})
    merged = merge([first, second], [0.5, 2.5], tmp_path / "m.tmc")
    assert merged == {b"a": 1 + 25, b"b": 1, b"c": 2, b"d": 3}
    assert merge([first, second], [0.25, 0], tmp_path / "m.tmc") == {b"b": 1, b"c": 1}
    assert merge([], [], tmp_path / "m.tmc") == {}


def test_counts_beyond_32_bits_stay_right(tmp_path):
    big = write(tmp_path / "big.tmc", {b"a": 2**32 + 5, b"b": 2**63})
    assert read(big) == {b"a": 2**32 + 5, b"b": 2**63}
    small = write(tmp_path / "small.tmc", {b"a": 2**32 - 1, b"c": 2**31})
    merged = merge([small, small, small], [1, 3.5, 1], tmp_path / "m.tmc")
    assert merged[b"c"] == 2 * 2**31 + 7 * 2**30
    assert merged[b"a"] == 2 * (2**32 - 1) + (7 * (2**32 - 1) + 1) // 2
    for paths, weights in (([big, big], [1, 1]), ([big], [2.0])):
        with pytest.raises(InputError, match=r"2\^64"):
            merge(paths, weights, tmp_path / "too_large.tmc")
    assert not (tmp_path / "too_large.tmc").exists()
    # Entries that are there twice are added up.
    twice = _native.Inventory(b"aa", np.array([1, 1], np.uint32), np.array([2**33, 1], np.uint64))
    twice.write(str(tmp_path / "twice.tmc"), "{}")
    assert read(tmp_path / "twice.tmc") == {b"a": 2**33 + 1}


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_invalid_weight_is_rejected(tmp_path, weight):
    path = write(tmp_path / "a.tmc", {b"a": 1})
    with pytest.raises(InputError, match="weight"):
        merge([path], [weight], tmp_path / "m.tmc")


def test_foreign_files_raise_an_error(tmp_path):
    counts = {b"%x" % (number * 77): number + 1 for number in range(300)}
    good = write(tmp_path / "good.tmc", counts, '{"a": 1}').read_bytes()
    rng = random.Random(SEED)
    bad = tmp_path / "bad.tmc"

    def is_refused(data: bytes) -> bool:
        bad.write_bytes(data)
        try:
            found = read(bad)
        except InputError as error:
            assert "at byte " in str(error)
            assert str(bad) in str(error)
            return True
        assert found == counts
        return data == good

    assert all(is_refused(good[:end]) for end in sample(range(len(good))))
    for _ in range(examples(2000)):
        data = bytearray(good)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        assert is_refused(bytes(data))
    assert is_refused(good + b"\0")


def test_invalid_files_with_correct_checksums_are_rejected(tmp_path):
    """A file with wrong lengths can have the correct checksum."""
    path = tmp_path / "lie.tmc"
    rng = random.Random(SEED)
    good = write(path, {b"abc": 3, b"abd": 2, b"b" * 200: 1}).read_bytes()
    start = 8 + 2 + 4
    (payload_len,) = struct.unpack_from("<I", good, start)
    end = start + 8 + payload_len

    def assemble(head: bytes, payload: bytes, footer: bytes) -> bytes:
        block = head + payload
        block += struct.pack("<I", zlib.crc32(block))
        return good[:start] + block + footer + struct.pack("<I", zlib.crc32(footer))

    head, payload, footer = good[start : start + 8], good[start + 8 : end], good[end + 4 : -4]
    assert assemble(head, payload, footer) == good
    refused = 0
    for _ in range(examples(5000)):
        parts = [bytearray(head), bytearray(payload), bytearray(footer)]
        part = rng.choice(parts)
        at = rng.randrange(len(part))
        part[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, part[at] ^ 1, part[at] + 1 & 0xFF))
        data = assemble(*map(bytes, parts))
        path.write_bytes(data)
        try:
            found = read(path)
        except InputError as error:
            assert "at byte " in str(error)
            refused += 1
        else:
            # Another entry of the same length is as good as the first.
            assert decode(data)[0] == found
    assert refused > examples(1000)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((1, 1, 1), "shares more"),
        ((0, 100, 1), "longer than its block"),
        ((0, 1, 0), "count 0"),
        ((0, 1, 2**64), "does not end"),
    ],
)
def test_error_names_the_invalid_count(tmp_path, numbers, message):
    payload = b"".join(varint(number) for number in numbers) + b"a"
    block = struct.pack("<II", len(payload), 1) + payload
    footer = struct.pack("<IIQQQ", 0, 0, 1, 1, 1)
    head = b"TMC1" + struct.pack("<I", 0)
    path = tmp_path / "entry.tmc"
    path.write_bytes(
        b"".join(part + struct.pack("<I", zlib.crc32(part)) for part in (head, block, footer))
    )
    with pytest.raises(InputError, match=message):
        read(path)


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def test_unusable_path_is_an_os_error(tmp_path):
    with pytest.raises(OSError, match=r"missing\.tmc: no such file"):
        _native.CountsFile(str(tmp_path / "missing.tmc"))
    with pytest.raises(OSError, match="no such file"):
        write(tmp_path / "nowhere" / "a.tmc", {b"a": 1})
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write(tmp_path / "folder", {b"a": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_counter_keeps_counts_after_a_failed_spill(tmp_path):
    made = counter()
    made.add(["a b a"], 1)
    with pytest.raises(OSError):
        made.spill(str(tmp_path / "nowhere" / "a.tmc"))
    assert entries(made.take()) == {b"a": 1, b" b": 1, b" a": 1}


FULL = """
import resource, sys
import numpy as np
from tokenmill import _native
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
words = np.arange(400_000, dtype=">u4").tobytes()
made = _native.Inventory(words, np.full(400_000, 4, np.uint32), np.full(400_000, 9, np.uint64))
try:
    made.write(sys.argv[1], "{}")
except OSError as error:
    print(error)
"""


def test_full_disk_leaves_no_files(tmp_path):
    pytest.importorskip("resource")
    command = [sys.executable, "-c", FULL, str(tmp_path / "a.tmc")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "too large" in done.stdout, done
    assert list(tmp_path.iterdir()) == []


INTERRUPTED = """
import signal, sys, threading, time, os
from tokenmill import _native
from tokenmill.errors import InputError
text = b"some words that come again and again " * 3_000_000
for _ in range(20):
    made = _native.Counter("r50k", [], 1, False)
    threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    try:
        for _ in range(100):
            made.add([text], 2)
    except KeyboardInterrupt:
        took = time.monotonic() - started
    try:
        made.take()  # the signal came between two additions: try again
    except InputError as error:
        print("interrupted", took < 2, error)
        break
"""


def test_counting_can_be_interrupted_and_is_then_not_to_be_trusted():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("interrupted True an addition to this counter did not end"), done
