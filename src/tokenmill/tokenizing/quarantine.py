"""Rejected records → lines of JSON, each with its source, position, reason and bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tokenmill.corpus.documents import Problem
from tokenmill.errors import TokenizeError
from tokenmill.shards.files import HashedFile
from tokenmill.tokenizing.output import Output

ERRORS = "errors.jsonl"
FOLDER = "quarantine"
_RECORD_CHARS_SHOWN = 200


class Quarantine:
    """The rejected records of one task. `keeps_records` includes their bytes."""

    def __init__(self, path: Path, keeps_records: bool) -> None:
        self._path, self._keeps_records = path, keeps_records
        self._file: HashedFile | None = None
        self.count = 0

    def add(self, problem: Problem) -> None:
        if self._file is None:
            self._file = HashedFile(self._path, "")
        row = {
            "source": problem.source,
            "line": problem.line,
            "offset": problem.offset,
            "bytes": problem.bytes,
            "reason": problem.reason,
        }
        if self._keeps_records:
            row |= _record(problem.record)
        self._file.write(json.dumps(row).encode() + b"\n")
        self.count += 1

    def finish(self) -> Path | None:
        """The file, which is on the disk; None if there is none."""
        if self._file is None:
            return None
        self._file.finish()
        return self._path

    def discard(self) -> None:
        if self._file is not None:
            self._file.discard()


def _record(raw: bytes) -> dict[str, Any]:
    try:
        return {"record": raw.decode("utf-8")}
    except UnicodeDecodeError:
        return {"record_base64": base64.b64encode(raw).decode("ascii")}


def errors_name(task: int) -> str:
    """The file of the rejected records of a task."""
    return f"{FOLDER}/{task:05d}.jsonl"


def error_lines(output: Output, entries: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """Yield a line for each rejected record, in the order of the plan."""
    for entry in entries:
        for line in _lines(output, entry):
            line.pop("record_base64", None)
            if "record" in line:
                line["record"] = line["record"][:_RECORD_CHARS_SHOWN]
            yield json.dumps({"task": entry["task"]} | line).encode() + b"\n"


def _lines(output: Output, entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "failed" in entry:
        for segment in entry["segments"]:
            reason = f"the task of this segment failed: {entry['failed']}"
            place = {"line": 0, "offset": segment["start"], "bytes": 0}
            yield {"source": segment["source"]} | place | {"reason": reason}
    elif entry["quarantined"]:
        name = errors_name(entry["task"])
        data = output.read(name)
        if data is None:
            raise TokenizeError(
                f"file not found: {name!r} in {output.name!r}; delete the journal entry of task "
                f"{entry['task']} and run the same command again"
            )
        yield from map(json.loads, data.splitlines())
