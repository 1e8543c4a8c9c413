"""tokenizer.json ↔ TokenizerSpec: Hugging Face's format, byte-level and SentencePiece-like models.

The core reads tokens and merges. A file is rejected if Hugging Face reads it differently from how
it looks, or if its ids cannot be reproduced exactly. Sections that encoding does not use are kept
in `extra` and written again.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import VocabularyError, shown
from tokenmill.formats.checks import Place, flatten, parse
from tokenmill.formats.names import Names, byte_level, entries_of, names_of, spell
from tokenmill.formats.ranks import find_merges, merges_of, pattern_text
from tokenmill.formats.spec import (
    BYTE,
    DECODED,
    FLAGS,
    TOKEN,
    Added,
    Charsmap,
    Form,
    Item,
    Lower,
    Model,
    Prefix,
    Prepend,
    Replace,
    Squeeze,
    Step,
    Strip,
    Template,
    TokenizerSpec,
    surround_roberta,
)
from tokenmill.native import _native
from tokenmill.patterns.parse import to_oniguruma
from tokenmill.patterns.schemes import GPT2, Literally, Pattern, Stage, name_of

BYTES_MAX = 256 << 20
ADDED_MAX = 1 << 17
CONTENT_BYTES_MAX = 4096
ITEMS_MAX = 256  # of a template
_SIZES = range(1 << 64)
_IDS = range(1 << 32)

_KEPT = ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor")
_KEYS = (*_KEPT, "version", "added_tokens", "decoder", "model")
_DECODERS = ("ByteLevel", "ByteFallback", "Replace", "Fuse", "Strip", "Metaspace", "BPEDecoder")
_INSTEAD = "encode with Hugging Face's tokenizers"


def read(data: bytes, source: str) -> TokenizerSpec:
    """Return the specification of a file. `source` is the file name for errors."""
    place = Place(source)
    place.limit(len(data), BYTES_MAX, "bytes")
    try:
        found = _native.read_model(data, secrets.randbits(64))
    except VocabularyError as error:
        place.refuse(f"is not a valid tokenizer.json: {error}")
    document = place.check(parse(found.rest, place), dict)
    _check_keys(document, place)
    pre_tokenizer = document.get("pre_tokenizer")
    cutting = read_cutting(document.get("normalizer"), pre_tokenizer, place)
    names = Names(found.bytes, found.lengths, found.ids)
    options = place.check(document["model"], dict)
    _check_type(options, place.inside("model"))
    model = read_model(options, names, np.asarray(found.merges), found.unmade, cutting, place)
    for name, _, at in flatten(document.get("decoder"), "decoders", place.inside("decoder")):
        if name not in _DECODERS:
            at.refuse(f"is {name!r}, which is not supported; use {', '.join(_DECODERS)}")
    added = _read_added(document.get("added_tokens", []), names, place.inside("added_tokens"))
    check_normalized(added, cutting.blank, cutting.steps, pre_tokenizer, place)
    extra = {key: document[key] for key in _KEPT if document.get(key) is not None}
    extra["model"] = {k: v for k, v in options.items() if k not in ("vocab", "merges")}
    template = read_template(document.get("post_processor"), place)
    decoder = document.get("decoder")
    return cutting.spec(model, added, template=template, decoder=decoder, extra=extra)


def _check_keys(document: Mapping[str, Any], place: Place) -> None:
    if "model" not in document:
        place.refuse("has no model, so it is not a tokenizer.json")
    if unknown := [key for key in document if key not in _KEYS]:
        place.refuse(f"has the unknown section {unknown[0]!r}; remove it")
    if document.get("version", "1.0") != "1.0":
        place.refuse(f"has version {document['version']!r} of the format; only 1.0 is supported")
    _check_lengths(document, place)
    place.inside("added_tokens").check(document.get("added_tokens", []), list)


_DIRECTIONS = ("Left", "Right")
_TRUNCATION: Mapping[str, Any] = {
    "max_length": _SIZES,
    "stride": _SIZES,
    "strategy": ("LongestFirst", "OnlyFirst", "OnlySecond"),
    "direction": _DIRECTIONS,
}
_PADDING: Mapping[str, Any] = {
    "direction": _DIRECTIONS,
    "pad_to_multiple_of": _SIZES,
    "pad_id": _IDS,
    "pad_type_id": _IDS,
    "pad_token": str,
}


def _check_lengths(document: Mapping[str, Any], place: Place) -> None:
    """Raise VocabularyError for truncation and padding that Hugging Face rejects."""
    truncation = place.maybe(document, "truncation", dict)
    if truncation is not None:
        place.inside("truncation").fields({"direction": "Right"} | truncation, _TRUNCATION)
    padding = place.maybe(document, "padding", dict)
    if padding is None:
        return
    place = place.inside("padding")
    strategy = padding.get("strategy")
    if isinstance(strategy, dict) and strategy.keys() == {"Fixed"}:
        place.inside("strategy").fields(strategy, {"Fixed": _SIZES})
    elif strategy != "BatchLongest":
        place.inside("strategy").refuse(
            f'is {shown(strategy)}; use "BatchLongest" or {{"Fixed": 128}}'
        )
    if padding.get("pad_to_multiple_of") is None:
        padding = padding | {"pad_to_multiple_of": 0}
    place.fields(padding, _PADDING)


# ── Added tokens ─────────────────────────────────────────────────────────────────────────────


def _read_added(tokens: list[Any], names: Names, place: Place) -> tuple[Added, ...]:
    """Return the added tokens by id.

    Hugging Face ignores their ids in the file. It assigns the id of the vocabulary, or else the
    next id after all others. A file with different ids is rejected.
    """
    place.limit(len(tokens), ADDED_MAX, "tokens")
    listed = [_read_token(token, place.inside(i)) for i, token in enumerate(tokens)]
    known = names.find({token.content for token in listed})
    ids = {name: int(names.ids[index]) for name, index in known.items()}
    count = len(names.ids)
    taken = {*names.ids[names.ids >= count].tolist()}  # lower ids are never assigned
    found: dict[str, Added] = {}
    largest = -1
    for token in listed:
        if not token.content:
            continue
        id_ = ids.get(token.content)
        if id_ is None:
            id_ = ids[token.content] = max(count, largest + 1)
            if id_ in taken:
                place.refuse(
                    f"contains {token.content!r}, to which Hugging Face assigns id {id_} of "
                    "another token; add it to model.vocab with a free id"
                )
        if id_ != token.id:
            place.refuse(
                f"has id {token.id} for {token.content!r}, and Hugging Face assigns {id_}; add "
                "the token to model.vocab with the correct id"
            )
        largest = max(largest, id_)
        found[token.content] = token
    return tuple(sorted(found.values(), key=lambda token: token.id))


def _read_token(value: Any, place: Place) -> Added:
    token = place.check(value, dict)
    content = place.get(token, "content", str)
    place.limit(len(content.encode()), CONTENT_BYTES_MAX, "bytes")
    return Added(content, *place.fields(token, {"id": int, **dict.fromkeys(FLAGS, bool)}))


def check_normalized(
    added: tuple[Added, ...],
    blank: bool,
    before: tuple[Step, ...],
    pre_tokenizer: Any,
    place: Place,
) -> None:
    """Raise VocabularyError for normalized tokens for which a space and "▁" are different.

    Metaspace replaces spaces after such tokens were searched for. A normalizer replaces them
    before, so that no whitespace is left for lstrip and rstrip.
    """
    if not blank:
        return
    place = place.inside("added_tokens")
    is_late = "Metaspace" in json.dumps(pre_tokenizer)
    writes_spaces = any(isinstance(step, Prepend | Replace) for step in before)
    for token in added:
        if not token.normalized:
            continue
        if is_late and (writes_spaces or " " in token.content or SPACE in token.content):
            place.refuse(
                f"contains {token.content!r}, which is normalized and contains a space; this is "
                "not supported with Metaspace; set normalized to false"
            )
        if not is_late and (token.lstrip or token.rstrip):
            place.refuse(
                f"contains {token.content!r}, which is normalized and strips whitespace that the "
                "normalizer replaces with '▁'; set normalized, or lstrip and rstrip, to false"
            )


# ── Normalizer and pre-tokenizer ─────────────────────────────────────────────────────────────

SPACE = "▁"
BYTE_LEVEL = Stage(Pattern(GPT2), "isolated")  # of ByteLevel with use_regex
# Rust's regular expressions, which Whitespace uses, count the joiners as word characters.
_WORDS = Stage(Pattern(r"[\w\x{200C}\x{200D}]+|[^\w\s\x{200C}\x{200D}]+"), "removed", True)
_SPACED = Stage(Literally(SPACE), "merged_with_next")
_ESCAPE = Replace(Literally(" "), SPACE)

_BEHAVIOURS = {
    "Isolated": "isolated",
    "Removed": "removed",
    "MergedWithPrevious": "merged_with_previous",
    "MergedWithNext": "merged_with_next",
    "Contiguous": "contiguous",
}
_PREFIXES: dict[str, Prefix] = {"always": "missing", "first": "missing_first", "never": "never"}
# The pattern as published models write it for Oniguruma.
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s+\z|\s*[\r\n]|\s+(?!\S)|\s"
)
_ASCII_DIGITS = re.compile(r"(?:\[0-9\]|\{[0-9]+(?:,[0-9]*)?\}|\+)+")


@dataclass(frozen=True, slots=True)
class Cutting:
    """A normalizer and a pre-tokenizer, and the symbols before the first merge."""

    steps: tuple[Step, ...] = ()
    blank: bool = False
    prefix: Prefix = "never"
    stages: tuple[Stage, ...] = ()
    base: Literal["bytes", "characters"] = "characters"

    def spec(self, model: Model, added: tuple[Added, ...], **more: Any) -> TokenizerSpec:
        """Return the specification of a model with this normalizer and pre-tokenizer."""
        cut = self.steps, self.blank, self.prefix, self.stages
        return TokenizerSpec(model, added, *cut, **more)


def read_cutting(normalizer: Any, pre_tokenizer: Any, place: Place) -> Cutting:
    """Return the combined effect of a normalizer and a pre_tokenizer."""
    steps, is_byte_level = read_normalizer(normalizer, place.inside("normalizer"))
    place = place.inside("pre_tokenizer")
    parts = flatten(pre_tokenizer, "pretokenizers", place)
    if is_byte_level:
        if parts:
            place.refuse(f"after a ByteLevel normalizer is not supported; {_INSTEAD}")
        return Cutting(steps, base="bytes")
    found = Cutting(steps)
    for part in parts:
        found = _add_component(found, *part)
    if not found.blank:
        return _escape(found) if found.base == "characters" else found
    is_exact = all(stage == _SPACED or _ignores(stage, " ", SPACE) for stage in found.stages)
    if found.base == "bytes" or not is_exact:
        names = ", ".join(name for name, _, _ in parts)
        place.refuse(
            f"has {names}; Metaspace with a component that depends on spaces is not supported; "
            f"{_INSTEAD}"
        )
    return found


def _escape(found: Cutting) -> Cutting:
    """Set `blank` for a normalizer that ends in " " → "▁", if the stages allow that."""
    steps, prefix = list(found.steps), found.prefix
    if steps[-2:] in ([Prepend(SPACE), _ESCAPE], [_ESCAPE, Prepend(SPACE)]):
        del steps[-2:]
        prefix = "always"
    elif steps[-1:] == [_ESCAPE]:
        del steps[-1]
    else:
        return found
    # No space is left, so a split at spaces has no effect. Gemma has such a split.
    stages = tuple(stage for stage in found.stages if stage.invert or not _has_space(stage))
    is_exact = all(_ignores(stage, " ") for stage in stages)
    return Cutting(tuple(steps), True, prefix, stages) if is_exact else found


def _has_space(stage: Stage) -> bool:
    return isinstance(stage.match, Literally) and " " in stage.match.text


def _ignores(stage: Stage, *characters: str) -> bool:
    """Return whether a stage gives the same result if these characters are replaced."""
    if isinstance(stage.match, Literally):
        return not any(character in stage.match.text for character in characters)
    return stage.match in ("digits", "punctuation")


def read_normalizer(normalizer: Any, place: Place) -> tuple[tuple[Step, ...], bool]:
    """Return the steps, and whether the last component is ByteLevel."""
    steps: list[Step] = []
    parts = flatten(normalizer, "normalizers", place)
    for index, (name, part, at) in enumerate(parts):
        if name == "ByteLevel":
            if index < len(parts) - 1:
                at.refuse(f"is ByteLevel, which must be the last component; {_INSTEAD}")
            return tuple(steps), True
        step = _read_step(name, part, at)
        if step != Prepend(""):  # has no effect
            steps.append(step)
    return tuple(steps), False


def _read_step(name: str, part: dict[str, Any], place: Place) -> Step:
    match name:
        case "NFC" | "NFD" | "NFKC" | "NFKD":
            return Form(name)
        case "Lowercase":
            return Lower()
        case "Prepend":
            return Prepend(place.get(part, "prepend", str))
        case "Strip":
            return Strip(*place.fields(part, {"strip_left": bool, "strip_right": bool}))
        case "Replace":
            return Replace(_read_pattern(part, place), place.get(part, "content", str))
        case "Precompiled":
            data = place.get(part, "precompiled_charsmap", str)
            return Charsmap(place.inside("precompiled_charsmap").base64(data), True)
    raise place.error(f"is {name!r}, which is not supported; {_INSTEAD}")


def _read_pattern(part: dict[str, Any], place: Place) -> Pattern | Literally:
    pattern = place.get(part, "pattern", dict)
    place = place.inside("pattern")
    kind = next(iter(pattern), None)
    if len(pattern) != 1 or kind not in ("String", "Regex"):
        place.refuse(f'is {pattern!r}; write {{"String": …}} or {{"Regex": …}}')
    text = place.get(pattern, kind, str)
    if not text:
        place.refuse("is empty and matches everywhere; remove this component")
    return Pattern(text) if kind == "Regex" else Literally(text)


def _add_component(found: Cutting, name: str, part: dict[str, Any], place: Place) -> Cutting:
    """Return `found` with one more component of the pre_tokenizer."""
    prefix: Prefix = "never"
    blank, base = found.blank, found.base
    if base == "bytes":
        stages = [_read_spelled(name, part, place)]
    elif name == "ByteLevel":
        prefix = "missing" if place.get(part, "add_prefix_space", bool) else "never"
        place.get(part, "trim_offsets", bool)  # has an effect only in a post_processor
        uses_regex = place.inside("use_regex").check(part.get("use_regex", True), bool)
        stages, base = [BYTE_LEVEL] if uses_regex else [], "bytes"
    elif name == "Metaspace":
        if blank:
            place.refuse("is a second Metaspace; remove it")
        prefix = _read_metaspace(part, place)
        splits = place.maybe(part, "split", bool) is not False
        stages, blank = [_SPACED] if splits else [], True
    else:
        stages = [read_stage(name, part, place)]
    if prefix != "never" and found.stages:
        place.refuse(
            "puts a space before every pretoken of the component before it, which is not "
            f"supported; set add_prefix_space to false, or {_INSTEAD}"
        )
    prefix = found.prefix if prefix == "never" else prefix
    return Cutting(found.steps, blank, prefix, (*found.stages, *stages), base)


def _read_metaspace(part: dict[str, Any], place: Place) -> Prefix:
    replacement = place.get(part, "replacement", str)
    if replacement != SPACE:
        place.refuse(f"has replacement {replacement!r}; only {SPACE!r} is supported")
    scheme = place.inside("prepend_scheme").choice(part.get("prepend_scheme", "always"), _PREFIXES)
    if place.maybe(part, "add_prefix_space", bool) is False and scheme != "never":
        place.refuse(
            f"has add_prefix_space false and prepend_scheme {scheme!r}; Hugging Face rejects "
            "this; remove one of them"
        )
    return _PREFIXES[scheme]


def _read_spelled(name: str, part: dict[str, Any], place: Place) -> Stage:
    """Return a stage after ByteLevel, whose text has a character per byte. Falcon has two."""
    if name in ("Digits", "Split"):
        stage = read_stage(name, part, place)
        if stage.match == "digits":
            return replace(stage, match="spelled_digits")
        # Only ASCII digits are spelled as ASCII digits.
        if isinstance(stage.match, Pattern) and _ASCII_DIGITS.fullmatch(stage.match.text):
            return stage
    raise place.error(f"is {name} after ByteLevel, which splits characters into bytes; {_INSTEAD}")


def read_stage(name: str, part: dict[str, Any], place: Place) -> Stage:
    """Return the stage of a component."""
    match name:
        case "Split":
            match = _read_pattern(part, place)
            behaviour = _read_behaviour(place.get(part, "behavior", str), place)
            return Stage(match, behaviour, place.get(part, "invert", bool))
        case "Digits":
            individual = place.get(part, "individual_digits", bool)
            return Stage("digits", "isolated" if individual else "contiguous")
        case "Punctuation":
            return Stage("punctuation", _read_behaviour(part.get("behavior", "Isolated"), place))
        case "Whitespace":
            return _WORDS
        case "WhitespaceSplit":
            return Stage("space", "removed")
        case "CharDelimiterSplit":
            delimiter = place.get(part, "delimiter", str)
            if len(delimiter) != 1:
                place.refuse(f"has delimiter {delimiter!r}; it must be one character")
            return Stage(Literally(delimiter), "removed")
    raise place.error(f"is {name!r}, which is not supported; {_INSTEAD}")


def _read_behaviour(name: Any, place: Place) -> Any:
    return _BEHAVIOURS[place.inside("behavior").choice(name, _BEHAVIOURS)]


# ── Model ────────────────────────────────────────────────────────────────────────────────────


def read_model(
    options: dict[str, Any],
    names: Names,
    merges: NDArray[np.uint32],
    unmade: int,
    cutting: Cutting,
    place: Place,
) -> Model:
    """Return the model of a file whose tokens and merges the core has read.

    `unmade` is the index of a merge whose result is not a token, or -1.
    """
    place = place.inside("model")
    dropout = place.maybe(options, "dropout", float)
    if dropout is not None and not 0 <= dropout <= 1:
        place.refuse(f"has dropout {dropout}: Dropout should be between 0 and 1, inclusive")
    pairs = merges.reshape(-1, 2)
    if unmade >= 0:
        left, right = (names.name(int(index)) for index in pairs[unmade])
        place.refuse(
            f"has merge {unmade} of {left!r} and {right!r}, and {left + right!r} is not in the "
            "vocabulary; add it there"
        )
    data, lengths, kinds = names.data, names.lengths, np.zeros(len(names.ids), np.uint8)
    if cutting.base == "bytes":
        read = _native.read_spelling(names.data, names.lengths)
        data, lengths, kinds = read.bytes, np.asarray(read.lengths), np.asarray(read.kinds)
    elif cutting.blank:
        # The text has "▁" instead of spaces, so tokens with a space are only decoded.
        spaces = np.flatnonzero(np.frombuffer(data, np.uint8) == ord(" "))
        kinds[np.searchsorted(names.ends, spaces, "right")] = DECODED
    kinds[lengths == 0] = DECODED
    unk = _read_unk(options, names, place)
    missing: Literal["drop", "unk", "bytes"] = "drop" if unk is None else "unk"
    if place.maybe(options, "byte_fallback", bool):
        indexes, values = names.byte_tokens()
        if cutting.base == "bytes":
            if len(indexes) and np.count_nonzero((lengths == 1) & (kinds == TOKEN)) < 256:
                place.refuse(
                    "is byte-level, has byte_fallback, and lacks tokens of single bytes; set "
                    "byte_fallback to false"
                )
        elif len(indexes) == 256:
            missing = "bytes"
            data, lengths = _shorten(names, indexes, values)
            kinds[indexes] = BYTE
        elif len(indexes):
            place.refuse(
                f"has byte_fallback and {len(indexes)} of the 256 tokens <0x00> to <0xFF>; Hugging "
                "Face then returns tokens in the wrong order; add the other tokens"
            )
    _check_merges(pairs, kinds, names, unk if missing == "unk" else None, place)
    return Model(
        data,
        lengths,
        names.ids,
        kinds,
        pairs,
        base=cutting.base,
        whole=bool(place.maybe(options, "ignore_merges", bool)),
        missing=missing,
        unk=None if unk is None else int(names.ids[unk]),
        fuse_unk=bool(place.maybe(options, "fuse_unk", bool)),
        dropout=dropout,
    )


def _check_type(options: Mapping[str, Any], place: Place) -> None:
    kind = options.get("type", "BPE" if {"vocab", "merges"} <= options.keys() else None)
    if kind != "BPE":
        place.refuse(f"has type {kind}; only BPE is supported; {_INSTEAD}")
    for key, empty in (("vocab", {}), ("merges", [])):
        if options.get(key) != empty:  # the core has removed valid ones
            place.refuse(f"has no valid {key}; download the file again")
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        if place.maybe(options, key, str):
            place.refuse(f"has {key} {options[key]!r}, which is not supported; {_INSTEAD}")


def _read_unk(options: Mapping[str, Any], names: Names, place: Place) -> int | None:
    unk = place.maybe(options, "unk_token", str)
    if unk is None:
        return None
    if unk not in (found := names.find([unk])):
        place.refuse(f"has unk_token {unk!r}, which is not in the vocabulary; set it to null")
    return found[unk]


def _shorten(
    names: Names, indexes: NDArray[np.int64], values: NDArray[np.uint8]
) -> tuple[bytes, NDArray[np.uint32]]:
    """Return data and lengths with one byte instead of each "<0xE4>"."""
    data = np.frombuffer(names.data, np.uint8).copy()
    starts = names.starts[indexes]
    data[starts] = values
    stays = np.ones(len(data), bool)
    stays[starts[:, None] + np.arange(1, 6)] = False
    lengths = names.lengths.copy()
    lengths[indexes] = 1
    return data[stays].tobytes(), lengths


def _check_merges(
    pairs: NDArray[np.uint32], kinds: NDArray[np.uint8], names: Names, unk: int | None, place: Place
) -> None:
    """Raise VocabularyError for merges of tokens that merging never sees."""
    is_odd = kinds != TOKEN
    if unk is not None:
        is_odd[unk] = True
    odd = np.flatnonzero(is_odd[pairs].any(axis=1))
    if len(odd):
        left, right = (names.name(int(index)) for index in pairs[odd[0]])
        place.refuse(
            f"has merge {odd[0]} of {left!r} and {right!r}, one of which is unk, a byte, or only "
            "decoded; remove the merge"
        )


# ── Post-processor ───────────────────────────────────────────────────────────────────────────


def read_template(post_processor: Any, place: Place) -> Template:
    """Return the template of a post_processor."""
    found = Template()
    has_items = False
    for name, part, at in flatten(post_processor, "processors", place.inside("post_processor")):
        trims = trim_prefix = False
        if name in ("ByteLevel", "RobertaProcessing"):
            options = {"add_prefix_space": bool, "trim_offsets": bool}
            trim_prefix, trims = at.fields(part, options)
        if name != "ByteLevel":
            if has_items:
                at.refuse("is a second template; remove one of them")
            single, pair = _read_items(name, part, at)
            found, has_items = replace(found, single=single, pair=pair), True
        if trims:
            if found.trims and trim_prefix != found.trim_prefix:
                at.refuse("trims offsets again in a different way; remove one of them")
            found = replace(found, trims=True, trim_prefix=trim_prefix)
    return found


def _read_items(
    name: str, part: dict[str, Any], place: Place
) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """Return the items around one text, and around two."""
    if name == "TemplateProcessing":
        special_tokens = place.get(part, "special_tokens", dict)
        known = {
            name: _read_special(special_tokens, name, place.inside("special_tokens"))
            for name in special_tokens
        }
        single, pair = (_read_sequence(part, key, known, place) for key in ("single", "pair"))
        return single, pair
    if name not in ("BertProcessing", "RobertaProcessing"):
        place.refuse(f"is {name!r}, which is not supported; set post_processor to null")
    start, end = (_read_end(part, key, place) for key in ("cls", "sep"))
    if name == "RobertaProcessing":
        template = surround_roberta(start, end)
        return template.single, template.pair
    single = (start, Item("A", 0, None), end)
    return single, (*single, Item("B", 1, None), replace(end, type_id=1))


def _read_special(special_tokens: dict[str, Any], name: str, place: Place) -> Item:
    special = place.get(special_tokens, name, dict)
    place = place.inside(name)
    place.get(special, "id", str)
    items = place.items(special, "ids", ITEMS_MAX), place.items(special, "tokens", ITEMS_MAX)
    ids = [place.inside("ids").number(one, _IDS.stop) for one in items[0]]
    tokens = [place.inside("tokens").check(one, str) for one in items[1]]
    if len(ids) != len(tokens):
        place.refuse(f"has {len(ids)} ids and {len(tokens)} tokens; write one token per id")
    return Item(name, 0, tuple(ids), tuple(tokens))


def _read_sequence(
    part: dict[str, Any], key: str, known: Mapping[str, Item], place: Place
) -> tuple[Item, ...]:
    items = place.items(part, key, ITEMS_MAX)
    place = place.inside(key)
    found = []
    for index, item in enumerate(items):
        at = place.inside(index)
        kind = next(iter(at.check(item, dict)), None)
        if len(item) != 1 or kind not in ("Sequence", "SpecialToken"):
            at.refuse("is neither a Sequence nor a SpecialToken; write one of them")
        value = at.get(item, kind, dict)
        name, type_id = at.fields(value, {"id": str, "type_id": _IDS})
        if kind == "Sequence" and name not in ("A", "B"):
            at.refuse(f"is sequence {name!r}; use A or B")
        if kind == "SpecialToken" and name not in known:
            at.refuse(f"has id {name!r}, which is not in special_tokens; add it there")
        special = Item(name, 0, None) if kind == "Sequence" else known[name]
        found.append(replace(special, type_id=type_id))
    return tuple(found)


def _read_end(part: dict[str, Any], key: str, place: Place) -> Item:
    pair = place.get(part, key, list)
    place = place.inside(key)
    if len(pair) != 2:
        place.refuse(f"must be a token and its id, got {shown(pair)}")
    token = place.check(pair[0], str)
    return Item(token, 0, (place.number(pair[1], _IDS.stop),), (token,))


# ── Writing ──────────────────────────────────────────────────────────────────────────────────


def write(spec: TokenizerSpec) -> bytes:
    """Return the file, which Hugging Face's tokenizers load to the same ids."""
    for token in spec.added:
        if token.literal:
            raise VocabularyError(
                f"{token.content!r} is a user-defined symbol of SentencePiece, for which Hugging "
                "Face has no equivalent; save to .model or .tokenmill"
            )
    names = names_of(spec.model)
    entries = entries_of(spec, names, has_added=spec.ranks is not None)
    pairs = write_merges(spec, names)
    stages = spec.stages
    if spec.ranks is not None and (scheme := name_of(pattern_text(spec))) is not None:
        stages = (_stage_of(scheme, pattern_text(spec)),)
    extra = spec.extra
    cutting = Cutting(spec.steps, spec.blank, spec.prefix, stages, spec.model.base)
    kept = extra.get("normalizer"), extra.get("pre_tokenizer")
    if not _reads_as(cutting, read_cutting, *kept):
        kept = _write_cutting(cutting)
    processor = extra.get("post_processor")
    if not _reads_as(spec.template, read_template, processor):
        processor = _write_template(spec.template)
    document = {
        "version": "1.0",
        "truncation": extra.get("truncation"),
        "padding": extra.get("padding"),
        "added_tokens": [_write_added(token) for token in sorted(spec.added, key=lambda t: t.id)],
        "normalizer": kept[0],
        "pre_tokenizer": kept[1],
        "post_processor": processor,
        "decoder": spec.decoder,
        "model": _write_options(spec.model, names, pairs, extra.get("model", {})),
    }
    head = json.dumps(document, ensure_ascii=False, indent=2)
    assert head.endswith("\n  }\n}")
    quote = json.encoder.encode_basestring
    vocab = ",\n".join([f"      {quote(name)}: {id_}" for name, id_ in entries.items()])
    merges = ",\n".join([f"      [{quote(a)}, {quote(b)}]" for a, b in pairs])
    tail = f',\n    "vocab": {{\n{vocab}\n    }},\n    "merges": [\n{merges}\n    ]\n  }}\n}}\n'
    try:
        return (head.removesuffix("\n  }\n}") + tail).encode()
    except UnicodeEncodeError:
        raise VocabularyError(
            "a token contains a lone surrogate, which is not valid in JSON; use valid Unicode"
        ) from None


