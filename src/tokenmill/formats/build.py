"""TokenizerSpec → native tokenizer, through a bundle of bytes (core/bundle.zig).

A file may come from anywhere. The normalizer's growth of a text is therefore limited here, so that
memory is at most a multiple of the text's length.
"""

from __future__ import annotations

import itertools
import operator
import secrets
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tokenmill.errors import PatternError, VocabularyError
from tokenmill.formats.spec import (
    DECODED,
    FLAGS,
    TOKEN,
    Added,
    Charsmap,
    Form,
    Lower,
    Model,
    Prepend,
    Replace,
    Squeeze,
    Step,
    Strip,
    TokenizerSpec,
)
from tokenmill.native import _native
from tokenmill.patterns import compile_pattern
from tokenmill.patterns.analysis import Emptiness
from tokenmill.patterns.parse import parse
from tokenmill.patterns.schemes import Literally, Pattern, scheme_of_stages

STEPS_MAX = 64
PREPEND_BYTES_MAX = 256
CONTENT_BYTES_MAX = 1024
MAP_BYTES_MAX = 16 << 20
# How many times longer the text may get in one step that replaces, and in all of them.
STEP_GROWTH_MAX = 64
GROWTH_MAX = 1024

# The most that a form makes of a character: 3 bytes become 33 (U+FDFA), 2 become 6 (U+0390).
_FORM_GROWTH = {"NFC": 3, "NFD": 3, "NFKC": 11, "NFKD": 11}
_LOWER_GROWTH = 2

# The tags of core/normalize.zig.
_FORM, _LOWER, _PREPEND, _LITERAL, _PATTERN, _STRIP, _CHARSMAP, _SQUEEZE = range(8)

# Sum of the squares of lengths. It is about 10 million for 32,000 real SentencePiece pieces.
_SPELLED_BYTES_MAX = 1 << 30
_ID_END = 1 << 31


def build(spec: TokenizerSpec, image: bytes | None = None) -> _native.Core:
    """Return the native tokenizer of a specification.

    `image` is the packed vocabulary of an embedded tokenizer. It replaces `spec.model`.
    """
    return _native.load(_bundle(spec, image), secrets.randbits(64))


def _bundle(spec: TokenizerSpec, image: bytes | None) -> bytes:
    scheme, model = scheme_of_stages(spec.stages, spec.blank), spec.model
    common: dict[str, Any] = {
        **pack_added(spec.added),
        "steps": pack_steps(spec.steps),
        "prefix": spec.prefix,
    }
    if image is not None:
        return _native.pack_bundle("image", image, scheme, **common)
    if spec.ranks is not None:
        common |= {"lengths": model.lengths, "ids": model.ids}
        return _native.pack_bundle("ranks", model.data, scheme, **common)
    _check_model(spec)
    known = np.isin([token.id for token in spec.added], model.ids)
    # Added tokens that the model lacks are found as a whole and decoded, but never merged.
    rest = [t for t, is_there in zip(spec.added, known.tolist(), strict=True) if not is_there]
    names = [token.content.encode() for token in rest]
    return _native.pack_bundle(
        "model",
        model.data + b"".join(names),
        scheme,
        lengths=np.concatenate([model.lengths, np.array([len(n) for n in names], np.uint32)]),
        ids=np.concatenate([model.ids, np.array([token.id for token in rest], np.uint32)]),
        kinds=np.concatenate([model.kinds, np.full(len(rest), DECODED, np.uint8)]),
        merges=model.merges,
        order=model.order if model.order is None else np.pad(model.order, (0, len(rest))),
        characters=model.base == "characters",
        whole=model.whole,
        space_marker=spec.blank,
        missing=model.missing,
        unk=model.unk,
        fuse_unk=model.fuse_unk,
        dropout=model.dropout or 0.0,
        **common,
    )


def model_of(core: _native.Core) -> Model:
    """Return the model of a native tokenizer whose ids are ranks."""
    data, buffer = core.tokens()
    lengths = np.diff(np.asarray(buffer), prepend=0)
    ids = np.flatnonzero(lengths)
    if (empty := core.empty_id()) >= 0:
        ids = np.sort(np.append(ids, empty))
        lengths = np.pad(lengths, (0, max(0, empty + 1 - len(lengths))))
    found = lengths[ids].astype(np.uint32)
    kinds = np.where(found == 0, DECODED, TOKEN).astype(np.uint8)
    return Model(data, found, ids.astype(np.uint32), kinds, whole=True)


def added_of(special_tokens: Mapping[str, int]) -> tuple[Added, ...]:
    """Return special tokens, ordered by id, as added tokens. Raise VocabularyError for bad ones."""
    for name, id_ in special_tokens.items():
        if not isinstance(name, str) or not name:
            raise VocabularyError(
                f"the text of a special token must be a str of one character or more, not {name!r}"
            )
        if not isinstance(id_, int) or isinstance(id_, bool) or not 0 <= id_ < _ID_END:
            raise VocabularyError(
                f"the id of special token {name!r} must be from 0 to {_ID_END - 1:,}, not {id_!r}"
            )
    return tuple(
        Added(name, id_) for name, id_ in sorted(special_tokens.items(), key=operator.itemgetter(1))
    )


def pack_added(added: Iterable[Added]) -> dict[str, Any]:
    """Return the fields of a bundle for added tokens, which are sorted by their texts."""
    try:
        entries = sorted(
            ((entry.content.encode(), entry) for entry in added), key=operator.itemgetter(0)
        )
    except UnicodeEncodeError as error:
        raise VocabularyError(
            f"special token {error.object!r} contains a lone surrogate; use valid Unicode"
        ) from None
    for (name, _), (following, _) in itertools.pairwise(entries):
        if name == following:
            raise VocabularyError(f"added token {name.decode()!r} is there twice; remove one")
    flags = [
        sum(getattr(entry, flag) << bit for bit, flag in enumerate((*FLAGS, "literal")))
        for _, entry in entries
    ]
    return {
        "names": b"".join(name for name, _ in entries),
        "name_lengths": np.array([len(name) for name, _ in entries], np.uint32),
        "name_ids": np.array([entry.id for _, entry in entries], np.uint32),
        "name_flags": bytes(flags),
    }


