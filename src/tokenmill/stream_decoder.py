"""Ids, one by one → text that grows by whole characters."""

from __future__ import annotations

import codecs
from typing import Protocol

from tokenmill import arguments
from tokenmill.native import _native


class StreamDecoder:
    """Decodes ids as they come; bytes of an unfinished character wait for the rest of it.

    `Tokenizer.stream_decoder` makes one.

    Examples:
        >>> from tokenmill import Tokenizer
        >>> tokenizer = Tokenizer.load("cl100k_base")
        >>> decoder = tokenizer.stream_decoder()
        >>> [decoder.push(id) for id in tokenizer.encode("a 🌾")]
        ['a', ' ', '', '🌾']
        >>> decoder.finish()
        ''
    """

    __slots__ = ("_core", "_decoder")

    def __init__(self, core: _native.Core, errors: str) -> None:
        self._core = core
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors)

    def push(self, id: int) -> str:
        """The characters that this id completes; "" while one is unfinished.

        An id that the vocabulary lacks is an UnknownIdError.
        """
        return self._decoder.decode(arguments.decode(self._core, [id]))

    def finish(self) -> str:
        """What an unfinished character at the end comes to; the decoder can be used again."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text


class _Decodes(Protocol):
    def decode(self, ids: list[int]) -> str: ...


class ChainStreamDecoder:
    """The same for a tokenizer with a decoder of its own, which looks at tokens together.

    What an id adds is what the text of all ids has more than that of those before it. Decoders
    treat blanks at the start of a text in their own way and bytes of one character together, and
    look no further: ids before the last one that shows more than blanks are forgotten.
    """

    __slots__ = ("_given", "_ids", "_tokenizer")

    def __init__(self, tokenizer: _Decodes) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._given = ""

    def push(self, id: int) -> str:
        """The characters that this id completes; "" while one is unfinished."""
        text = self._tokenizer.decode([*self._ids, id])
        self._ids.append(id)
        if text.endswith("\ufffd"):
            return ""
        added = text[len(self._given) :]
        self._given = text
        for place in reversed(range(1, len(self._ids))):
            alone = self._tokenizer.decode(self._ids[place : place + 1])
            if alone.strip() and not alone.endswith("\ufffd"):
                self._ids = self._ids[place:]
                self._given = self._tokenizer.decode(self._ids)
                break
        return added

    def finish(self) -> str:
        """What an unfinished character at the end comes to; the decoder can be used again."""
        text = self._tokenizer.decode(self._ids)[len(self._given) :] if self._ids else ""
        self._ids, self._given = [], ""
        return text
