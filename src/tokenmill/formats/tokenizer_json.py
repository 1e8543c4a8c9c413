"""tokenizer.json ↔ TokenizerSpec: Hugging Face's format, byte-level and SentencePiece-like models.

The core reads tokens and merges. A file is rejected if Hugging Face reads it differently from how
it looks, or if its ids cannot be reproduced exactly. Sections that encoding does not use are kept
in `extra` and written again.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import VocabularyError
from tokenmill.formats.checks import Place, flatten, parse, shown
from tokenmill.formats.names import Names, entries_of, names_of, spell
from tokenmill.formats.ranks import find_merges, merges_of, pattern_text
from tokenmill.formats.spec import (
    BYTE,
    DECODED,
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
)
from tokenmill.native import _native
from tokenmill.patterns.oniguruma import to_oniguruma
from tokenmill.patterns.schemes import GPT2, Literally, Pattern, Stage, name_of

BYTES_MAX = 256 << 20
ADDED_MAX = 1 << 17
CONTENT_BYTES_MAX = 4096

_KEPT = ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor")
_KEYS = (*_KEPT, "version", "added_tokens", "decoder", "model")
_FLAGS = ("special", "lstrip", "rstrip", "single_word", "normalized")
_DECODERS = ("ByteLevel", "ByteFallback", "Replace", "Fuse", "Strip", "Metaspace", "BPEDecoder")


def read(data: bytes, source: str) -> TokenizerSpec:
    """The spec of a file; `source` is its name for errors."""
    place = Place(source)
    if len(data) > BYTES_MAX:
        place.refuse(f"has {len(data):,} bytes: too large for a tokenizer.json")
    try:
        found = _native.read_model(data, secrets.randbits(64))
    except VocabularyError as error:
        place.refuse(f"is no tokenizer.json that can be loaded: {error}")
    rest, data, lengths, ids, merges, unmade = found
    document = place.check(parse(rest, place), dict)
    _check_keys(document, place)
    cutting = read_cutting(document.get("normalizer"), document.get("pre_tokenizer"), place)
    names = Names(data, lengths, ids)
    options = place.check(document["model"], dict)
    model = read_model(options, names, np.asarray(merges), unmade, cutting, place)
    for name, _, at in flatten(document.get("decoder"), "decoders", place.inside("decoder")):
        if name not in _DECODERS:
            at.refuse(f"is {name!r}, which is not run here; there are {', '.join(_DECODERS)}")
    added = _read_added(document.get("added_tokens", []), names, place.inside("added_tokens"))
    pre_tokenizer = document.get("pre_tokenizer")
    check_normalized(added, cutting.blank, cutting.steps, pre_tokenizer, place)
    extra = {key: document[key] for key in _KEPT if document.get(key) is not None}
    extra["model"] = {k: v for k, v in options.items() if k not in ("vocab", "merges")}
    return TokenizerSpec(
        model,
        added,
        cutting.steps,
        cutting.blank,
        cutting.prefix,
        cutting.stages,
        read_template(document.get("post_processor"), place),
        document.get("decoder"),
        extra,
    )


def _check_keys(document: Mapping[str, Any], place: Place) -> None:
    if "model" not in document:
        place.refuse("has no model, so it is not a tokenizer.json")
    unknown = [key for key in document if key not in _KEYS]
    if unknown:
        place.refuse(f"has a part {unknown[0]!r}, which no tokenizer.json has; remove it")
    if document.get("version", "1.0") != "1.0":
        place.refuse(f"has version {document['version']!r} of the format; 1.0 is known")
    check_lengths(document, place)
    place.inside("added_tokens").check(document.get("added_tokens", []), list)


def check_normalized(
    added: tuple[Added, ...],
    blank: bool,
    before: tuple[Step, ...],
    pre_tokenizer: Any,
    place: Place,
) -> None:
    """Refuses normalised tokens for which a blank and "▁" are not the same, where they are so here.

    Metaspace rewrites blanks only after such tokens were looked for; a normaliser does it before,
    so that no white space is left that they could take.
    """
    if not blank:
        return
    is_late = "Metaspace" in json.dumps(pre_tokenizer)
    writes_blanks = any(isinstance(step, Prepend | Replace) for step in before)
    for token in added:
        if not token.normalized:
            continue
        if is_late and (writes_blanks or " " in token.content or SPACE in token.content):
            place.inside("added_tokens").refuse(
                f"hold {token.content!r}, which is normalised and holds a blank; beside Metaspace "
                "that is not done here: set its normalized to false"
            )
        if not is_late and (token.lstrip or token.rstrip):
            place.inside("added_tokens").refuse(
                f"hold {token.content!r}, which is normalised and takes white space beside it, of "
                "which the normaliser makes '▁'; set its normalized, or lstrip and rstrip, to false"
            )


def _read_added(tokens: list[Any], names: Names, place: Place) -> tuple[Added, ...]:
    """Added tokens with the ids that Hugging Face gives them, which must be those of the file.

    It takes the id of the vocabulary, and else the next free one behind all others, whatever the
    file says.
    """
    if len(tokens) > ADDED_MAX:
        place.refuse(f"are {len(tokens):,}; up to {ADDED_MAX:,} can be loaded")
    read_tokens = [_read_token(token, place.inside(f"[{i}]")) for i, token in enumerate(tokens)]
    known = names.find({token.content for token in read_tokens})
    taken: set[int] | None = None
    found: dict[str, Added] = {}
    largest = -1
    for token in read_tokens:
        if not token.content:
            continue
        if token.content in known:
            id_ = int(names.ids[known[token.content]])
        elif token.content in found:
            id_ = found[token.content].id
        else:
            id_ = max(len(names.ids), largest + 1)
            taken = set(names.ids.tolist()) if taken is None else taken
            if id_ in taken:
                place.refuse(
                    f"hold {token.content!r}, to which Hugging Face gives id {id_}, and so has "
                    "another token; put it into model.vocab with an id of its own"
                )
        if id_ != token.id:
            place.refuse(
                f"say that {token.content!r} has id {token.id}, and Hugging Face gives it "
                f"{id_}; write the one that is meant, with the token in model.vocab"
            )
        largest = max(largest, id_)
        found[token.content] = token
    return tuple(sorted(found.values(), key=lambda token: token.id))


def _read_token(value: Any, place: Place) -> Added:
    token = place.check(value, dict)
    content = place.get(token, "content", str)
    if len(content.encode()) > CONTENT_BYTES_MAX:
        place.refuse(f"has {len(content.encode())} bytes; up to {CONTENT_BYTES_MAX} can be loaded")
    id_ = place.get(token, "id", int)
    return Added(content, id_, *(place.get(token, flag, bool) for flag in _FLAGS))


# ── Writing ──────────────────────────────────────────────────────────────────────────────────


def write(spec: TokenizerSpec) -> bytes:
    """The file that Hugging Face's tokenizers load to the same ids."""
    for token in spec.added:
        if token.literal:
            raise VocabularyError(
                f"{token.content!r} is found as SentencePiece finds user-defined symbols, and "
                "Hugging Face finds no tokens like that; save to .model or .tokenmill"
            )
    names = names_of(spec.model)
    entries = entries_of(spec, names, has_added=spec.ranks is not None)
    pairs = write_merges(spec, names)
    stages = spec.stages
    if spec.ranks is not None and (scheme := name_of(pattern_text(spec))) is not None:
        stages = (of_scheme(scheme, pattern_text(spec)),)
    cutting = Cutting(spec.steps, spec.blank, spec.prefix, stages, spec.model.base)
    normalizer, pre_tokenizer = _kept_cutting(spec.extra, cutting) or write_cutting(cutting)
    document = {
        "version": "1.0",
        "truncation": spec.extra.get("truncation"),
        "padding": spec.extra.get("padding"),
        "added_tokens": [
            _write_added(token) for token in sorted(spec.added, key=lambda token: token.id)
        ],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": _kept_template(spec),
        "decoder": spec.decoder,
        "model": write_options(spec.model, names, pairs, spec.extra.get("model", {})),
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
        raise VocabularyError("a token holds a lone surrogate, which JSON cannot hold") from None


def _kept_cutting(extra: Mapping[str, Any], cutting: Cutting) -> tuple[Any, Any] | None:
    """What was read, if it still says the same."""
    kept = extra.get("normalizer"), extra.get("pre_tokenizer")
    try:
        return kept if read_cutting(*kept, Place("")) == cutting else None
    except VocabularyError:
        return None


def _kept_template(spec: TokenizerSpec) -> Any:
    kept = spec.extra.get("post_processor")
    try:
        is_same = read_template(kept, Place("")) == spec.template
    except VocabularyError:
        is_same = False
    return kept if is_same else write_template(spec.template)


def _write_added(token: Added) -> dict[str, Any]:
    order = ("single_word", "lstrip", "rstrip", "normalized", "special")
    flags = {flag: getattr(token, flag) for flag in order}
    return {"id": token.id, "content": token.content, **flags}


_DIRECTIONS = ("Left", "Right")
_STRATEGIES = ("LongestFirst", "OnlyFirst", "OnlySecond")
_SIZE_END = 1 << 64
_ID_END = 1 << 32


def check_lengths(document: Mapping[str, Any], place: Place) -> None:
    """Refuses sections that are not as they should be."""
    truncation = place.maybe(document, "truncation", dict)
    if truncation is not None:
        _check_truncation(truncation, place.inside("truncation"))
    padding = place.maybe(document, "padding", dict)
    if padding is not None:
        _check_padding(padding, place.inside("padding"))


def _check_truncation(values: Mapping[str, Any], place: Place) -> None:
    _check_number(values, "max_length", _SIZE_END, place)
    _check_number(values, "stride", _SIZE_END, place)
    _check_choice(values, "strategy", _STRATEGIES, place)
    if "direction" in values:
        _check_choice(values, "direction", _DIRECTIONS, place)


def _check_padding(values: Mapping[str, Any], place: Place) -> None:
    strategy = values.get("strategy")
    if isinstance(strategy, dict) and strategy.keys() == {"Fixed"}:
        _check_number(strategy, "Fixed", _SIZE_END, place.inside("strategy"))
    elif strategy != "BatchLongest":
        place.inside("strategy").refuse(
            f'is {shown(strategy)}; there are BatchLongest and {{"Fixed": 128}}'
        )
    _check_choice(values, "direction", _DIRECTIONS, place)
    if values.get("pad_to_multiple_of") is not None:
        _check_number(values, "pad_to_multiple_of", _SIZE_END, place)
    _check_number(values, "pad_id", _ID_END, place)
    _check_number(values, "pad_type_id", _ID_END, place)
    place.get(values, "pad_token", str)


def _check_number(values: Mapping[str, Any], key: str, end: int, place: Place) -> None:
    found = place.get(values, key, int)
    if not 0 <= found < end:
        place.inside(key).refuse(f"is {found}; it must be 0 or more, and less than {end}")


def _check_choice(
    values: Mapping[str, Any], key: str, choices: tuple[str, ...], place: Place
) -> None:
    found = place.get(values, key, str)
    if found not in choices:
        place.inside(key).refuse(f"is {shown(found)}; there are {', '.join(choices)}")


SPACE = "▁"
# What ByteLevel splits by, unless it is told not to: r50k.
BYTE_LEVEL = Stage(Pattern(GPT2), "isolated")
# Whitespace's words are those of Rust's regular expressions: the joiners are letters there.
WORDS = Stage(Pattern(r"[\w\x{200C}\x{200D}]+|[^\w\s\x{200C}\x{200D}]+"), "removed", True)
_SPACED = Stage(Literally(SPACE), "merged_with_next")
_FOLDED = Replace(Literally(" "), SPACE)

_BEHAVIOURS = {
    "Isolated": "isolated",
    "Removed": "removed",
    "MergedWithPrevious": "merged_with_previous",
    "MergedWithNext": "merged_with_next",
    "Contiguous": "contiguous",
}
# Patterns of schemes as models that use them write them for Oniguruma.
_SPELLINGS = {
    "cl100k": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s+\z|\s*[\r\n]|\s+(?!\S)|\s"
    ),
}
_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
_ASCII_DIGITS = re.compile(r"(?:\[0-9\]|\{[0-9]+(?:,[0-9]*)?\}|\+)+")
_ELSEWHERE = "encode with Hugging Face's tokenizers instead"


