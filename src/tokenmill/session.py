"""A text that changes at its end → its ids, of which only the last are made anew."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Generic, SupportsIndex, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from tokenmill import arguments
from tokenmill.native import _native

if TYPE_CHECKING:
    from tokenmill.tokenizer import Tokenizer

Kind = TypeVar("Kind", str, bytes)


class Session(Generic[Kind]):
    """A text and its ids: at any time those that `encode` gives for the whole text.

    `Tokenizer.session` makes one. Each change returns how many of the earlier ids stay: the first
    that may differ, which is where a cache of keys and values goes on. It takes time for what is
    new and for about 256 bytes before it, not for the whole text. (Where a normaliser replaces by
    patterns or strips white space, or added tokens take white space beside them, the whole text is
    normalised again, but not encoded.) A change that raises an error changes nothing.

    A session belongs to one thread at a time; `copy()` is one for another, or another turn of the
    conversation.

    Examples:
        >>> from tokenmill import Tokenizer
        >>> session = Tokenizer.load("cl100k_base").session("User: hi\\n")
        >>> kept = session.append("Model: hello")   # so many ids stay as they were …
        >>> kept, session[kept:]                    # … and these are new
        (4, [1747, 25, 24748])
    """

    __slots__ = ("_core", "_high", "_is_str", "_specials", "_tokenizer")

    def __init__(
        self, tokenizer: Tokenizer, text: object, allowed_special: bool | Collection[str] = False
    ) -> None:
        allowed = tokenizer._allowed(allowed_special)
        self._tokenizer = tokenizer
        self._specials = (
            allowed_special if isinstance(allowed_special, bool) else frozenset(allowed_special)
        )
        self._core: _native.Session = tokenizer._core.session(allowed)
        self._is_str = isinstance(text, str)
        # A high surrogate at the end, which a low one may follow.
        self._high = ""
        self.append(text)

    # Changes

    def append(self, text: Any) -> int:
        """Adds text at the end; returns how many ids stay as they were.

        A text of the other kind (bytes to a session of str, or the reverse) is a TypeError.
        """
        if isinstance(text, str) is not self._is_str:
            raise self._wrong_kind(text)
        if self._is_str and not text:
            return len(self)
        if self._high and "\udc00" <= text[:1] <= "\udfff":
            start = self._core.bytes() - len("\N{REPLACEMENT CHARACTER}".encode())
            return self._change(self._high + text, self._core.replace_from, start)
        return self._change(text, self._core.append)

    def replace_from(self, position: SupportsIndex, text: Any = "") -> int:
        """Replaces all text from `position` on; returns how many ids stay as they were.

        Positions are those of `session.text`: characters of a str, bytes of bytes. A negative one
        counts from the end, as in a slice; one outside of the text is a ValueError. Without `text`
        the end is cut off.
        """
        if isinstance(text, str) is not self._is_str:
            if self._is_str or text != "":
                raise self._wrong_kind(text)
            text = b""
        length = self._core.characters() if self._is_str else self._core.bytes()
        if isinstance(position, bool) or not hasattr(position, "__index__"):
            raise TypeError(f"position must be an int, not {position!r}")
        start = operator.index(position)
        if not -length <= start <= length:
            raise ValueError(f"position {start} lies outside the text, whose length is {length:,}")
        left = -start if start < 0 else length - start
        if left == 0:
            return self.append(text)
        byte = self._core.start_of_last(left) if self._is_str else length - left
        return self._change(text, self._core.replace_from, byte)

    def update(self, text: Any) -> int:
        """Replaces the whole text; returns how many ids stay as they were.

        For a caller who has the new text but not what changed. Finding that takes about a tenth of
        a millisecond a megabyte; encoding is for what follows the first difference.
        """
        if isinstance(text, str) is not self._is_str:
            raise self._wrong_kind(text)
        return self._change(text, self._core.update)

    def _change(self, text: Any, call: Callable[..., int], *start: int) -> int:
        try:
            kept = call(*start, text)
        except (ValueError, TypeError, BufferError) as error:
            kept = call(*start, arguments.repair(text, error))
        if self._is_str:
            self._high = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return kept

    def _wrong_kind(self, text: object) -> TypeError:
        if self._is_str:
            return TypeError(f"this is a session of str, not of {text!r:.60}; decode it first")
        return TypeError(f"this is a session of bytes, not of {text!r:.60}; encode it first")

    # What it holds

    @property
    def text(self) -> Kind:
        """The text so far. Surrogates in a str are read as `encode` reads them."""
        text: Any = self._core.text_str() if self._is_str else self._core.text()
        return text  # type: ignore[no-any-return]

    @property
    def ids(self) -> list[int]:
        """All ids, in a new list; `session[start:]` are the last of them."""
        return self._core.ids(0, len(self))

    def array(self, start: int = 0) -> NDArray[np.uint32]:
        """The ids from index `start` on as a numpy array, which is a copy."""
        return np.asarray(self._core.buffer(range(len(self))[start:].start, len(self)))

    def __len__(self) -> int:
        """How many ids the text has."""
        return self._core.count()

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> int | list[int]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return self._core.ids(start, max(start, stop))
            return self.ids[index]
        try:
            place = range(len(self))[index]
        except IndexError:
            raise IndexError(f"index {index!r} is outside the {len(self):,} ids") from None
        return self._core.ids(place, place + 1)[0]

    def copy(self) -> Session[Kind]:
        """A session with the same text, which goes its own way. Memory is copied, not encoded."""
        twin: Session[Kind] = object.__new__(type(self))
        twin._tokenizer, twin._specials = self._tokenizer, self._specials
        twin._is_str, twin._high = self._is_str, self._high
        twin._core = self._core.copy()
        return twin

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> Session[Kind]:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        text = self.text
        if isinstance(text, str) and self._high:
            text = text[:-1] + self._high
        return type(self), (self._tokenizer, text, self._specials)

    def __repr__(self) -> str:
        unit, size = (
            ("characters", self._core.characters())
            if self._is_str
            else ("bytes", self._core.bytes())
        )
        return f"<Session of {self._tokenizer.name!r}: {size:,} {unit}, {len(self):,} ids>"
