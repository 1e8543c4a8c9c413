"""A URL of object storage ↔ files, through fsspec, which is an extra.

Inputs are found and opened. Outputs are uploaded. A completed upload is a commit, because readers
never see a partial object. Temporary errors, such as a busy server, are retried.
"""

from __future__ import annotations

import glob
import importlib
import re
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tokenmill.errors import (
    InputError,
    MissingExtraError,
    MissingInputError,
    TokenizeError,
    TokenmillError,
    import_package,
    install_command,
)

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
# Keys of file information that change with the content. fsspec's own key, ukey, leaves them out for
# HTTP. For other file systems it contains values that change without the file, such as links.
_MARKS = frozenset((
    "etag", "content-md5", "content_md5", "digest", "last-modified", "md5hash", "md5", "crc32c",
    "generation", "versionid", "version_id", "sha", "sha256", "oid", "blob_id",
))  # fmt: skip
# Files are read from start to end, so all bytes that are fetched ahead are used.
_FETCH_BYTES = 4 << 20


def is_address(name: str) -> bool:
    """Whether a name is a URL."""
    return _ADDRESS.match(name) is not None


class Remote(NamedTuple):
    """A remote file, and the properties that change when it is replaced."""

    address: str
    size: int | None
    modified: int | None  # in ns, if known
    etag: str | None  # an ETag, checksums or a generation; the file system decides


def expand(name: str, select: Callable[[list[str], bool], list[str]]) -> list[Remote]:
    """The files of a URL, which may be a folder or a glob.

    `select` gets the addresses of the files of a folder (True) or of a glob, and returns some.
    """
    files, path = file_system(name)
    try:
        files.invalidate_cache()
        is_folder = False
        if files.isfile(path):
            paths = [path]
        elif (is_folder := files.isdir(path)) or glob.has_magic(path):
            listed = files.find(path) if is_folder else filter(files.isfile, files.glob(path))
            addresses = {files.unstrip_protocol(one): one for one in sorted(listed)}
            paths = [addresses[one] for one in select(list(addresses), is_folder)]
        else:
            paths = []
        found = [_describe(files, path) for path in paths]
    except TokenmillError:
        raise
    except Exception as error:  # each file system has its own types
        raise InputError(f"cannot list {name!r} ({_shown(error)})") from error
    if not found:
        raise MissingInputError(f"input {name!r} not found, or it has no files of a known format")
    return found


def open_address(name: str) -> Any:
    """Open a remote file for reading. All errors of the file system are an OSError."""
    files, path = file_system(name)
    with _as_os_error():
        return files.open(path, "rb", block_size=_FETCH_BYTES)


def look_at(name: str) -> Remote:
    """The current properties of a remote file. All errors of the file system are an OSError."""
    files, path = file_system(name)
    with _as_os_error():
        files.invalidate_cache()
        return _describe(files, path)


@contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(_shown(error)) from error


def _describe(files: Any, path: str) -> Remote:
    info = files.info(path)
    try:
        modified = int(files.modified(path).timestamp() * 1e9)
    except Exception:  # some file systems do not have it
        modified = None
    marks = {key.lower(): str(info[key]) for key in info if key.lower() in _MARKS and info[key]}
    etag = " ".join(f"{key}={marks[key]}" for key in sorted(marks)) or None
    if etag is None and modified is None:
        etag = files.ukey(path)
    return Remote(files.unstrip_protocol(path), info.get("size"), modified, etag)


def whole_name(name: str) -> str:
    """A URL in the canonical form of its file system."""
    files, path = file_system(name)
    return str(files.unstrip_protocol(path))


def is_of_process(names: Iterable[str]) -> bool:
    """Whether any of these URLs is visible to this process only, such as memory://."""
    for name in {name.partition("://")[0]: name for name in names if is_address(name)}.values():
        memory = importlib.import_module("fsspec.implementations.memory")
        if isinstance(file_system(name)[0], memory.MemoryFileSystem):
            return True
    return False


