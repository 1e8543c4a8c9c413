"""Rows of units ↔ the output's folder: what is done, by whom it is being done, and the seal.

While a run goes on, each unit that is done has a line in a journal. A kill can tear the last line,
and then that unit is done again. When all are there the manifest is written, which holds the rows
in the order of the plan, and the journal goes: a folder with a manifest is complete.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenmill.errors import TokenizeError
from tokenmill.files import write_whole
from tokenmill.shards import checksum, layouts
from tokenmill.shards.spec import File, Shard, Spec
from tokenmill.tokenizing import quarantine
from tokenmill.tokenizing.plan import NAME as PLAN
from tokenmill.tokenizing.plan import Plan, Unit
from tokenmill.tokenizing.shuffle import PIECES
from tokenmill.tokenizing.unit import TEMPORARY

NAME = "manifest.json"
JOURNAL = "rows.jsonl"
LOCK = ".lock"
TOKENIZER = "tokenizer.tokenmill"
_FORMAT = "tokenmill.shards"
_VERSION = 1
_REPAIR = "delete it, and the same tokenize command makes it again"
_PARTS = (
    ("units", list), ("mixes", list), ("sources", list), ("totals", dict), ("options", dict),
    ("tokenizer", dict), ("layout", str), ("dtype", str),
)  # fmt: skip
_LOCK_SECONDS = 1.0
_SURROGATE = re.compile("[\ud800-\udfff]")
# Files that are written under another name first.
_WHOLE = (NAME, JOURNAL, TOKENIZER, PLAN, "index.json")
_COUNTS = ("documents", "tokens", "bytes", "quarantined")


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Holds the folder; a second run into it is refused while this one lives.

    What comes back is the lock, which workers inherit: one that outlives its run for a moment
    still holds it, and nobody writes beside it.
    """
    with (folder / LOCK).open("a+b") as file:
        deadline = time.monotonic() + _LOCK_SECONDS
        while not _try_lock(file.fileno()):
            if time.monotonic() > deadline:
                raise TokenizeError(
                    f"another run is writing into {str(folder)!r}; wait for it, or give another "
                    "folder"
                )
            time.sleep(0.05)
        yield file.fileno()


def _try_lock(handle: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@dataclass(slots=True)
class Rows:
    """What is done: units, and shards that were mixed; by number."""

    units: dict[int, dict[str, Any]] = field(default_factory=dict)
    mixes: dict[int, dict[str, Any]] = field(default_factory=dict)
    lines: list[bytes] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        if "mix" in row:
            self.mixes[row["mix"]] = row
        else:
            self.units[row["unit"]] = row


def read_rows(folder: Path, plan: Plan) -> Rows:
    """The rows of a journal that are whole, of this plan, and whose files are there."""
    rows = Rows()
    path = folder / JOURNAL
    if not path.exists():
        return rows
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            row = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            row = None
        if isinstance(row, dict) and _is_ours(row, plan) and _is_there(row, folder):
            rows.add(row)
            rows.lines.append(line)
    return rows


def _is_ours(row: dict[str, Any], plan: Plan) -> bool:
    if "mix" in row:
        return True
    if "failed" in row:
        return False  # which is tried again
    number = row.get("unit")
    if not isinstance(number, int) or not 0 <= number < len(plan.units):
        return False
    return plan.units[number].id == row.get("id")


def _is_there(row: dict[str, Any], folder: Path) -> bool:
    """Whether the files of a row are what it says; what is not is done again."""
    files = [(PIECES + "/" + piece["name"], piece["bytes"]) for piece in row.get("pieces", [])]
    for shard in row["shards"]:
        files += [(shard["stem"] + file["suffix"], file["bytes"]) for file in shard["files"]]
    try:
        return all((folder / name).stat().st_size == size for name, size in files)
    except OSError:
        return False


class Journal:
    """The rows of what is done, on the disk."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.rows = read_rows(folder, plan)
        path = folder / JOURNAL
        # Written again without a torn end, so that what follows it stands on a line of its own.
        write_whole(path, b"".join(self.rows.lines))
        self._file = path.open("ab")

    def add(self, row: dict[str, Any]) -> None:
        """Records a task: from here on it is done."""
        self._file.write(_line(row).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.rows.add(row)

    def close(self) -> None:
        self._file.close()


def is_stray(name: str) -> bool:
    """Whether a file is what a kill leaves of one that was being written whole."""
    return any(name.startswith(f".{ours}.") for ours in _WHOLE)


def clear(folder: Path) -> None:
    """Removes what a run that was killed left unfinished."""
    _remove_strays(folder)
    with suppress(FileNotFoundError):
        shutil.rmtree(folder / TEMPORARY)
    (folder / TEMPORARY).mkdir(exist_ok=True)


def seal(folder: Path, plan: Plan, rows: Rows, spec: Spec) -> dict[str, Any]:
    """Writes errors, the layout's own index and, last of all, the manifest."""
    ordered = [rows.units[unit.number] for unit in plan.units]
    mixes = [rows.mixes[number] for number in sorted(rows.mixes)]
    files: list[File] = []
    if any(row["quarantined"] for row in ordered):
        temporary = folder / TEMPORARY / quarantine.ERRORS
        with temporary.open("wb") as file:
            quarantine.write_errors(folder, ordered, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / quarantine.ERRORS)
        path = folder / quarantine.ERRORS
        size, digits = path.stat().st_size, checksum.of_file(path)
        files.append(File(quarantine.ERRORS, size, digits))
    else:
        (folder / quarantine.ERRORS).unlink(missing_ok=True)
    finish = getattr(layouts.layout(plan.options.layout), "finish_folder", None)
    if finish is not None:
        shards = [shard for row in [*ordered, *mixes] for shard in row["shards"]]
        files.append(finish(folder, [Shard.from_json(shard) for shard in shards], spec))
    manifest = _manifest(plan, ordered, mixes)
    manifest["files"] = [file.to_json() for file in files]
    write_whole(folder / NAME, _spelled(manifest))
    clear_sealed(folder)
    return manifest


def reopen(folder: Path, sealed: dict[str, Any]) -> bool:
    """Makes a sealed folder one that goes on, if units of it failed, or their files are gone."""
    good = [row for row in sealed["units"] if "failed" not in row and _is_there(row, folder)]
    if sealed["mixes"]:
        if not all(_is_there(row, folder) for row in sealed["mixes"]):
            raise TokenizeError(
                f"files of {str(folder)!r} are gone or cut off, and shuffled shards cannot be made "
                "one by one; tokenize into another folder (tokenmill verify names the files)"
            )
        return False
    if len(good) == len(sealed["units"]):
        return False
    write_whole(folder / JOURNAL, b"".join(_line(row).encode() + b"\n" for row in good))
    (folder / NAME).unlink()
    return True


def _remove_strays(folder: Path) -> None:
    for path in folder.iterdir():
        if is_stray(path.name):
            path.unlink(missing_ok=True)


def clear_sealed(folder: Path) -> None:
    """Removes what a sealed folder needs no more."""
    _remove_strays(folder)
    (folder / JOURNAL).unlink(missing_ok=True)
    for name in (TEMPORARY, PIECES):
        shutil.rmtree(folder / name, ignore_errors=True)


def _manifest(
    plan: Plan, rows: list[dict[str, Any]], mixes: list[dict[str, Any]]
) -> dict[str, Any]:
    options = plan.options
    totals = {name: sum(row[name] for row in rows) for name in _COUNTS}
    totals["shards"] = sum(len(row["shards"]) for row in [*rows, *mixes])
    for row in rows:
        row.pop("pieces", None)  # which are gone
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "layout": options.layout,
        "dtype": options.dtype,
        "sequence": options.sequence,
        "eos": options.eos,
        "bos": options.bos,
        "tokenizer": plan.tokenizer,
        "options": options.as_dict(),
        "totals": totals,
        "sources": _sources(plan, rows),
        "units": rows,
        "mixes": mixes,
    }


