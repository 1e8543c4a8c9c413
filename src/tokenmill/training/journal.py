"""Work done ↔ a folder, from which a run that was killed goes on.

The manifest names the options, the runs of counts that are finished, and the place in the inputs
behind which they end; a second file holds the merges so far. Both are replaced as a whole, so
whatever a kill leaves is a state that once was true. Options that change the result must be the
same when a run goes on; threads and memory may differ.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.errors import TrainingError
from tokenmill.files import write_whole
from tokenmill.training.merging import Merges, no_merges

_MANIFEST = "manifest.json"
_MERGES = "merges.bin"
_VERSION = 2
_OPTION_CHARS_SHOWN = 60

# Work is put down this often, in seconds: less than the minute that may be lost.
INTERVAL = 25.0


@dataclass(frozen=True, slots=True)
class Run:
    """A sorted file of counts; `given` ones are the user's."""

    path: str
    weight: float
    source: str
    given: bool = False
    group: int = -1


class Journal:
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
                f"resume needs a folder, and {str(folder)!r} is a file or lies in one"
            ) from None
        if (folder / _MANIFEST).exists():
            self._read()
        elif not all(path.name.startswith(f".{_MANIFEST}.") for path in folder.iterdir()):
            raise TrainingError(
                f"{str(folder)!r} is not empty and no run was begun in it; give another folder"
            )
        else:
            self._write()

    def is_due(self) -> bool:
        """Whether so much work was done that it should be put down."""
        return time.monotonic() - self._last >= INTERVAL

    def record(self, runs: list[Run], group: int, place: tuple[int, int] = (0, 0)) -> None:
        """Says that the runs hold all documents before a place in a group of sources."""
        self.runs, self.group, self.place = list(runs), group, place
        self._write()

    def record_merges(self, merges: Merges, *, is_finished: bool = False) -> None:
        """Says which merges are learned."""
        self.merges, self.is_finished = merges, is_finished
        header = np.array([_VERSION, len(merges), int(is_finished)], np.uint64)
        columns = (merges.lefts, merges.rights, merges.ids, merges.counts)
        data = b"".join(c.tobytes() for c in (header, *columns))
        write_whole(self.folder / _MERGES, hashlib.sha256(data).digest() + data)
        self._last = time.monotonic()

    def _write(self) -> None:
        document = {
            "version": _VERSION,
            "options": self._options,
            "runs": [asdict(self._inside(run)) for run in self.runs],
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
                    f"{path} is of another version of tokenmill; begin again in another folder"
                )
            self._compare(document["options"])
            self.runs = [self._outside(Run(**run)) for run in document["runs"]]
            self.group, self.place = document["group"], tuple(document["place"])
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, TrainingError):
                raise
            raise TrainingError(
                f"{path} is damaged ({error}); begin again in another folder"
            ) from None
        for run in self.runs:
            if not Path(run.path).exists():
                raise TrainingError(f"{run.path} is gone; begin again in another folder")
        if (self.folder / _MERGES).exists():
            self._read_merges((self.folder / _MERGES).read_bytes())

    def _compare(self, before: dict[str, Any]) -> None:
        for name in {**before, **self._options}:
            one, two = before.get(name), self._options.get(name)
            if one != two:
                raise TrainingError(
                    f"the run in {str(self.folder)!r} was begun with {name}={_shown(one)}, and now "
                    f"it is {_shown(two)}; give what it was begun with, or another folder"
                )

    def _inside(self, run: Run) -> Run:
        """As it is written: files of the run by their names alone, so that the folder can move."""
        path = Path(run.path)
        return replace(run, path=path.name) if path.parent == self.folder else run

    def _outside(self, run: Run) -> Run:
        return run if run.given else replace(run, path=str(self.folder / run.path))

    def _read_merges(self, data: bytes) -> None:
        digest, data = data[:32], data[32:]
        if hashlib.sha256(data).digest() != digest:
            raise TrainingError(
                f"{self.folder / _MERGES} is damaged; delete it, and the merges are learned again "
                "from the counts beside it"
            )
        _, count, finished = np.frombuffer(data[:24], np.uint64).tolist()
        ids = np.frombuffer(data[24 : 24 + 12 * count], np.uint32).reshape(3, count)
        counts = np.frombuffer(data[24 + 12 * count :], np.uint64)
        self.merges = Merges(ids[0], ids[1], ids[2], counts)
        self.is_finished = bool(finished)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _OPTION_CHARS_SHOWN else text[: _OPTION_CHARS_SHOWN - 1] + "…"