def _reads_as(expected: object, read: Callable[..., object], *kept: Any) -> bool:
    """Return whether sections that were read earlier still have the expected meaning."""
    try:
        return read(*kept, Place("")) == expected
    except VocabularyError:
        return False


def _write_added(token: Added) -> dict[str, Any]:
    order = ("single_word", "lstrip", "rstrip", "normalized", "special")
    flags = {flag: getattr(token, flag) for flag in order}
    return {"id": token.id, "content": token.content, **flags}


def _stage_of(scheme: str, pattern: str) -> Stage:
    """Return the stage of a known pattern, as published models write it."""
    if scheme == "r50k":
        return BYTE_LEVEL
    if scheme == "cl100k":
        pattern = _CL100K
    # Oniguruma reads most of these patterns unchanged.
    return Stage(Pattern(to_oniguruma(pattern) if "++" in pattern else pattern), "isolated")


def _write_cutting(cutting: Cutting) -> tuple[Any, Any]:
    """Return a normalizer and a pre_tokenizer with the same effect."""
    prefix, stages = cutting.prefix, list(cutting.stages)
    normal = [part for step in cutting.steps for part in _write_step(step)]
    cuts = [_write_stage(stage) for stage in stages]
    has_metaspace = cutting.blank and (
        prefix.startswith("missing") or (prefix == "never" and _SPACED in stages)
    )
    if has_metaspace:
        splits = _SPACED in stages
        scheme = next(name for name, one in _PREFIXES.items() if one == prefix)
        metaspace = {"type": "Metaspace", "replacement": SPACE, "split": splits}
        at = stages.index(_SPACED) if splits else 0
        cuts[at : at + splits] = [{**metaspace, "prepend_scheme": scheme}]
    else:
        if prefix == "always":
            normal += _write_step(Prepend(SPACE if cutting.blank else " "))
        if cutting.blank:
            normal += _write_step(_ESCAPE)
    if cutting.base == "bytes" and any(stage.match == "spelled_digits" for stage in stages):
        if BYTE_LEVEL not in stages or prefix != "never":
            raise VocabularyError(
                "stages that split spelled bytes need ByteLevel's own pattern before them in a "
                "tokenizer.json; save to .tokenmill"
            )
        cuts[stages.index(BYTE_LEVEL)] = byte_level(False)
    elif cutting.base == "bytes":
        uses_regex = stages[-1:] == [BYTE_LEVEL]
        cuts[len(cuts) - uses_regex :] = [byte_level(prefix == "missing", uses_regex)]
    # Only the first component can put a space before the whole text.
    is_first = prefix == "missing" and cutting.base == "bytes" and len(cuts) == 1
    if prefix.startswith("missing") and not has_metaspace and not is_first:
        raise VocabularyError(
            f"a tokenizer.json cannot express a space before the text (prefix {prefix!r}) with "
            "these stages; save to .tokenmill"
        )
    return _sequence(normal, "normalizers"), _sequence(cuts, "pretokenizers")


