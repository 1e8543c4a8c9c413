"""TokenizerSpec: all components of a tokenizer, independent of any file format.

Readers return a spec, writers take one, and `build` turns one into a native tokenizer. A reader
checks every value and rejects a tokenizer whose ids the core cannot reproduce exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tokenmill.patterns.schemes import Literally, Pattern, Stage

# Kinds of tokens.
TOKEN = 0  # produced by merging
BYTE = 1  # "<0xE4>", stored as b"\xe4": encodes a byte of a character that has no token
DECODED = 2  # only decoded, never produced by encoding


@dataclass(frozen=True)
class Model:
    """Tokens and merges. Arrays have one element per token, in any order.

    `data` contains the bytes of all tokens, concatenated. Tokens of a byte-level vocabulary are
    raw bytes; other tokens are UTF-8, with "▁" as in the file.
    """

    data: bytes
    lengths: NDArray[np.uint32]
    ids: NDArray[np.uint32]
    kinds: NDArray[np.uint8]
    # Pairs of indexes into these arrays, in merge order. The last of two equal pairs counts.
    # None: any two neighbors whose concatenation is a token merge, ordered by `order`.
    merges: NDArray[np.uint32] | None = None
    # Without merges: the lowest value merges first, and the leftmost of equal ones. None: the id.
    order: NDArray[np.uint32] | None = None
    # The symbols before the first merge.
    base: Literal["bytes", "characters"] = "bytes"
    # Whether a pretoken that equals a token becomes that token, even if no merges produce it.
    whole: bool = False
    # Treatment of a character (or byte) without a token: an error; removed before merging;
    # replaced by `unk`; replaced by the tokens of its bytes (256 tokens of kind BYTE).
    missing: Literal["fail", "drop", "unk", "bytes"] = "fail"
    unk: int | None = None
    # Whether a run of unknown characters within a pretoken becomes one `unk`.
    fuse_unk: bool = False
    dropout: float | None = None

    @classmethod
    def of(cls, tokens: Collection[bytes], ids: Any, kinds: Any = None, **options: Any) -> Model:
        """Return the model of tokens. Without `kinds`, merging produces all that are not empty."""
        lengths = np.fromiter(map(len, tokens), np.uint32, len(tokens))
        if kinds is None:
            kinds = np.where(lengths, TOKEN, DECODED)
        ids, kinds = np.asarray(ids, np.uint32), np.asarray(kinds, np.uint8)
        return cls(b"".join(tokens), lengths, ids, kinds, **options)

    @property
    def ids_end(self) -> int:
        """One more than the largest id."""
        return int(self.ids.max()) + 1 if len(self.ids) else 0

    def by_id(self) -> dict[int, bytes]:
        """Return all tokens by id."""
        return dict(zip(self.ids.tolist(), self.tokens(), strict=True))

    def tokens(self) -> list[bytes]:
        """Return the bytes of each token, in the order of the arrays."""
        ends = np.cumsum(self.lengths, dtype=np.int64).tolist()
        data = self.data
        return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@dataclass(frozen=True, slots=True)
class Added:
    """A token that is found in the text before normalization, or with `normalized` after it."""

    content: str
    id: int
    special: bool = True
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False
    # With `normalized`: the content itself is searched for, after the prefix. If
    # `TokenizerSpec.blank` is set, "▁" and the space match each other. SentencePiece searches for
    # user-defined symbols like this. Hugging Face normalizes the content before it searches.
    literal: bool = False


FLAGS = ("special", "lstrip", "rstrip", "single_word", "normalized")  # of `Added`

# Normalizer steps, which run in the order of `TokenizerSpec.steps`.


@dataclass(frozen=True, slots=True)
class Form:
    """A Unicode normalization form (Unicode 9.0, as in Hugging Face)."""

    name: Literal["NFC", "NFD", "NFKC", "NFKD"]


@dataclass(frozen=True, slots=True)
class Lower:
    """Convert each character to lower case."""


@dataclass(frozen=True, slots=True)
class Prepend:
    """Put `text` before every segment that is not empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Replace:
    """Replace every match with `content`."""

    match: Pattern | Literally
    content: str


@dataclass(frozen=True, slots=True)
class Strip:
    """Remove whitespace at the ends."""

    left: bool
    right: bool


@dataclass(frozen=True, slots=True)
class Charsmap:
    """SentencePiece's compiled character map. Hugging Face applies it to whole graphemes."""

    data: bytes
    by_grapheme: bool


@dataclass(frozen=True, slots=True)
class Squeeze:
    """SentencePiece's remove_extra_whitespaces: strip spaces and collapse runs to one space."""


Step: TypeAlias = Form | Lower | Prepend | Replace | Strip | Charsmap | Squeeze


# When a space is put before a segment after normalization. "missing": unless the segment starts
# with one. "missing_first": the same, only at the start of the text.
Prefix: TypeAlias = Literal["never", "always", "missing", "missing_first"]


@dataclass(frozen=True, slots=True)
class Item:
    """An element of a template: sequence "A" or "B", or a special token with its ids."""

    name: str
    type_id: int
    ids: tuple[int, ...] | None  # None: `name` is a sequence
    tokens: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Template:
    """Special tokens around one text or two. `trims` removes whitespace from offsets."""

    single: tuple[Item, ...] = (Item("A", 0, None),)
    pair: tuple[Item, ...] = (Item("A", 0, None), Item("B", 1, None))
    trims: bool = False
    trim_prefix: bool = False  # add_prefix_space of the ByteLevel post-processor


def surround(first: Item | None, last: Item | None) -> Template:
    """Return a template that puts special tokens around each text. Type ids of the second are 1."""
    single = tuple(item for item in (first, Item("A", 0, None), last) if item is not None)
    second = (
        Item("B", 1, None) if item.ids is None else replace(item, type_id=1) for item in single
    )
    return Template(single, (*single, *second))


def surround_roberta(first: Item, last: Item) -> Template:
    """Return RoBERTa's `<s> A </s></s> B </s>`, in which all type ids are 0."""
    single = (first, Item("A", 0, None), last)
    return Template(single, (*single, last, Item("B", 0, None), last))


@dataclass(frozen=True, slots=True)
class Ranks:
    """Properties of a vocabulary whose ids are its ranks, as in tiktoken.

    `learned` contains the merges of a trained vocabulary in order, as pairs of ids. Formats with
    merges contain these; without them, merges are derived from the ranks. `provenance` contains
    the training options.
    """

    learned: NDArray[np.uint32] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class TokenizerSpec:
    """A complete tokenizer.

    `blank`: the space and "▁" are equal in texts and stages, and tokens contain "▁". Without
    `stages` a text is one pretoken, as in Llama 2. `decoder` and `extra` are JSON as in
    tokenizer.json. Only writers use `extra`.
    """

    model: Model
    added: tuple[Added, ...] = ()
    steps: tuple[Step, ...] = ()
    blank: bool = False
    prefix: Prefix = "never"
    stages: tuple[Stage, ...] = ()
    template: Template = Template()
    decoder: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    # Not None: ids are ranks, one tiktoken pattern splits the text, and other fields are unused.
    ranks: Ranks | None = None
