"""Texts that share beginnings → their ids, of which only the end is encoded.

Each conversation has a session of the core with its last text. Earlier texts of a conversation are
stored as the offset at which they differ from the last, and their ends. All texts are sorted. The
text with the longest common prefix is next to the position of a new text, so a binary search finds
it.

**Invariant**: ids are those of the whole text, because those of a session are.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from tokenmill import arguments
from tokenmill.errors import shown
from tokenmill.tokenizer import Tokenizer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.native import _native
    from tokenmill.tokenizer import SpecialsChoice, Text

# Distance of checkpoints in bytes. At 64, the default, a session takes a third more memory.
_SPACING = 512
# A conversation gets a new text if that lacks at most this many bytes of its last one. Otherwise
# the new text begins another conversation, with a copy of the session.
_REWRITTEN_BYTES_MAX = 4096
# While more bytes than this are encoded, other threads can use the store.
_LOCKED_BYTES_MAX = 1 << 16
# Number of ids before the rewritten end of a text that are read before they may change.
_CHANGED_IDS = 256
# A session is copied if the new text shares at least this part of its text.
_COPIED_PART = 1 / 32
# Memory of a text in addition to its bytes and ids, and of a conversation.
_TEXT_BYTES, _CONVERSATION_BYTES = 400, 800
# Eviction frees at least this part of the memory, since it goes through all texts.
_EVICTED_PART = 1 / 64


T = TypeVar("T")
# The length of the common prefix with the last text of a conversation, and whether that is less.
_Seen: TypeAlias = dict[int, tuple[int, bool]]


class _Conversation:
    """A session with the last text of a conversation."""

    __slots__ = ("earlier", "is_evicted", "last", "memory", "session")

    def __init__(self, session: _native.Session) -> None:
        self.session = session
        self.last = _StoredText(self)
        self.earlier: list[_StoredText] = []
        self.memory = 0
        self.is_evicted = False

    def measure(self) -> int:
        """Update the number of bytes of memory, and return the change."""
        before, count = self.memory, 1 + len(self.earlier)
        ends = sum(len(text.end) + text.ids.nbytes for text in self.earlier)
        self.memory = self.session.memory() + ends + count * _TEXT_BYTES + _CONVERSATION_BYTES
        return self.memory - before

    def rewrite(self, data: bytes, own: int) -> int:
        """Replace the last text from byte `own` on, and return the number of ids that stay."""
        session, count = self.session, self.session.count()
        end = session.text(own)
        start = max(0, count - len(end) - _CHANGED_IDS)
        old_ids = np.asarray(session.buffer(start, count))
        kept = session.replace_from(own, data[own:])
        earlier = self.last
        if kept < start:  # a change may reach far back
            old_text = data[:own] + end
            temporary = session.copy()
            temporary.update(old_text)
            start, old_ids = kept, np.asarray(temporary.buffer(kept, count))
        earlier.cut, earlier.end = own, end
        earlier.first_id, earlier.ids = kept, old_ids[kept - start :].copy()
        for text in self.earlier:
            text.follow(earlier)
        self.earlier.append(earlier)
        self.last = _StoredText(self)
        return kept


class _StoredText:
    """The last text of a conversation; or an earlier one, which differs from it from `cut` on."""

    __slots__ = ("conversation", "cut", "end", "first_id", "ids")

    def __init__(self, conversation: _Conversation) -> None:
        self.conversation = conversation
        self.cut: int | None = None
        self.end = b""
        # The ids from index `first_id` on. Those before it are the ids of the last text.
        self.first_id, self.ids = 0, np.empty(0, np.uint32)

    def compare(self, other: bytes, start: int, seen: _Seen) -> tuple[int, bool]:
        """Return the length of the common prefix, and whether this text is less than the other.

        The first `start` bytes must be equal. `seen` has the results for last texts.
        """
        key = id(self.conversation)
        if key not in seen:
            equal = start if self.cut is None else min(start, self.cut)
            seen[key] = self.conversation.session.compare(other, equal)
        common, is_less = seen[key]
        if self.cut is None or common < self.cut:
            return common, is_less
        place = _common_len(self.end, other[self.cut : self.cut + len(self.end)])
        common = self.cut + place
        is_prefix = place == len(self.end)
        return common, common < len(other) and (is_prefix or self.end[place] < other[common])

    def length(self) -> int:
        return self.conversation.session.bytes() if self.cut is None else self.cut + len(self.end)

    def all_ids(self) -> NDArray[np.uint32]:
        session = self.conversation.session
        if self.cut is None:
            return np.asarray(session.buffer(0, session.count()))
        return np.concatenate([np.asarray(session.buffer(0, self.first_id)), self.ids])

    def id_list(self) -> list[int]:
        session = self.conversation.session
        if self.cut is None:
            return session.ids(0, session.count())
        return session.ids(0, self.first_id) + self.ids.tolist()

    def count(self) -> int:
        return (
            self.conversation.session.count() if self.cut is None else self.first_id + len(self.ids)
        )

    def follow(self, changed: _StoredText) -> None:
        """Store this text relative to the new last text. `changed` was the last one before."""
        if self.first_id > changed.first_id:
            more = changed.ids[: self.first_id - changed.first_id]
            self.first_id, self.ids = changed.first_id, np.concatenate([more, self.ids])
        assert self.cut is not None and changed.cut is not None
        if self.cut > changed.cut:
            self.end = changed.end[: self.cut - changed.cut] + self.end
            self.cut = changed.cut


def _common_len(first: bytes, second: bytes) -> int:
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_ids(first: NDArray[np.uint32], second: NDArray[np.uint32]) -> int:
    shared = min(len(first), len(second))
    unequal = first[:shared] != second[:shared]
    return int(unequal.argmax()) if unequal.any() else shared


class _Found(NamedTuple):
    position: int  # of a text among the sorted ones
    nearest: _StoredText | None  # the stored text with the longest common prefix
    nearest_position: int
    common: int
    own: int  # the length of the common prefix with the last text of the same conversation

    def is_equal(self, data: bytes) -> bool:
        nearest = self.nearest
        return nearest is not None and self.common == len(data) == nearest.length()


class PrefixStore:
    """Encodes texts that share beginnings with earlier ones, such as the turns of conversations.

    `encode` returns the ids of the whole text, and only encodes the text after the longest common
    prefix with a stored one. The store takes at most `memory` bytes; conversations that were not
    used for the longest time are removed. Threads can share a store. `allowed_special` is as in
    `Tokenizer.encode`.

    Examples:
        >>> from tokenmill import PrefixStore, Tokenizer
        >>> store = PrefixStore(Tokenizer.load("o200k_base"))
        >>> store.encode("The mill grinds wheat.")
        (array([  976,  3215,   984, 13834, 51109,    13], dtype=uint32), 0)
        >>> ids, kept = store.encode("The mill grinds rye.")
        >>> kept
        4
    """

    def __init__(
        self, tokenizer: Tokenizer, *, memory: int = 1_000_000_000,
        allowed_special: SpecialsChoice = False,
    ) -> None:  # fmt: skip
        if not isinstance(tokenizer, Tokenizer):
            raise TypeError(f"expected a Tokenizer from Tokenizer.load, got {shown(tokenizer)}")
        self._tokenizer = tokenizer
        limit = arguments.whole_number(memory, "memory", 0, " (bytes)")
        self._choice = allowed_special
        self._open(tokenizer._core, tokenizer._allowed(allowed_special), limit)

    @classmethod
    def _of_core(cls, core: _native.Core, allowed: bytes | None, memory: int) -> PrefixStore:
        """Return a store for a core without a Tokenizer. It cannot be pickled."""
        store = cls.__new__(cls)
        store._open(core, allowed, memory)
        return store

    def _open(self, core: _native.Core, allowed: bytes | None, limit: int) -> None:
        self._core, self._allowed, self._limit = core, allowed, limit
        # Raises the error of a tokenizer without sessions.
        core.session(allowed, _SPACING)
        self._lock = threading.Lock()
        self.clear()
        _stores.add(self)

    def encode(self, text: Text) -> tuple[NDArray[np.uint32], int]:
        """Return the ids of a text, and the number of leading ids shared with a stored text.

        That is the stored text that has the longest common prefix with `text`.
        """
        return self._encode(arguments.utf8(text), _StoredText.all_ids)

    def _id_list(self, data: bytes) -> list[int]:
        return self._encode(data, _StoredText.id_list)[0]

    def _encode(self, data: bytes, read: Callable[[_StoredText], T]) -> tuple[T, int]:
        """Return the ids of a text as `read` returns them, and the number of shared ids."""
        known = np.empty(0, np.uint32)
        with self._lock:
            found = self._find(data)
            if found.nearest is None:
                stored = None
            else:
                rewritten = self._rewrite(data, found)
                if rewritten is not None:
                    text, kept = rewritten
                    return read(text), kept
                known = found.nearest.all_ids()
                stored = found.nearest.conversation.session
            if stored is None or found.own < stored.bytes() * _COPIED_PART:
                session = self._core.session(self._allowed, _SPACING)
            else:
                session = stored.copy()
        # No other thread has this session.
        session.update(data)
        conversation = _Conversation(session)
        ids, kept = read(conversation.last), _common_ids(conversation.last.all_ids(), known)
        with self._lock:
            self._add(data, conversation)
        return ids, kept

    @property
    def memory(self) -> int:
        """The number of bytes that the stored texts and their ids take."""
        return self._memory

    def clear(self) -> None:
        """Remove all texts."""
        with self._lock:
            self._texts: list[_StoredText] = []
            # In the order of their last use.
            self._conversations: OrderedDict[int, _Conversation] = OrderedDict()
            self._memory = 0

    def __len__(self) -> int:
        """Return the number of stored texts."""
        return len(self._texts)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings without the texts."""
        return _new_store, (self._tokenizer, self._limit, self._choice)

    def __repr__(self) -> str:
        return (
            f"<PrefixStore of {self._tokenizer.name!r}: {len(self):,} texts, "
            f"{self._memory:,} of {self._limit:,} bytes>"
        )

    def _after_fork(self) -> None:
        """Replace the lock in a forked child if a thread had it, which does not exist here.

        That thread has changed only a part of the store.
        """
        if self._lock.locked():
            self._lock = threading.Lock()
            self.clear()

    # Called with the lock

    def _find(self, data: bytes) -> _Found:
        """Find the position of a text, and the stored text with the longest common prefix.

        The common prefix with any text between two others is at least the shorter of those with
        them, so that part is not compared again.
        """
        low, high = 0, len(self._texts)
        left = right = best = 0
        nearest, index = None, -1
        seen: _Seen = {}
        while low < high:
            middle = (low + high) // 2
            text = self._texts[middle]
            common, is_less = text.compare(data, min(left, right), seen)
            if nearest is None or common > best:
                nearest, index, best = text, middle, common
            if is_less:
                low, left = middle + 1, common
            else:
                high, right = middle, common
        own = 0 if nearest is None else seen[id(nearest.conversation)][0]
        return _Found(low, nearest, index, best, own)

    def _rewrite(self, data: bytes, found: _Found) -> tuple[_StoredText, int] | None:
        """Encode a text that differs little from the last one of a conversation; None if not.

        Return the text, and the number of ids that it shares with the nearest one.
        """
        nearest = found.nearest
        assert nearest is not None
        conversation = nearest.conversation
        self._conversations.move_to_end(id(conversation))
        if found.is_equal(data):
            return nearest, nearest.count()
        session, last = conversation.session, conversation.last
        own = found.own
        if session.bytes() - own > _REWRITTEN_BYTES_MAX or len(data) - own > _LOCKED_BYTES_MAX:
            return None
        position = found.position
        kept = conversation.rewrite(data, own)
        if nearest is not last:
            if kept >= nearest.first_id:
                ids = conversation.last.all_ids()
                rest = _common_ids(ids[nearest.first_id :], nearest.ids)
                kept = max(kept, nearest.first_id + rest)
        elif not last.end:  # the new text continues it
            conversation.earlier.remove(last)
            del self._texts[found.nearest_position]
            position -= found.nearest_position < position
        self._texts.insert(position, conversation.last)
        self._memory += conversation.measure()
        self._evict()
        return conversation.last, kept

    def _add(self, data: bytes, conversation: _Conversation) -> None:
        """Store a new conversation, unless another thread has stored its text."""
        found = self._find(data)
        if found.is_equal(data):
            return
        self._conversations[id(conversation)] = conversation
        self._texts.insert(found.position, conversation.last)
        self._memory += conversation.measure()
        self._evict()

    def _evict(self) -> None:
        """Remove the conversations that were not used for the longest time."""
        if self._memory <= self._limit:
            return
        while self._conversations and self._memory > self._limit * (1 - _EVICTED_PART):
            _, conversation = self._conversations.popitem(last=False)
            conversation.is_evicted = True
            self._memory -= conversation.memory
        self._texts = [text for text in self._texts if not text.conversation.is_evicted]


def _new_store(tokenizer: Tokenizer, memory: int, allowed_special: SpecialsChoice) -> PrefixStore:
    return PrefixStore(tokenizer, memory=memory, allowed_special=allowed_special)


_stores: weakref.WeakSet[PrefixStore] = weakref.WeakSet()


def _after_fork() -> None:
    for store in list(_stores):
        store._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
