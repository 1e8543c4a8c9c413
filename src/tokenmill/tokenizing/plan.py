"""Inputs and options → a plan: units that do not change, whoever does them and when.

The plan is written once and decides the order of the output; how many workers there are does not
come into it. A file that can be cut is cut where a document begins, small files share a unit. Units
and sources are read from its file when they are asked for.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import eq
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.corpus.documents import DocumentOptions, Segment, cuts
from tokenmill.corpus.inputs import TABLES
from tokenmill.corpus.sources import Source
from tokenmill.errors import TokenizeError
from tokenmill.files import write_new
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing import listed, standard_input
from tokenmill.tokenizing.options import Options

NAME = "plan.json"
_FORMAT = "tokenmill.plan"
_VERSION = 1
# Small files that share a unit; each has a line in its row.
_SEGMENTS_MAX = 1024
# What a compressed byte becomes, about.
_EXPANSION = 4
_DIFFERENCES_SHOWN = 5
_IDENTITY = ("name", "kind", "compression", "size", "modified", "etag")
# What comes of reading a file that is not what it was.
DAMAGE = (
    KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip
_DESCRIBED = {"name": str, "sha256": str, "vocab_size": int, "embedded": bool}
# How the user calls them.
_SAID = {"sequence": "pack", "layout": "format"}


@dataclass(frozen=True, slots=True)
class Unit:
    """What one `run_unit` does: stretches of sources, one after the other."""

    number: int
    id: str
    segments: tuple[Segment, ...]
    bytes: int  # of the files, for the order of work and for progress


@dataclass(frozen=True, slots=True)
class Plan:
    """All units of a run, in the order of their output, and the bytes of each."""

    options: Options
    tokenizer: dict[str, Any]
    sources: Sequence[Source]
    units: Sequence[Unit]
    sizes: NDArray[np.int64]
    file: listed.Kept  # where sources and units are


def describe(tokenizer: Tokenizer) -> dict[str, Any]:
    """What a plan and a manifest say about a tokenizer."""
    return {
        "name": tokenizer.name,
        "sha256": tokenizer._digest().hex(),
        "vocab_size": tokenizer.vocab_size,
        "embedded": tokenizer._loaded.is_embedded and Tokenizer.load(tokenizer.name) == tokenizer,
    }


def document_options(options: Options, block_bytes: int, checksum: Any = None) -> DocumentOptions:
    """How a unit's documents are read."""
    separator = options.separator
    return DocumentOptions(
        field=options.field,
        id_field=options.id_field,
        separator=None if separator is None else separator.encode("utf-8", "surrogateescape"),
        utf8=options.utf8,
        block_bytes=block_bytes,
        checksum=checksum,
    )


def make_plan(
    sources: Sequence[Source], options: Options, tokenizer: Tokenizer, folder: Path | None = None
) -> Plan:
    """Cuts the sources into units. A source that is standard input has its copy in `folder`."""
    described = describe(tokenizer)
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "options": options.as_dict(),
        "tokenizer": described,
        "sources": map(_source_row, sources),
        "units": _unit_rows(sources, options, described),
    }
    # Not beside the output, where a file without a name has one on some file systems.
    with tempfile.TemporaryFile() as file:
        file.writelines(listed.lines(content))
        file.flush()
        return _plan(listed.Kept(file), folder)


