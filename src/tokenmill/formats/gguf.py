"""GGUF → TokenizerSpec: the tokenizer of a model for llama.cpp. Only the metadata is read.

Two kinds of tokenizers are read: "llama", which are SentencePiece's pieces with their scores, and
"gpt2", which are byte-level tokens with merges (llama.cpp, src/llama-vocab.cpp at 00ad355).

As in llama.cpp, control tokens are found when special tokens are asked for, and user-defined ones
always, both in the text as it is; there a longer one is preferred to one before it, here the
leftmost.
"""

from __future__ import annotations

import mmap
import stat
import struct
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import add
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import VocabularyError
from tokenmill.formats.checks import Place
from tokenmill.formats.names import byte_characters
from tokenmill.formats.sentencepiece import (
    BYTES,
    CONTROL,
    NORMAL,
    PIECES_MAX,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Pieces,
    decoder_steps,
    model_of,
)
from tokenmill.formats.spec import DECODED, TOKEN, Added, Item, Model, Template, TokenizerSpec
from tokenmill.patterns.schemes import (
    CONTRACTION,
    DEEPSEEK_OWN_WORDS,
    GPT2,
    HAN,
    Stage,
    isolated,
    like_gpt4,
    like_gpt4o,
)

PREFIX = "tokenizer.ggml."
HUGGING_FACE = "tokenizer.huggingface.json"
_KEPT = ("general.name", HUGGING_FACE)

