"""GGUF → TokenizerSpec: the tokenizer of a model for llama.cpp. Only the metadata is read.

Two kinds of tokenizers are supported: "llama", SentencePiece pieces with scores, and "gpt2",
byte-level tokens with merges (llama.cpp, src/llama-vocab.cpp at 00ad355).

As in llama.cpp, control tokens are found in the original text if special tokens are allowed, and
user-defined tokens always. llama.cpp prefers a longer token to one before it; tokenmill prefers
the leftmost.
"""

from __future__ import annotations

import mmap
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import VocabularyError
from tokenmill.formats import tokenizer_json
from tokenmill.formats.checks import Place
from tokenmill.formats.names import byte_level
from tokenmill.formats.sentencepiece import (
    BYTES,
    CONTROL,
    CONVERT,
    DOWNLOAD,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Pieces,
    check_texts,
    decoder_steps,
    model_of,
)
from tokenmill.formats.spec import (
    DECODED,
    TOKEN,
    Added,
    Item,
    Model,
    Template,
    TokenizerSpec,
    surround,
)
from tokenmill.native import _native
from tokenmill.patterns.schemes import (
    CONTRACTION,
    DEEPSEEK_OWN_WORDS,
    GPT2,
    HAN,
    PATTERNS,
    Stage,
    isolated,
    like_gpt4,
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
# NumPy's names of the number types.
_NUMBERS = dict(enumerate(("u1", "i1", "<u2", "<i2", "<u4", "<i4", "<f4", "?"))) | {
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_HEAD = struct.Struct("<4sIQQ")
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_PAIR_BYTES_MIN = 13  # lengths of key and value, and a byte

_Value: TypeAlias = int | float | bool | bytes | list[bytes] | NDArray[Any]
Metadata: TypeAlias = dict[str, _Value]
_Kind = TypeVar("_Kind")
_TOKENIZER_JSON = "the model's tokenizer.json"


def metadata(path: Path, source: str) -> Metadata:
    """Return the metadata of a file that describes its tokenizer."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):  # opening a pipe blocks
        raise VocabularyError(f"{source} is not a regular file; pass the path of a GGUF file")
    if status.st_size < _HEAD.size:
        raise VocabularyError(f"{source} is truncated in its header; {DOWNLOAD}")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return _Reader(data, min(len(data), _METADATA_MAX)).all()
        except (ValueError, struct.error) as error:
            raise VocabularyError(
                f"{source} is damaged or not GGUF ({error}); {DOWNLOAD}"
            ) from None


class _Reader:
    """Read values in order. Raise ValueError for a damaged file."""

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
            big = " (big-endian)" if swapped in _VERSIONS else ""
            raise ValueError(f"version {version}{big} is not supported; 2 and 3 are")
        if count * _PAIR_BYTES_MIN > self._end - self._at:
            raise ValueError(f"its header has a count of {count:,} pairs")
        found: Metadata = {}
        for _ in range(count):
            key = self._string(_KEY_MAX).decode(errors="replace")
            wanted = key.startswith(PREFIX) or key in _KEPT
            value = self._value(self._number(_U32), wanted)
            if wanted:
                found[key] = value
        return found

    def _left(self, size: int) -> int:
        """Skip `size` bytes and return their start."""
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
        if type_ != _ARRAY:
            value: int | float | bool = self._numbers(type_, 1, True)[0].item()
            return value
        type_, count = self._number(_U32), self._number(_U64)
        if type_ == _STRING:
            return self._texts(count, wanted)
        return self._numbers(type_, count, wanted)

    def _numbers(self, type_: int, count: int, wanted: bool) -> NDArray[Any]:
        """Return a copy of numbers, because the file is closed. Unwanted ones are skipped."""
        if type_ not in _NUMBERS:
            raise ValueError(f"a value has type {type_}, before byte {self._at:,}")
        kind = np.dtype(_NUMBERS[type_])
        at = self._left(count * kind.itemsize)
        return np.frombuffer(self._data, kind, count if wanted else 0, at).copy()

    def _texts(self, count: int, wanted: bool) -> list[bytes]:
        """Return an array of texts. Only this loop runs once per token and merge."""
        self._strings += count
        if count * _U64.size > self._end - self._at or self._strings > _STRINGS_MAX:
            raise ValueError(f"an array has {count:,} texts, before byte {self._at:,}")
        found: list[bytes] = []
        data, unpack, at, end = self._data, _U64.unpack_from, self._at, self._end - _U64.size
        for _ in range(count):
            if at > end:
                raise ValueError(f"an array of {count:,} texts is truncated at byte {at:,}")
            start = at + _U64.size
            at = start + unpack(data, at)[0]
            if wanted:
                found.append(data[start:at])
        if at > self._end:
            raise ValueError(f"an array of {count:,} texts ends after byte {self._end:,}")
        self._at = at
        return found


@dataclass(frozen=True, slots=True)
class Pretokenizer:
    """Stages, `Model.whole`, and whether texts begin with BOS by default."""

    stages: tuple[Stage, ...]
    whole: bool = False
    add_bos: bool = False


def _pattern(name: str) -> tuple[Stage, ...]:
    return isolated(PATTERNS[name][0])


_BLOOM = isolated(r" ?[^(\s|.,!?…。，、।۔،)]+")
_GPT2 = isolated(GPT2)
_DIGITS = Stage("digits", "isolated")
_FALCON = (
    Stage("punctuation", "contiguous"),
    *_GPT2,
    Stage("digits", "contiguous"),
    *isolated("[0-9][0-9][0-9]"),
)
_BAILING = isolated(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
_SEED = isolated(
    CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}"
    r"| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DEEPSEEK_CODER = isolated(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥\u0800-一가-\ud7ff]+")

# The values of tokenizer.ggml.pre.
_NAMES = {
    """gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert
    jina-v1-en jina-v2-code roberta-bpe mpt olmo jais trillion granite-docling
    exaone4""": Pretokenizer(_GPT2),
    """starcoder refact command-r smollm codeshell exaone minerva-7b
    mellum2""": Pretokenizer((_DIGITS, *_GPT2)),
    "falcon": Pretokenizer(_FALCON),
    """llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2
    jina-v5-nano""": Pretokenizer(_pattern("llama3"), whole=True, add_bos=True),
    "dbrx smaug-bpe glm4 chatglm-bpe": Pretokenizer(_pattern("llama3")),
    """qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open
    grok-2""": Pretokenizer(_pattern("qwen2")),
    "qwen35": Pretokenizer(_pattern("qwen35")),
    "minicpm5": Pretokenizer(isolated(r"\p{N}{1,3}", like_gpt4(r"\p{N}+")[0]), whole=True),
    "bailingmoe bailingmoe2 llada-moe": Pretokenizer(_BAILING),
    "seed-coder": Pretokenizer(_SEED),
    "gpt-4o llama4 kanana2 talkie minimax-m2": Pretokenizer(_pattern("o200k")),
    "tekken": Pretokenizer(_pattern("tekken"), whole=True, add_bos=True),
    "deepseek-v3 hunyuan-dense joyai-llm hy_v4": Pretokenizer(
        isolated(r"\p{N}{1,3}", HAN, DEEPSEEK_OWN_WORDS)
    ),
    "deepseek-coder": Pretokenizer((*_DEEPSEEK_CODER, _DIGITS)),
    "poro-chat bloom gpt3-finnish": Pretokenizer(_BLOOM),
    "viking": Pretokenizer((*_BLOOM, _DIGITS)),
}
PRETOKENIZERS = {name: one for names, one in _NAMES.items() for name in names.split()}


def read(path: Path, source: str) -> TokenizerSpec:
    """Return the specification of a file, which may contain a tokenizer.json.

    `source` is the file name for errors.
    """
    found = metadata(path, source)
    document = found.get(HUGGING_FACE)
    if isinstance(document, bytes):
        return tokenizer_json.read(document, f"{source}, {HUGGING_FACE}")
    keys = _Keys(found, source)
    kind = keys.text("model")
    if kind == "llama":
        return _pieces(keys)
    if kind == "gpt2":
        return _byte_level(keys)
    problem = f"is {kind!r}; only 'llama' and 'gpt2' are supported; load {_TOKENIZER_JSON}"
    if kind is None:
        problem = "is missing; load the first file of a model in several files"
    raise keys.place.inside("model").error(problem)


class _Keys:
    """Values of the tokenizer by the ends of their keys, with checked types."""

    def __init__(self, found: Metadata, source: str) -> None:
        self.values = {key.removeprefix(PREFIX): value for key, value in found.items()}
        self.place = Place(source, PREFIX.removesuffix("."), CONVERT)
        name = found.get("general.name")
        self.name = name.decode(errors="replace").lower() if isinstance(name, bytes) else ""

    def refuse(self, key: str, text: str) -> NoReturn:
        self.place.inside(key).refuse(text)

    def get(self, key: str, kind: type[_Kind]) -> _Kind | None:
        return self.place.maybe(self.values, key, kind)

    def text(self, key: str) -> str | None:
        value = self.get(key, bytes)
        return None if value is None else value.decode(errors="replace")

    def flag(self, key: str, default: bool) -> bool:
        value = self.get(key, bool)
        return default if value is None else value

    def numbers(self, key: str, count: int, type_: str) -> NDArray[Any] | None:
        value = self.get(key, np.ndarray)
        if value is not None and (len(value) != count or value.dtype != np.dtype(type_)):
            found = f"{len(value):,} numbers of {value.dtype}"
            self.refuse(key, f"has {found}, expected {count:,} of {type_}, one per token")
        return value

    def id(self, key: str, default: int | None, count: int) -> int | None:
        value = self.get(f"{key}_token_id", int)
        if value is None:
            return default if default is not None and default < count else None
        if not 0 <= value < count:
            self.refuse(f"{key}_token_id", f"is {value}, and there are {count:,} tokens")
        return value


def _tokens(keys: _Keys) -> tuple[list[bytes], NDArray[np.uint8]]:
    """Return the tokens and their types. An empty token gets llama.cpp's name for it."""
    texts = keys.get("tokens", list) or []
    if not texts:
        keys.refuse("tokens", "has 0 tokens")
    types = keys.numbers("token_type", len(texts), "i4")
    if types is None:
        types = np.full(len(texts), NORMAL, np.int32)
    unknown = types[(types < NORMAL) | (types > BYTES)]
    if len(unknown):
        keys.refuse("token_type", f"contains the unknown type {unknown[0]}")
    found = types.astype(np.uint8)
    for id_ in [id_ for id_, text in enumerate(texts) if not text] if b"" in texts else ():
        texts[id_] = b"[EMPTY_%d]" % id_
        found[id_] = UNUSED
    return texts, found


def _added(pieces: Pieces, keys: _Keys) -> tuple[Added, ...]:
    """Return control and user-defined tokens, with llama.cpp's exceptions for single models."""
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
    """Return the template. `usual` contains the default ids of BOS and EOS."""

    def item(key: str, default: int | None, adds: bool) -> Item | None:
        id_ = keys.id(key, default, len(pieces.texts))
        if id_ is None or not keys.flag(f"add_{key}_token", adds):
            return None
        name = pieces.texts[id_].decode(errors="replace")
        return Item(name, 0, (id_,), (name,))

    return surround(item("bos", usual[0], add_bos), item("eos", usual[1], False))


# ── Pieces ───────────────────────────────────────────────────────────────────────────────────


def _pieces(keys: _Keys) -> TokenizerSpec:
    texts, types = _tokens(keys)
    scores = keys.numbers("scores", len(texts), "f4")
    if scores is None:
        keys.refuse("scores", "is missing")
    if keys.flag("remove_extra_whitespaces", False) or "precompiled_charsmap" in keys.values:
        keys.place.refuse(
            "has a normalizer, which llama.cpp does not run for 'llama'; load the model's "
            "tokenizer.model"
        )
    unk = keys.id("unknown", 0, len(texts))
    if unk is not None and not (types == UNKNOWN).any():
        types[unk] = UNKNOWN
    pieces = Pieces(texts, scores.astype(np.float32), types)
    has_bytes = bool((types == BYTES).any())
    model = model_of(pieces, keys.place, blank=True, has_bytes=has_bytes)
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
    pretokenizer = PRETOKENIZERS.get(name or "")
    if pretokenizer is None:
        problem = "is missing" if name is None else f"is {name!r}, which is unknown"
        keys.refuse("pre", f"{problem}; load {_TOKENIZER_JSON}")
    texts, types = _tokens(keys)
    merges = keys.get("merges", list)
    if merges is None:
        keys.refuse("merges", "is missing")
    if (types == BYTES).any():
        keys.refuse("token_type", "contains byte tokens in 'gpt2'")
    pieces = Pieces(texts, np.zeros(len(texts), np.float32), types)
    return TokenizerSpec(
        _merged(pieces, merges, keys, whole=pretokenizer.whole),
        added=_added(pieces, keys),
        stages=pretokenizer.stages,
        template=_template(pieces, keys, (None, None), add_bos=pretokenizer.add_bos),
        decoder=byte_level(False),
    )


def _merged(pieces: Pieces, merges: list[bytes], keys: _Keys, *, whole: bool) -> Model:
    """Return the model. Byte-level tokens are first, then tokens that are only decoded."""
    texts = pieces.texts
    check_texts(texts, keys.place)
    data, lengths, order = _bytes_of(pieces, keys)
    rest = np.setdiff1d(np.arange(len(texts)), order).tolist()
    kinds = np.repeat(np.array([TOKEN, DECODED], np.uint8), [len(order), len(rest)])
    order = np.concatenate([order, np.array(rest, np.int64)])
    indexes = np.empty(len(texts), np.uint32)
    indexes[order] = np.arange(len(texts))
    merges = [*dict.fromkeys(merges)]  # the first of two equal merges counts
    pairs = indexes[_pairs(merges, texts, keys)]
    odd = np.flatnonzero((kinds[pairs] == DECODED).any(axis=1))
    if len(odd):
        text = f"has merge {odd[0]} {merges[odd[0]]!r}, and not both are byte-level tokens"
        keys.refuse("merges", text)
    others = [texts[id_] for id_ in rest]
    sizes = np.append(lengths, np.array([*map(len, others)], np.int64)).astype(np.uint32)
    data += b"".join(others)
    return Model(data, sizes, order.astype(np.uint32), kinds, pairs, whole=whole)


def _pairs(merges: list[bytes], texts: list[bytes], keys: _Keys) -> NDArray[np.int64]:
    """Return the ids of both parts of each merge."""
    ids = {text: id_ for id_, text in enumerate(texts)}
    found: list[int] = []
    for index, merge in enumerate(merges):
        left, _, right = merge.partition(b" ")
        if left not in ids or right not in ids or left + right not in ids:
            keys.refuse(
                "merges",
                f"has merge {index} {merge[:100]!r}, expected two tokens whose concatenation is a "
                "token",
            )
        found += (ids[left], ids[right])
    return np.array(found, np.int64).reshape(-1, 2)


def _bytes_of(pieces: Pieces, keys: _Keys) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64]]:
    """Return the bytes, lengths and ids of the tokens that are spelled in GPT-2's alphabet."""
    ids = np.flatnonzero(pieces.types == NORMAL)
    texts = [pieces.texts[id_] for id_ in ids.tolist()]
    try:
        b"\n".join(texts).decode()
    except UnicodeDecodeError:
        keys.refuse("tokens", "contains a token that is not UTF-8")
    lengths = np.fromiter(map(len, texts), np.uint32, len(texts))
    read = _native.read_spelling(b"".join(texts), lengths)
    lengths, spelled = np.asarray(read.lengths).astype(np.int64), np.asarray(read.kinds) == TOKEN
    bytes_ = np.frombuffer(read.bytes, np.uint8)[np.repeat(spelled, lengths)].tobytes()
    return bytes_, lengths[spelled], ids[spelled]
