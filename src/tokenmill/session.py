"""A text that changes at its end → its ids; pieces of a text → ids; single ids → text.

Only the last ids, or the last characters, are computed again.
"""

from __future__ import annotations

import codecs
import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, SupportsIndex, TypeVar, overload

import numpy as np

from tokenmill import arguments
from tokenmill.errors import OptionError, VocabularyError
from tokenmill.native import _native

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.decoding import TextStream
    from tokenmill.tokenizer import SpecialsChoice, Text, Tokenizer

Kind = TypeVar("Kind", str, bytes)

# Distance in bytes of the offsets from which a session resumes, and the session of a stream. A
# normalizer delays the ids of a stream by up to this distance. Smaller ones take more memory.
_SPACING, _STREAM_SPACING = 64, 16
# An added token has at most this many bytes (formats/checks.py).
_ADDED_BYTES_MAX = 4096
_CHARACTER_BYTES_MAX = 4  # of UTF-8
# A stream of a decoder that works on several tokens decodes at most about this many again.
_WINDOW_MAX = 64
# It reads at most this many ids of a prompt.
_PROMPT_MAX = 1024


class Session(Generic[Kind]):
    """A text and its ids, which always equal those that `encode` returns for the whole text.

    `Tokenizer.session` returns one. Each change returns the number of ids that stay the same. A
    key-value cache is valid up to that index. A change encodes the new text and about 256 bytes
    before it. The whole text is normalized again, but not encoded, if a normalizer replaces by
    patterns or strips whitespace, or if added tokens take adjacent whitespace. A change that raises
    an error leaves the session as it was.

    A session belongs to one thread at a time. `copy()` returns one for another thread or for
    another turn of the conversation.

    Examples:
        >>> from tokenmill import Tokenizer
        >>> session = Tokenizer.load("cl100k_base").session("User: hi\\n")
        >>> same = session.append("Model: hello")  # the number of ids that stay the same
        >>> same, session[same:]
        (4, [1747, 25, 24748])
    """

    __slots__ = ("_core", "_high", "_is_str", "_specials", "_tokenizer")

    def __init__(
        self, tokenizer: Tokenizer, text: object, allowed_special: SpecialsChoice = False
    ) -> None:
        allowed = tokenizer._allowed(allowed_special)
        self._tokenizer = tokenizer
        self._specials: SpecialsChoice = (
            allowed_special
            if isinstance(allowed_special, bool | str)
            else frozenset(allowed_special)
        )
        self._core: _native.Session = tokenizer._core.session(allowed, _SPACING)
        self._is_str = isinstance(text, str)
        # A high surrogate at the end of the text: a low one may follow.
        self._high = ""
        self.append(text)

    # Changes

    def append(self, text: Any) -> int:
        """Append text and return the number of ids that stay the same.

        A text of the other kind (bytes to a session of str, or the reverse) is a TypeError.
        """
        self._check_kind(text)
        if self._is_str and not text:
            return len(self)
        if self._high and "\udc00" <= text[:1] <= "\udfff":
            start = self._core.bytes() - len("\N{REPLACEMENT CHARACTER}".encode())
            return self._change(self._high + text, self._core.replace_from, start)
        return self._change(text, self._core.append)

    def replace_from(self, position: SupportsIndex, text: Any = "") -> int:
        """Replace all text from `position` on and return the number of ids that stay the same.

        A position is an index of `session.text`. A negative one counts from the end, as in a slice.
        A position outside the text is an OptionError. Without `text` the end is removed.
        """
        if not self._is_str and isinstance(text, str) and not text:
            text = b""
        self._check_kind(text)
        length = self._size()
        if isinstance(position, bool) or not hasattr(position, "__index__"):
            raise TypeError(f"position must be an int, not {position!r}")
        start = operator.index(position)
        if not -length <= start <= length:
            raise OptionError(
                f"position must be from {-length} to {length}, the length of the text, got {start}"
            )
        left = -start if start < 0 else length - start
        if left == 0:
            return self.append(text)
        byte = self._core.start_of_last(left) if self._is_str else length - left
        return self._change(text, self._core.replace_from, byte)

    def update(self, text: Any) -> int:
        """Replace the whole text and return the number of ids that stay the same.

        Only the text from the first difference on is encoded. Finding the difference takes about
        0.1 ms per megabyte.
        """
        self._check_kind(text)
        return self._change(text, self._core.update)

    def _change(self, text: Any, call: Callable[..., int], *start: int) -> int:
        try:
            count = call(*start, text)
        except (ValueError, TypeError, BufferError) as error:
            count = call(*start, arguments.repair(text, error))
        if self._is_str:
            self._high = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return count

    def _size(self) -> int:
        return self._core.characters() if self._is_str else self._core.bytes()

    def _check_kind(self, text: object) -> None:
        if isinstance(text, str) is not self._is_str:
            kind, do = ("str", "decode") if self._is_str else ("bytes", "encode")
            raise TypeError(f"text must be {kind} as in this session, got {text!r:.60}; {do} it")

    # The text and its ids

    @property
    def text(self) -> Kind:
        """The whole text. Surrogates in a str are replaced as in `encode`."""
        text: Any = self._core.text_str() if self._is_str else self._core.text(0)
        return text  # type: ignore[no-any-return]

    @property
    def ids(self) -> list[int]:
        """All ids in a new list. `session[start:]` is a list of the last ones."""
        return self._core.ids(0, len(self))

    def array(self, start: int = 0) -> NDArray[np.uint32]:
        """Return the ids from index `start` on as a new numpy array."""
        return np.asarray(self._core.buffer(range(len(self))[start:].start, len(self)))

    def __len__(self) -> int:
        """Return the number of ids."""
        return self._core.count()

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> int | list[int]:
        try:
            found = range(len(self))[index]
        except IndexError:
            message = f"index {index!r} is out of range; there are {len(self):,} ids"
            raise IndexError(message) from None
        if isinstance(found, int):
            return self._core.ids(found, found + 1)[0]
        if found.step != 1:
            return self.ids[index]
        return self._core.ids(found.start, max(found.start, found.stop))

    def copy(self) -> Session[Kind]:
        """Return an independent session with the same text, without encoding the text again."""
        made: Session[Kind] = object.__new__(type(self))
        made._tokenizer, made._specials = self._tokenizer, self._specials
        made._is_str, made._high = self._is_str, self._high
        made._core = self._core.copy()
        return made

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> Session[Kind]:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        text = self.text
        if isinstance(text, str) and self._high:
            text = text[:-1] + self._high
        return type(self), (self._tokenizer, text, self._specials)

    def __repr__(self) -> str:
        unit = "characters" if self._is_str else "bytes"
        return f"<Session of {self._tokenizer.name!r}: {self._size():,} {unit}, {len(self):,} ids>"


