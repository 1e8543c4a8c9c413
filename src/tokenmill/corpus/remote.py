"""Addresses (s3://…, gs://…, hf://…) → files, through fsspec, which is an extra."""

from __future__ import annotations

import glob
import importlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tokenmill.errors import InputError, MissingExtraError, MissingInputError

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
# What file systems call that which changes with a file. The key that fsspec makes of all they say,
# ukey, leaves these out for HTTP, and for others has what changes without the file, such as links.
_MARKS = frozenset((
    "etag", "content-md5", "content_md5", "digest", "last-modified", "md5hash", "md5", "crc32c",
    "generation", "versionid", "version_id", "sha", "sha256", "oid", "blob_id",
))  # fmt: skip
# Reading goes straight on, so what is fetched ahead is used.
_FETCH_BYTES = 4 << 20


def is_address(name: str) -> bool:
    """Whether a name is an address, and not that of a file."""
    return _ADDRESS.match(name) is not None


@dataclass(frozen=True, slots=True)
class Remote:
    """A file at an address, and what tells it from one that is put there later."""

    address: str
    size: int | None
    modified: int | None  # in ns, if known
    etag: str | None  # as the file system has it: an ETag, checksums, a generation


def expand(name: str, is_input: Callable[[str], bool]) -> list[Remote]:
    """The files that an address stands for."""
    files, path = file_system(name)
    try:
        files.invalidate_cache()  # of what was listed before, which may have changed
        if files.isfile(path):
            paths = [path]
        elif files.isdir(path):
            paths = [found for found in sorted(files.find(path)) if is_input(found)]
        elif glob.has_magic(path):
            paths = [found for found in sorted(files.glob(path)) if files.isfile(found)]
        else:
            paths = []
        if not paths:
            raise MissingInputError(f"{name!r} is not there, or has no files of a known kind")
        return [_described(files, found) for found in paths]
    except MissingInputError:
        raise
    except Exception as error:  # each file system has its own: no access, no such bucket
        raise InputError(f"{name!r} cannot be looked at ({_shown(error)})") from error


def open_address(name: str) -> Any:
    """The file at an address, open for reading; OSError if that cannot be."""
    files, path = file_system(name)
    try:
        return files.open(path, "rb", block_size=_FETCH_BYTES)
    except OSError:
        raise
    except Exception as error:
        raise OSError(_shown(error)) from error


def look_at(name: str) -> Remote:
    """The file at an address as it is now; OSError if that cannot be said."""
    files, path = file_system(name)
    try:
        files.invalidate_cache()
        return _described(files, path)
    except OSError:
        raise
    except Exception as error:
        raise OSError(_shown(error)) from error


def _described(files: Any, path: str) -> Remote:
    info = files.info(path)
    try:
        modified = int(files.modified(path).timestamp() * 1e9)
    except Exception:  # not every file system knows it
        modified = None
    marks = {key.lower(): str(info[key]) for key in info if key.lower() in _MARKS and info[key]}
    etag = " ".join(f"{key}={marks[key]}" for key in sorted(marks)) or None
    if etag is None and modified is None:
        etag = files.ukey(path)
    return Remote(files.unstrip_protocol(path), info.get("size"), modified, etag)


def whole_name(name: str) -> str:
    """An address as its file system spells it, which may be spelled in several ways."""
    files, path = file_system(name)
    return str(files.unstrip_protocol(path))


def is_of_process(names: Iterable[str]) -> bool:
    """Whether files at any of these addresses live in this process alone, as memory:// does."""
    for name in {name.partition("://")[0]: name for name in names if is_address(name)}.values():
        memory = importlib.import_module("fsspec.implementations.memory")
        if isinstance(file_system(name)[0], memory.MemoryFileSystem):
            return True
    return False


def file_system(name: str) -> tuple[Any, str]:
    """Who has the files at an address, and what it calls this one."""
    try:
        core = importlib.import_module("fsspec.core")
    except ImportError as error:
        raise MissingExtraError(
            f'{name}, an address, needs the package fsspec: pip install "tokenmill[remote]"'
        ) from error
    try:
        files, path = core.url_to_fs(name)
    except ImportError as error:
        raise MissingExtraError(
            f"{name}, an address, needs a package of its own ({error}){_install(name)}"
        ) from error
    except ValueError as error:
        raise InputError(f"{name!r} is an address that fsspec does not know ({error})") from error
    return files, path


def _install(name: str) -> str:
    """How to get the package of a file system, if it has one to itself."""
    known = importlib.import_module("fsspec.registry").known_implementations
    package = known.get(name.partition("://")[0], {}).get("class", "fsspec").partition(".")[0]
    return "" if package == "fsspec" else f": pip install {package}"


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
