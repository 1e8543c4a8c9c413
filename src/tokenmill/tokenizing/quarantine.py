"""Records that gave no document → lines of JSON, and what they say about a source.

Nothing is dropped in silence: each one has its file, its place, its reason and its bytes, so that
it can be repaired and given again.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tokenmill.corpus.documents import Problem

ERRORS = "errors.jsonl"
FOLDER = "quarantine"
_RECORD_CHARS_SHOWN = 200


class Quarantine:
    """The bad records of one unit, written as they come."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self.count = 0

    def add(self, problem: Problem, *, keeps_record: bool) -> None:
        if self._file is None:
            self._file = self._path.open("wb")
        row = {
            "source": problem.source,
            "line": problem.line,
            "offset": problem.offset,
            "bytes": problem.bytes,
            "reason": problem.reason,
        }
        if keeps_record:
            row |= _record(problem.record)
        self._file.write(json.dumps(row).encode() + b"\n")
        self.count += 1

    def finish(self) -> bool:
        """Whether there is a file, which is then safe on the disk."""
        if self._file is None:
            return False
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return True

    def discard(self) -> None:
        if self._file is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)


def _record(raw: bytes) -> dict[str, Any]:
    try:
        return {"record": raw.decode("utf-8")}
    except UnicodeDecodeError:
        return {"record_base64": base64.b64encode(raw).decode("ascii")}


def errors_path(folder: Path, unit: int) -> Path:
    """Where the bad records of a unit are kept."""
    return folder / errors_name(unit)


def errors_name(unit: int) -> str:
    """The same as a name in the output."""
    return f"{FOLDER}/{unit:05d}.jsonl"


def write_errors(folder: Path, rows: Iterable[dict[str, Any]], target: BinaryIO) -> None:
    """All that is missing, in the order of the plan, each with a line."""
    for row in rows:
        unit = row["unit"]
        for line in _lines(folder, row):
            line.pop("record_base64", None)
            if "record" in line:
                line["record"] = line["record"][:_RECORD_CHARS_SHOWN]
            target.write(json.dumps({"unit": unit} | line).encode() + b"\n")


def _lines(folder: Path, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "failed" in row:
        for segment in row["segments"]:
            reason = f"this part could not be done: {row['failed']}"
            yield {"source": segment["source"], "offset": segment["start"], "reason": reason}
        return
    path = errors_path(folder, row["unit"])
    if path.exists():
        with path.open("rb") as file:
            yield from map(json.loads, file)
