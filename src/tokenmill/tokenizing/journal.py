"""Rows of tasks that are done ↔ lines on the disk.

A kill can tear the last line, and then that task is done again. A run has one journal; ranks, which
know nothing of each other, have one each, and whoever comes next reads all of them. At an address
each row is an object of its own, which the task has written last.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenmill.files import write_whole
from tokenmill.mirror import Mirror
from tokenmill.tokenizing.plan import Plan, Unit
from tokenmill.tokenizing.shuffle import PIECES

NAME = "rows.jsonl"
FOLDER = "rows"
_JOURNALS = "rows*.jsonl"
COUNTS = ("documents", "tokens", "bytes", "quarantined")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(slots=True)
class Rows:
    """What is done: units, and shards that were mixed; by number."""

    units: dict[int, dict[str, Any]] = field(default_factory=dict)
    mixes: dict[int, dict[str, Any]] = field(default_factory=dict)

    def add(self, row: dict[str, Any]) -> None:
        if "mix" in row:
            self.mixes[row["mix"]] = row
        else:
            self.units[row["unit"]] = row


def read_rows(
    folder: Path, plan: Plan, *, failed: bool = False, mirror: Mirror | None = None
) -> Rows:
    """The rows of all journals that are whole, of this plan, and whose files are there.

    Units that failed are tried again, so their rows are left out, unless they are asked for: then
    those are given that nobody has done since.
    """
    rows = Rows()
    given_up: list[dict[str, Any]] = []
    for path in sorted(folder.glob(_JOURNALS)):
        with suppress(FileNotFoundError), path.open("rb") as file:
            for row in filter(None, map(_parsed, file)):
                if not _is_whole(row) or not _is_ours(row, plan):
                    continue
                if "failed" in row:
                    given_up.append(row)
                elif is_there(row, folder, mirror):
                    rows.add(row)
    for row in given_up if failed else ():
        rows.units.setdefault(row["unit"], row)
    return rows


def _parsed(line: bytes) -> dict[str, Any] | None:
    """A row, or None where a kill has torn it."""
    try:
        row = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _is_whole(row: dict[str, Any]) -> bool:
    """Whether a row has what is asked of it later; another program may have written it."""
    numbers = ("mix", "of") if "mix" in row else ("unit", *COUNTS)
    parts = ("units", "shards") if "mix" in row else ("id", "segments", "shards")
    return all(isinstance(row.get(name), int) for name in numbers) and all(
        map(row.__contains__, parts)
    )


def _is_ours(row: dict[str, Any], plan: Plan) -> bool:
    if "mix" in row:
        return True
    number = row.get("unit")
    if not isinstance(number, int) or not 0 <= number < len(plan.units):
        return False
    return plan.units[number].id == row.get("id")


def is_there(row: dict[str, Any], folder: Path, mirror: Mirror | None = None) -> bool:
    """Whether the files of a row are what it says; what is not is done again."""
    files = [(PIECES + "/" + piece["name"], piece["bytes"]) for piece in row.get("pieces", [])]
    for shard in row["shards"]:
        files += [(shard["stem"] + file["suffix"], file["bytes"]) for file in shard["files"]]
    if mirror is not None:
        return all(mirror.listed.get(name) == size for name, size in files)
    try:
        return all((folder / name).stat().st_size == size for name, size in files)
    except OSError:
        return False


class Journal:
    """The rows of what is done, on the disk."""

    def __init__(
        self,
        folder: Path,
        plan: Plan,
        *,
        alone: bool = True,
        keeps_failed: bool = False,
        mirror: Mirror | None = None,
    ) -> None:
        """Reads what there is. One who is `alone` puts it into one file; a rank has its own."""
        self.rows = read_rows(folder, plan, failed=keeps_failed, mirror=mirror)
        self._mirror = mirror
        path = folder / NAME
        if alone:
            every = [*self.rows.units.values(), *self.rows.mixes.values()]
            # Without a torn end, so that what follows it stands on a line of its own.
            write_whole(path, b"".join(map(_line, every)))
            remove_all(folder, but=path)
        else:
            path = folder / f"rows.{secrets.token_hex(8)}.jsonl"
        self._file = path.open("ab")

    def add(self, row: dict[str, Any]) -> None:
        """Records a task: from here on it is done."""
        if self._mirror is not None and "failed" in row:
            upload(self._mirror, row)
        self._file.write(_line(row))
        self._file.flush()
        os.fsync(self._file.fileno())
        self.rows.add(row)

    def close(self) -> None:
        self._file.close()


def remove_all(folder: Path, but: Path | None = None) -> None:
    """Removes the journals of a folder, whose rows are elsewhere now."""
    for path in folder.glob(_JOURNALS):
        if path != but:
            path.unlink(missing_ok=True)


def write(folder: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Makes a journal of rows that were in a manifest."""
    write_whole(folder / NAME, b"".join(map(_line, rows)))


def upload(mirror: Mirror, row: dict[str, Any]) -> None:
    """Records a unit at an address. One that failed does not stand in the way of one that did not,
    which another rank may have had."""
    end = ".failed.json" if "failed" in row else ".json"
    mirror.write(f"{FOLDER}/{row['unit']:05d}{end}", _line(row))


def _line(row: dict[str, Any]) -> bytes:
    return spelled(row).encode() + b"\n"


def spelled(value: Any) -> str:
    """JSON in one line; names of files that are not UTF-8 have their bytes escaped."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    is_text = text.isascii() or not _SURROGATE.search(text)
    return text if is_text else json.dumps(value, sort_keys=True)


def failed_row(unit: Unit, why: str) -> dict[str, Any]:
    """The row of a unit that could not be done: all of it is missing, and it says so."""
    nothing = {"documents": 0, "tokens": 0, "bytes": 0, "quarantined": 1}
    segments = [
        {"source": segment.source.name, "start": segment.start, "end": segment.end} | nothing
        for segment in unit.segments
    ]
    row = {"unit": unit.number, "id": unit.id, "failed": why, "input": None, "shards": []}
    return row | nothing | {"segments": segments, "quarantined": len(segments)}