# ── The model ────────────────────────────────────────────────────────────────────────────────


def _check_model(spec: TokenizerSpec) -> None:
    """Raise VocabularyError for a model that the core cannot run exactly, or not in time."""
    model = spec.model
    if not 0 <= (model.dropout or 0) <= 1:
        raise VocabularyError(f"its dropout must be from 0 to 1, got {model.dropout}")
    if model.merges is None and model.base == "characters":
        # Each token is merged alone from its characters, any two of which may spell a token.
        work = int((model.lengths.astype(np.uint64) ** 2).sum())
        if work > _SPELLED_BYTES_MAX:
            raise VocabularyError(
                f"its tokens are too long; merging all of them takes {work:,} steps, more than "
                f"{_SPELLED_BYTES_MAX:,}"
            )
        if model.missing in ("unk", "drop"):
            _check_characters(model)
    if spec.blank and model.missing == "bytes":
        ends = np.cumsum(model.lengths, dtype=np.int64)[model.lengths == 3].tolist()
        if not any(model.data[end - 3 : end] == "▁".encode() for end in ends):
            raise VocabularyError(
                'it replaces spaces with "▁", which is not a token and would become three bytes; '
                'add "▁" to the vocabulary'
            )


def _check_characters(model: Model) -> None:
    """Raise VocabularyError if a character of a token is not a token."""
    ends = np.cumsum(model.lengths, dtype=np.int64).tolist()
    wanted = zip(ends, model.lengths.tolist(), model.kinds.tolist(), strict=True)
    texts = [model.data[e - n : e].decode(errors="replace") for e, n, k in wanted if k == TOKEN]
    missing = set("".join(texts)) - {text for text in texts if len(text) == 1}
    if missing:
        raise VocabularyError(
            f"it has tokens with the character {min(missing)!r}, which is not a token; add it"
        )


# ── Normalizer steps ─────────────────────────────────────────────────────────────────────────


def pack_steps(steps: tuple[Step, ...]) -> bytes:
    """Return the steps for the core. Raise VocabularyError or PatternError for bad ones."""
    _limit(f"the normalizer has {len(steps)} steps", len(steps), STEPS_MAX)
    growth = 1
    packed = []
    for step in steps:
        record, times = _pack(step)
        packed.append(record)
        growth *= times
    what = f"the steps of the normalizer could make a text {growth} times longer"
    _limit(what, growth, GROWTH_MAX)
    return b"".join(packed)


def _pack(step: Step) -> tuple[bytes, int]:
    """Return a packed step, and how many times longer it can make a text."""
    match step:
        case Form(name):
            return _record(_FORM, [*_FORM_GROWTH].index(name)), _FORM_GROWTH[name]
        case Lower():
            return _record(_LOWER), _LOWER_GROWTH
        case Prepend(text):
            _check_length(step, text, PREPEND_BYTES_MAX)
            return _record(_PREPEND, 0, text.encode()), 1
        case Replace(match, content):
            _check_length(step, content, CONTENT_BYTES_MAX)
            return _pack_replace(match, content)
        case Strip(left, right):
            return _record(_STRIP, left | right << 1), 1
        case Charsmap(data, by_grapheme):
            return _pack_charsmap(data, by_grapheme)
        case Squeeze():
            return _record(_SQUEEZE), 1


def _record(tag: int, flags: int = 0, first: bytes = b"", second: bytes = b"") -> bytes:
    return struct.pack("<BBxxII", tag, flags, len(first), len(second)) + first + second


def _limit(what: str, count: int, most: int) -> None:
    if count > most:
        raise VocabularyError(f"{what}; at most {most} can be loaded")


def _check_length(step: Prepend | Replace, text: str, most: int) -> None:
    size = len(text.encode())
    what = f"a {type(step).__name__} of the normalizer has a text of {size} bytes"
    _limit(what, size, most)


def _pack_replace(match: Pattern | Literally, content: str) -> tuple[bytes, int]:
    if isinstance(match, Literally):
        tag, data, length_min = _LITERAL, match.text.encode(), len(match.text.encode())
        is_empty = not data
    else:
        tag, data, length_min = _PATTERN, compile_pattern(match.text, match.dialect), 1
        is_empty = Emptiness().nullable(parse(match.text, match.dialect))
    if is_empty:
        raise PatternError(
            f"the normalizer replaces {match.text!r}, which also matches the empty text; change it "
            "so that it matches at least one character"
        )
    size = len(content.encode())
    times = -(-size // length_min)
    what = f"the normalizer replaces {match.text!r} with {size} bytes, up to {times} times longer"
    _limit(what, times, STEP_GROWTH_MAX)
    return _record(tag, 0, data, content.encode()), max(times, 1)


def _pack_charsmap(data: bytes, by_grapheme: bool) -> tuple[bytes, int]:
    _limit(f"the map of the normalizer has {len(data)} bytes", len(data), MAP_BYTES_MAX)
    size = int.from_bytes(data[:4], "little")
    longest = max(map(len, data[4 + size :].split(b"\0")))
    what = f"the map of the normalizer has a replacement of {longest} bytes"
    _limit(what, longest, STEP_GROWTH_MAX)
    return _record(_CHARSMAP, by_grapheme, data), max(longest, 1)