@dataclass(frozen=True, slots=True)
class Cutting:
    """How a text becomes pieces, and what merging starts with."""

    steps: tuple[Step, ...] = ()
    blank: bool = False
    prefix: Prefix = "never"
    stages: tuple[Stage, ...] = ()
    base: Literal["bytes", "characters"] = "characters"


def read_cutting(normalizer: Any, pre_tokenizer: Any, place: Place) -> Cutting:
    """What the two parts say together."""
    steps, is_spelled = read_normalizer(normalizer, place.inside("normalizer"))
    found = _Stages(flatten(pre_tokenizer, "pretokenizers", place.inside("pre_tokenizer")))
    if is_spelled:
        if found.parts:
            place.inside("normalizer").refuse(
                "is ByteLevel, and its characters are split again by the pre_tokenizer, which is "
                f"not done here; {_ELSEWHERE}"
            )
        return Cutting(steps, base="bytes")
    found.read()
    cutting = Cutting(steps, found.blank, found.prefix, tuple(found.stages), found.base)
    return _fold(cutting) if cutting.base == "characters" and not cutting.blank else cutting


def _fold(cutting: Cutting) -> Cutting:
    """A normaliser that ends in " " → "▁" as `blank`, if the stages behind it allow that."""
    steps = list(cutting.steps)
    prefix: Prefix = "never"
    if steps[-2:] in ([Prepend(SPACE), _FOLDED], [_FOLDED, Prepend(SPACE)]):
        del steps[-2:]
        prefix = "always"
    elif steps[-1:] == [_FOLDED]:
        del steps[-1]
    else:
        return cutting
    # No blank is left, so a split at one does nothing: Gemma has such a split.
    stages = tuple(stage for stage in cutting.stages if not _is_idle(stage))
    if not all(_ignores_blanks(stage) or _is_spaced(stage) for stage in stages):
        return cutting
    return Cutting(tuple(steps), True, prefix, stages, "characters")


