"""Rows of units ↔ a folder that is complete: the seal.

When all units have a row in a journal (journal.py) the manifest is written, which holds the rows in
the order of the plan, and the journals go: a folder with a manifest is complete.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from tokenmill.corpus.sources import Source
from tokenmill.errors import TokenizeError, TokenmillError
from tokenmill.files import write_whole
from tokenmill.formats.directory import files_of
from tokenmill.mirror import Mirror
from tokenmill.shards import checksum, layouts
from tokenmill.shards.spec import File, Shard, Spec
from tokenmill.tokenizing import journal, listed, quarantine, standard_input
from tokenmill.tokenizing.journal import Rows
from tokenmill.tokenizing.listed import Items
from tokenmill.tokenizing.plan import DAMAGE, Plan
from tokenmill.tokenizing.plan import NAME as PLAN
from tokenmill.tokenizing.rows import COUNTS, is_whole, named_files
from tokenmill.tokenizing.shuffle import PIECES
from tokenmill.tokenizing.unit import TEMPORARY

NAME = "manifest.json"
TOKENIZER = "tokenizer.tokenmill"
_FORMAT = "tokenmill.shards"
_VERSION = 1
_SAID_CHARS_MAX = 200
_REPAIR = "delete it, and the same tokenize command makes it again"
_PARTS = (
    ("units", Sequence), ("mixes", Sequence), ("sources", Sequence), ("totals", dict),
    ("options", dict), ("tokenizer", dict), ("layout", str), ("dtype", str),
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
    """Writes errors, the layout's own index and, last of all, the manifest, which it returns."""
    mixes = [rows.mixes[number] for number in sorted(rows.mixes)]
    ordered = Items(len(plan.units), lambda number: _without_pieces(rows.units[number]))
    described = describe(plan, ordered, mixes)
    files: list[File] = []
    if described["totals"]["quarantined"]:
        files.append(_write_errors(folder, ordered))
    else:
        (folder / quarantine.ERRORS).unlink(missing_ok=True)
    finish = getattr(layouts.layout(plan.options.layout), "finish_folder", None)
    if finish is not None:
        every = (shard for row in chain(ordered, mixes) for shard in row["shards"])
        files.append(finish(folder, [Shard.from_json(shard) for shard in every], spec))
    described["files"] = [file.to_json() for file in files]
    write_whole(folder / NAME, listed.lines(described))
    clear_sealed(folder)
    sealed = load(folder)
    assert sealed is not None
    return sealed


def _without_pieces(row: dict[str, Any]) -> dict[str, Any]:
    row.pop("pieces", None)  # which are gone
    return row


def _write_errors(folder: Path, rows: Iterable[dict[str, Any]]) -> File:
    path, temporary = folder / quarantine.ERRORS, folder / TEMPORARY / quarantine.ERRORS
    with temporary.open("wb") as file:
        quarantine.write_errors(folder, rows, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    return File(quarantine.ERRORS, path.stat().st_size, checksum.of_file(path))


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
    rows = sealed["units"]

    def is_good(row: dict[str, Any]) -> bool:
        return "failed" not in row and journal.is_there(row, folder, mirror)

    if all(map(is_good, rows)):
        return False
    journal.write(folder, filter(is_good, rows))
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
    for row in filter(is_whole, rows):
        for name, _ in named_files(row):
            (folder / name).unlink(missing_ok=True)


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


def describe(
    plan: Plan, rows: Collection[dict[str, Any]], mixes: list[dict[str, Any]]
) -> dict[str, Any]:
    """What a manifest says of these rows, which may be a part of those of the plan. Lists of units
    and sources are to be read once."""
    options = plan.options
    totals = dict.fromkeys((*COUNTS, "shards"), 0)
    for row in rows:
        for name in COUNTS:
            totals[name] += row[name]
        totals["shards"] += len(row["shards"])
    totals["shards"] += sum(len(row["shards"]) for row in mixes)
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
        "units": iter(rows),
        "mixes": mixes,
    }


def _sources(plan: Plan, rows: Collection[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What came of each input that the rows are about; one that gave nothing is an error.

    Segments come in the order of the sources, so one source at a time is added up.
    """
    is_part = len(rows) < len(plan.units)
    waiting = iter(plan.sources)
    source: dict[str, Any] | None = None
    for row in rows:
        for segment in row["segments"]:
            while source is None or source["path"] != segment["source"]:
                if source is not None and not (is_part and source["is_new"]):
                    yield _summed(source, is_part)
                source = _nothing_of(_next(waiting, segment["source"]))
            source["is_new"] = False
            for name in COUNTS:
                source[name] += segment[name]
            if "error" in segment:
                source["error"] = segment["error"]
            if "failed" in row:
                source["error"] = row["failed"]
    if source is not None:
        yield _summed(source, is_part)
    if not is_part:
        yield from (_summed(_nothing_of(rest), is_part) for rest in waiting)


def _next(sources: Iterator[Source], name: str) -> Source:
    for source in sources:
        return source
    raise TokenizeError(f"a row is about {name!r}, where the plan has no such source")


def _nothing_of(source: Source) -> dict[str, Any]:
    row = {"path": source.name, "size": source.size, "modified": source.modified, "is_new": True}
    return row | dict.fromkeys(COUNTS, 0)


def _summed(source: dict[str, Any], is_part: bool) -> dict[str, Any]:
    del source["is_new"]
    if not source["documents"] and not is_part:
        source.setdefault("error", "it gave no documents")
    return source


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
    """The manifest of a folder, whose lists may stay in its file; None if there is none."""
    path = folder / NAME
    try:
        with reading(folder):
            content = listed.read(path)
    except FileNotFoundError:
        return None
    if content.get("format") != _FORMAT:
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
    except DAMAGE as error:
        said = f"{type(error).__name__}: {error}"[:_SAID_CHARS_MAX]
        raise TokenizeError(f"{folder / NAME} is damaged ({said}); {_REPAIR}") from None
