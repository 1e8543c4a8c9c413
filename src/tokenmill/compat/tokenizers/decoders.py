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
from tokenmill.decoding import flatten, run_chain, step_of
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


class DecodeStream:
    """Ids one by one → the text that they add, as soon as it cannot change.

    It stores the ids since the last text, the earlier ids that this text depends on, and the text
    of those.
    """

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
        if not self._prefix and self._ids:
            prefix = tokenizer.decode(self._ids, self._skip)
            if not prefix.endswith("\ufffd"):
                self._prefix, self._prefix_length = prefix, len(self._ids)
        self._ids = [*self._ids, *added]
        text = tokenizer.decode(self._ids, self._skip)
        grown = len(text.encode()) > len(self._prefix.encode())
        if not grown or text.endswith("\ufffd"):
            return None
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

    def __copy__(self) -> DecodeStream:
        made = object.__new__(DecodeStream)
        vars(made).update(vars(self))  # lists of ids are replaced, never changed in place
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> DecodeStream:
        return copy.copy(self)

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle a DecodeStream")