def _is_idle(stage: Stage) -> bool:
    return isinstance(stage.match, Literally) and " " in stage.match.text and not stage.invert


def _is_spaced(stage: Stage) -> bool:
    return isinstance(stage.match, Literally) and " " not in stage.match.text


def _ignores_blanks(stage: Stage) -> bool:
    """Whether it is the same to a stage if a blank is written as "▁" or as it is."""
    if isinstance(stage.match, Literally):
        return " " not in stage.match.text and SPACE not in stage.match.text
    return stage.match in ("digits", "punctuation")


def read_normalizer(normalizer: Any, place: Place) -> tuple[tuple[Step, ...], bool]:
    """The steps, and whether the last one shows bytes as characters."""
    steps: list[Step] = []
    parts = flatten(normalizer, "normalizers", place)
    for index, (name, part, at) in enumerate(parts):
        if name == "ByteLevel":
            if index < len(parts) - 1:
                at.refuse(f"is ByteLevel, which is only run as the last step; {_ELSEWHERE}")
            return tuple(steps), True
        step = _read_step(name, part, at)
        if step != Prepend(""):  # which does nothing
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
            left = place.get(part, "strip_left", bool)
            return Strip(left, place.get(part, "strip_right", bool))
        case "Replace":
            match = _read_pattern(part, place)
            return Replace(match, place.get(part, "content", str))
        case "Precompiled":
            data = place.get(part, "precompiled_charsmap", str)
            try:
                return Charsmap(base64.b64decode(data, validate=True), True)
            except binascii.Error as error:
                place.refuse(f"is not base64 ({error}); load it from where it came once more")
    raise place.error(f"is {name!r}, which is not run here; {_ELSEWHERE}")


