"""Steps 5 to 10: the Zig files of the folder `zig` → functions from a text to its ids.

The compiler makes one library of all steps, once, in `build/ladder`. A call of ctypes costs more
than the encoding of a short text, so `repeat` encodes a text many times in one call.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ladder.encoding.pretokens import Encode
from ladder.errors import LadderError
from tokenmill import reference

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).parent / "zig"
UNICODE = ROOT / "core" / "unicode.zig"
# The order of zig/library.zig. The last four are variants.
STEPS = (*range(5, 11), *range(21, 25))
_ROOM = 16  # ids after the last one, which step 10 may overwrite


class Compiled:
    """An encoder of the library."""

    def __init__(self, number: int, ranks: Mapping[bytes, int], mode: str = "ReleaseFast") -> None:
        self._library = load_library(mode)
        ends = np.cumsum([len(token) for token in ranks], dtype=np.uint32)
        ids = np.fromiter(ranks.values(), np.uint32, len(ranks))
        self._encoder = self._library.ladder_open(
            number, b"".join(ranks), ends.ctypes.data, ids.ctypes.data, len(ranks)
        )
        if not self._encoder:
            raise MemoryError

    def __call__(self, text: str) -> list[int]:
        return self.repeat(text, 1)

    def repeat(self, text: str, times: int) -> list[int]:
        data = reference.to_bytes(text)
        out = np.empty(len(data) + _ROOM, np.uint32)
        count = self._library.ladder_encode(self._encoder, data, len(data), out.ctypes.data, times)
        if count < 0:
            raise MemoryError
        ids: list[int] = out[:count].tolist()
        return ids


def prepare(ranks: Mapping[bytes, int], pattern: str, step: int) -> Encode:
    if pattern != reference.GPT2_PATTERN:
        raise LadderError(f"the steps in Zig have the pattern of GPT-2 only, not {pattern!r}")
    return Compiled(STEPS.index(step), ranks)


@cache
def load_library(mode: str = "ReleaseFast") -> Any:
    """Compile the library if its sources have changed, and load it."""
    sources = [*sorted(SOURCES.glob("*.zig")), UNICODE]
    digest = hashlib.sha256(platform.node().encode() + b"".join(p.read_bytes() for p in sources))
    path = ROOT / "build" / "ladder" / f"{mode}-{digest.hexdigest()[:16]}.so"
    if not path.exists():
        _compile(path, mode)
    library = ctypes.CDLL(str(path))
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    library.ladder_open.restype = pointer
    library.ladder_open.argtypes = [ctypes.c_uint32, ctypes.c_char_p, pointer, pointer, size]
    library.ladder_encode.restype = ctypes.c_ssize_t
    library.ladder_encode.argtypes = [pointer, ctypes.c_char_p, size, pointer, size]
    return library


def _compile(path: Path, mode: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    cached = str(ROOT / "build" / "zig-cache")
    command: list[str | Path] = [
        sys.executable, "-m", "ziglang", "build-lib", "-dynamic", "-O", mode, "-mcpu=native",
        "--name", "ladder", "--dep", "unicode", f"-Mroot={SOURCES / 'library.zig'}",
        f"-Municode={UNICODE}", f"-femit-bin={fresh}",
        "--cache-dir", cached, "--global-cache-dir", cached,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise LadderError(
            "the steps in Zig cannot be compiled; run `make demo`, which installs the compiler\n"
            + done.stderr[-2000:]
        )
    fresh.replace(path)
