"""A run ↔ a folder, from which an interrupted run resumes.

The manifest contains the options, the finished runs of counts, and the position in the inputs up to
which they count. A second file contains the merges so far. Each file is replaced as a whole, so the
folder always has a consistent state. A run resumes with the same inputs and the same options.
Threads and memory may differ.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.corpus import Source
from tokenmill.errors import TrainingError
from tokenmill.files import write_whole
from tokenmill.training.merging import Merges, no_merges

_MANIFEST = "manifest.json"
_MERGES = "merges.bin"
_VERSION = 3
_OPTION_CHARS_SHOWN = 60
_START_AGAIN = "start again in another folder"

_FOLDER_PREFIX = "tokenmill-spill-"
_LOCK_NAME = "lock"
# A folder of this age has its lock, if its process is alive.
_LOCK_SECONDS = 60.0

# Seconds between two checkpoints. An interrupted run loses at most a minute of work.
INTERVAL = 25.0


@dataclass(frozen=True, slots=True)
class Run:
    """A sorted file of counts. With `given` it is an input of the user."""

    path: str
    weight: float
    source: str
    given: bool = False
    group: int = -1


class Checkpoint:
    """The state of one run in its folder."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self.folder = folder
        self.runs: list[Run] = []
        self.group = 0
        self.place = (0, 0)
        self.merges = no_merges()
        self.is_finished = False
        self._options: dict[str, Any] = json.loads(json.dumps(options))
        self._last = time.monotonic()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise TrainingError(
                f"resume must be a folder, got {str(folder)!r}, which is a file or inside one"
            ) from None
        if (folder / _MANIFEST).exists():
            self._read()
        elif not all(path.name.startswith(f".{_MANIFEST}.") for path in folder.iterdir()):
            raise TrainingError(
                f"resume folder {str(folder)!r} is not empty and contains no run; pass another "
                "folder"
            )
        else:
            self._write()

    def is_due(self) -> bool:
        """Whether the last checkpoint is older than INTERVAL."""
        return time.monotonic() - self._last >= INTERVAL

    def record(self, runs: list[Run], group: int, place: tuple[int, int] = (0, 0)) -> None:
        """Record that the runs count all documents before a position in a group of sources."""
        self.runs, self.group, self.place = list(runs), group, place
        self._write()

    def record_merges(self, merges: Merges, *, is_finished: bool = False) -> None:
        """Record the merges so far."""
        self.merges, self.is_finished = merges, is_finished
        header = np.array([_VERSION, len(merges), int(is_finished)], np.uint64)
        data = b"".join(column.tobytes() for column in (header, *merges.columns))
        write_whole(self.folder / _MERGES, hashlib.sha256(data).digest() + data)
        self._last = time.monotonic()

    def _write(self) -> None:
        document = {
            "version": _VERSION,
            "options": self._options,
            # A path relative to the folder lets the folder be moved.
            "runs": [asdict(run) | {"path": self._relative(run.path)} for run in self.runs],
            "group": self.group,
            "place": self.place,
        }
        write_whole(self.folder / _MANIFEST, json.dumps(document, indent=1).encode())
        self._last = time.monotonic()

    def _read(self) -> None:
        path = self.folder / _MANIFEST
        try:
            document = json.loads(path.read_bytes())
            if document["version"] != _VERSION:
                raise TrainingError(
                    f"{path} was written by another version of tokenmill; {_START_AGAIN}"
                )
            self._compare(document["options"])
            runs = [Run(**run) for run in document["runs"]]
            self.runs = [
                run if run.given else replace(run, path=str(self.folder / run.path)) for run in runs
            ]
            self.group, self.place = document["group"], tuple(document["place"])
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, TrainingError):
                raise
            raise TrainingError(f"{path} is damaged ({error}); {_START_AGAIN}") from None
        for run in self.runs:
            if not Path(run.path).exists():
                raise TrainingError(f"file of the run not found: {run.path!r}; {_START_AGAIN}")
        if (self.folder / _MERGES).exists():
            self._read_merges((self.folder / _MERGES).read_bytes())

    def _compare(self, before: dict[str, Any]) -> None:
        for name in {**before, **self._options}:
            one, two = before.get(name), self._options.get(name)
            if one != two:
                change = f"{name}={_short(one)} is now {name}={_short(two)}"
                change = _changed_input(one, two) if name == "inputs" else change
                raise TrainingError(
                    f"cannot resume the run in {str(self.folder)!r}: {change}; restore it, or pass "
                    "another folder"
                )

    def _relative(self, path: str) -> str:
        return Path(path).name if Path(path).parent == self.folder else path

    def _read_merges(self, data: bytes) -> None:
        digest, data = data[:32], data[32:]
        if hashlib.sha256(data).digest() != digest:
            raise TrainingError(
                f"{self.folder / _MERGES} is damaged; delete it to learn the merges again from the "
                "counts"
            )
        _, count, finished = np.frombuffer(data[:24], np.uint64).tolist()
        ids = np.frombuffer(data[24 : 24 + 12 * count], np.uint32).reshape(3, count)
        counts = np.frombuffer(data[24 + 12 * count :], np.uint64)
        self.merges = Merges(ids[0], ids[1], ids[2], counts)
        self.is_finished = bool(finished)


# The manifest compares these fields of an input.
_INPUT_FIELDS = ("name", "format", "size", "modification time", "weight")


def describe_input(source: Source) -> list[Any]:
    """The values of _INPUT_FIELDS."""
    return [source.name, source.kind, source.size, source.modified, source.weight]


def _changed_input(before: Any, now: Any) -> str:
    """The first difference between two lists of inputs, in words."""
    old, new = ({str(one[0]): one for one in inputs or ()} for inputs in (before, now))
    for name in old:
        if name not in new:
            return f"input {name!r} is missing"
        for field, one, two in zip(_INPUT_FIELDS, old[name], new[name], strict=True):
            if one != two:
                return f"the {field} of input {name!r} changed from {one} to {two}"
    added = [name for name in new if name not in old]
    return f"input {added[0]!r} is new" if added else "the order of the inputs changed"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _OPTION_CHARS_SHOWN else text[: _OPTION_CHARS_SHOWN - 1] + "…"


# The folder of a run without checkpoints


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A temporary folder that is removed at the end, or by the next call if the process is killed.

    The process keeps a lock on a file in the folder. A folder without a locked file is abandoned.
    """
    root = Path(tempfile.gettempdir())
    for folder in root.glob(f"{_FOLDER_PREFIX}*"):
        if _is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)
    with (
        tempfile.TemporaryDirectory(prefix=_FOLDER_PREFIX) as name,
        (Path(name) / _LOCK_NAME).open("wb") as lock,
    ):
        _try_lock(lock.fileno())
        yield Path(name)


def _is_abandoned(folder: Path) -> bool:
    path = folder / _LOCK_NAME
    try:
        if time.time() - path.stat().st_mtime < _LOCK_SECONDS:
            return False
        with path.open("rb+") as lock:
            return _try_lock(lock.fileno())
    except OSError:  # of another user, or removed by another process
        return False


def _try_lock(handle: int) -> bool:
    """Whether this process got the lock on an open file. It lasts until the file is closed."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