_METADATA_MAX = 256 << 20
_KEY_MAX = 1 << 16
_STRINGS_MAX = 1 << 23  # in all arrays together, 16 times those of the largest vocabularies
MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
# How NumPy calls the types of numbers.
_NUMBERS = dict(enumerate(("u1", "i1", "<u2", "<i2", "<u4", "<i4", "<f4", "?"))) | {
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_SIZES = {type_: np.dtype(name).itemsize for type_, name in _NUMBERS.items()}
_HEAD = struct.Struct("<4sIQQ")
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_PAIR_BYTES_MIN = 13  # lengths of key and value, and a byte

_Value: TypeAlias = int | float | bool | bytes | list[bytes] | NDArray[Any]
Metadata: TypeAlias = dict[str, _Value]


def metadata(path: Path, source: str) -> Metadata:
    """The pairs of a file that say something about its tokenizer."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for somebody who writes
        raise VocabularyError(f"{source} is no regular file; give the path of a GGUF")
    if status.st_size < _HEAD.size:
        raise VocabularyError(f"{source} is cut off within its head; get it again")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return _Reader(data, min(len(data), _METADATA_MAX)).all()
        except (ValueError, struct.error) as error:
            raise VocabularyError(
                f"{source} is damaged, or no GGUF ({error}); get it again"
            ) from None


class _Reader:
    """Values one after the other. `ValueError` says what is wrong."""

    def __init__(self, data: mmap.mmap, end: int) -> None:
        self._data = data
        self._end = end
        self._at = 0
        self._strings = 0

    def all(self) -> Metadata:
        magic, version, _, count = _HEAD.unpack_from(self._data)
        self._at = _HEAD.size
        if magic != MAGIC:
            raise ValueError(f"it begins with {magic!r}")
        if version not in _VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
            big = " (it has the byte order of other machines)" if swapped in _VERSIONS else ""
            raise ValueError(f"its version is {version}{big}, and 2 and 3 are read")
        if count * _PAIR_BYTES_MIN > self._end - self._at:
            raise ValueError(f"it says that it has {count:,} pairs")
        found: Metadata = {}
        for _ in range(count):
            key = self._string(_KEY_MAX).decode(errors="replace")
            wanted = key.startswith(PREFIX) or key in _KEPT
            value = self._value(self._number(_U32), wanted)
            if wanted:
                found[key] = value
        return found

    def _left(self, size: int) -> int:
        """Moves over `size` bytes, and says where they begin."""
        if size > self._end - self._at:
            raise ValueError(f"{size:,} bytes at byte {self._at:,}, {self._end - self._at:,} left")
        at, self._at = self._at, self._at + size
        return at

    def _number(self, kind: struct.Struct) -> int:
        number: int = kind.unpack_from(self._data, self._left(kind.size))[0]
        return number

    def _string(self, size_max: int = _METADATA_MAX) -> bytes:
        size = self._number(_U64)
        if size > size_max:
            raise ValueError(f"a text has {size:,} bytes, before byte {self._at:,}")
        at = self._left(size)
        return self._data[at : at + size]

    def _value(self, type_: int, wanted: bool) -> _Value:
        if type_ == _STRING:
            return self._string()
        if type_ == _ARRAY:
            return self._array(wanted)
        if type_ not in _NUMBERS:
            raise ValueError(f"a value has type {type_}, before byte {self._at:,}")
        at = self._left(_SIZES[type_])
        value: int | float | bool = np.frombuffer(self._data, _NUMBERS[type_], 1, at)[0].item()
        return value

    def _array(self, wanted: bool) -> _Value:
        type_, count = self._number(_U32), self._number(_U64)
        if type_ == _STRING:
            return self._texts(count, wanted)
        if type_ not in _NUMBERS:
            raise ValueError(f"an array has values of type {type_}, before byte {self._at:,}")
        at = self._left(count * _SIZES[type_])
        if not wanted:
            return 0
        return np.frombuffer(self._data, _NUMBERS[type_], count, at).copy()

    def _texts(self, count: int, wanted: bool) -> list[bytes]:
        """An array of texts; the one loop over all tokens and merges."""
        self._strings += count
        if count * _U64.size > self._end - self._at or self._strings > _STRINGS_MAX:
            raise ValueError(f"an array has {count:,} texts, before byte {self._at:,}")
        found: list[bytes] = []
        data, unpack, at, end = self._data, _U64.unpack_from, self._at, self._end - _U64.size
        for _ in range(count):
            if at > end:
                raise ValueError(f"an array of {count:,} texts is cut off at byte {at:,}")
            start = at + _U64.size
            at = start + unpack(data, at)[0]
            if wanted:
                found.append(data[start:at])
        if at > self._end:
            raise ValueError(f"an array of {count:,} texts ends behind byte {self._end:,}")
        self._at = at
        return found


@dataclass(frozen=True, slots=True)
class Pretokenizer:
    """Stages, whether a pretoken that is a token is that one, and whether texts begin with BOS."""

    stages: tuple[Stage, ...]
    whole: bool = False
    add_bos: bool = False


def pretokenizer_of(name: str) -> Pretokenizer | None:
    """What a name stands for."""
    return _TABLE.get(name)


_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_DIGITS = Stage("digits", "isolated")

_NAMES = {
    Pretokenizer(isolated(GPT2)): (
        *("gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de"),
        *("a.x-4.0", "mellum", "modern-bert", "jina-v1-en", "jina-v2-code", "roberta-bpe", "mpt"),
        *("olmo", "jais", "trillion", "granite-docling", "exaone4"),
    ),
    Pretokenizer((_DIGITS, *isolated(GPT2))): (
        *("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"),
        "mellum2",
    ),
    Pretokenizer(
        (
            Stage("punctuation", "contiguous"),
            *isolated(GPT2),
            Stage("digits", "contiguous"),
            *isolated("[0-9][0-9][0-9]"),
        )
    ): ("falcon",),
    Pretokenizer(isolated(like_gpt4(r"\p{N}{1,3}")[0]), whole=True, add_bos=True): (
        *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0"),
        *("lfm2", "jina-v5-nano"),
    ),
    Pretokenizer(isolated(like_gpt4(r"\p{N}{1,3}")[0])): (
        "dbrx",
        "smaug-bpe",
        "glm4",
        "chatglm-bpe",
    ),
    Pretokenizer(isolated(like_gpt4(r"\p{N}")[0])): (
        *("qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan"),
        *("solar-open", "grok-2"),
    ),
    Pretokenizer(
        isolated(
            CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
            r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        )
    ): ("qwen35",),
    Pretokenizer(isolated(r"\p{N}{1,3}", like_gpt4(r"\p{N}+")[0]), whole=True): ("minicpm5",),
    Pretokenizer(
        isolated(
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
            r"|\s*[\r\n]|\s+(?!\S)|\s+"
        )
    ): ("bailingmoe", "bailingmoe2", "llada-moe"),
    Pretokenizer(
        isolated(
            CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}"
            r"| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
        )
    ): ("seed-coder",),
    Pretokenizer(isolated(like_gpt4o(CONTRACTION + "?", r"\p{N}{1,3}"))): (
        *("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"),
    ),
    Pretokenizer(isolated(like_gpt4o("", r"\p{N}")), whole=True, add_bos=True): ("tekken",),
    Pretokenizer(isolated(r"\p{N}{1,3}", HAN, DEEPSEEK_OWN_WORDS)): (
        *("deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"),
    ),
    Pretokenizer(
        (*isolated(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥\u0800-一가-\ud7ff]+"), _DIGITS)
    ): ("deepseek-coder",),
    Pretokenizer(isolated(_BLOOM)): ("poro-chat", "bloom", "gpt3-finnish"),
    Pretokenizer((*isolated(_BLOOM), _DIGITS)): ("viking",),
}
_TABLE = {name: one for one, names in _NAMES.items() for name in names}


_TOKEN_BYTES_MAX = 1 << 16
_ALPHABET_END = 0x144  # behind the last character of GPT-2's alphabet
_BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}


def read(
    path: Path, source: str, read_json: Callable[[bytes, str], TokenizerSpec] | None = None
) -> TokenizerSpec:
    """The spec of the tokenizer in a file; `source` is its name.

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


def _pieces(keys: _Keys) -> TokenizerSpec:
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
    model = model_of(pieces, Place(keys.source), blank=True, has_bytes=has_bytes)
    prefixed = keys.flag("add_space_prefix", True)
    steps = decoder_steps(has_bytes, int(prefixed))
    return TokenizerSpec(
        model,
        added=_added(pieces, keys),
        blank=True,
        prefix="always" if prefixed else "never",
        template=_template(pieces, keys, (1, 2), add_bos=True),
        decoder={"type": "Sequence", "decoders": steps},
    )


# ── Byte-level tokens ────────────────────────────────────────────────────────────────────────


def _byte_level(keys: _Keys) -> TokenizerSpec:
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
    return TokenizerSpec(
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
