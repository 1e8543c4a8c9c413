"""Inputs and options → a plan: units that do not change, whoever does them and when.

The plan is written once and decides the order of the output; how many workers there are does not
come into it. A file that can be cut is cut where a document begins, small files share a unit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tokenmill.corpus.documents import DocumentOptions, Segment, cuts
from tokenmill.corpus.inputs import TABLES
from tokenmill.corpus.sources import Source
from tokenmill.errors import TokenizeError
from tokenmill.files import write_new
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing import standard_input
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
    """All units of a run, in the order of their output."""

    options: Options
    tokenizer: dict[str, Any]
    sources: tuple[Source, ...]
    units: tuple[Unit, ...]


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


def make_plan(sources: Iterable[Source], options: Options, tokenizer: Tokenizer) -> Plan:
    """Cuts the sources into units."""
    listed = tuple(sources)
    described = describe(tokenizer)
    reading = document_options(options, 1 << 20)
    units: list[Unit] = []
    for segments, size in _grouped(listed, reading, options.unit_bytes):
        unit_id = _unit_id(segments, options, described)
        units.append(Unit(len(units), unit_id, tuple(segments), size))
    return Plan(options, described, listed, tuple(units))


def _grouped(
    sources: tuple[Source, ...], reading: DocumentOptions, unit_bytes: int
) -> Iterator[tuple[list[Segment], int]]:
    """Stretches of about a unit, and their bytes: of a large file one, of small ones many."""
    group: list[Segment] = []
    size = weight = 0
    for source in sources:
        segments = cuts(source, reading, unit_bytes)
        for segment in segments:
            file_bytes = _file_bytes(segment, len(segments))
            more = file_bytes * (_EXPANSION if source.compression else 1)
            if group and (weight + more > unit_bytes or len(group) >= _SEGMENTS_MAX):
                yield group, size
                group, size, weight = [], 0, 0
            group.append(segment)
            size += file_bytes
            weight += more
    if group:
        yield group, size


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
    places = {source.name: index for index, source in enumerate(plan.sources)}
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "options": plan.options.as_dict(),
        "tokenizer": plan.tokenizer,
        "sources": [_source_row(source) for source in plan.sources],
        "units": [
            {
                "unit": unit.number,
                "id": unit.id,
                "bytes": unit.bytes,
                "segments": [
                    [places[segment.source.name], segment.start, segment.end]
                    for segment in unit.segments
                ],
            }
            for unit in plan.units
        ],
    }
    return write_new(folder / NAME, json.dumps(content, indent=1, sort_keys=True).encode("utf-8"))


def _source_row(source: Source) -> dict[str, Any]:
    row = asdict(source)
    return {key: row[key] for key in _IDENTITY}


def load(folder: Path) -> Plan:
    """The plan of a folder, as it was written."""
    path = folder / NAME
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != _FORMAT or content["version"] != _VERSION:
            raise TokenizeError(f"{path} is no plan that this version can read; use another folder")
        sources = tuple(
            standard_input.find_copy(Source(**row), folder) for row in content["sources"]
        )
        units = tuple(
            Unit(
                row["unit"],
                row["id"],
                tuple(Segment(sources[place], start, end) for place, start, end in row["segments"]),
                row["bytes"],
            )
            for row in content["units"]
        )
        return Plan(Options(**content["options"]), content["tokenizer"], sources, units)
    except FileNotFoundError:
        raise TokenizeError(
            f"{path} is gone, which says what was read and how; tokenize into another folder"
        ) from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, TokenizeError):
            raise
        raise TokenizeError(
            f"{path} is damaged ({error}); move the folder away, and begin again"
        ) from None


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
    if not found and [unit.id for unit in was.units] != [unit.id for unit in now.units]:
        found.append("its units are not those that were planned")
    if found:
        more = len(found) - _DIFFERENCES_SHOWN
        shown = "; ".join(found[:_DIFFERENCES_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        raise TokenizeError(
            f"{str(folder)!r} was begun with something else: {shown}. Put it back as it was to go "
            "on, or give another folder"
        )


def _changed_sources(was: tuple[Source, ...], now: tuple[Source, ...]) -> list[str]:
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
