"""What a tokenizer of any format is made of: readers give it, writers take it, the core runs it.

Everything here is data. A reader has checked it and refused what cannot be done exactly; whoever
holds a `TokenizerSpec` may rely on that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tokenmill.patterns.schemes import Literally, Pattern, Stage

# What a token of a model is.
TOKEN = 0  # found by merging
BYTE = 1  # "<0xE4>", with the bytes b"\xe4": for characters that are no token
DECODED = 2  # found in no text: only decoded


@dataclass(frozen=True, slots=True)
class Model:
    """Tokens and how they are merged. Arrays have an entry for each token, in any order.

    `data` holds the bytes of the tokens end to end: of a byte-level vocabulary the bytes that its
    characters stand for, otherwise UTF-8, with "▁" as it is in the file.
    """

    data: bytes
    lengths: NDArray[np.uint32]
    ids: NDArray[np.uint32]
    kinds: NDArray[np.uint8]
    # Pairs of places in these arrays, the first to be merged first; of a pair that stands there
    # twice the last counts. None: any two neighbours that spell a token merge, by `order`.
    merges: NDArray[np.uint32] | None
    # Without merges: the lowest is merged first, of equal ones the leftmost. None: the id.
    order: NDArray[np.uint32] | None = None
    # What merging starts with.
    base: Literal["bytes", "characters"] = "bytes"
    # Whether a pretoken that is a token is that token, even if merging does not reach it.
    whole: bool = False
    # What becomes of a character (or byte) that is no token: an error; nothing, and its neighbours
    # meet; `unk`; its bytes' tokens, of which there are 256.
    missing: Literal["fail", "drop", "unk", "bytes"] = "fail"
    unk: int | None = None
    # Whether a run of them within a pretoken is one.
    fuse_unk: bool = False
    dropout: float | None = None


@dataclass(frozen=True, slots=True)
class Added:
    """A token that is found in the text before anything else is done with it."""

    content: str
    id: int
    special: bool = True
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False
    # With `normalized`: the content is looked for as it is, behind the prefix, and with "▁" and the
    # blank the same if `TokenizerSpec.blank` is set. SentencePiece's user-defined symbols are like
    # that; Hugging Face normalises the content, too.
    literal: bool = False


# Normalisers, in the order in which they run.


@dataclass(frozen=True, slots=True)
class Form:
    """A normal form of Unicode (9.0, Hugging Face's)."""

    name: Literal["NFC", "NFD", "NFKC", "NFKD"]


@dataclass(frozen=True, slots=True)
class Lower:
    """Each character in lower case."""


@dataclass(frozen=True, slots=True)
class Prepend:
    """A text in front of every segment that is not empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Replace:
    """Every match becomes `content`."""

    match: Pattern | Literally
    content: str


@dataclass(frozen=True, slots=True)
class Strip:
    """White space at the ends goes."""

    left: bool
    right: bool


@dataclass(frozen=True, slots=True)
class Charsmap:
    """SentencePiece's compiled map. Hugging Face has its own way to apply it: by grapheme."""

    data: bytes
    by_grapheme: bool


@dataclass(frozen=True, slots=True)
class Squeeze:
    """SentencePiece's remove_extra_whitespaces: none at the ends, one blank instead of several."""


Step: TypeAlias = Form | Lower | Prepend | Replace | Strip | Charsmap | Squeeze


# What is put in front of a segment after normalising: nothing; a blank; a blank unless it starts
# with one; the same, but only at the start of the text.
Prefix: TypeAlias = Literal["never", "always", "missing", "missing_first"]


@dataclass(frozen=True, slots=True)
class Item:
    """A place in a template: sequence "A" or "B", or a special with its ids."""

    name: str
    type_id: int
    ids: tuple[int, ...] | None  # None: `name` is the sequence
    tokens: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Template:
    """What is put around one text or two. `trims` offsets to what is not white space."""

    single: tuple[Item, ...] = (Item("A", 0, None),)
    pair: tuple[Item, ...] = (Item("A", 0, None), Item("B", 1, None))
    trims: bool = False
    trim_prefix: bool = False  # ByteLevel's add_prefix_space there


@dataclass(frozen=True, slots=True)
class Ranks:
    """The record of a vocabulary whose ids are its ranks, as in tiktoken.

    `learned` are the merges of a trained vocabulary in order, as pairs of ids. A format that lists
    merges gets these. Without them the merges are derived from the ranks. `provenance` are the
    options of training.
    """

    learned: NDArray[np.uint32] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class TokenizerSpec:
    """A whole tokenizer.

    `blank`: "▁" and the blank are the same, in the text, in stages and in tokens, where it is "▁".
    Without `stages` text is not cut, as in Llama 2. `decoder` and `extra` are JSON as in
    tokenizer.json; `extra` is kept only to be written again.
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
    # Not None: ids are ranks, one tiktoken pattern splits the text, and no other part is in use.
    ranks: Ranks | None = None
