"""Bytes → XXH3-64, the checksum of every file that a run writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tokenmill._native import Checksum

_BLOCK_BYTES = 1 << 20


def hexadecimal(checksum: Checksum) -> str:
    """Its 16 digits, as manifests hold them."""
    return f"{checksum.value():016x}"


def of_file(path: Path) -> str:
    """The checksum of a file, which is read in blocks."""
    checksum = Checksum()
    for block in blocks(path):
        checksum.update(block)
    return hexadecimal(checksum)


def blocks(path: Path) -> Iterator[memoryview]:
    """The bytes of a file; each block is good until the next one is asked for."""
    buffer = bytearray(_BLOCK_BYTES)
    view = memoryview(buffer)
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(buffer):
            yield view[:size]
