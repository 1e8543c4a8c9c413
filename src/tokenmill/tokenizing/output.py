"""A folder or a URL → the output of a run: named files that are committed one at a time.

`LocalOutput` and `StoreOutput` have the same files in the same order of commits: `plan.json` first,
the files of a task before its journal entry, `manifest.json` last. A file has its name only when it
is complete. Two processes that do the same task commit the same bytes.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TypeAlias

from tokenmill import object_store
from tokenmill.corpus import Source
from tokenmill.corpus.blocks import open_file
from tokenmill.corpus.streams import compression_of
from tokenmill.errors import DiskFullError, TokenizeError
from tokenmill.files import sync_folder, write_new, write_whole
from tokenmill.native import _native
from tokenmill.object_store import ObjectStore

LOCK = ".lock"
STAGING = ".tmp"
# Files that a kill may leave under a temporary name.
_STRAY = re.compile(r"\.(?:plan|manifest)\.json\..*")
_LOCK_SECONDS = 1.0
_SHORTENED_URL = re.compile(r"[a-z][a-z0-9+.-]+:/[^/]")
_LOCAL_URLS = ("file://", "local://")
_BLOCK_BYTES = 1 << 20
_TIME_END = 10**18  # nanoseconds until 2001, which every file system can store


def open_output(output: str | os.PathLike[str]) -> Output:
    """The output of a folder name or a URL."""
    name = os.fspath(output)
    if isinstance(output, PurePath) and _SHORTENED_URL.match(name):
        raise TokenizeError(
            f"output {name!r} looks like a URL that pathlib has changed; pass the URL as a str"
        )
    if not object_store.is_address(name):
        if "://" in name:
            raise TokenizeError(f"output {name!r} must be a folder or a URL such as s3://bucket/x")
        return LocalOutput(Path(name))
    if name.startswith(_LOCAL_URLS):
        return LocalOutput(Path(name.partition("://")[2]))
    if any(sign in name for sign in "*?["):
        raise TokenizeError(f"output {name!r} must be one URL, without *, ? and [")
    return StoreOutput(name)


class LocalOutput:
    """A folder, with the methods of an ObjectStore. Files get their names when they are complete.

    A name of a file may contain folders, as in `journal/00012.json`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = self.location = folder
        self.name = str(folder)

    def make(self) -> None:
        """Make the folder."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise TokenizeError(f"output {self.name!r} must be a folder, not a file") from None

    def sizes(self) -> dict[str, int]:
        """The names of all files, and their bytes."""
        found = {}
        for place, folders, names in os.walk(self.folder):
            inside = Path(place).relative_to(self.folder)
            folders[:] = [name for name in folders if name != STAGING]
            for name in names:
                # NFS shows files that are removed and still open.
                if name != LOCK and not name.startswith(".nfs") and not _STRAY.fullmatch(name):
                    with suppress(FileNotFoundError):
                        found[(inside / name).as_posix()] = (Path(place) / name).stat().st_size
        return found

    def read(self, name: str) -> bytes | None:
        """The bytes of a file; None if it does not exist."""
        try:
            return (self.folder / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read_all(self, names: Iterable[str]) -> Iterator[bytes]:
        """The bytes of small files. Files that do not exist are left out."""
        return (data for name in names if (data := self.read(name)) is not None)

    def write_new(self, name: str, data: bytes) -> bool:
        """Write a new file. Return False if it exists."""
        return write_new(self._made(name), data)

    def write(self, name: str, data: bytes) -> None:
        """Write or replace a file."""
        write_whole(self._made(name), data)

    def commit(self, path: Path, name: str) -> None:
        """Move a file from the staging directory to its name."""
        target = self._made(name)
        try:
            path.replace(target)
        except FileNotFoundError:  # another task has removed the folder, which was empty
            self._made(name)
            path.replace(target)
        sync_folder(target.parent)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, if they exist."""
        folders = set()
        for name in names:
            path = self.folder / name
            with suppress(FileNotFoundError):
                path.unlink()
                folders.add(path.parent)
        for folder in folders - {self.folder}:
            with suppress(OSError):  # it has other files
                folder.rmdir()

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """A new directory for one process, which is removed at the end."""
        base = self.folder / STAGING
        base.mkdir(exist_ok=True)
        path = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=base))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
            with suppress(OSError):  # of another process
                base.rmdir()

    @contextmanager
    def hold(self, *, shared: bool) -> Iterator[None]:
        """Keep other runs out. Ranks of one run share the output, and leave the lock's file."""
        path = self.folder / LOCK
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            with path.open("a+b") as file:
                # The run before may have removed the file that was opened.
                if _lock(file.fileno(), shared) and _is_at(path, file.fileno()):
                    try:
                        if not shared:
                            self._clear()
                        yield
                    finally:
                        if not shared:
                            with suppress(OSError):  # Windows keeps files that are open
                                path.unlink()
                    return
            if time.monotonic() > deadline:
                raise TokenizeError(
                    f"another run is writing into {self.name!r}; wait for it, or pass another "
                    "folder"
                )
            time.sleep(0.05)

    @contextmanager
    def copy(self) -> Iterator[Path]:
        """A folder with all files, for reading."""
        if self.folder.is_file():
            raise TokenizeError(f"{self.name!r} is a file; pass the folder of the shards")
        yield self.folder

    def _clear(self) -> None:
        """Remove temporary files of killed runs."""
        shutil.rmtree(self.folder / STAGING, ignore_errors=True)
        for path in self.folder.iterdir():
            if _STRAY.fullmatch(path.name):
                path.unlink(missing_ok=True)

    def _made(self, name: str) -> Path:
        """The path of a file, in a folder that exists."""
        path = self.folder / name
        if not path.parent.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            sync_folder(self.folder)
        return path


