"""An address ↔ files: a folder of objects in a store, through fsspec.

An upload that completes is a commit: nobody sees an object that is half written. What may pass,
such as a server that is busy, is tried again; what will not, as no access, is an error at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tokenmill.corpus import remote
from tokenmill.errors import TokenizeError, TokenmillError

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


class Mirror:
    """The objects whose names begin with an address, each named by what follows."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self._files, path = remote.file_system(self.address)
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
        if self._path in found:
            raise TokenizeError(f"{self.address!r} is a file; give a folder")
        start = len(self._path) + 1
        self.listed = {name[start:]: info["size"] for name, info in found.items()}
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
