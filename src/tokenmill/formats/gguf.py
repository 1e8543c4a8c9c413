"""GGUF → Parts: the tokenizer of a model for llama.cpp. Only the metadata is read, no tensor.

Two kinds of tokenizers are read: "llama", which are SentencePiece's pieces with their scores, and
"gpt2", which are byte-level tokens with merges (llama.cpp, src/llama-vocab.cpp at 00ad355).

As in llama.cpp, control tokens are found when specials are asked for, and user-defined ones always,
both in the text as it is; there a longer one is preferred to one before it, here the leftmost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import VocabularyError
from tokenmill.formats.byte_characters import byte_characters
from tokenmill.formats.gguf_metadata import HUGGING_FACE, PREFIX, Metadata, metadata
from tokenmill.formats.gguf_pre import pretokenizer_of
from tokenmill.formats.parts import DECODED, TOKEN, Added, Item, Model, Parts, Template
from tokenmill.formats.pieces import (
    BYTES,
    CONTROL,
    NORMAL,
    PIECES_MAX,
    SPACE,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Pieces,
    model_of,
)

_TOKEN_BYTES_MAX = 1 << 16
_ALPHABET_END = 0x144  # behind the last character of GPT-2's alphabet
_BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}


def read(path: Path, source: str, read_json: Callable[[bytes, str], Parts] | None = None) -> Parts:
    """The parts of the tokenizer in a file; `source` is its name.

    A tokenizer.json within it is the better source, where there is one and a reader for it.
    """
    found = metadata(path, source)
    document = found.get(HUGGING_FACE)
    if read_json is not None and isinstance(document, bytes):
        return read_json(document, f"{source}, {HUGGING_FACE}")
    keys = _Keys(found, source)
    kind = keys.text("model")
    if kind == "llama":
        return _pieces(keys)
    if kind == "gpt2":
        return _byte_level(keys)
    if kind is None:
        raise VocabularyError(
            f"{source} has no {PREFIX}model: it holds no tokenizer, as the later files of a "
            "model in several; load the first one"
        )
    raise VocabularyError(
        f"{source}: its {PREFIX}model is {kind!r}, and tokenmill reads 'llama' and 'gpt2'; load "
        "the model's tokenizer.json, if it is BPE"
    )


class _Keys:
    """Values of the tokenizer, with the types that they must have."""

    def __init__(self, found: Metadata, source: str) -> None:
        self._found = found
        self.source = source

    def _get(self, key: str, *types: type) -> Any:
        value = self._found.get(PREFIX + key)
        if value is not None and not isinstance(value, types):
            raise VocabularyError(
                f"{self.source}: {PREFIX}{key} has a value of the wrong type; convert it again"
            )
        return value

    def has(self, key: str) -> bool:
        return PREFIX + key in self._found

    def text(self, key: str) -> str | None:
        value = self._get(key, bytes)
        return None if value is None else value.decode(errors="replace")

    def flag(self, key: str, usual: bool) -> bool:
        value = self._get(key, bool)
        return usual if value is None else bool(value)

    def strings(self, key: str) -> list[bytes] | None:
        found: list[bytes] | None = self._get(key, list)
        return found

    def numbers(self, key: str, count: int, type_: str) -> NDArray[Any] | None:
        value: NDArray[Any] | None = self._get(key, np.ndarray)
        if value is None:
            return None
        if len(value) != count or value.dtype != np.dtype(type_):
            raise VocabularyError(
                f"{self.source}: {PREFIX}{key} has {len(value):,} numbers of {value.dtype}, and "
                f"there are {count:,} tokens with one of {type_} each; convert it again"
            )
        return value

    def id(self, key: str, usual: int | None, count: int) -> int | None:
        value = self._get(f"{key}_token_id", int)
        if value is None:
            return usual if usual is not None and usual < count else None
        if not 0 <= value < count:
            raise VocabularyError(
                f"{self.source}: {PREFIX}{key}_token_id is {value}, and there are {count:,} "
                "tokens; convert it again"
            )
        return int(value)

    @property
    def name(self) -> str:
        value = self._found.get("general.name", b"")
        return value.decode(errors="replace").lower() if isinstance(value, bytes) else ""


def _tokens(keys: _Keys) -> tuple[list[bytes], NDArray[np.uint8]]:
    """The tokens and their types; an empty one has llama.cpp's name for it."""
    texts = keys.strings("tokens")
    if not texts or len(texts) > PIECES_MAX:
        raise VocabularyError(
            f"{keys.source}: {PREFIX}tokens has {len(texts or ()):,} tokens, and a vocabulary has "
            f"1 to {PIECES_MAX:,}; convert it again"
        )
    types = keys.numbers("token_type", len(texts), "i4")
    if types is None:
        types = np.full(len(texts), NORMAL, np.int32)
    strange = types[(types < NORMAL) | (types > BYTES)]
    if len(strange):
        raise VocabularyError(
            f"{keys.source}: a token has the unknown type {strange[0]}; convert it again"
        )
    found = types.astype(np.uint8)
    for id_ in [id_ for id_, text in enumerate(texts) if not text] if b"" in texts else ():
        texts[id_] = b"[EMPTY_%d]" % id_
        found[id_] = UNUSED
    return texts, found


