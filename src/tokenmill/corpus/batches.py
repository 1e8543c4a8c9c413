"""Documents → batches: about as many texts as keep the core busy while the next are read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

# Large enough that starting threads costs nothing, small enough that three of them are no memory.
BATCH_BYTES = 16 << 20


@dataclass(slots=True)
class Batch:
    """Some documents of one source, and where the source stands behind them.

    `position` is what `read` takes as its start to go on behind this batch: bytes of text, or rows.
    `bytes_read` counts bytes of the file, so compressed ones where it is compressed.
    """

    texts: list[Any]
    bytes: int
    position: int
    bytes_read: int


def _silent(_: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How documents are read, whatever the source.

    `whole` is for patterns without a place where a text can certainly be cut; `specials` are the
    names that no cut may go through; `note` takes what the user should know.
    """

    field: str = "text"
    whole: bool = False
    specials: tuple[bytes, ...] = ()
    sample: float | None = None
    seed: int = 0
    batch_bytes: int = BATCH_BYTES
    note: Callable[[str], None] = _silent

    def with_batch_bytes(self, batch_bytes: int) -> ReadOptions:
        """The same with batches of another size."""
        return replace(self, batch_bytes=batch_bytes)

    def keep(self, texts: list[Any]) -> list[Any]:
        """The documents that the sample takes: those whose hash is low.

        The hash is of the bytes alone, so the choice depends neither on the order nor on threads,
        and copies of a document are taken together.
        """
        if self.sample is None:
            return texts
        limit = int(self.sample * 2**64)
        key = self.seed.to_bytes(8, "little")
        return [text for text in texts if _hash(text, key) < limit]


def _hash(text: Any, key: bytes) -> int:
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8, key=key).digest(), "little")


def size_of(text: Any) -> int:
    """The bytes of a text; of a str with other than ASCII characters about that."""
    return len(text) if not isinstance(text, memoryview) else text.nbytes