def _sequence(parts: list[dict[str, Any]], inner: str) -> Any:
    return {"type": "Sequence", inner: parts} if len(parts) > 1 else (parts[0] if parts else None)


def _write_step(step: Step) -> list[dict[str, Any]]:
    match step:
        case Form(name):
            return [{"type": name}]
        case Lower():
            return [{"type": "Lowercase"}]
        case Prepend(text):
            return [{"type": "Prepend", "prepend": text}]
        case Strip(left, right):
            return [{"type": "Strip", "strip_left": left, "strip_right": right}]
        case Replace(match, content):
            return [{"type": "Replace", "pattern": _write_pattern(match), "content": content}]
        case Squeeze():
            ends = Replace(Pattern(r"\A +| +\z"), "")
            return [*_write_step(ends), *_write_step(Replace(Pattern(" {2,}"), " "))]
        case Charsmap(data, True):
            text = base64.b64encode(data).decode()
            return [{"type": "Precompiled", "precompiled_charsmap": text}]
        case Charsmap():
            raise VocabularyError(
                "Hugging Face applies a character map in another way than SentencePiece, so the "
                "ids would differ; save to .model or .tokenmill"
            )


def _write_pattern(match: Pattern | Literally) -> dict[str, str]:
    if isinstance(match, Literally):
        return {"String": match.text}
    return {"Regex": match.text if match.dialect == "oniguruma" else to_oniguruma(match.text)}