def _sources(plan: Plan, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What came of each input; one that gave nothing is an error."""
    found: dict[str, dict[str, Any]] = {
        source.name: {"path": source.name, "size": source.size, "modified": source.modified}
        | dict.fromkeys(_COUNTS, 0)
        for source in plan.sources
    }
    for row in rows:
        for segment in row["segments"]:
            source = found[segment["source"]]
            for name in _COUNTS:
                source[name] += segment[name]
            if "error" in segment:
                source["error"] = segment["error"]
            if "failed" in row:
                source["error"] = row["failed"]
    for source in found.values():
        if not source["documents"]:
            source.setdefault("error", "it gave no documents")
    return list(found.values())


def _spelled(manifest: dict[str, Any]) -> bytes:
    """A line for each unit and source, so that people and grep can read it."""
    lines = []
    for key, value in manifest.items():
        if isinstance(value, list):
            items = ",\n  ".join(_line(item) for item in value)
            lines.append(f" {_line(key)}: [\n  {items}\n ]")
        else:
            lines.append(f" {_line(key)}: {_line(value)}")
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8")


def _line(value: Any) -> str:
    """JSON in one line; names of files that are not UTF-8 have their bytes escaped."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    is_text = text.isascii() or not _SURROGATE.search(text)
    return text if is_text else json.dumps(value, sort_keys=True)


def load(folder: Path) -> dict[str, Any] | None:
    """The manifest of a folder; None if there is none."""
    path = folder / NAME
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise TokenizeError(f"{path} is damaged ({error}); {_REPAIR}") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise TokenizeError(f"{path} is not a manifest of tokenmill; give another folder")
    if content.get("version") != _VERSION:
        raise TokenizeError(
            f"{path} is of version {content.get('version')!r}, and this tokenmill reads {_VERSION}"
        )
    missing = [name for name, kind in _PARTS if not isinstance(content.get(name), kind)]
    if missing:
        raise TokenizeError(f"{path} is damaged, without its {missing[0]}; {_REPAIR}")
    return content


def failed_row(unit: Unit, why: str) -> dict[str, Any]:
    """The row of a unit that could not be done: all of it is missing, and it says so."""
    nothing = {"documents": 0, "tokens": 0, "bytes": 0, "quarantined": 1}
    segments = [
        {"source": segment.source.name, "start": segment.start, "end": segment.end} | nothing
        for segment in unit.segments
    ]
    row = {"unit": unit.number, "id": unit.id, "failed": why, "input": None, "shards": []}
    return row | nothing | {"segments": segments, "quarantined": len(segments)}