def _unit_rows(
    sources: Sequence[Source], options: Options, tokenizer: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    reading = document_options(options, 1 << 20)
    groups = _grouped(sources, reading, options.unit_bytes)
    for number, (segments, places, size) in enumerate(groups):
        yield {
            "unit": number,
            "id": _unit_id(segments, options, tokenizer),
            "bytes": size,
            "segments": [
                [place, segment.start, segment.end]
                for place, segment in zip(places, segments, strict=True)
            ],
        }


def _grouped(
    sources: Sequence[Source], reading: DocumentOptions, unit_bytes: int
) -> Iterator[tuple[list[Segment], list[int], int]]:
    """Stretches of about a unit, which sources they are of, and their bytes: of a large file one,
    of small ones many."""
    group: list[Segment] = []
    places: list[int] = []
    size = weight = 0
    for place, source in enumerate(sources):
        segments = cuts(source, reading, unit_bytes)
        for segment in segments:
            file_bytes = _file_bytes(segment, len(segments))
            more = file_bytes * (_EXPANSION if source.compression else 1)
            if group and (weight + more > unit_bytes or len(group) >= _SEGMENTS_MAX):
                yield group, places, size
                group, places, size, weight = [], [], 0, 0
            group.append(segment)
            places.append(place)
            size += file_bytes
            weight += more
    if group:
        yield group, places, size


def _file_bytes(segment: Segment, count: int) -> int:
    """How much of its file a segment takes; of tables, whose places are not bytes, a share."""
    size = segment.source.size or 0
    if segment.source.kind in TABLES:
        return size // count
    end = size if segment.end is None else segment.end
    return max(0, end - segment.start)


def _unit_id(segments: list[Segment], options: Options, tokenizer: dict[str, Any]) -> str:
    """A hash of all that a unit's output depends on."""
    stretches = [
        [
            segment.source.name,
            segment.source.kind,
            segment.source.compression,
            segment.source.size,
            segment.source.modified,
            segment.source.etag,
            segment.start,
            segment.end,
        ]
        for segment in segments
    ]
    what = json.dumps([stretches, options.as_dict(), tokenizer["sha256"]], sort_keys=True)
    return hashlib.blake2b(what.encode(), digest_size=16).hexdigest()


# ── the file ─────────────────────────────────────────────────────────────────────────────────


def write(plan: Plan, folder: Path) -> bool:
    """Writes the plan, once and for all; False if there is one."""
    return write_new(folder / NAME, iter(plan.file))


def _source_row(source: Source) -> dict[str, Any]:
    return {key: getattr(source, key) for key in _IDENTITY}


def load(folder: Path) -> Plan:
    """The plan of a folder, as it was written."""
    path = folder / NAME
    try:
        with path.open("rb") as file:
            return _plan(listed.Kept(file), folder)
    except FileNotFoundError:
        raise TokenizeError(
            f"{path} is gone, which says what was read and how; tokenize into another folder"
        ) from None
    except DAMAGE as error:
        if isinstance(error, TokenizeError):
            raise
        raise TokenizeError(
            f"{path} is damaged ({error}); move the folder away, and begin again"
        ) from None


def _plan(file: listed.Kept, folder: Path | None) -> Plan:
    content = listed.read_kept(file)
    if content["format"] != _FORMAT or content["version"] != _VERSION:
        raise TokenizeError(
            f"{folder}/{NAME} is no plan that this version can read; use another folder"
        )
    named, rows = content["sources"], content["units"]
    for row in named:
        Source(**row)  # or an error, now
    sizes = np.empty(len(rows), np.int64)
    for number, row in enumerate(rows):
        if row["unit"] != number or not isinstance(row["id"], str):
            raise ValueError(f"unit {number} is not in its place")
        for place, start, _ in row["segments"]:
            if not 0 <= place < len(named) or start < 0:
                raise ValueError(f"unit {number} has a part of no source")
        if row["bytes"] < 0:
            raise ValueError(f"unit {number} has {row['bytes']} bytes")
        sizes[number] = row["bytes"]
    sources = listed.Items(len(named), lambda place: _source(named[place], folder))
    units = listed.Items(len(rows), lambda number: _unit(rows[number], sources))
    options, described = Options.of(content["options"]), content["tokenizer"]
    for name, kind in _DESCRIBED.items():
        if type(described[name]) is not kind:
            raise ValueError(f"its tokenizer's {name} is {described[name]!r}")
    return Plan(options, described, sources, units, sizes, file)


def _source(row: dict[str, Any], folder: Path | None) -> Source:
    source = Source(**row)
    return source if folder is None else standard_input.find_copy(source, folder)


def _unit(row: dict[str, Any], sources: Sequence[Source]) -> Unit:
    segments = tuple(Segment(sources[place], start, end) for place, start, end in row["segments"])
    return Unit(row["unit"], row["id"], segments, row["bytes"])


def refuse_difference(was: Plan, now: Plan, folder: Path) -> None:
    """Raises if a run was begun with something else, and says with what."""
    found = []
    if was.tokenizer["sha256"] != now.tokenizer["sha256"]:
        found.append(
            f"the tokenizer was {was.tokenizer['name']} ({was.tokenizer['sha256'][:12]}…) and is "
            f"{now.tokenizer['name']} ({now.tokenizer['sha256'][:12]}…)"
        )
    before, after = was.options.as_dict(), now.options.as_dict()
    found += [
        f"{_SAID.get(name, name)} was {before[name]!r} and is {after[name]!r}"
        for name in after
        if before[name] != after[name]
    ]
    found += _changed_sources(was.sources, now.sources)
    is_other = any(a.id != b.id for a, b in zip(was.units, now.units, strict=False))
    if not found and (is_other or len(was.units) != len(now.units)):
        found.append("its units are not those that were planned")
    if found:
        more = len(found) - _DIFFERENCES_SHOWN
        shown = "; ".join(found[:_DIFFERENCES_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        raise TokenizeError(
            f"{str(folder)!r} was begun with something else: {shown}. Put it back as it was to go "
            "on, or give another folder"
        )


def _changed_sources(was: Sequence[Source], now: Sequence[Source]) -> list[str]:
    if len(was) == len(now) and all(map(eq, map(_source_row, was), map(_source_row, now))):
        return []
    before = {source.name: source for source in was}
    after = {source.name: source for source in now}
    found = [f"the input {name!r} is no longer given" for name in before if name not in after]
    found += [f"the input {name!r} is new" for name in after if name not in before]
    for name, source in after.items():
        old = before.get(name)
        if old is None:
            continue
        if old.size != source.size:
            found.append(f"{name!r} had {_bytes(old.size)} and has {_bytes(source.size)}")
        elif (old.modified, old.etag) != (source.modified, source.etag):
            found.append(f"{name!r} was written again in the meantime")
        elif (old.kind, old.compression) != (source.kind, source.compression):
            found.append(f"{name!r} was read as {old.kind} and is {source.kind}")
    if not found and list(before) != list(after):
        found.append("the inputs come in another order")
    return found


def _bytes(size: int | None) -> str:
    return "no known size" if size is None else f"{size:,} bytes"
