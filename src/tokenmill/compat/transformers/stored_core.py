"""Long prompts → their ids, from a prefix store that equal tokenizers share.

A server makes copies of its tokenizer for its threads, and any of them may get the next turn of a
conversation. So tokenizers with the same JSON share one `StoredCore`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from tokenmill.errors import OptionError, VocabularyError
from tokenmill.options import parse_amount
from tokenmill.prefix_store import PrefixStore

if TYPE_CHECKING:
    from tokenmill.native import _native

VARIABLE = "TOKENMILL_PREFIX_STORE"
# Shorter texts are encoded whole. They take as long, and would fill the store.
LONG = 4096

_shared: WeakValueDictionary[tuple[bytes, int], StoredCore] = WeakValueDictionary()


def default_memory() -> int:
    """Return the bytes of a prefix store that the environment asks for: 0 without a store."""
    word = os.environ.get(VARIABLE, "") or "0"
    try:
        return parse_amount(word)
    except ValueError as error:
        raise OptionError(f"{VARIABLE} must be {error}, not {word!r}") from None


class StoredCore:
    """A core whose `encode` uses a prefix store for long texts. Its other methods are the core's.

    Each choice of added tokens has a store: one for most programs.
    """

    def __init__(self, core: _native.Core, memory: int) -> None:
        self._core, self._memory = core, memory
        self._stores: dict[bytes | None, PrefixStore | None] = {}

    @classmethod
    def shared(cls, core: _native.Core, json: str, memory: int) -> StoredCore:
        """Return the object of tokenizers with this JSON. One thread at a time calls this."""
        # The settings of truncation and padding come first, and change from call to call.
        parts = json[json.index('"added_tokens"') :]
        key = hashlib.sha256(parts.encode()).digest(), memory
        return _shared.setdefault(key, cls(core, memory))

    def encode(self, text: str, allowed: bytes | None, /) -> list[int]:
        """Return the ids of a text. ValueError if it has a lone surrogate."""
        if len(text) < LONG:
            return self._core.encode(text, allowed)
        store = self.store(allowed)
        return self._core.encode(text, allowed) if store is None else store._id_list(text.encode())

    def store(self, allowed: bytes | None) -> PrefixStore | None:
        """Return the store of a choice; None if the core has no sessions."""
        if allowed not in self._stores:
            made = None
            with contextlib.suppress(VocabularyError):
                made = PrefixStore._of_core(self._core, allowed, self._memory)
            self._stores.setdefault(allowed, made)
        return self._stores[allowed]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)
