"""What a user gives to be tokenized → sources: files, folders, globs, stdin, addresses.

Every name is that of an input here; training, which also takes texts, has `find_sources`. A folder
stands for the files in it whose suffix is known, at any depth, in the order of their names. The
same file twice is refused, by whatever names or links: its documents would be there twice.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from tokenmill.corpus import remote
from tokenmill.corpus.faults import raise_of_machine
from tokenmill.corpus.sources import STDIN, Source
from tokenmill.corpus.streams import COMPRESSIONS
from tokenmill.errors import InputError, MissingInputError

INPUT_FORMATS = ("text", "lines", "jsonl", "parquet", "arrow", "csv", "tsv", "warc")
# Tables are read from their end, or with a step back.
TABLES = ("parquet", "arrow")
# A folder with these is an output of ours.
_SHARDS = {"manifest.json", "plan.json"}
_SUFFIXES = {
    ".txt": "text",
    ".text": "text",
    ".md": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",  # C4 and Dolma call theirs .json.gz
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
    ".tsv": "tsv",
    ".wet": "warc",
    ".warc": "warc",
}


def find_inputs(given: Any, format: str | None = None) -> list[Source]:
    """The sources of one name or of many, in their order."""
    if format is not None and format not in INPUT_FORMATS:
        raise InputError(f"format must be one of {', '.join(INPUT_FORMATS)}, not {format!r}")
    sources: list[Source] = []
    for item in _items(given):
        if isinstance(item, Source):
            sources.append(item)
            continue
        name = os.fspath(item)
        if name == STDIN:
            sources.append(_stdin(format))
        elif remote.is_address(name):
            sources += [
                Source(
                    found.address,
                    *kind_of(found.address, format),
                    found.size,
                    found.modified,
                    found.etag,
                )
                for found in remote.expand(name, has_known_suffix)
            ]
        else:
            sources += [_local(path, format) for path in _expand(name)]
    _refuse_twice(sources)
    return sources


def is_changed(source: Source) -> bool:
    """Whether a file is another one now; if it is gone, whoever read it has said so."""
    try:
        if remote.is_address(source.name):
            now = remote.look_at(source.name)
            found = (now.size, now.modified, now.etag)
        else:
            status = Path(source.path).stat()
            found = (status.st_size, status.st_mtime_ns, None)
    except OSError:
        return False
    planned = (source.size, source.modified, source.etag)
    return any(value is not None for value in planned) and found != planned


def kind_of(name: str, format: str | None = None) -> tuple[str, str | None]:
    """What a file of this name holds, and how it is compressed."""
    suffixes = [suffix.lower() for suffix in PurePosixPath(name).suffixes[-2:]]
    compression = COMPRESSIONS.get(suffixes[-1]) if suffixes else None
    inner = suffixes[:-1] if compression else suffixes
    kind = _SUFFIXES.get(inner[-1], "text") if inner else "text"
    return format or kind, compression


def has_known_suffix(name: str) -> bool:
    """Whether a file of this name in a folder is an input."""
    path = PurePosixPath(name)
    suffix = path.suffix.lower()
    if suffix in COMPRESSIONS:
        suffix = PurePosixPath(path.stem).suffix.lower()
    return suffix in _SUFFIXES and not path.name.startswith(".")


def _items(given: Any) -> list[Any]:
    if isinstance(given, str | os.PathLike | Source):
        return [given]
    if isinstance(given, bytes | bytearray) or not isinstance(given, Iterable):
        raise TypeError(f"an input is a path, a glob, - or an iterable of them, not {given!r}")
    items = list(given)
    for item in items:
        if not isinstance(item, str | os.PathLike | Source):
            raise TypeError(f"an input is a path, a glob or -, not {item!r}")
    return items


def _stdin(format: str | None) -> Source:
    if format in TABLES:
        raise InputError(f"{format} is not read in order, so it cannot come from a pipe")
    return Source(STDIN, format or "text")


def _expand(name: str) -> list[str]:
    if not name:
        raise MissingInputError("an input is an empty name; give a file, a folder or a glob")
    path = Path(name)
    try:
        is_there, is_folder = path.exists(), path.is_dir()
    except PermissionError as error:
        raise _unreadable(error, name) from None
    except (OSError, ValueError):  # too long, or with a zero byte
        is_there = is_folder = False
    if is_folder:
        return _walk(name)
    if is_there:
        return [name]
    if not glob.has_magic(name):
        raise MissingInputError(
            f"{name!r} is not there; an input is a file, a folder, a glob such as 'data/*.jsonl', "
            "an address such as s3://… or - for stdin"
        )
    _refuse_unreadable(name)
    names = sorted(match for match in _matches(name) if Path(match).is_file())
    if not names:
        raise MissingInputError(f"no file matches {name!r}; an input is a file, a folder or a glob")
    return names


def _matches(pattern: str) -> Iterator[str]:
    return glob.iglob(pattern, recursive=True)  # noqa: PTH207 (a Path has no absolute globs)


def _refuse_unreadable(pattern: str) -> None:
    """Raises if a folder that a glob looks into cannot be read: it passes over it in silence."""
    while glob.has_magic(pattern):
        pattern, last = os.path.split(pattern)
        if not glob.has_magic(last):
            continue
        # A slash at the end stands for folders only.
        is_glob = glob.has_magic(pattern)
        for folder in _matches(f"{pattern}{os.sep}") if is_glob else [pattern or os.curdir]:
            try:
                os.scandir(folder).close()
            except (FileNotFoundError, NotADirectoryError):
                continue  # nothing matches, which is said elsewhere
            except OSError as error:
                raise _unreadable(error, folder) from None


def _unreadable(error: OSError, folder: str) -> Exception:
    """What to raise for a folder: its files would be missing, and nobody would know."""
    raise_of_machine(error)
    name = error.filename or folder
    return InputError(
        f"{str(name)!r} cannot be read ({error.strerror}), and what is in it would be missing; "
        "change its mode, or give the inputs one by one"
    )


def _walk(folder: str) -> list[str]:
    """The files of a folder, at any depth; hidden ones are not looked at.

    Links to folders are followed when all else is found, so a folder that is there without a link
    is walked by its own name, and each once, also where links lead in a circle.
    """
    found: list[Path] = []
    seen: set[str] = set()
    starts = [folder]

    def fail(error: OSError) -> None:
        raise _unreadable(error, folder)

    for start in starts:
        for place, folders, files in os.walk(start, onerror=fail):
            real = os.path.realpath(place)
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            if real in seen:
                folders.clear()
                continue
            seen.add(real)
            if set(files) >= _SHARDS:  # what another run has written
                folders.clear()
                continue
            paths = [Path(place) / name for name in folders]
            starts += [str(path) for path in paths if path.is_symlink()]
            found += [Path(place) / name for name in files if has_known_suffix(name)]
    if not found:
        known = ", ".join(_SUFFIXES)
        raise MissingInputError(f"the folder {folder!r} has no files with a suffix of {known}")
    return [str(path) for path in sorted(found)]


def _local(name: str, format: str | None) -> Source:
    try:
        status = Path(name).stat()
    except FileNotFoundError:  # a link that leads nowhere: whoever reads it says so
        return Source(name, *kind_of(name, format))
    if not stat.S_ISREG(status.st_mode):
        raise InputError(
            f"{name!r} is no regular file, and cannot be read a second time; write what it gives "
            "to a file, or leave it out"
        )
    return Source(name, *kind_of(name, format), status.st_size, status.st_mtime_ns)


def _refuse_twice(sources: list[Source]) -> None:
    seen: set[str] = set()
    for source in sources:
        is_local = source.name != STDIN and not remote.is_address(source.name)
        place = os.path.realpath(source.name) if is_local else source.name
        if place in seen:
            raise InputError(f"{source.name!r} is given twice; its documents would be there twice")
        seen.add(place)
