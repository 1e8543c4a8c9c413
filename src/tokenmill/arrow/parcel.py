"""A tokenizer → bytes that travel with a task → one tokenizer in each process.

Engines unpickle a callable for every task. The bytes are made once, by whoever sends them, and
loaded when a text comes: by a process that has not met them, which is told by their digest.
"""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

from tokenmill.tokenizer import Tokenizer

# A worker has one tokenizer as a rule. More are forgotten, the oldest first: each takes megabytes.
_LOADED_MAX = 4
_loaded: dict[bytes, Tokenizer] = {}


class Parcel:
    """A tokenizer, here or not yet. Of an embedded one only the name and the specials travel."""

    __slots__ = ("_digest", "_packed", "_tokenizer")

    _tokenizer: Tokenizer | None
    _packed: bytes | None
    _digest: bytes

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._packed = None
        self._digest = b""

    @classmethod
    def _arrived(cls, digest: bytes, packed: bytes) -> Parcel:
        self = object.__new__(cls)
        self._tokenizer = None
        self._packed = packed
        self._digest = digest
        return self

    @property
    def tokenizer(self) -> Tokenizer:
        if self._tokenizer is None:
            assert self._packed is not None
            found = _loaded.get(self._digest)
            if found is None:
                # These bytes came in a pickle, and are trusted as much as it was.
                found = pickle.loads(self._packed)  # noqa: S301
            self._tokenizer = _remember(self._digest, found)
        return self._tokenizer

    def __reduce__(self) -> tuple[Any, ...]:
        if self._packed is None:
            assert self._tokenizer is not None
            packed = pickle.dumps(self._tokenizer, pickle.HIGHEST_PROTOCOL)
            self._digest, self._packed = hashlib.sha256(packed).digest(), packed
            _remember(self._digest, self._tokenizer)  # for tasks in this very process
        return type(self)._arrived, (self._digest, self._packed)


def _remember(digest: bytes, tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer of a digest: this one, or that of a thread which was first."""
    kept = _loaded.setdefault(digest, tokenizer)
    for old in list(_loaded)[:-_LOADED_MAX]:
        _loaded.pop(old, None)
    return kept