def _added(pieces: Pieces, keys: _Keys) -> tuple[Added, ...]:
    """Control and user-defined tokens, with what llama.cpp knows of single models."""
    is_phi = "phi-3" in keys.name or "phi3" in keys.name
    masks = {"<mask>"} if (keys.text("pre") or "").startswith("jina-v2") else set()
    masks |= {"[MASK]"} if "modern-bert" in keys.name else set()
    found = [
        Added(
            name,
            id_,
            special=type_ != USER_DEFINED,
            lstrip=name in masks,
            rstrip=is_phi and name not in ("<unk>", "<s>", "<|endoftext|>"),
        )
        for type_ in (UNKNOWN, CONTROL, USER_DEFINED)
        for name, id_ in pieces.names(type_).items()
    ]
    return tuple(sorted(found, key=lambda one: one.id))


def _template(
    pieces: Pieces, keys: _Keys, usual: tuple[int | None, int | None], add_bos: bool
) -> Template:
    """What is put around a text."""
    count = len(pieces.texts)

    def item(key: str, place: int, adds: bool) -> tuple[Item, ...]:
        id_ = keys.id(key, usual[place], count)
        if id_ is None or not keys.flag(f"add_{key}_token", adds):
            return ()
        name = pieces.texts[id_].decode(errors="replace")
        return (Item(name, 0, (id_,), (name,)),)

    first, last = item("bos", 0, add_bos), item("eos", 1, False)
    single = (*first, Item("A", 0, None), *last)
    second = (*first, Item("B", 0, None), *last)
    pair = (*single, *(Item(one.name, 1, one.ids, one.tokens) for one in second))
    return Template(single, pair)


# ── Pieces ───────────────────────────────────────────────────────────────────────────────────