def _read_pattern(part: dict[str, Any], place: Place) -> Pattern | Literally:
    pattern = place.get(part, "pattern", dict)
    place = place.inside("pattern")
    if len(pattern) != 1 or next(iter(pattern)) not in ("String", "Regex"):
        place.refuse(f'is {pattern!r}; write {{"String": …}} or {{"Regex": …}}')
    text = place.get(pattern, next(iter(pattern)), str)
    if not text:
        place.refuse("is empty and so matches everywhere; leave this part out")
    return Pattern(text) if "Regex" in pattern else Literally(text)


class _Stages:
    """A pre_tokenizer as it is read, part by part."""

    def __init__(self, parts: list[tuple[str, dict[str, Any], Place]]) -> None:
        self.parts = parts
        self.stages: list[Stage] = []
        self.prefix: Prefix = "never"
        self.blank = False
        self.base: Literal["bytes", "characters"] = "characters"

    def read(self) -> None:
        for name, part, place in self.parts:
            if self.base == "bytes":
                self.stages.append(_read_spelled(name, part, place))
            elif name == "ByteLevel":
                self._read_byte_level(part, place)
            elif name == "Metaspace":
                self._read_metaspace(part, place)
            else:
                self.stages.append(read_stage(name, part, place))
        if not self.blank:
            return
        for stage in self.stages:
            if stage != _SPACED and not _ignores_blanks(stage):
                self._refuse_beside_metaspace()

    def _refuse_beside_metaspace(self) -> NoReturn:
        names = ", ".join(name for name, _, _ in self.parts)
        self.parts[0][2].refuse(
            f"is {names}: Metaspace beside a part that sees blanks is not done here; {_ELSEWHERE}"
        )

    def _read_byte_level(self, part: dict[str, Any], place: Place) -> None:
        adds_blank = place.get(part, "add_prefix_space", bool)
        place.get(part, "trim_offsets", bool)  # only post_processor's counts
        uses_pattern = place.inside("use_regex").check(part.get("use_regex", True), bool)
        if self.blank:
            self._refuse_beside_metaspace()
        if adds_blank:
            self._take_prefix("missing", place)
        if uses_pattern:
            self.stages.append(BYTE_LEVEL)
        self.base = "bytes"

    def _take_prefix(self, prefix: Prefix, place: Place) -> None:
        if self.stages:
            place.refuse(
                "puts a blank in front of every piece of the part before it, which is not done "
                f"here; set its add_prefix_space to false, or {_ELSEWHERE}"
            )
        self.prefix = prefix

    def _read_metaspace(self, part: dict[str, Any], place: Place) -> None:
        replacement = place.get(part, "replacement", str)
        if replacement != SPACE:
            place.refuse(f"shows a blank as {replacement!r}; only {SPACE!r} is run here")
        scheme = part.get("prepend_scheme", "always")
        prefixes: dict[object, Prefix] = {
            "always": "missing",
            "first": "missing_first",
            "never": "never",
        }
        if not isinstance(scheme, str) or scheme not in prefixes:
            place.refuse(f"has prepend_scheme {scheme!r}; there are always, first and never")
        if place.maybe(part, "add_prefix_space", bool) is False and scheme != "never":
            place.refuse(
                f"has add_prefix_space false and prepend_scheme {scheme!r}; write one of them, as "
                "Hugging Face wants it"
            )
        if self.blank:
            place.refuse("is a second Metaspace; leave it out")
        if scheme != "never":
            self._take_prefix(prefixes[scheme], place)
        self.blank = True
        if place.maybe(part, "split", bool) is not False:
            self.stages.append(_SPACED)


