"""Rows of units ↔ a folder that is complete: the seal.

When all units have a row in a journal (journal.py) the manifest is written, which holds the rows in
the order of the plan, and the journals go: a folder with a manifest is complete.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tokenmill.errors import TokenizeError, TokenmillError
from tokenmill.files import write_whole
from tokenmill.formats.directory import files_of
from tokenmill.mirror import Mirror
from tokenmill.shards import checksum, layouts
from tokenmill.shards.spec import File, Shard, Spec
from tokenmill.tokenizing import journal, quarantine, standard_input
from tokenmill.tokenizing.journal import COUNTS, Rows, spelled
from tokenmill.tokenizing.plan import NAME as PLAN
from tokenmill.tokenizing.plan import Plan
from tokenmill.tokenizing.shuffle import PIECES
from tokenmill.tokenizing.unit import TEMPORARY

NAME = "manifest.json"
TOKENIZER = "tokenizer.tokenmill"
_FORMAT = "tokenmill.shards"
_VERSION = 1
_REPAIR = "delete it, and the same tokenize command makes it again"
_PARTS = (
    ("units", list), ("mixes", list), ("sources", list), ("totals", dict), ("options", dict),
    ("tokenizer", dict), ("layout", str), ("dtype", str),
)  # fmt: skip
# Files that are written under another name first.
_WHOLE = (NAME, journal.NAME, TOKENIZER, PLAN, "index.json")


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
    manifest = describe(plan, ordered, mixes)
    manifest["files"] = [file.to_json() for file in files]
    write_whole(folder / NAME, _spelled(manifest))
    clear_sealed(folder)
    return manifest


def reopen(folder: Path, sealed: dict[str, Any], mirror: Mirror | None = None) -> bool:
    """Makes a sealed folder one that goes on, if units of it failed, or their files are gone.

    Documents of a shuffled run lie all over it: if one file is gone, all of them are made again.
    Its units that failed are tried by `units_to_retry` first. At an address the manifest stays
    until another takes its place: it has the rows, and says what failed.
    """
    if sealed["mixes"]:
        if all(journal.is_there(row, folder) for row in sealed["mixes"]):
            return False
        unseal(folder, sealed)
        return True
    good = [
        row
        for row in sealed["units"]
        if "failed" not in row and journal.is_there(row, folder, mirror)
    ]
    if len(good) == len(sealed["units"]):
        return False
    journal.write(folder, good)
    (folder / NAME).unlink()
    return True


def units_to_retry(sealed: dict[str, Any]) -> list[int]:
    """The units of a shuffled folder that failed."""
    return [row["unit"] for row in sealed["units"] if sealed["mixes"] and "failed" in row]


def unseal(folder: Path, sealed: dict[str, Any]) -> None:
    """Takes the shards of a shuffled run away, which is then one that goes on.

    The manifest goes last: after a kill it says which files are gone.
    """
    remove_shards(folder, sealed["mixes"])
    (folder / NAME).unlink()


def remove_shards(folder: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Removes the files of rows that no longer hold."""
    for row in rows:
        for shard in row["shards"]:
            for file in shard["files"]:
                (folder / (shard["stem"] + file["suffix"])).unlink(missing_ok=True)


def _remove_strays(folder: Path) -> None:
    for path in folder.iterdir():
        if is_stray(path.name):
            path.unlink(missing_ok=True)


def clear_sealed(folder: Path) -> None:
    """Removes what a sealed folder needs no more."""
    _remove_strays(folder)
    journal.remove_all(folder)
    standard_input.remove(folder)
    for name in (TEMPORARY, PIECES):
        shutil.rmtree(folder / name, ignore_errors=True)


def describe(plan: Plan, rows: list[dict[str, Any]], mixes: list[dict[str, Any]]) -> dict[str, Any]:
    """What a manifest says of these rows, which may be a part of those of the plan."""
    options = plan.options
    totals = {name: sum(row[name] for row in rows) for name in COUNTS}
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
    """What came of each input that the rows are about; one that gave nothing is an error."""
    is_part = len(rows) < len(plan.units)
    named = {segment["source"] for row in rows for segment in row["segments"]}
    found: dict[str, dict[str, Any]] = {
        source.name: {"path": source.name, "size": source.size, "modified": source.modified}
        | dict.fromkeys(COUNTS, 0)
        for source in plan.sources
        if source.name in named or not is_part
    }
    for row in rows:
        for segment in row["segments"]:
            source = found[segment["source"]]
            for name in COUNTS:
                source[name] += segment[name]
            if "error" in segment:
                source["error"] = segment["error"]
            if "failed" in row:
                source["error"] = row["failed"]
    for source in found.values():
        if not source["documents"] and not is_part:
            source.setdefault("error", "it gave no documents")
    return list(found.values())


def _spelled(manifest: dict[str, Any]) -> bytes:
    """A line for each unit and source, so that people and grep can read it."""
    lines = []
    for key, value in manifest.items():
        if isinstance(value, list):
            items = ",\n  ".join(spelled(item) for item in value)
            lines.append(f" {spelled(key)}: [\n  {items}\n ]")
        else:
            lines.append(f" {spelled(key)}: {spelled(value)}")
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8")


def is_folder(path: Path) -> bool:
    """Whether it is a folder of shards, complete or not. One that also holds a tokenizer is one if
    its manifest is ours: other programs write a manifest.json, too."""
    names = [name for name in (NAME, PLAN, journal.NAME) if (path / name).is_file()]
    if not names or not files_of(path):
        return bool(names)
    try:
        return load(path) is not None
    except TokenizeError:
        return False


def load(folder: Path) -> dict[str, Any] | None:
    """The manifest of a folder; None if there is none."""
    path = folder / NAME
    try:
        with reading(folder):
            content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
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


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Inside, what a manifest cannot mean is said in our words."""
    try:
        yield
    except TokenmillError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise TokenizeError(f"{folder / NAME} is damaged ({error!r}); {_REPAIR}") from None
