"""A tokenizer specification → its components in words, in the order in which they run."""

from __future__ import annotations

from typing import Any

from tokenmill.formats.spec import (
    Charsmap,
    Form,
    Item,
    Lower,
    Model,
    Prepend,
    Replace,
    Squeeze,
    Step,
    Strip,
    TokenizerSpec,
)
from tokenmill.patterns.schemes import Literally, Pattern, Stage, name_of

_MISSING = {
    "fail": "raise an error",
    "drop": "are dropped",
    "unk": "become the unknown token",
    "bytes": "become byte tokens",
}
_PREFIX = {
    "always": "a space is added before every text",
    "missing": "a space is added before every text that starts without one",
    "missing_first": "a space is added at the start of a text that starts without one",
}


def describe(spec: TokenizerSpec) -> dict[str, list[str]]:
    """Return the steps of each component. A component without steps is left out."""
    components = {
        "model": _model(spec.model),
        "normalizer": [_step(step) for step in spec.steps],
        "prefix": [] if spec.prefix == "never" else [_PREFIX[spec.prefix]],
        "spaces": ['are written "▁" in tokens'] if spec.blank else [],
        "pre-tokenizer": _stages(spec) or ["none: text is not split"],
        "post-processor": _template(spec),
        "decoder": [] if spec.ranks is not None else _types(spec.decoder),
    }
    return {name: lines for name, lines in components.items() if lines}


def _model(model: Model) -> list[str]:
    lines = ["byte-level BPE"] if model.base == "bytes" else ["BPE of characters"]
    if model.merges is not None:
        lines.append(f"a list of {len(model.merges):,} merges")
        if model.whole:
            lines.append("a pretoken that is a token is not merged (ignore_merges)")
    elif model.order is not None:
        lines.append("the pair with the best score merges first")
    else:
        lines.append("ids are ranks, and the lowest pair merges first")
    if model.base == "characters":
        lines.append(f"characters without a token {_MISSING[model.missing]}")
    if model.dropout:
        lines.append(f"merges are dropped at random ({model.dropout:g})")
    return lines


def _step(step: Step) -> str:
    match step:
        case Form(name):
            return name
        case Lower():
            return "lower case"
        case Prepend(text):
            return f"prepend {text!r}"
        case Replace(match, content):
            return f"replace {match.text!r} by {content!r}"
        case Strip(left, right):
            sides = [name for name, is_cut in (("left", left), ("right", right)) if is_cut]
            return f"strip whitespace on the {' and '.join(sides)}" if sides else "strip no side"
        case Charsmap(data, _):
            return f"SentencePiece character map ({len(data):,} bytes)"
        case Squeeze():
            return "collapse spaces to one, and remove them at both ends"


def _stages(spec: TokenizerSpec) -> list[str]:
    if spec.ranks is not None:  # a tiktoken pattern, whose matches are the pretokens
        return [_match(stage) for stage in spec.stages]
    return [_stage(stage) for stage in spec.stages]


def _stage(stage: Stage) -> str:
    behaviour = stage.behaviour.replace("_", " ") + (", inverted" if stage.invert else "")
    return _match(stage) if behaviour == "isolated" else f"{_match(stage)} ({behaviour})"


def _match(stage: Stage) -> str:
    match stage.match:
        case Pattern(text, dialect):
            known = name_of(text, dialect)
            return text if known is None else f"{known}: {text}"
        case Literally(text):
            return f"the text {text!r}"
        case name:
            return name.replace("_", " ")


def _template(spec: TokenizerSpec) -> list[str]:
    single = spec.template.single
    return [" ".join(map(_item, single))] if len(single) > 1 else []


def _item(item: Item) -> str:
    return "TEXT" if item.ids is None else " ".join(item.tokens) or item.name


def _types(decoder: Any) -> list[str]:
    if decoder is None:
        return []
    if decoder.get("type") == "Sequence":
        return [name for one in decoder.get("decoders", ()) for name in _types(one)]
    return [str(decoder.get("type"))]