def _read_spelled(name: str, part: dict[str, Any], place: Place) -> Stage:
    """A stage behind ByteLevel, which sees bytes as they are shown; Falcon has two."""
    stage = read_stage(name, part, place) if name in ("Digits", "Split") else None
    if stage is not None and stage.match == "digits":
        return replace(stage, match="spelled_digits")
    # Digits of ASCII are shown as themselves, and nothing else is shown as them.
    match = None if stage is None else stage.match
    if stage is not None and isinstance(match, Pattern) and _ASCII_DIGITS.fullmatch(match.text):
        return stage
    raise place.error(
        f"is {name} behind ByteLevel, where it would cut characters into bytes; {_ELSEWHERE}"
    )


def read_stage(name: str, part: dict[str, Any], place: Place) -> Stage:
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
            return WORDS
        case "WhitespaceSplit":
            return Stage("space", "removed")
        case "CharDelimiterSplit":
            delimiter = place.get(part, "delimiter", str)
            if len(delimiter) != 1:
                place.refuse(f"has delimiter {delimiter!r}; it is one character")
            return Stage(Literally(delimiter), "removed")
    raise place.error(f"is {name!r}, which is not run here; {_ELSEWHERE}")


def _read_behaviour(name: Any, place: Place) -> Any:
    if not isinstance(name, str) or name not in _BEHAVIOURS:
        place.refuse(f"has behavior {name!r}; there are {', '.join(_BEHAVIOURS)}")
    return _BEHAVIOURS[name]


# ── Writing ──────────────────────────────────────────────────────────────────────────────────


def write_cutting(cutting: Cutting) -> tuple[Any, Any]:
    """A normalizer and a pre_tokenizer that say the same."""
    normal = [part for step in cutting.steps for part in _write_step(step)]
    stages = list(cutting.stages)
    cuts = [_write_stage(stage) for stage in stages]
    has_metaspace = False
    if cutting.blank:
        has_metaspace = cutting.prefix.startswith("missing") or (
            cutting.prefix == "never" and _SPACED in stages
        )
        if has_metaspace:
            at = stages.index(_SPACED) if _SPACED in stages else 0
            cuts[at : at + (_SPACED in stages)] = [_write_metaspace(cutting)]
        else:
            normal += [{"type": "Prepend", "prepend": SPACE}] * (cutting.prefix == "always")
            normal += _write_step(_FOLDED)
    elif cutting.prefix == "always":
        normal += _write_step(Prepend(" "))
    if cutting.base == "bytes" and any(stage.match == "spelled_digits" for stage in stages):
        if BYTE_LEVEL not in stages or cutting.prefix != "never":
            raise VocabularyError(
                "stages that see bytes as they are shown are written to a tokenizer.json only "
                "behind ByteLevel's own pattern; save to .tokenmill"
            )
        cuts[stages.index(BYTE_LEVEL)] = _write_byte_level(False, True)
    elif cutting.base == "bytes":
        uses_pattern = stages[-1:] == [BYTE_LEVEL]
        cuts[len(cuts) - uses_pattern :] = [
            _write_byte_level(cutting.prefix == "missing", uses_pattern)
        ]
    # Only the first part can put a blank in front of the whole text.
    is_last = cutting.prefix == "missing" and cutting.base == "bytes" and len(cuts) == 1
    if cutting.prefix.startswith("missing") and not has_metaspace and not is_last:
        raise VocabularyError(
            f"a blank in front of a text (prefix {cutting.prefix!r}) with these stages is nothing "
            "that a tokenizer.json can say; save to .tokenmill"
        )
    return _sequence(normal, "normalizers"), _sequence(cuts, "pretokenizers")


def of_scheme(scheme: str, pattern: str) -> Stage:
    """The stage of a scheme, whose pattern leaves nothing out, as models that use it have it."""
    if scheme == "r50k":  # the one that ByteLevel has built in
        return BYTE_LEVEL
    # Oniguruma reads most of these patterns as they are.
    spelling = to_oniguruma(pattern) if "++" in pattern else pattern
    return Stage(Pattern(_SPELLINGS.get(scheme, spelling)), "isolated")


def _write_metaspace(cutting: Cutting) -> dict[str, Any]:
    schemes = {"missing": "always", "missing_first": "first", "never": "never"}
    part = {"type": "Metaspace", "replacement": SPACE, "split": _SPACED in cutting.stages}
    return {**part, "prepend_scheme": schemes[cutting.prefix]}


def _sequence(parts: list[dict[str, Any]], inner: str) -> Any:
    return {"type": "Sequence", inner: parts} if len(parts) > 1 else (parts[0] if parts else None)


def _write_byte_level(adds_blank: bool, uses_pattern: bool) -> dict[str, Any]:
    part = {"type": "ByteLevel", "add_prefix_space": adds_blank, "trim_offsets": True}
    return {**part, "use_regex": uses_pattern}


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
                "Hugging Face applies a map of characters in another way than SentencePiece, so no "
                "tokenizer.json gives the same ids; save to .model or .tokenmill"
            )


