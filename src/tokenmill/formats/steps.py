"""normalizer and pre_tokenizer of a tokenizer.json ↔ steps, prefix and stages.

The two belong together. SentencePiece's way to show a blank as "▁" is written in either of them,
as a Replace or as Metaspace; where it is exactly that, it becomes `blank`, and text need not be
rewritten. Everything else stays what it is.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn, cast

from tokenmill.errors import VocabularyError
from tokenmill.formats.parts import (
    Charsmap,
    Form,
    Literally,
    Lower,
    Pattern,
    Prefix,
    Prepend,
    Replace,
    Squeeze,
    Stage,
    Step,
    Strip,
)
from tokenmill.formats.places import Place, flatten
from tokenmill.patterns.oniguruma import to_oniguruma

SPACE = "▁"
# What ByteLevel splits by, unless it is told not to: r50k.
BYTE_LEVEL = Stage(
    Pattern(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"),
    "isolated",
)
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


def read(normalizer: Any, pre_tokenizer: Any, place: Place) -> Cutting:
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
                self.stages.append(_read_stage(name, part, place))
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
    stage = _read_stage(name, part, place) if name in ("Digits", "Split") else None
    if stage is not None and stage.match == "digits":
        return replace(stage, match="spelled_digits")
    # Digits of ASCII are shown as themselves, and nothing else is shown as them.
    match = None if stage is None else stage.match
    if stage is not None and isinstance(match, Pattern) and _ASCII_DIGITS.fullmatch(match.text):
        return stage
    raise place.error(
        f"is {name} behind ByteLevel, where it would cut characters into bytes; {_ELSEWHERE}"
    )


def _read_stage(name: str, part: dict[str, Any], place: Place) -> Stage:
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


def write(cutting: Cutting) -> tuple[Any, Any]:
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
