"""Decoders: how tokens become text again."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from collections.abc import Sequence as Sequence_
from typing import TYPE_CHECKING, Any

from tokenmill.compat.tokenizers import values
from tokenmill.compat.tokenizers.components import (
    Component,
    Family,
    Field,
    MetaspaceOptions,
    Regex,
    Steps,
    Variant,
    byte_level_data,
    pattern_of,
)
from tokenmill.decoding import StreamState, flatten, run_chain, step_of

if TYPE_CHECKING:
    from tokenmill.compat.tokenizers.tokenizer import Tokenizer


class Decoder(Component):
    """The base of all decoders."""

    KIND = "Decoder"

    def decode(self, tokens: Sequence_[str]) -> str:
        """The text of tokens."""
        given = [values.text(token) for token in values.sequence(tokens)]
        chain = [step_of(step) for step in flatten(self.to_json())]
        return "".join(run_chain(chain, given))

    @staticmethod
    def custom(decoder: object) -> Decoder:
        """Not here: parts written in Python belong to the real library."""
        values.not_there("a decoder written in Python")


class ByteLevel(Decoder):
    """Characters that stand for bytes."""

    def __init__(self, **_kwargs: object) -> None:
        names = ("add_prefix_space", "trim_offsets", "use_regex")
        self._data = dict.fromkeys(names, True)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Component:
        return super().from_data(byte_level_data(data))


class ByteFallback(Decoder):
    """Tokens like "<0xE4>"."""


class Fuse(Decoder):
    """All tokens as one."""


class Replace(Decoder):
    """Something else for each match."""

    def __init__(self, pattern: str | Regex, content: str) -> None:
        self._data = {"pattern": pattern_of(pattern), "content": values.text(content)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Component:
        return super().from_data({**data, "pattern": Variant(data["pattern"])})


class Strip(Decoder):
    """At most so many of a character at the ends of each token go."""

    def __init__(self, content: str = " ", left: int = 0, right: int = 0) -> None:
        self._data = {
            "content": values.character(content),
            "start": values.unsigned(left),
            "stop": values.unsigned(right),
        }

    content = Field("content", values.character)
    start = Field("start", values.unsigned)
    stop = Field("stop", values.unsigned)


class Metaspace(Decoder, MetaspaceOptions):
    """Blanks instead of "▁"."""


class BPEDecoder(Decoder):
    """A blank instead of the suffix of words."""

    def __init__(self, suffix: str = "</w>") -> None:
        self._data = {"suffix": values.text(suffix)}

    suffix = Field("suffix", values.text)


class WordPiece(Decoder):
    """For the tokens of WordPiece; it is data here, and decoding with it is refused."""

    def __init__(self, prefix: str = "##", cleanup: bool = True) -> None:
        self._data = {"prefix": values.text(prefix), "cleanup": values.flag(cleanup)}

    prefix = Field("prefix", values.text)
    cleanup = Field("cleanup", values.flag)


class CTC(Decoder):
    """For speech; it is data here, and decoding with it is refused."""

    def __init__(
        self,
        pad_token: str = "<pad>",
        word_delimiter_token: str = "|",
        cleanup: bool = True,
    ) -> None:
        self._data = {
            "pad_token": values.text(pad_token),
            "word_delimiter_token": values.text(word_delimiter_token),
            "cleanup": values.flag(cleanup),
        }

    pad_token = Field("pad_token", values.text)
    word_delimiter_token = Field("word_delimiter_token", values.text)
    cleanup = Field("cleanup", values.flag)


class Sequence(Decoder, Steps):
    """Several decoders, one behind the other."""

    KEY = "decoders"
    FLAT = False

    def __init__(self, decoders_py: list[Decoder]) -> None:
        self._hold(decoders_py)


FAMILY = Family(
    Decoder, ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace, BPEDecoder, WordPiece, CTC,
    Sequence,
)  # fmt: skip


class DecodeStream:
    """Ids one by one → the text that they add, as soon as it is certain."""

    def __init__(
        self, ids: Sequence_[int] | None = None, skip_special_tokens: bool | None = False
    ) -> None:
        self._state = StreamState([] if ids is None else values.ids(ids))
        self._skip = bool(skip_special_tokens)

    def step(self, tokenizer: Tokenizer, id: int | Sequence_[int]) -> str | None:
        """The characters that an id completes, or None."""
        decodes = getattr(tokenizer, "_decodes", None)
        if decodes is None:
            name = type(tokenizer).__name__
            raise TypeError(f"'{name}' object is not an instance of 'Tokenizer'")
        try:
            added = [values.unsigned(id, 32)] if not _is_sequence(id) else values.ids(id)
        except (TypeError, OverflowError):
            raise TypeError("StreamInput must be either an integer or a list of integers") from None
        return self._state.step(tokenizer, added, self._skip)

    def __copy__(self) -> DecodeStream:
        made = DecodeStream(self._state.ids, self._skip)
        made._state.prefix = self._state.prefix
        made._state.prefix_length = self._state.prefix_length
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> DecodeStream:
        return copy.copy(self)

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle 'tokenizers.decoders.DecodeStream' object")


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence_)