def _pieces(keys: _Keys) -> Parts:
    texts, types = _tokens(keys)
    scores = keys.numbers("scores", len(texts), "f4")
    if scores is None:
        raise VocabularyError(
            f"{keys.source} has no {PREFIX}scores, which say what is merged first; convert it again"
        )
    if keys.flag("remove_extra_whitespaces", False) or keys.has("precompiled_charsmap"):
        raise VocabularyError(
            f"{keys.source}: text is normalised before it is cut, which llama.cpp does not do for "
            "'llama'; load the model's tokenizer.model instead"
        )
    unk = keys.id("unknown", 0, len(texts))
    if unk is not None and not (types == UNKNOWN).any():
        types[unk] = UNKNOWN
    pieces = Pieces(texts, scores.astype(np.float32), types)
    has_bytes = bool((types == BYTES).any())
    model = model_of(pieces, keys.source, blank=True, has_bytes=has_bytes)
    prefixed = keys.flag("add_space_prefix", True)
    steps: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        *([{"type": "ByteFallback"}] if has_bytes else []),
        {"type": "Fuse"},
        *([{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefixed else []),
    ]
    return Parts(
        model,
        added=_added(pieces, keys),
        blank=True,
        prefix="always" if prefixed else "never",
        template=_template(pieces, keys, (1, 2), add_bos=True),
        decoder={"type": "Sequence", "decoders": steps},
    )


# ── Byte-level tokens ────────────────────────────────────────────────────────────────────────


def _byte_level(keys: _Keys) -> Parts:
    name = keys.text("pre")
    pretokenizer = None if name is None else pretokenizer_of(name)
    if pretokenizer is None:
        what = "is missing" if name is None else f"is {name!r}"
        raise VocabularyError(
            f"{keys.source}: its {PREFIX}pre {what}, so how it cuts text is not known; load the "
            "model's tokenizer.json instead"
        )
    texts, types = _tokens(keys)
    merges = keys.strings("merges")
    if merges is None:
        raise VocabularyError(f"{keys.source} has no {PREFIX}merges; convert it again")
    if (types == BYTES).any():
        raise VocabularyError(
            f"{keys.source}: a token of 'gpt2' has the type of a byte; load the model's "
            "tokenizer.json instead"
        )
    pieces = Pieces(texts, np.zeros(len(texts), np.float32), types)
    return Parts(
        _merged(pieces, merges, keys.source, whole=pretokenizer.whole),
        added=_added(pieces, keys),
        stages=pretokenizer.stages,
        template=_template(pieces, keys, (None, None), add_bos=pretokenizer.add_bos),
        decoder=_BYTE_LEVEL,
    )


def _merged(pieces: Pieces, merges: list[bytes], source: str, *, whole: bool) -> Model:
    """The model. Tokens of bytes come first, then those that are only decoded."""
    texts = pieces.texts
    ids = {text: id_ for id_, text in enumerate(texts)}
    if len(ids) != len(texts):
        id_ = next(id_ for id_, text in enumerate(texts) if ids[text] != id_)
        raise VocabularyError(
            f"{source}: tokens {id_} and {ids[texts[id_]]} are both {texts[id_]!r}; convert it "
            "again"
        )
    if len(long := max(texts, key=len)) > _TOKEN_BYTES_MAX:
        raise VocabularyError(
            f"{source}: token {ids[long]} has {len(long):,} bytes, and {_TOKEN_BYTES_MAX:,} are "
            "the most; convert it again"
        )
    data, lengths, found = _bytes_of(pieces, source)
    rest = np.setdiff1d(np.arange(len(texts)), found).tolist()
    order = np.concatenate([found, np.array(rest, np.int64)])
    places = np.empty(len(texts), np.uint32)
    places[order] = np.arange(len(texts))
    pairs = _pairs(merges, ids, source)
    used = np.zeros(len(texts), bool)
    used[found] = True
    if not bool(used[pairs].all()):
        wrong = int(np.flatnonzero(~used[pairs].reshape(-1, 2).all(axis=1))[0])
        raise VocabularyError(
            f"{source}: merge {wrong} of {PREFIX}merges is {merges[wrong]!r}, and not both are "
            "tokens of bytes; convert it again"
        )
    kinds = np.full(len(texts), DECODED, np.uint8)
    kinds[: len(found)] = TOKEN
    return Model(
        data + b"".join([texts[id_] for id_ in rest]),
        np.concatenate([lengths, np.array([len(texts[id_]) for id_ in rest], np.int64)]).astype(
            np.uint32
        ),
        order.astype(np.uint32),
        kinds,
        merges=places[pairs].reshape(-1, 2),
        whole=whole,
    )


def _pairs(merges: list[bytes], ids: Mapping[bytes, int], source: str) -> NDArray[np.int64]:
    """Ids of the parts of each merge, flat; of a merge that stands there twice the first counts."""
    if len(set(merges)) != len(merges):
        merges[:] = dict.fromkeys(merges)
    parts = b" ".join(merges).split(b" ") if merges else []
    lefts, rights = parts[::2], parts[1::2]
    try:
        if len(parts) != 2 * len(merges) or list(map(len, merges)) != [
            left + right + 1 for left, right in zip(map(len, lefts), map(len, rights), strict=True)
        ]:
            raise ValueError
        found = list(map(ids.__getitem__, parts))
        # What is merged must be a token, too; looking is all that is wanted.
        deque(map(ids.__getitem__, map(add, lefts, rights)), maxlen=0)
    except (KeyError, ValueError):
        wrong = next(i for i, merge in enumerate(merges) if not _is_merge(merge, ids))
        raise VocabularyError(
            f"{source}: merge {wrong} of {PREFIX}merges is {merges[wrong][:100]!r}, which are not "
            "two tokens that make a third; convert it again"
        ) from None
    return np.array(found, np.int64)


def _is_merge(merge: bytes, ids: Mapping[bytes, int]) -> bool:
    parts = merge.split(b" ")
    return len(parts) == 2 and all(part in ids for part in (*parts, b"".join(parts)))


def _bytes_of(pieces: Pieces, source: str) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64]]:
    """Bytes end to end of the tokens that are written in GPT-2's alphabet, lengths, and ids."""
    ids = np.flatnonzero(pieces.types == NORMAL)
    texts = [pieces.texts[id_] for id_ in ids.tolist()]
    raw = b"".join(texts)
    units = np.frombuffer(raw, np.uint8)
    begins = np.concatenate([[0], np.cumsum(units & 0xC0 != 0x80)])
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    starts = np.concatenate([[0], ends[:-1]]) if len(texts) else ends
    try:
        points = np.frombuffer(raw.decode().encode("utf-32-le"), "<u4")
        if bool((units[starts] & 0xC0 == 0x80).any()):
            raise ValueError
    except ValueError:
        raise VocabularyError(
            f"{source}: a token is not UTF-8, which tokens of 'gpt2' are; convert it again"
        ) from None
    table = np.full(_ALPHABET_END + 1, -1, np.int16)
    for byte, character in enumerate(byte_characters()):
        table[ord(character)] = byte
    values = table[np.minimum(points, _ALPHABET_END)]
    strange = np.concatenate([[0], np.cumsum(values < 0)])
    first, last = begins[starts], begins[ends] if len(ends) else begins[:0]
    usual = strange[last] == strange[first]
    counts = last - first
    values = values[np.repeat(usual, counts)]
    return values.astype(np.uint8).tobytes(), counts[usual], ids[usual]