class StoreOutput(ObjectStore):
    """A prefix in an object store. Files are uploaded; an upload that completes is a commit."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.name = self.location = self.address

    def make(self) -> None:
        """An object store has no folders."""

    def read(self, name: str) -> bytes | None:
        """The bytes of an object; None if it does not exist."""
        return next(self.read_all([name]), None)

    def commit(self, path: Path, name: str) -> None:
        """Upload a file from the staging directory."""
        self.put(path, name)
        path.unlink()

    @contextmanager
    def staging(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="tokenmill-", ignore_cleanup_errors=True) as path:
            yield Path(path)

    @contextmanager
    def hold(self, *, shared: bool) -> Iterator[None]:
        """Object stores have no locks. Two runs that do the same task upload the same bytes."""
        yield

    @contextmanager
    def copy(self) -> Iterator[Path]:
        with self.staging() as path:
            self.fetch_all(path)
            try:
                yield path
            except TokenizeError as error:
                raise TokenizeError(str(error).replace(str(path), self.name)) from None


Output: TypeAlias = LocalOutput | StoreOutput


def _lock(handle: int, shared: bool) -> bool:
    """Lock a file. Return False if another process has locked it."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        # Some file systems of clusters have no locks.
        return error.errno not in (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
    return True


def _is_at(path: Path, handle: int) -> bool:
    """Whether a path leads to an open file."""
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(handle))
    return False


def copy_stdin(source: Source, folder: Path) -> Source:
    """Copy standard input to a file, because tasks are read in parts and sometimes twice.

    The time of the source is made from the checksum: the same bytes are the same input.
    """
    path = folder / "stdin"
    checksum = _native.Checksum()
    buffer = memoryview(bytearray(_BLOCK_BYTES))
    start, size = b"", 0
    with open_file(source) as pipe, path.open("wb") as file:
        while count := pipe.readinto(buffer):
            start = start or bytes(buffer[:count])
            size += count
            checksum.update(buffer[:count])
            file.write(buffer[:count])
    modified = checksum.value() % _TIME_END
    os.utime(path, ns=(modified, modified))
    compression = compression_of(start)
    return replace(source, place=str(path), compression=compression, size=size, modified=modified)


def raise_full_disk(number: int | None, text: str, name: str) -> None:
    """Raise a DiskFullError for an OS error that means a full disk."""
    if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        raise DiskFullError(
            f"the disk of {name!r} is full ({text}); free some space and run the same command again"
        ) from None