def _write_pattern(match: Pattern | Literally) -> dict[str, str]:
    if isinstance(match, Literally):
        return {"String": match.text}
    return {"Regex": match.text if match.dialect == "oniguruma" else to_oniguruma(match.text)}


def _write_stage(stage: Stage) -> dict[str, Any]:
    behaviour = next(name for name, own in _BEHAVIOURS.items() if own == stage.behaviour)
    if isinstance(stage.match, Pattern | Literally):
        pattern = _write_pattern(stage.match)
        part = {"type": "Split", "pattern": pattern, "behavior": behaviour}
        return {**part, "invert": stage.invert}
    match stage.match, stage.behaviour, stage.invert:
        case "digits" | "spelled_digits", "isolated" | "contiguous", False:
            return {"type": "Digits", "individual_digits": stage.behaviour == "isolated"}
        case "punctuation", _, False:
            return {"type": "Punctuation", "behavior": behaviour}
        case "space", "removed", False:
            return {"type": "WhitespaceSplit"}
    raise VocabularyError(
        f"a stage of {cast(str, stage.match)!r} with {stage.behaviour!r} is nothing that a "
        "tokenizer.json can say; save to .tokenmill"
    )


def read_model(
    options: dict[str, Any],
    names: Names,
    merges: NDArray[np.uint32],
    unmade: int,
    cutting: Cutting,
    place: Place,
) -> Model:
    """The model of a file whose tokens and merges the core has read."""
    place = place.inside("model")
    _check_type(options, place)
    dropout = place.maybe(options, "dropout", float)
    if dropout is not None and not 0 <= dropout <= 1:
        place.refuse(f"has dropout {dropout}: Dropout should be between 0 and 1, inclusive")
    pairs = merges.reshape(-1, 2)
    if unmade >= 0:
        left, right = (names.name(int(part)) for part in pairs[unmade])
        place.refuse(
            f"has merge {unmade} of {left!r} and {right!r}, and {left + right!r} is not in its "
            "vocabulary; add it there"
        )
    data, lengths, kinds = names.data, names.lengths, np.zeros(len(names.ids), np.uint8)
    if cutting.base == "bytes":
        data, read_lengths, read_kinds = _native.read_spelling(names.data, names.lengths)
        lengths, kinds = np.asarray(read_lengths), np.asarray(read_kinds)
    elif cutting.blank:
        # A blank is "▁" where these are looked for.
        blanks = np.flatnonzero(np.frombuffer(data, np.uint8) == ord(" "))
        kinds[np.searchsorted(names.ends, blanks, "right")] = DECODED
    kinds[lengths == 0] = DECODED
    unk = _read_unk(options, names, place)
    missing: Literal["drop", "unk", "bytes"] = "drop" if unk is None else "unk"
    if place.maybe(options, "byte_fallback", bool):
        places, values = names.byte_tokens()
        if cutting.base == "bytes":
            if len(places) and np.count_nonzero((lengths == 1) & (kinds == TOKEN)) < 256:
                place.refuse(
                    "is byte-level, lacks tokens of single bytes, and has byte_fallback; set it to "
                    "false"
                )
        elif len(places) == 256:
            missing = "bytes"
            data, lengths = _shorten(names, places, values)
            kinds[places] = BYTE
        elif len(places):
            place.refuse(
                f"has byte_fallback and {len(places)} of the 256 tokens <0x00> to <0xFF>, with "
                "which Hugging Face gives tokens in a wrong order; add the others"
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
        place.refuse(
            f"is {'of no type' if kind is None else kind}, and tokenmill reads BPE; encode with "
            "Hugging Face's tokenizers"
        )
    for key, empty in (("vocab", {}), ("merges", [])):
        if options.get(key) != empty:  # the core has left nothing of them
            place.refuse(f"has no {key} as BPE has them; load it from where it came once more")
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        if place.maybe(options, key, str):
            place.refuse(
                f"has {key} {options[key]!r}, which is not run here; encode with Hugging Face's "
                "tokenizers"
            )


def _read_unk(options: Mapping[str, Any], names: Names, place: Place) -> int | None:
    unk = place.maybe(options, "unk_token", str)
    if unk is None:
        return None
    if unk not in (found := names.find([unk])):
        place.refuse(f"has unk_token {unk!r}, which is not in its vocabulary; set it to null")
    return found[unk]


def _shorten(
    names: Names, places: NDArray[np.int64], values: NDArray[np.uint8]
) -> tuple[bytes, NDArray[np.uint32]]:
    """Names with one byte in place of each "<0xE4>"."""
    data = np.frombuffer(names.data, np.uint8).copy()
    starts = names.starts[places]
    data[starts] = values
    stays = np.ones(len(data), bool)
    stays[starts[:, None] + np.arange(1, 6)] = False
    lengths = names.lengths.copy()
    lengths[places] = 1
    return data[stays].tobytes(), lengths


def _check_merges(
    pairs: NDArray[np.uint32], kinds: NDArray[np.uint8], names: Names, unk: int | None, place: Place
) -> None:
    """Refuses merges of tokens that are no symbols of a text."""
    is_odd = kinds != TOKEN
    if unk is not None:
        is_odd[unk] = True
    odd = np.flatnonzero(is_odd[pairs].any(axis=1))
    if len(odd):
        left, right = (names.name(int(part)) for part in pairs[odd[0]])
        place.refuse(
            f"has merge {odd[0]} of {left!r} and {right!r}, of which one is no text (unk, a byte, "
            "or only decoded); remove the merge"
        )


# ── Writing ──────────────────────────────────────────────────────────────────────────────────


def write_options(
    model: Model, names: list[str], merges: list[tuple[str, str]], kept: Mapping[str, Any]
) -> dict[str, Any]:
    """All of the model but its tokens and merges."""
    unk = None
    if model.unk is not None:
        unk = names[int(np.flatnonzero(model.ids == model.unk)[0])]
    has_fallback = model.missing == "bytes"
    if kept.get("byte_fallback") and not any(name.startswith("<0x") for name in names):
        has_fallback = True  # which did nothing before, either
    return {
        "type": "BPE",
        "dropout": model.dropout,
        "unk_token": unk,
        # Null or empty: others are not read.
        "continuing_subword_prefix": kept.get("continuing_subword_prefix"),
        "end_of_word_suffix": kept.get("end_of_word_suffix"),
        "fuse_unk": model.fuse_unk,
        "byte_fallback": has_fallback,
        "ignore_merges": ignores_merges(model, names, merges),
    }


def ignores_merges(model: Model, names: list[str], merges: list[tuple[str, str]]) -> bool:
    """Whether pretokens are taken whole: not where ranks make every token of their merges, so that
    it would change nothing."""
    if not model.whole or model.merges is not None or model.base != "bytes":
        return model.whole
    made = {left + right for left, right in merges}
    longer = np.flatnonzero((model.kinds == TOKEN) & (model.lengths > 1)).tolist()
    return any(names[place] not in made for place in longer)


def write_merges(spec: TokenizerSpec, names: list[str]) -> list[tuple[str, str]]:
    """Pairs of names in order; found if there are none."""
    model = spec.model
    if model.merges is not None:
        return [(names[left], names[right]) for left, right in model.merges.tolist()]
    if model.base != "bytes":
        return _splits(model, names)
    pairs = _ranked_merges(model) if spec.ranks is None else merges_of(spec)
    return [(spell(left), spell(right)) for left, right in pairs]


def _tokens(model: Model) -> dict[int, bytes]:
    """The tokens that merging finds, by their places."""
    ends = np.cumsum(model.lengths, dtype=np.int64).tolist()
    lengths, kinds = model.lengths.tolist(), model.kinds.tolist()
    return {
        place: model.data[end - length : end]
        for place, (end, length, kind) in enumerate(zip(ends, lengths, kinds, strict=True))
        if kind == TOKEN and length
    }


def _ranked_merges(model: Model) -> list[tuple[bytes, bytes]]:
    order = model.ids if model.order is None else model.order
    return find_merges({int(order[place]): token for place, token in _tokens(model).items()})


def _splits(model: Model, names: list[str]) -> list[tuple[str, str]]:
    """Every two pieces that spell a third, as SentencePiece joins them, by their order."""
    order = model.ids if model.order is None else model.order
    pieces = {names[place] for place in _tokens(model)}
    ranked = sorted((int(order[place]), int(model.ids[place]), place) for place in _tokens(model))
    merges = []
    last: tuple[int, str] | None = None
    for rank, _, place in ranked:
        name = names[place]
        splits = [
            (name[:at], name[at:])
            for at in range(1, len(name))
            if name[:at] in pieces and name[at:] in pieces
        ]
        if splits:
            if last is not None and last[0] == rank and len({*last[1], *name}) > 1:
                raise VocabularyError(
                    f"pieces {last[1]!r} and {name!r} are equally good, and a tokenizer.json has "
                    "no such merges; save to .model or .tokenmill"
                )
            last = rank, name
        merges += splits
    return merges


_PLAIN = Template()

# Real ones have a few; of each, all names and ids are kept.
ITEMS_MAX = 256


def read_template(post_processor: Any, place: Place) -> Template:
    """The template that a post_processor stands for."""
    found = _PLAIN
    has_items = False
    for name, part, at in flatten(post_processor, "processors", place.inside("post_processor")):
        single, pair = found.single, found.pair
        trims, trim_prefix = False, False
        match name:
            case "ByteLevel":
                trim_prefix = at.get(part, "add_prefix_space", bool)
                trims = at.get(part, "trim_offsets", bool)
            case "TemplateProcessing":
                single, pair = _read_template_parts(part, at)
            case "BertProcessing":
                single, pair = _read_pair(part, at, is_roberta=False)
            case "RobertaProcessing":
                single, pair = _read_pair(part, at, is_roberta=True)
                trims = at.get(part, "trim_offsets", bool)
                trim_prefix = at.get(part, "add_prefix_space", bool)
            case _:
                at.refuse(f"is {name!r}, which is not known here; set post_processor to null")
        if name != "ByteLevel":
            if has_items:
                at.refuse("is a second template; leave one of them")
            has_items = True
        if trims and found.trims and trim_prefix != found.trim_prefix:
            at.refuse("trims offsets once more, in another way; leave one of them")
        found = Template(
            single,
            pair,
            trims or found.trims,
            (trim_prefix if trims else False) or found.trim_prefix,
        )
    return found


def _read_template_parts(
    part: dict[str, Any], place: Place
) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    special_tokens = place.get(part, "special_tokens", dict)
    known = {name: _read_special(special_tokens, name, place) for name in special_tokens}
    single = _read_items(place.get(part, "single", list), known, place.inside("single"))
    return single, _read_items(place.get(part, "pair", list), known, place.inside("pair"))


def _read_special(
    special_tokens: dict[str, Any], name: str, place: Place
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    place = place.inside("special_tokens")
    special = place.get(special_tokens, name, dict)
    place = place.inside(name)
    place.get(special, "id", str)
    ids = tuple(_number(id_, place.inside("ids")) for id_ in place.get(special, "ids", list))
    tokens = tuple(place.inside("tokens").check(t, str) for t in place.get(special, "tokens", list))
    if len(ids) > ITEMS_MAX:
        place.refuse(f"has {len(ids):,} ids; up to {ITEMS_MAX:,} can be loaded")
    if len(ids) != len(tokens):
        place.refuse(f"has {len(ids)} ids and {len(tokens)} tokens; give one token for each id")
    return ids, tokens


def _number(value: Any, place: Place) -> int:
    number = place.check(value, int)
    if not 0 <= number < 1 << 32:
        place.refuse(f"holds {number}; an id is from 0 to 4,294,967,295")
    return number


def _read_items(
    items: list[Any], known: dict[str, tuple[tuple[int, ...], tuple[str, ...]]], place: Place
) -> tuple[Item, ...]:
    found = []
    if len(items) > ITEMS_MAX:
        place.refuse(f"has {len(items):,} items; up to {ITEMS_MAX:,} can be loaded")
    for index, item in enumerate(items):
        at = place.inside(f"[{index}]")
        part = at.check(item, dict)
        if len(part) != 1 or next(iter(part)) not in ("Sequence", "SpecialToken"):
            at.refuse("is neither a Sequence nor a SpecialToken; write one of them")
        kind = next(iter(part))
        value = at.get(part, kind, dict)
        name = at.get(value, "id", str)
        type_id = _number(at.get(value, "type_id", int), at)
        if kind == "Sequence":
            if name not in ("A", "B"):
                at.refuse(f"is sequence {name!r}; there are A and B")
            found.append(Item(name, type_id, None))
        elif name in known:
            found.append(Item(name, type_id, *known[name]))
        else:
            at.refuse(f"names {name!r}, which is not in special_tokens; add it there")
    return tuple(found)


def _read_pair(
    part: dict[str, Any], place: Place, *, is_roberta: bool
) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """Bert's `[CLS] A [SEP] B [SEP]`, and Roberta's `<s> A </s></s> B </s>`, where all type
    ids are 0."""
    named = {}
    for key in ("cls", "sep"):
        pair = place.get(part, key, list)
        at = place.inside(key)
        if len(pair) != 2:
            at.refuse("must be a token and its id")
        named[key] = (at.check(pair[0], str), _number(pair[1], at))

    def special(key: str, type_id: int = 0) -> Item:
        token, id_ = named[key]
        return Item(token, type_id, (id_,), (token,))

    single = (special("cls"), Item("A", 0, None), special("sep"))
    if is_roberta:
        return single, (*single, special("sep"), Item("B", 0, None), special("sep"))
    return single, (*single, Item("B", 1, None), special("sep", 1))


def write_template(template: Template) -> Any:
    """A post_processor that says the same; None for none."""
    parts: list[dict[str, Any]] = []
    if template.trims:
        level = {"type": "ByteLevel", "add_prefix_space": template.trim_prefix}
        parts.append({**level, "trim_offsets": True, "use_regex": True})
    if (template.single, template.pair) != (_PLAIN.single, _PLAIN.pair):
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
    if len(parts) > 1:
        return {"type": "Sequence", "processors": parts}
    return parts[0] if parts else None


def _write_item(item: Item) -> dict[str, Any]:
    kind = "Sequence" if item.ids is None else "SpecialToken"
    return {kind: {"id": item.name, "type_id": item.type_id}}
