"""Rows of tasks that are done ↔ lines on the disk.

A kill can tear the last line, and then that task is done again. A run has one journal; ranks, which
know nothing of each other, have one each, and whoever comes next reads all of them. At an address
each row is an object of its own, which the task has written last.
"""

from __future__ import annotations

import json
import os
import secrets
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tokenmill.errors import TokenizeError
from tokenmill.files import write_whole
from tokenmill.mirror import Mirror
from tokenmill.tokenizing.listed import Kept, spelled
from tokenmill.tokenizing.plan import Plan, Unit
from tokenmill.tokenizing.rows import is_whole, named_files

NAME = "rows.jsonl"
FOLDER = "rows"
_JOURNALS = "rows*.jsonl"


class UnitRows(Mapping[int, dict[str, Any]]):
    """The rows of units by number, which stay in the journals: here is where each of them begins,
    and how many documents it has."""

    def __init__(self, units: int) -> None:
        self._starts = array("q", [-1]) * units
        self._documents = array("q", [0]) * units
        self._journals = array("l", [0]) * units
        self._files: list[Path | Kept] = []
        self._places: dict[Path | Kept, int] = {}
        self._count = 0
        self._last: tuple[Path | Kept | None, Kept | None] = None, None

    def put(self, row: dict[str, Any], journal: Path | Kept, start: int) -> None:
        """Remembers where a row begins. A journal that others may replace is given open."""
        number = row["unit"]
        self._count += self._starts[number] < 0
        self._starts[number] = start
        self._documents[number] = row["documents"]
        if journal not in self._places:
            self._places[journal] = len(self._files)
            self._files.append(journal)
        self._journals[number] = self._places[journal]

    def __getitem__(self, number: int) -> dict[str, Any]:
        if number not in self:
            raise KeyError(number)
        try:
            journal = self._opened(self._files[self._journals[number]])
            row: Any = json.loads(journal.line(self._starts[number]))
            if row["unit"] == number:
                return dict(row)
        except (OSError, ValueError, TypeError, KeyError):
            pass
        raise TokenizeError(
            f"the row of unit {number} is no longer where it was: another run has rewritten the "
            "journal; when it has ended, the same command goes on"
        )

    def _opened(self, journal: Path | Kept) -> Kept:
        """A journal to read; the last one stays open."""
        if isinstance(journal, Kept):
            return journal
        last, kept = self._last
        if kept is None or last != journal:
            with journal.open("rb") as file:
                kept = Kept(file)
            self._last = journal, kept
        return kept

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int) or not 0 <= number < len(self._starts):
            return False
        return self._starts[number] >= 0

    def __iter__(self) -> Iterator[int]:
        return (number for number, start in enumerate(self._starts) if start >= 0)

    def __len__(self) -> int:
        return self._count

    def documents(self) -> dict[int, int]:
        """How many documents each unit has, for those who mix them."""
        return {number: self._documents[number] for number in self}


class Rows:
    """What is done: units, and shards that were mixed; by number."""

    def __init__(self, units: int) -> None:
        self.units = UnitRows(units)
        self.mixes: dict[int, dict[str, Any]] = {}

    def put(self, row: dict[str, Any], journal: Path | Kept, start: int) -> None:
        """Takes a row that lies in a journal, from byte `start` on."""
        if "mix" in row:
            self.mixes[row["mix"]] = row
        else:
            self.units.put(row, journal, start)

    def in_order(self) -> Iterator[dict[str, Any]]:
        yield from self.units.values()
        yield from self.mixes.values()


def read_rows(
    folder: Path, plan: Plan, *, failed: bool = False, mirror: Mirror | None = None
) -> Rows:
    """The rows of all journals that are whole, of this plan, and whose files are there.

    Units that failed are tried again, so their rows are left out, unless they are asked for: then
    those are given that nobody has done since.
    """
    rows = Rows(len(plan.units))
    given_up: list[tuple[dict[str, Any], Path, int]] = []
    for path in sorted(folder.glob(_JOURNALS)):
        for row, start in _lines_of(path):
            if not is_whole(row) or not _is_ours(row, plan):
                continue
            if "failed" in row:
                given_up.append((row, path, start))
            elif is_there(row, folder, mirror):
                rows.put(row, path, start)
    for row, path, start in given_up if failed else ():
        if row["unit"] not in rows.units:
            rows.put(row, path, start)
    return rows