def file_system(name: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the path there."""
    core = import_package("fsspec.core", f"URL {name!r}")
    try:
        files, path = core.url_to_fs(name)
    except ImportError as error:
        known = importlib.import_module("fsspec.registry").known_implementations
        package = known.get(name.partition("://")[0], {}).get("class", "fsspec").partition(".")[0]
        hint = "" if package == "fsspec" else f"; run: {install_command(package)}"
        raise MissingExtraError(f"URL {name!r} needs another package ({error}){hint}") from error
    except ValueError as error:
        raise InputError(f"URL {name!r} is not supported by fsspec ({error})") from error
    return files, path


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


_T = TypeVar("_T")
_PAUSES_SECONDS = (0.5, 1.0, 2.0)
# Small objects that one call reads. Some file systems read them in parallel.
_OBJECTS_PER_CALL = 500
_DOWNLOADS = 8
# Errors that a retry cannot repair.
_PERMANENT = (
    FileNotFoundError, PermissionError, FileExistsError, IsADirectoryError, NotADirectoryError,
    NotImplementedError, TypeError, ValueError,
)  # fmt: skip
# Stores without folders. `makedirs` would create a bucket for a mistyped name.
_FLAT = frozenset((
    "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "obs", "cos", "r2", "hf", "memory",
))  # fmt: skip


class ObjectStore:
    """The objects below a URL. Names are relative to it."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self._files, path = file_system(self.address)
        self._path = path.rstrip("/")
        protocol = self._files.protocol
        protocols = {protocol} if isinstance(protocol, str) else set(protocol)
        self._is_flat = bool(protocols & _FLAT)

    def sizes(self) -> dict[str, int]:
        """The names of all objects, and their bytes."""

        def look() -> dict[str, Any]:
            self._files.invalidate_cache()
            try:
                return dict(self._files.find(self._path, detail=True))
            except FileNotFoundError:  # a new folder; a bucket must exist
                if self._is_flat:
                    raise
                return {}

        found = self._do("list", "", look)
        if found.get(self._path, {}).get("type") == "directory":
            # s3fs sends two requests: for the objects, and if there are none, for an object of this
            # name. If another process writes in between, the second answer is the folder.
            found = self._do("list", "", look)
        if found.get(self._path, {}).get("type") == "file":
            raise TokenizeError(f"{self.address!r} is a file; pass a folder")
        start = len(self._path) + 1
        return {name[start:]: info["size"] for name, info in found.items() if name[start:]}

    def put(self, local: Path, name: str) -> None:
        """Upload a file."""
        path = self._made(name)
        self._do("write", name, lambda: self._files.put_file(str(local), path))

    def write(self, name: str, data: bytes) -> None:
        """Write or replace an object."""
        path = self._made(name)
        self._do("write", name, lambda: self._files.pipe_file(path, data))

    def write_new(self, name: str, data: bytes) -> bool:
        """Write a new object. Return False if it exists."""
        path = self._made(name)

        def write() -> bool:
            try:
                self._files.pipe_file(path, data, mode="create")
            except (NotImplementedError, TypeError, ValueError):
                # Without conditional writes, the last writer wins. The others read its bytes.
                self._files.pipe_file(path, data)
                return bool(self._files.cat_file(path) == data)
            except Exception:
                self._files.invalidate_cache()
                if not self._files.exists(path):
                    raise
                return False
            return True

        return self._do("write", name, write)

    def fetch(self, name: str, local: Path) -> None:
        """Download an object to a file."""
        local.parent.mkdir(parents=True, exist_ok=True)
        path = f"{self._path}/{name}"
        self._do("read", name, lambda: self._files.get_file(path, str(local)))

    def fetch_all(self, folder: Path) -> None:
        """Download all objects. Names that would leave the folder are skipped."""
        names = [name for name in self.sizes() if ".." not in name.split("/") and name[0] != "/"]
        with ThreadPoolExecutor(_DOWNLOADS) as pool:
            for _ in pool.map(lambda name: self.fetch(name, folder / name), names):
                pass

    def read_all(self, names: Iterable[str]) -> Iterator[bytes]:
        """The bytes of many small objects. Objects that do not exist are left out."""
        paths = [f"{self._path}/{name}" for name in names]
        self._files.invalidate_cache()  # other processes may have written since the last listing
        for first in range(0, len(paths), _OBJECTS_PER_CALL):
            some = paths[first : first + _OBJECTS_PER_CALL]
            found = self._do("read", "", partial(self._files.cat, some, on_error="return"))
            for path, data in found.items():
                if isinstance(data, Exception) and not isinstance(data, FileNotFoundError):
                    raise self._error("read", path[len(self._path) + 1 :], data)
                if isinstance(data, bytes):
                    yield data

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects, if they exist."""
        paths = [f"{self._path}/{name}" for name in names]

        def remove() -> None:
            with suppress(FileNotFoundError):
                self._files.rm(paths)

        if paths:
            self._do("remove", "", remove)

    def _made(self, name: str) -> str:
        """The path of an object. Its folder is made in file systems with folders."""
        path = f"{self._path}/{name}"
        if not self._is_flat:
            parent = path.rpartition("/")[0]
            self._do("make", "", lambda: self._files.makedirs(parent, exist_ok=True))
        return path

    def _do(self, verb: str, name: str, act: Callable[[], _T]) -> _T:
        for pause in (*_PAUSES_SECONDS, None):
            try:
                return act()
            except Exception as error:  # each file system has its own types
                is_final = isinstance(error, _PERMANENT) or "Credential" in type(error).__name__
                if is_final or pause is None:
                    raise self._error(verb, name, error) from error
                time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _error(self, verb: str, name: str, error: Exception) -> TokenizeError:
        place = f"{self.address}/{name}" if name else self.address
        return TokenizeError(f"cannot {verb} {place!r} ({_shown(error)})")
