"""What the user gives → sources: files found by their names, texts, columns, counts.

A name alone is a file, a glob or `-`; an iterable of `Path`s is many of them. An iterable of str is
documents, unless all of them name files: then nobody knows what was meant, and it is an error.
"""

from __future__ import annotations

import glob
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tokenmill.corpus.streams import COMPRESSIONS
from tokenmill.errors import InputError, MissingInputError, TrainingError

STDIN = "-"
FORMATS = ("text", "lines", "jsonl", "parquet", "counts")
_SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".tmc": "counts",
}
_NAMES_SHOWN = 3
_NAME_CHARS_MAX = 255


@dataclass(frozen=True, slots=True)
class Source:
    """One input. `kind` is one of FORMATS, or "texts", "arrow" or "mapping" with `given` set."""

    name: str
    kind: str
    compression: str | None = None
    size: int | None = None
    modified: int | None = None
    etag: str | None = None  # of an address: what its file system tells versions by
    weight: float = 1.0
    given: Any = None
    place: str | None = None  # of a copy of stdin

    @property
    def path(self) -> str:
        """Where the bytes are."""
        return self.name if self.place is None else self.place

    @property
    def is_stdin(self) -> bool:
        """Whether it comes from a pipe, which is read once."""
        return self.name == STDIN and self.place is None

    @property
    def is_file(self) -> bool:
        return self.given is None and self.name != STDIN


def find_sources(
    given: Any, weights: Mapping[Any, float] | None = None, format: str | None = None
) -> list[Source]:
    """The sources of what was given to `train` or `count`, in its order."""
    if format is not None and format not in FORMATS:
        raise TrainingError(f"format must be one of {', '.join(FORMATS)}, not {format!r}")
    found: list[tuple[str, Source]] = []
    for item in _items(given):
        if isinstance(item, Source):
            found.append((item.name, item))
        else:
            name = os.fspath(item)
            found += [(name, _file_source(path, format)) for path in _expand(name)]
    _refuse_twice([source for _, source in found])
    return _weigh(found, weights or {})


def _items(given: Any) -> list[Any]:
    """Names of files, or one source that is none."""
    if isinstance(given, str | os.PathLike):
        return [given]
    if isinstance(given, bytes | bytearray | memoryview):
        raise TypeError(f"one text is given as a list, [text], not as {type(given).__name__}")
    if isinstance(given, Mapping):
        return [Source("counts", "mapping", given=given)]
    if hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__"):
        return [Source("column", "arrow", given=given)]
    if not isinstance(given, Iterable):
        raise TypeError(
            "a source is a path, an iterable of texts or paths, an Arrow column or counts, "
            f"not {given!r}"
        )
    if isinstance(given, list | tuple) and given:
        if all(isinstance(item, os.PathLike) for item in given):
            return list(given)
        if all(isinstance(item, str) and _names_file(item) for item in given):
            raise TrainingError(
                f"{given[0]!r} and the others are texts here, and files have these names; "
                f"for the files give pathlib.Path({given[0]!r}), …, for the texts an iterator"
            )
    return [Source("texts", "texts", given=given)]


def _names_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long, or with a zero byte
        return False


def _expand(name: str) -> list[str]:
    if name == STDIN:
        return [name]
    path = Path(name)
    try:
        exists = path.exists()
    except (OSError, ValueError):  # too long, or with a zero byte
        exists = False
    if not exists and ("\n" in name or len(name) > _NAME_CHARS_MAX):
        raise MissingInputError(f"{name[:60]!r}… is not the name of a file; give a text as [text]")
    if exists and path.is_dir():
        raise InputError(f"{name!r} is a folder; give the files in it, such as '{name}/**/*.txt'")
    if exists:
        return [name]
    if not glob.has_magic(name):
        raise MissingInputError(
            f"{name!r} is not there; an input is a file, a glob such as 'data/*.txt' or - for stdin"
        )
    matches = glob.iglob(name, recursive=True)  # noqa: PTH207 (a Path has no absolute globs)
    names = sorted(match for match in matches if Path(match).is_file())
    if not names:
        raise MissingInputError(f"no file matches {name!r}; an input is a file, a glob or -")
    return names


def _file_source(name: str, format: str | None) -> Source:
    if name == STDIN:
        return Source(STDIN, format or "text")
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    compression = COMPRESSIONS.get(suffixes[-1]) if suffixes else None
    inner = suffixes[:-1] if compression else suffixes
    kind = format or (_SUFFIXES.get(inner[-1], "text") if inner else "text")
    status = Path(name).stat()
    if not os.access(name, os.R_OK):
        raise InputError(f"{name!r} cannot be read: change its mode, or leave it out")
    return Source(name, kind, compression, status.st_size, status.st_mtime_ns)


def _refuse_twice(sources: list[Source]) -> None:
    seen: set[str] = set()
    for source in sources:
        if source.given is None and source.name in seen:
            raise TrainingError(
                f"{source.name!r} is given twice; for a double weight use weights "
                f"(--weight {source.name}=2)"
            )
        seen.add(source.name)


def _weigh(found: list[tuple[str, Source]], weights: Mapping[Any, float]) -> list[Source]:
    """Each source with its weight: that of its own name, or of the glob that it matches."""
    if not isinstance(weights, Mapping):
        raise TypeError(f"weights must be a mapping of names to numbers, not {weights!r}")
    used: set[str] = set()
    named: dict[str, float] = {}
    for key, weight in weights.items():
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not is_number or not (math.isfinite(weight) and weight > 0):
            raise TrainingError(
                f"the weight of {os.fspath(key)!r} must be a number above 0, not {weight!r}"
            )
        named[os.fspath(key)] = float(weight)
    weighed = []
    for given, source in found:
        keys = [key for key in named if key in (source.name, given)]
        keys = keys or [key for key in named if fnmatchcase(source.name, key)]
        if len({named[key] for key in keys}) > 1:
            raise TrainingError(f"{source.name!r} has two weights: {keys[0]!r} and {keys[1]!r}")
        used.update(keys)
        if keys:
            source = replace(source, weight=named[keys[0]])
        weighed.append(source)
    for key in named:
        if key not in used:
            names = ", ".join(repr(source.name) for _, source in found[:_NAMES_SHOWN])
            raise TrainingError(f"the weight of {key!r} fits no input; there are {names}")
    return weighed