def _lines_of(path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """The rows of a journal, and where they begin. It may be gone by now."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        yield from _rows_of(file)


def _rows_of(lines: Iterable[bytes]) -> Iterator[tuple[dict[str, Any], int]]:
    start = 0
    for line in lines:
        row = _parsed(line)
        if row is not None:
            yield row, start
        start += len(line)


def _parsed(line: bytes) -> dict[str, Any] | None:
    """A row, or None where a kill has torn it."""
    try:
        row = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _is_ours(row: dict[str, Any], plan: Plan) -> bool:
    """Whether it is of a unit of this plan; what is mixed is compared when all units are done."""
    if "mix" in row:
        return True
    if row["unit"] >= len(plan.units):
        return False
    unit = plan.units[row["unit"]]
    names = [segment["source"] for segment in row["segments"]]
    return row["id"] == unit.id and names == [segment.source.name for segment in unit.segments]


def is_there(row: dict[str, Any], folder: Path, mirror: Mirror | None = None) -> bool:
    """Whether the files of a row are what it says; what is not is done again."""
    if not is_whole(row):
        return False
    if mirror is not None:
        return all(mirror.listed.get(name) == size for name, size in named_files(row))
    try:
        return all((folder / name).stat().st_size == size for name, size in named_files(row))
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
        path = folder / (NAME if alone else f"rows.{secrets.token_hex(8)}.jsonl")
        if alone:
            # Without a torn end, so that what follows it stands on a line of its own.
            write_whole(path, map(_line, self.rows.in_order()))
        self._file = path.open("ab")
        # Where the system has no locks another run may replace the file: this one is kept.
        with path.open("rb") as reading:
            self._kept = Kept(reading)
        if alone:
            self.rows = Rows(len(plan.units))
            for row, start in _rows_of(self._kept):
                self.rows.put(row, self._kept, start)
            remove_all(folder, but=path)

    def add(self, row: dict[str, Any]) -> None:
        """Records a task: from here on it is done."""
        if self._mirror is not None and "failed" in row:
            upload(self._mirror, row)
        start = os.fstat(self._file.fileno()).st_size
        self._file.write(_line(row))
        self._file.flush()
        os.fsync(self._file.fileno())
        self.rows.put(row, self._kept, start)

    def close(self) -> None:
        self._file.close()


def remove_all(folder: Path, but: Path | None = None) -> None:
    """Removes the journals of a folder, whose rows are elsewhere now."""
    for path in folder.glob(_JOURNALS):
        if path != but:
            path.unlink(missing_ok=True)


def write(folder: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Makes a journal of rows that were in a manifest."""
    write_whole(folder / NAME, map(_line, rows))


def upload(mirror: Mirror, row: dict[str, Any]) -> None:
    """Records a unit at an address. One that failed does not stand in the way of one that did not,
    which another rank may have had."""
    end = ".failed.json" if "failed" in row else ".json"
    mirror.write(f"{FOLDER}/{row['unit']:05d}{end}", _line(row))


def _line(row: dict[str, Any]) -> bytes:
    return spelled(row).encode() + b"\n"


def failed_row(unit: Unit, why: str) -> dict[str, Any]:
    """The row of a unit that could not be done: all of it is missing, and it says so."""
    nothing = {"documents": 0, "tokens": 0, "bytes": 0, "quarantined": 1}
    segments = [
        {"source": segment.source.name, "start": segment.start, "end": segment.end} | nothing
        for segment in unit.segments
    ]
    row = {"unit": unit.number, "id": unit.id, "failed": why, "input": None, "shards": []}
    return row | nothing | {"segments": segments, "quarantined": len(segments)}
