"""The base class of systems. A system loads a vocabulary and runs jobs by its fastest API.

`how` names the calls. A job without a direct call is composed from the nearest one. Special tokens
are encoded as text.

Invariant: a module is imported in `open`, never at the top, since the measuring process sets the
number of threads first and times the import separately.
"""

# mypy: disable-error-code="no-any-return"
# Most of the peers come without types.

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

# isort: split
from corpora import CACHE
from vocabularies import Vocabulary

Ids = npt.NDArray[np.uint32]
Ragged = tuple[Ids, npt.NDArray[Any]]

SIDE_FOLDER = CACHE / "side"


class UnsupportedError(Exception):
    """The system does not support the job; the message has the reason."""


class System:
    name: ClassVar[str]
    module: ClassVar[str]
    package: ClassVar[str]
    # A second version of a package, kept in a folder of its own: `name==version`.
    side: ClassVar[str | None] = None
    # Jobs that get bytes; the others get str.
    bytes_jobs: ClassVar[frozenset[str]] = frozenset()
    how: ClassVar[dict[str, str]]
    # Ways to encode that are one method of the loaded object: list or array → its name.
    direct: ClassVar[dict[str, str]] = {}
    has_ids = True

    def open(self) -> None:
        self.lib: Any = importlib.import_module(self.module)
        self.core: Any = None

    def load(self, v: Vocabulary) -> None:
        raise NotImplementedError

    def load_fastest(self, v: Vocabulary) -> None:
        """Load for the load job, if this differs from the other jobs."""
        self.load(v)

    def encode_list(self, text: str) -> list[int]:
        raise NotImplementedError

    def encode_array(self, text: Any) -> Ids:
        raise NotImplementedError

    def encode_array_on(self, text: Any, threads: int) -> Ids:
        raise UnsupportedError("encodes one text on one thread")

    def short_call(self, kind: str) -> Callable[[Any], Any]:
        """Return the call of a user: a method of the library itself, if it has one.

        A wrapper of this class adds 30 to 90 ns (timeit, 20 characters) to 220 and 360.
        """
        if kind in self.direct:
            return getattr(self.core, self.direct[kind])
        return {"list": self.encode_list, "array": self.encode_array}[kind]

    def batch_list(self, texts: list[str], threads: int) -> list[list[int]]:
        raise NotImplementedError

    def batch_array(self, texts: list[str], threads: int) -> Ragged:
        raise NotImplementedError

    def count(self, text: Any) -> int:
        return len(self.encode_array(text))


def ragged(arrays: Sequence[Ids]) -> Ragged:
    offsets = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([len(a) for a in arrays], out=offsets[1:])
    return np.concatenate(arrays), offsets


def lists(ids: Ids, offsets: npt.NDArray[Any]) -> list[list[int]]:
    flat, cuts = ids.tolist(), offsets.tolist()
    return [flat[a:b] for a, b in itertools.pairwise(cuts)]
