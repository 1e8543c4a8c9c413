"""A run ↔ a folder, from which an interrupted run resumes.

The manifest contains the options, the finished runs of counts, and the position in the inputs up to
which they count. A second file contains the merges so far. Each file is replaced as a whole, so the
folder always has a consistent state. A run resumes with the same inputs and the same options.
Threads and memory may differ.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.errors import TrainingError
from tokenmill.files import write_whole
from tokenmill.training.merging import MERGE, NO_MERGES, Merges

_MANIFEST = "manifest.json"
_MERGES = "merges.bin"
_VERSION = 4
_START_AGAIN = "start again in another folder"
_DIGEST_BYTES = hashlib.sha256().digest_size

_FOLDER_PREFIX = "tokenmill-spill-"
_LOCK_NAME = "lock"
# A folder of this age has its lock, if its process is alive.
_LOCK_SECONDS = 60.0
_checked = 0.0

# Seconds between two checkpoints. An interrupted run loses at most a minute of work.
INTERVAL = 25.0


@dataclass(frozen=True, slots=True)
class Run:
    """A sorted file of counts. With `given` it is an input of the user."""

    path: str
    weight: float
    source: str
    given: bool = False


class Checkpoint:
    """The state of one run in its folder.

    `options` are those that decide the result. A run resumes only with equal ones.
    """

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self.folder = folder
        self.runs: list[Run] = []
        self.group = 0
        self.place = (0, 0)
        self.merges = NO_MERGES
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
            self._read(folder / _MANIFEST)
        elif not all(path.name.startswith(f".{_MANIFEST}.") for path in folder.iterdir()):
            raise TrainingError(
                f"resume folder {str(folder)!r} is not empty and contains no run; pass another "
                "folder"
            )
        else:
            self.record([], 0)

    def is_due(self) -> bool:
        """Whether the last checkpoint is older than INTERVAL."""
        return time.monotonic() - self._last >= INTERVAL

    def record(self, runs: list[Run], group: int, place: tuple[int, int] = (0, 0)) -> None:
        """Record that the runs count all documents before a position in a group of sources."""
        self.runs, self.group, self.place = list(runs), group, place
        document = {
            "version": _VERSION,
            "options": self._options,
            # A path relative to the folder lets the folder be moved.
            "runs": [asdict(run) | {"path": self._relative(run.path)} for run in runs],
            "group": group,
            "place": place,
        }
        write_whole(self.folder / _MANIFEST, json.dumps(document, indent=1).encode())
        self._last = time.monotonic()

    def record_merges(self, merges: Merges, *, is_finished: bool = False) -> None:
        """Record the merges so far."""
        self.merges, self.is_finished = merges, is_finished
        data = bytes([is_finished]) + merges.tobytes()
        write_whole(self.folder / _MERGES, hashlib.sha256(data).digest() + data)
        self._last = time.monotonic()

    def _relative(self, path: str) -> str:
        return Path(path).name if Path(path).parent == self.folder else path

    def _read(self, path: Path) -> None:
        try:
            document = json.loads(path.read_bytes())
            if document["version"] != _VERSION:
                raise ValueError(f"version {document['version']} of another tokenmill")
            before = dict(document["options"])
            runs = [Run(**run) for run in document["runs"]]
            self.group, self.place = document["group"], tuple(document["place"])
        except (ValueError, KeyError, TypeError) as error:
            raise TrainingError(f"{path} cannot be read ({error}); {_START_AGAIN}") from None
        self._compare(before)
        self.runs = [
            run if run.given else replace(run, path=str(self.folder / run.path)) for run in runs
        ]
        for run in self.runs:
            if not Path(run.path).exists():
                raise TrainingError(f"file of the run not found: {run.path!r}; {_START_AGAIN}")
        if (self.folder / _MERGES).exists():
            self._read_merges(self.folder / _MERGES)

    def _compare(self, before: dict[str, Any]) -> None:
        for name in {**before, **self._options}:
            one, two = before.get(name), self._options.get(name)
            if one == two:
                continue
            change = f"{name}={one!r:.60} is now {name}={two!r:.60}"
            if " " in name:
                change = f"{name} changed from {one!r} to {two!r}"
            raise TrainingError(
                f"cannot resume the run in {str(self.folder)!r}: {change}; restore it, or pass "
                "another folder"
            )

    def _read_merges(self, path: Path) -> None:
        data = path.read_bytes()
        digest, data = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        if hashlib.sha256(data).digest() != digest:
            raise TrainingError(
                f"{path} is damaged; delete it to learn the merges again from the counts"
            )
        self.is_finished, self.merges = data[0] == 1, np.frombuffer(data, MERGE, offset=1)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A temporary folder that is removed at the end, or by a later call if the process is killed.

    The process keeps a lock on a file in the folder. A folder without a locked file is abandoned.
    """
    global _checked
    if time.time() - _checked > _LOCK_SECONDS:  # listing a thousand files takes a millisecond
        _checked = time.time()
        for path in Path(tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*/{_LOCK_NAME}"):
            if _is_abandoned(path):
                shutil.rmtree(path.parent, ignore_errors=True)
    with (
        tempfile.TemporaryDirectory(prefix=_FOLDER_PREFIX) as name,
        (Path(name) / _LOCK_NAME).open("wb") as lock,
    ):
        with suppress(OSError):  # some file systems have no locks
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield Path(name)


def _is_abandoned(path: Path) -> bool:
    try:
        if time.time() - path.stat().st_mtime < _LOCK_SECONDS:
            return False
        with path.open("rb+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # locked, of another user, or removed by another process
        return False
    return True