class StreamEncoder:
    """Encodes a text that comes in pieces, and returns ids that can no longer change.

    `Tokenizer.stream_encoder` returns one. The ids of all calls together equal those that `encode`
    returns for the whole text. An id is returned when about ten bytes after its pretoken have come.
    Tokenizers that normalize the whole text (see `Session`) return all ids at the end. A piece of
    bytes may end inside a character.

    Examples:
        >>> from tokenmill import Tokenizer
        >>> encoder = Tokenizer.load("cl100k_base").stream_encoder()
        >>> [encoder.push(piece) for piece in ["The mi", "ll grinds ", "the grain"]]
        [[], [791], [2606, 1099, 8843]]
        >>> encoder.finish()
        [279, 24875]
    """

    __slots__ = ("_allowed", "_core", "_high", "_pending", "_returned", "_tokenizer")

    def __init__(self, tokenizer: Tokenizer, allowed_special: SpecialsChoice) -> None:
        self._tokenizer = tokenizer
        self._allowed = tokenizer._allowed(allowed_special)
        self._reset()

    def _reset(self) -> None:
        self._core = self._tokenizer._core.session(self._allowed, _STREAM_SPACING)
        self._returned = 0
        self._high = ""  # a high surrogate at the end of the text: a low one may follow
        self._pending = b""  # text that cannot be encoded before more has come

    def push(self, text: Text) -> list[int]:
        """Add a piece of the text and return the ids that are now known."""
        self._add(text)
        end = len(self._pending) - _incomplete_len(self._pending)
        try:
            self._core.append(self._pending[:end])
        except VocabularyError:
            # A part of an added token can lack a byte that the vocabulary does not have.
            if end > _ADDED_BYTES_MAX:
                raise
            return []
        self._pending = self._pending[end:]
        return self._ids_until(self._core.settled())

    def finish(self) -> list[int]:
        """Return the remaining ids. The encoder can be used again, for another text."""
        self._add(b"")
        self._core.append(self._pending)
        ids = self._ids_until(self._core.count())
        self._reset()
        return ids

    def _add(self, text: Text) -> None:
        high, self._high = self._high, ""
        if not isinstance(text, str):
            self._pending += arguments.utf8(high) + arguments.utf8(text)
            return
        text = high + text
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._high = text[:-1], text[-1]
        self._pending += arguments.utf8(text)

    def _ids_until(self, end: int) -> list[int]:
        start, self._returned = self._returned, max(self._returned, end)
        return self._core.ids(start, self._returned)


