"""tokenizer.json ↔ parts: Hugging Face's format, byte-level models and SentencePiece's kind.

Tokens and merges are read by the core. What Hugging Face reads as something else than it seems, or
not at all, is refused; so is what cannot be done exactly. Parts that are only kept to be written
again stay in `extra` as they are, and are written from there as long as they say the same.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np

from tokenmill.errors import VocabularyError
from tokenmill.formats import lengths, models, rank_parts, spelling, steps, templates
from tokenmill.formats.parts import Added, Parts, Prepend, Replace, Step
from tokenmill.formats.places import Place, flatten, parse
from tokenmill.formats.spelling import Names
from tokenmill.native import _native

BYTES_MAX = 256 << 20
ADDED_MAX = 1 << 17
CONTENT_BYTES_MAX = 4096

_KEPT = ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor")
_KEYS = (*_KEPT, "version", "added_tokens", "decoder", "model")
_FLAGS = ("special", "lstrip", "rstrip", "single_word", "normalized")
_DECODERS = ("ByteLevel", "ByteFallback", "Replace", "Fuse", "Strip", "Metaspace", "BPEDecoder")


def read(data: bytes, source: str) -> Parts:
    """The parts of a file; `source` is its name for errors."""
    place = Place(source)
    if len(data) > BYTES_MAX:
        place.refuse(f"has {len(data):,} bytes: too large for a tokenizer.json")
    try:
        read_model = _native.read_model(data, secrets.randbits(64))
    except VocabularyError as error:
        place.refuse(f"is no tokenizer.json that can be loaded: {error}")
    rest, data, lengths, ids, merges, unmade = read_model
    document = place.check(parse(rest, place), dict)
    _check_keys(document, place)
    cutting = steps.read(document.get("normalizer"), document.get("pre_tokenizer"), place)
    names = Names(data, lengths, ids)
    options = place.check(document["model"], dict)
    model = models.read(options, names, np.asarray(merges), unmade, cutting, place)
    for name, _, at in flatten(document.get("decoder"), "decoders", place.inside("decoder")):
        if name not in _DECODERS:
            at.refuse(f"is {name!r}, which is not run here; there are {', '.join(_DECODERS)}")
    added = _read_added(document.get("added_tokens", []), names, place.inside("added_tokens"))
    pre_tokenizer = document.get("pre_tokenizer")
    check_normalized(added, cutting.blank, cutting.steps, pre_tokenizer, place)
    extra = {key: document[key] for key in _KEPT if document.get(key) is not None}
    extra["model"] = {k: v for k, v in options.items() if k not in ("vocab", "merges")}
    return Parts(
        model,
        added,
        cutting.steps,
        cutting.blank,
        cutting.prefix,
        cutting.stages,
        templates.read(document.get("post_processor"), place),
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
    lengths.check(document, place)
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
        if is_late and (writes_blanks or " " in token.content or steps.SPACE in token.content):
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


def write(parts: Parts) -> bytes:
    """The file that Hugging Face's tokenizers load to the same ids."""
    for token in parts.added:
        if token.literal:
            raise VocabularyError(
                f"{token.content!r} is found as SentencePiece finds user-defined symbols, and "
                "Hugging Face finds no tokens like that; save to .model or .tokenmill"
            )
    names = spelling.write_all(parts.model)
    entries = spelling.entries(parts, names, has_added=parts.ranks is not None)
    pairs = models.write_merges(parts, names)
    stages = parts.stages
    if parts.ranks is not None and parts.ranks.scheme is not None:
        stages = (steps.of_scheme(parts.ranks.scheme, rank_parts.pattern_of(parts)),)
    cutting = steps.Cutting(parts.steps, parts.blank, parts.prefix, stages, parts.model.base)
    normalizer, pre_tokenizer = _kept_cutting(parts.extra, cutting) or steps.write(cutting)
    document = {
        "version": "1.0",
        "truncation": parts.extra.get("truncation"),
        "padding": parts.extra.get("padding"),
        "added_tokens": [
            _write_added(token) for token in sorted(parts.added, key=lambda token: token.id)
        ],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": _write_template(parts),
        "decoder": parts.decoder,
        "model": models.write_options(parts.model, names, pairs, parts.extra.get("model", {})),
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


def _kept_cutting(extra: Mapping[str, Any], cutting: steps.Cutting) -> tuple[Any, Any] | None:
    """What was read, if it still says the same."""
    kept = extra.get("normalizer"), extra.get("pre_tokenizer")
    try:
        return kept if steps.read(*kept, Place("")) == cutting else None
    except VocabularyError:
        return None


def _write_template(parts: Parts) -> Any:
    kept = parts.extra.get("post_processor")
    try:
        is_same = templates.read(kept, Place("")) == parts.template
    except VocabularyError:
        is_same = False
    return kept if is_same else templates.write(parts.template)


def _write_added(token: Added) -> dict[str, Any]:
    order = ("single_word", "lstrip", "rstrip", "normalized", "special")
    flags = {flag: getattr(token, flag) for flag in order}
    return {"id": token.id, "content": token.content, **flags}