def _write_stage(stage: Stage) -> dict[str, Any]:
    behaviour = next(name for name, own in _BEHAVIOURS.items() if own == stage.behaviour)
    if isinstance(stage.match, Pattern | Literally):
        part = {"type": "Split", "pattern": _write_pattern(stage.match), "behavior": behaviour}
        return {**part, "invert": stage.invert}
    match stage.match, stage.behaviour, stage.invert:
        case "digits" | "spelled_digits", "isolated" | "contiguous", False:
            return {"type": "Digits", "individual_digits": stage.behaviour == "isolated"}
        case "punctuation", _, False:
            return {"type": "Punctuation", "behavior": behaviour}
        case "space", "removed", False:
            return {"type": "WhitespaceSplit"}
    raise VocabularyError(
        f"a tokenizer.json cannot express a stage of {cast(str, stage.match)!r} with "
        f"{stage.behaviour!r}; save to .tokenmill"
    )


def _write_options(
    model: Model, names: list[str], merges: list[tuple[str, str]], kept: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the model without its tokens and merges."""
    unk = None
    if model.unk is not None:
        unk = names[int(np.flatnonzero(model.ids == model.unk)[0])]
    has_fallback = model.missing == "bytes"
    if kept.get("byte_fallback") and not any(name.startswith("<0x") for name in names):
        has_fallback = True  # has no effect, as in the file that was read
    return {
        "type": "BPE",
        "dropout": model.dropout,
        "unk_token": unk,
        # Null or empty, because other values are rejected when they are read.
        "continuing_subword_prefix": kept.get("continuing_subword_prefix"),
        "end_of_word_suffix": kept.get("end_of_word_suffix"),
        "fuse_unk": model.fuse_unk,
        "byte_fallback": has_fallback,
        "ignore_merges": ignores_merges(model, names, merges),
    }


def ignores_merges(model: Model, names: list[str], merges: list[tuple[str, str]]) -> bool:
    """Return the value of ignore_merges: false if merges produce every token anyway."""
    if not model.whole or model.merges is not None or model.base != "bytes":
        return model.whole
    made = {left + right for left, right in merges}
    longer = np.flatnonzero((model.kinds == TOKEN) & (model.lengths > 1)).tolist()
    return any(names[index] not in made for index in longer)


def write_merges(spec: TokenizerSpec, names: list[str]) -> list[tuple[str, str]]:
    """Return the merges in order, as pairs of names. Derive them if the model has none."""
    model = spec.model
    if model.merges is not None:
        return [(names[left], names[right]) for left, right in model.merges.tolist()]
    order = model.ids if model.order is None else model.order
    indexes = np.flatnonzero((model.kinds == TOKEN) & (model.lengths > 0))
    if model.base != "bytes":
        ranked = sorted(indexes.tolist(), key=lambda index: (order[index], model.ids[index]))
        return _all_splits([(int(order[index]), names[index]) for index in ranked])
    if spec.ranks is None:
        tokens = model.tokens()
        pairs = find_merges({int(order[index]): tokens[index] for index in indexes.tolist()})
    else:
        pairs = merges_of(spec)
    return [(spell(left), spell(right)) for left, right in pairs]


def _all_splits(ranked: list[tuple[int, str]]) -> list[tuple[str, str]]:
    """Return every two pieces whose concatenation is a piece, in the order of these."""
    pieces = {name for _, name in ranked}
    merges: list[tuple[str, str]] = []
    last: tuple[int, str] | None = None
    for rank, name in ranked:
        halves = ((name[:at], name[at:]) for at in range(1, len(name)))
        splits = [(left, right) for left, right in halves if left in pieces and right in pieces]
        if splits:
            if last is not None and last[0] == rank and len({*last[1], *name}) > 1:
                raise VocabularyError(
                    f"pieces {last[1]!r} and {name!r} have the same score, and merges of a "
                    "tokenizer.json have an order; save to .model or .tokenmill"
                )
            last = rank, name
        merges += splits
    return merges


def _write_template(template: Template) -> Any:
    """Return a post_processor with the same effect, or None."""
    parts: list[dict[str, Any]] = []
    if template.trims:
        parts.append(byte_level(template.trim_prefix))
    if (template.single, template.pair) != (Template().single, Template().pair):
        special_tokens = {
            item.name: {"id": item.name, "ids": list(item.ids), "tokens": list(item.tokens)}
            for item in (*template.single, *template.pair)
            if item.ids is not None
        }
        parts.append(
            {
                "type": "TemplateProcessing",
                "single": [_write_item(item) for item in template.single],
                "pair": [_write_item(item) for item in template.pair],
                "special_tokens": special_tokens,
            }
        )
    return _sequence(parts, "processors")


def _write_item(item: Item) -> dict[str, Any]:
    kind = "Sequence" if item.ids is None else "SpecialToken"
    return {kind: {"id": item.name, "type_id": item.type_id}}
