"""A URL of object storage ↔ files, through fsspec, which is an extra.

Inputs are found and opened. Outputs are uploaded: an upload that completes is a commit, because a
reader never sees a partial object. Errors that may pass, such as a busy server, are tried again.
"""

from __future__ import annotations

import glob
import importlib
import re
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tokenmill.errors import (
    InputError,
    MissingExtraError,
    MissingInputError,
    TokenizeError,
    TokenmillError,
)

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


_T = TypeVar("_T")
_PAUSES_SECONDS = (0.5, 1.0, 2.0)
# Small objects that are read in one call, which file systems that can do it read side by side.
_TOGETHER = 500
_AT_ONCE = 8
# What the next try would only meet again.
_LASTING = (
    FileNotFoundError, PermissionError, FileExistsError, IsADirectoryError, NotADirectoryError,
    NotImplementedError, TypeError, ValueError,
)  # fmt: skip
# Stores without folders. To make one there would make a bucket of a name with a typing error.
_FLAT = frozenset((
    "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "obs", "cos", "r2", "hf", "memory",
))  # fmt: skip


class ObjectStore:
    """The objects whose names begin with an address, each named by what follows."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self._files, path = file_system(self.address)
        self._path = path.rstrip("/")
        protocol = self._files.protocol
        protocols = {protocol} if isinstance(protocol, str) else set(protocol)
        self._is_flat = bool(protocols & _FLAT)
        # What was there when it was last asked: names and bytes.
        self.listed: dict[str, int] = {}

    def sizes(self) -> dict[str, int]:
        """The names of all objects, and their bytes."""

        def look() -> dict[str, Any]:
            self._files.invalidate_cache()
            try:
                found: dict[str, Any] = self._files.find(self._path, detail=True)
            except FileNotFoundError:  # of a folder to be made, or of a bucket, which is not ours
                if self._is_flat:
                    raise
                return {}
            return found

        found = self._do("looked at", "", look)
        if found.get(self._path, {}).get("type") == "directory":
            # s3fs asks twice: for the objects, and if it finds none, for an object of this name. If
            # another process writes between the two requests, the second answer is the folder.
            found = self._do("looked at", "", look)
        if found.get(self._path, {}).get("type") == "file":
            raise TokenizeError(f"{self.address!r} is a file; give a folder")
        start = len(self._path) + 1
        self.listed = {name[start:]: info["size"] for name, info in found.items() if name[start:]}
        return self.listed

    def put(self, local: Path, name: str) -> None:
        """Uploads a file."""
        path = self._made(name)
        self._do("written", name, lambda: self._files.put_file(str(local), path))

    def write(self, name: str, data: bytes) -> None:
        """Makes an object of some bytes."""
        path = self._made(name)
        self._do("written", name, lambda: self._files.pipe_file(path, data))

    def write_new(self, name: str, data: bytes) -> bool:
        """The same where there is none of that name yet; False if somebody was faster."""
        path = self._made(name)

        def write() -> bool:
            try:
                self._files.pipe_file(path, data, mode="create")
            except (NotImplementedError, TypeError, ValueError):
                # Then the last one wins, and who sees it at once gives way.
                self._files.pipe_file(path, data)
                return bool(self._files.cat_file(path) == data)
            except Exception:
                self._files.invalidate_cache()
                if not self._files.exists(path):
                    raise
                return False
            return True

        return self._do("written", name, write)

    def fetch(self, name: str, local: Path) -> None:
        """Downloads an object into a file."""
        local.parent.mkdir(parents=True, exist_ok=True)
        path = f"{self._path}/{name}"
        self._do("read", name, lambda: self._files.get_file(path, str(local)))

    def fetch_all(self, folder: Path) -> None:
        """Downloads all objects whose names lead to a place in the folder."""
        names = [name for name in self.sizes() if ".." not in name.split("/") and name[0] != "/"]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(lambda name: self.fetch(name, folder / name), names):
                pass

    def read_all(self, names: Iterable[str]) -> Iterator[bytes]:
        """The bytes of many small objects; one that is gone by now is left out."""
        paths = [f"{self._path}/{name}" for name in names]
        self._files.invalidate_cache()  # other processes may have written since the last listing
        for first in range(0, len(paths), _TOGETHER):
            read = partial(self._files.cat, paths[first : first + _TOGETHER], on_error="return")
            found: dict[str, Any] = self._do("read", "", read)
            for path, data in found.items():
                if isinstance(data, Exception) and not isinstance(data, FileNotFoundError):
                    raise self._error("read", path[len(self._path) + 1 :], data)
                if isinstance(data, bytes):
                    yield data

    def remove(self, names: Iterable[str]) -> None:
        """Removes objects; those that are gone already stay so."""
        paths = [f"{self._path}/{name}" for name in names]

        def remove() -> None:
            with suppress(FileNotFoundError):
                self._files.rm(paths)

        if paths:
            self._do("removed", "", remove)

    def _made(self, name: str) -> str:
        """The path of an object, in a folder that is there where a file system has folders."""
        path = f"{self._path}/{name}"
        if not self._is_flat:
            parent = path.rpartition("/")[0]
            self._do("made", "", lambda: self._files.makedirs(parent, exist_ok=True))
        return path

    def _do(self, verb: str, name: str, act: Callable[[], _T]) -> _T:
        pauses = iter(_PAUSES_SECONDS)
        while True:
            try:
                return act()
            except TokenmillError:
                raise
            except Exception as error:  # each file system has its own
                pause = next(pauses, None) if _may_pass(error) else None
                if pause is None:
                    raise self._error(verb, name, error) from error
            time.sleep(pause)

    def _error(self, verb: str, name: str, error: Exception) -> TokenizeError:
        place = f"{self.address}/{name}" if name else self.address
        return TokenizeError(f"{place!r} cannot be {verb} ({type(error).__name__}: {error})")


def _may_pass(error: Exception) -> bool:
    return not isinstance(error, _LASTING) and "Credential" not in type(error).__name__