def _incomplete_len(data: bytes) -> int:
    """Return the number of bytes at the end that are the start of a character."""
    for count in range(1, min(3, len(data)) + 1):
        byte = data[-count]
        if byte >= 0xC0:
            length = 2 + (byte >= 0xE0) + (byte >= 0xF0)
            return count if count < length else 0
        if byte < 0x80:
            break
    return 0


class StreamDecoder:
    """Decodes ids one by one and returns whole characters only.

    `Tokenizer.stream_decoder` returns one. Bytes of an incomplete character are stored until it is
    complete. All texts together, with that of `finish`, equal those of `decode`. If byte tokens of
    a tokenizer.json are invalid after whole characters, those characters stay, which `decode`
    replaces too.

    Examples:
        >>> from tokenmill import Tokenizer
        >>> tokenizer = Tokenizer.load("cl100k_base")
        >>> decoder = tokenizer.stream_decoder()
        >>> [decoder.push(id) for id in tokenizer.encode("a 🌾")]
        ['a', ' ', '', '🌾']
        >>> decoder.finish()
        ''
    """

    __slots__ = ("_bytes", "_errors", "_ids", "_limit", "_shown", "_stream", "_tokenizer")

    def __init__(self, tokenizer: Tokenizer, errors: str, ids: Iterable[int]) -> None:
        self._tokenizer, self._errors = tokenizer, errors
        self._reset()
        listed = arguments.list_ids(ids)
        arguments.decode(tokenizer._core, listed)  # raises the error for an unknown id
        self._start([int(id_) for id_ in listed])

    def _reset(self) -> None:
        self._bytes: codecs.IncrementalDecoder | None = None
        self._stream: TextStream | None = None
        if self._tokenizer._decodes_bytes:
            self._bytes = codecs.getincrementaldecoder("utf-8")(self._errors)
        else:
            self._stream = self._tokenizer._shared.decoder.stream(False)
        # For another decoder: the last ids, which the next text depends on, and the number of
        # characters of their text that were returned.
        self._ids: list[int] = []
        self._shown = 0
        self._limit = _WINDOW_MAX

    def _start(self, ids: list[int]) -> None:
        """Continue after these ids, whose incomplete character at the end is stored."""
        if self._bytes is not None:
            replacing = codecs.getincrementaldecoder("utf-8")("replace")
            replacing.decode(self._tokenizer.decode_bytes(ids[-_CHARACTER_BYTES_MAX:]))
            self._bytes.decode(replacing.getstate()[0])
        elif self._stream is not None:
            self._stream.start(ids)
        else:
            for id_ in ids[-_PROMPT_MAX:]:
                self.push(id_)

    def push(self, id: int) -> str:
        """Return the characters that this id completes; "" while one is incomplete.

        An id that the vocabulary lacks is an UnknownTokenError.
        """
        data = self._tokenizer.decode_bytes([id])
        if self._bytes is not None:
            return self._bytes.decode(data)
        if self._stream is not None:
            return self._stream.push(operator.index(id))
        decode = self._tokenizer.decode
        self._ids.append(id)
        text = decode(self._ids)
        # The last three may be bytes of a character.
        held = min(_CHARACTER_BYTES_MAX - 1, len(text) - len(text.rstrip("\ufffd")))
        added = text[self._shown : len(text) - held]
        self._shown = max(self._shown, len(text) - held)
        # A decoder treats whitespace at the start of a text and the bytes of one character
        # specially. It does not depend on any id before another text.
        alone = decode(self._ids[-1:])
        if not held and alone.strip() and not alone.endswith("\ufffd"):
            self._ids, self._shown = self._ids[-1:], len(alone)
        elif len(self._ids) > self._limit:
            self._shorten(text)
        return added

    def _shorten(self, text: str) -> None:
        """Drop half of the ids if the text of the others stays the same."""
        middle = len(self._ids) // 2
        for start in range(middle, middle + _CHARACTER_BYTES_MAX):
            rest = self._tokenizer.decode(self._ids[start:])
            if rest and text.endswith(rest):
                self._ids = self._ids[start:]
                self._shown -= len(text) - len(rest)
                self._limit = _WINDOW_MAX
                return
        self._limit *= 2

    def finish(self) -> str:
        """Return the text of an incomplete character at the end. The decoder can be used again."""
        if self._bytes is not None:
            text = self._bytes.decode(b"", final=True)
        elif self._stream is not None:
            text = self._stream.finish()
        else:
            text = self._tokenizer.decode(self._ids)[self._shown :] if self._ids else ""
        self._reset()
        return text
