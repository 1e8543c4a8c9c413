"""A tokenizer → its parts in words: what is done with a text, from first to last."""

from __future__ import annotations

from typing import Any

from tokenmill.formats.parts import (
    Charsmap,
    Form,
    Item,
    Literally,
    Lower,
    Model,
    Parts,
    Pattern,
    Prepend,
    Replace,
    Squeeze,
    Stage,
    Step,
    Strip,
)
from tokenmill.schemes import name_of
from tokenmill.tokenizer import Tokenizer

_RANKS = "ids are ranks, and the lowest pair merges first"
_MISSING = {
    "fail": "are errors",
    "drop": "are left out",
    "unk": "are the unknown token",
    "bytes": "are tokens for their bytes",
}
_PREFIX = {
    "always": "a blank in front of every text",
    "missing": "a blank in front of every text that has none",
    "missing_first": "a blank in front of a text that has none, at its start only",
}


def describe(tokenizer: Tokenizer) -> dict[str, list[str]]:
    """Part → what it does, one thing after the other. A part that does nothing is left out."""
    parts = tokenizer.parts
    if parts is None:
        assert tokenizer.pattern is not None
        return {
            "model": ["byte-level BPE", _RANKS],
            "pre-tokenizer": [_pattern(Pattern(tokenizer.pattern, "tiktoken"))],
        }
    rows = {
        "model": _model(parts.model),
        "normalizer": [_step(step) for step in parts.steps],
        "prefix": [] if parts.prefix == "never" else [_PREFIX[parts.prefix]],
        "blanks": ['are written "▁" in tokens'] if parts.blank else [],
        "pre-tokenizer": [_stage(stage) for stage in parts.stages] or ["none: text is not cut"],
        "post-processor": _template(parts),
        "decoder": _types(parts.decoder),
    }
    return {name: lines for name, lines in rows.items() if lines}


def _model(model: Model) -> list[str]:
    rows = ["byte-level BPE"] if model.base == "bytes" else ["BPE of characters"]
    if model.merges is not None:
        rows.append(f"a list of {len(model.merges):,} merges")
    elif model.order is not None:
        rows.append("the pair with the best score merges first")
    else:
        rows.append(_RANKS)
    if model.whole and model.merges is not None:
        rows.append("a pretoken that is a token is not merged (ignore_merges)")
    if model.base == "characters":
        rows.append(f"characters without a token {_MISSING[model.missing]}")
    if model.dropout:
        rows.append(f"merges are dropped at random ({model.dropout:g})")
    return rows


def _step(step: Step) -> str:
    match step:
        case Form(name):
            return name
        case Lower():
            return "lower case"
        case Prepend(text):
            return f"{text!r} in front"
        case Replace(match, content):
            return f"{match.text!r} becomes {content!r}"
        case Strip(left, right):
            ends = " and ".join(
                [name for name, is_cut in (("left", left), ("right", right)) if is_cut]
            )
            return f"white space on the {ends} goes" if ends else "nothing is stripped"
        case Charsmap(data, _):
            return f"SentencePiece's map of characters ({len(data):,} bytes)"
        case Squeeze():
            return "one blank in place of several, none at the ends"


def _stage(stage: Stage) -> str:
    match stage.match:
        case Pattern() as pattern:
            what = _pattern(pattern)
        case Literally(text):
            what = f"the text {text!r}"
        case name:
            what = name.replace("_", " ")
    how = stage.behaviour.replace("_", " ")
    if stage.invert:
        how += ", inverted"
    return what if how == "isolated" else f"{what} ({how})"


def _pattern(pattern: Pattern) -> str:
    name = name_of(pattern.text, pattern.dialect)
    return pattern.text if name is None else f"{name}: {pattern.text}"


def _template(parts: Parts) -> list[str]:
    single = parts.template.single
    return [" ".join(map(_item, single))] if len(single) > 1 else []


def _item(item: Item) -> str:
    return "TEXT" if item.ids is None else " ".join(item.tokens) or item.name


def _types(decoder: Any) -> list[str]:
    if decoder is None:
        return []
    if decoder.get("type") == "Sequence":
        return [name for one in decoder.get("decoders", ()) for name in _types(one)]
    return [str(decoder.get("type"))]
