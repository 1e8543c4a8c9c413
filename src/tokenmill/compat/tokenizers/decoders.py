"""Decoders: they join tokens to text."""

from __future__ import annotations

import copy
from collections.abc import Sequence as Sequence_
from typing import TYPE_CHECKING, Any

from tokenmill.compat.tokenizers.components import (
    BYTE_LEVEL,
    METASPACE,
    REPLACE,
    Component,
    Option,
    Steps,
    check_character,
    check_id,
    check_ids,
    check_items,
    options_of,
    refused_call,
)
from tokenmill.decoding import Decoder as Decoder_
from tokenmill.decoding import TextStream, flatten, run_chain, step_of
from tokenmill.errors import TokenizersError

if TYPE_CHECKING:
    from tokenmill.compat.tokenizers.tokenizer import Tokenizer


class Decoder(Component):
    """The base class of all decoders."""

    def decode(self, tokens: Sequence_[str]) -> str:
        """Return the text of tokens."""
        texts = check_items(tokens, str)
        return "".join(run_chain(list(map(step_of, flatten(self.to_json()))), texts))

    custom = refused_call("a decoder written in Python")


class Sequence(Decoder, Steps, options=[Option("decoders_py", list, key="decoders")]):
    """Decoders in order."""

    is_flat = False


ByteLevel = Decoder.define(
    "ByteLevel",
    "Printable characters back to bytes.",
    *options_of(is_argument=False, **BYTE_LEVEL),
    unknown="ignore",
)
ByteFallback = Decoder.define("ByteFallback", 'Tokens such as "<0xE4>" back to bytes.')
Fuse = Decoder.define("Fuse", "Joins all tokens.")
Replace = Decoder.define("Replace", "Replaces each match.", *REPLACE)
Strip = Decoder.define(
    "Strip",
    "Removes a character at the ends of each token, at most `left` and `right` times.",
    Option("content", check_character, " "),
    Option("left", int, 0, "start"),
    Option("right", int, 0, "stop"),
)
Metaspace = Decoder.define("Metaspace", "The replacement character back to spaces.", *METASPACE)
BPEDecoder = Decoder.define(
    "BPEDecoder", "The end-of-word suffix back to spaces.", *options_of(suffix="</w>")
)
WordPiece = Decoder.define(
    "WordPiece", "WordPiece tokens to text; cannot be run.", *options_of(prefix="##", cleanup=True)
)
CTC = Decoder.define(
    "CTC",
    "CTC tokens of speech models to text; cannot be run.",
    *options_of(pad_token="<pad>", word_delimiter_token="|", cleanup=True),
)


# A stream with fewer ids that give no text decodes them all again.
_WAITING_MIN = 16


class DecodeStream:
    """Ids one by one → the text that they add, as soon as it cannot change.

    It stores the ids since the last text, the earlier ids that this text depends on, and the text
    of those. If many ids give no text, such as bytes that are not UTF-8, a `TextStream` says
    whether the next one does. So no id is decoded again.
    """

    # The decoder that makes the texts, and its stream, if it has one, with all ids. None for few
    # ids.
    _ending: tuple[Decoder_, TextStream | None] | None = None

    def __init__(
        self, ids: Sequence_[int] | None = None, skip_special_tokens: bool | None = False
    ) -> None:
        self._ids = [] if ids is None else list(check_ids(ids))
        self._prefix, self._prefix_length = "", 0
        self._skip = bool(skip_special_tokens)

    def step(self, tokenizer: Tokenizer, id: int | Sequence_[int]) -> str | None:
        """Return the characters that an id completes, or None."""
        if not hasattr(tokenizer, "decode"):
            raise TypeError(f"expected Tokenizer, got {type(tokenizer).__name__}")
        try:
            added = check_ids(id) if isinstance(id, Sequence_) else [check_id(id)]
        except (TypeError, OverflowError):
            raise TypeError(f"id must be an int or a list of int, got {id!r}") from None
        if self._gives_no_text(tokenizer, added):
            self._ids += added
            return None
        if not self._prefix and self._ids:
            prefix = tokenizer.decode(self._ids, self._skip)
            if not prefix.endswith("\ufffd"):
                self._prefix, self._prefix_length = prefix, len(self._ids)
        self._ids += added
        text = tokenizer.decode(self._ids, self._skip)
        grown = len(text.encode()) > len(self._prefix.encode())
        if not grown or text.endswith("\ufffd"):
            self._wait(tokenizer)
            return None
        self._ending = None
        if not text.startswith(self._prefix):
            raise TokenizersError(  # servers match this text
                "Invalid prefix encountered while decoding stream. "
                f"Token ID: {added[-1] if added else 0}, Expected prefix: '{self._prefix}', "
                f"Actual string: '{text}'"
            )
        new = text[len(self._prefix) :]
        length = len(self._ids) - self._prefix_length
        self._ids = self._ids[self._prefix_length :]
        self._prefix = tokenizer.decode(self._ids, self._skip)
        self._prefix_length = length
        return new

    def _wait(self, tokenizer: Tokenizer) -> None:
        """Make a stream of the ids, which have given no text."""
        if self._ending is not None or len(self._ids) < _WAITING_MIN:
            return
        decoder = self._decoder_of(tokenizer)
        if decoder is not None:
            self._ending = decoder, decoder.stream(self._skip)
            self._is_silent(*self._ending, self._ids)

    def _gives_no_text(self, tokenizer: Tokenizer, added: list[int]) -> bool:
        """Return whether the text with more ids is the same, or still ends with U+FFFD."""
        if self._ending is None:
            return False
        decoder, stream = self._ending
        if decoder is not self._decoder_of(tokenizer):
            self._ending = None
            return False
        return self._is_silent(decoder, stream, added)

    def _is_silent(self, decoder: Decoder_, stream: TextStream | None, ids: list[int]) -> bool:
        if stream is None:
            return all(decoder.drops(id_, self._skip) for id_ in ids)
        size = stream.size
        for id_ in ids:
            stream.push(id_)
        return stream.is_open or stream.size == size

    def _decoder_of(self, tokenizer: Tokenizer) -> Decoder_ | None:
        return tokenizer._decoder_now() if hasattr(tokenizer, "_decoder_now") else None

    def __copy__(self) -> DecodeStream:
        made = object.__new__(type(self))
        vars(made).update(vars(self), _ids=self._ids[:], _ending=None)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> DecodeStream:
        return copy.copy(self)

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle a DecodeStream")
