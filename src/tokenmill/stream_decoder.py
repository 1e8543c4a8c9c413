"""Ids, one by one → text that grows by whole characters."""

from __future__ import annotations

import codecs

from tokenmill import arguments
from tokenmill.native import _native


class StreamDecoder:
    """Decodes ids as they come; bytes of an unfinished character wait for the rest of it.

    >>> decoder = tokenizer.stream_decoder()
    >>> print(*(decoder.push(id) for id in ids), decoder.finish(), sep="")
    """

    __slots__ = ("_core", "_decoder")

    def __init__(self, core: _native.Core, errors: str) -> None:
        self._core = core
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors)

    def push(self, id: int) -> str:
        """The characters that this id completes; "" while one is unfinished."""
        return self._decoder.decode(arguments.decode(self._core, [id]))

    def finish(self) -> str:
        """What an unfinished character at the end comes to; the decoder can be used again."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text
