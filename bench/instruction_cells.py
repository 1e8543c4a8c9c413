"""Calls of tokenmill → a count of instructions and a digest of the result for each call.

`instructions.py` runs this file under callgrind, once per group and language:

    instruction_cells.py GROUP LANGUAGE TEXT MARKER RESULTS

GROUP is a vocabulary or "training". TEXT is a file in that language. MARKER is the library that
starts and ends a count. RESULTS is the JSON file to write.
All seeds are fixed, so that a build has the same counts in each run.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import json
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

LANGUAGES = ("en", "code", "zh", "ja", "th")
CALLS = 200  # short calls per cell
APPENDS = 200  # changes of a session per cell


class Recorder:
    """Counts the instructions of calls. The counts are in callgrind's dumps, one per cell."""

    def __init__(self, marker: str) -> None:
        self.library = ctypes.CDLL(marker)
        self.cells: dict[str, dict[str, Any]] = {}

    def measure(self, name: str, size: int, call: Callable[[], Any]) -> Any:
        """Call once. `size` is the number of bytes that the call must read."""
        label = name.encode()
        self.library.begin()
        result = call()
        self.library.end(label)
        data = result if isinstance(result, bytes) else repr(result).encode()
        digest = hashlib.sha256(data).hexdigest()[:16]
        self.cells[name] = {"bytes": size, "digest": digest}
        return result


def measure_vocabulary(recorder: Recorder, vocabulary: str, language: str, text: str) -> None:
    from tokenmill import Tokenizer

    name, data = f"{vocabulary} {language}", text.encode()
    tokenizer = Tokenizer.load(vocabulary)

    def encode() -> bytes:
        return tokenizer.encode_array(data, threads=1).tobytes()

    cold = recorder.measure(f"{name} cold", len(data), encode)
    warm = recorder.measure(f"{name} warm", len(data), encode)
    ids = tokenizer.encode(text)
    count = recorder.measure(f"{name} count", len(data), lambda: tokenizer.count(data, threads=1))
    offset_ids, _ = recorder.measure(
        f"{name} offsets", len(data), lambda: tokenizer.encode_with_offsets(text)
    )
    half = len(ids) // 2
    recorder.measure(
        f"{name} truncate",
        0,  # It reads a part of the text.
        lambda: [tokenizer.truncate(text, half, "left"), tokenizer.truncate(text, half, "right")],
    )
    step = max(len(text) // APPENDS, 1)
    parts = [text[at : at + step] for at in range(0, len(text), step)]
    session_ids = recorder.measure(
        f"{name} session", len(data), lambda: append_all(tokenizer, parts)
    )
    for length in (20, 200):
        stride = max((len(text) - length) // CALLS, 1)
        short = [text[at * stride : at * stride + length] for at in range(CALLS)]
        recorder.measure(
            f"{name} calls of {length}",
            sum(len(part) for part in short),
            lambda short=short: [tokenizer.encode(part) for part in short],
        )
    if not (cold == warm and count == len(ids) and offset_ids == session_ids == ids):
        sys.exit(f"{name}: the ids of two calls differ")


def append_all(tokenizer: Any, parts: list[str]) -> list[int]:
    session = tokenizer.session()
    for part in parts:
        session.append(part)
    ids: list[int] = session.ids
    return ids


def measure_training(recorder: Recorder, language: str, source: Path, size: int) -> None:
    import tokenmill

    counts = source.with_name(f"{language}.tmc")

    def count() -> bytes:
        counts.unlink(missing_ok=True)
        tokenmill.count_pretokens(source, counts, threads=1)
        return counts.read_bytes()

    def train() -> list[Any]:
        merges: list[Any] = tokenmill.train(counts, 2_000, threads=1)._merges
        return merges

    # The first calls import modules, from caches or not.
    count()
    recorder.measure(f"training {language} count", size, count)
    train()
    if not recorder.measure(f"training {language} merges", 0, train):
        sys.exit(f"training {language}: no merges")


def main(group: str, language: str, text: str, marker: str, results: str) -> None:
    secrets.randbits = lambda bits: 0x9E3779B97F4A7C15 & ((1 << bits) - 1)
    gc.disable()
    source = Path(text)
    data = source.read_bytes()
    recorder = Recorder(marker)
    if group == "training":
        measure_training(recorder, language, source, len(data))
    else:
        measure_vocabulary(recorder, group, language, data.decode())
    Path(results).write_text(json.dumps(recorder.cells))


if __name__ == "__main__":
    main(*sys.argv[1:])
