"""Parts ↔ .tokenmill, our own format: all that a tokenizer is, whatever it was read from.

Version 1 is for vocabularies whose ids are their ranks: tokens are in base64, in the order of their
ids; an id without a token is null; merges are pairs of ids. Version 2 holds any parts: arrays are
little-endian and in base64, and everything else is as `parts.py` names it. A file may come from
anywhere, so what is read is checked as if nobody had checked it before. See docs/formats.md.
"""

from __future__ import annotations

import base64
import binascii
import json
import operator
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tokenmill.errors import VocabularyError
from tokenmill.formats import parts as types
from tokenmill.formats import rank_parts
from tokenmill.formats.byte_characters import bytes_of
from tokenmill.formats.parts import Added, Item, Model, Parts, Ranks, Stage, Step, Template
from tokenmill.formats.places import PARTS_MAX, Place, parse
from tokenmill.formats.reading import read_bytes

SUFFIX = ".tokenmill"
_START = b'{"format": "tokenmill", "version": '
RANKS_VERSION = 1
VERSION = 2

IDS_END = (1 << 21) - 257
TOKEN_BYTES_MAX = 1 << 16
_PREFIXES = get_args(types.Prefix)
_BEHAVIOURS = ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous")
_CLASSES = ("digits", "punctuation", "space", "spelled_digits")
_FORMS = ("NFC", "NFD", "NFKC", "NFKD")


def is_own(path: Path) -> bool:
    """Whether a file is one of these, by its beginning."""
    with path.open("rb") as file:
        return file.read(len(_START)) == _START


def holds_ranks(path: Path) -> bool:
    """Whether such a file is of the version for ranks."""
    with path.open("rb") as file:
        rest = file.read(len(_START) + 8)[len(_START) :]
    return rest.split(b",")[0] == b"%d" % RANKS_VERSION


def write(parts: Parts) -> bytes:
    """The file of any tokenizer."""
    return write_bare(parts) if parts.ranks is None else _write_ranks(parts, parts.ranks)


def read(path: Path) -> Parts:
    """The tokenizer of a file of either version."""
    if holds_ranks(path):
        return _read_ranks(path)
    place = Place(str(path))
    document = place.check(parse(read_bytes(path), place), dict)
    if document.get("version") != VERSION:
        place.refuse(
            f"has version {document.get('version')!r} of the format, and this tokenmill reads "
            f"{RANKS_VERSION} and {VERSION}; upgrade it"
        )
    return _read_parts(document, place)


# ── Version 1 ────────────────────────────────────────────────────────────────────────────────


def _write_ranks(parts: Parts, ranks: Ranks) -> bytes:
    tokens = rank_parts.tokens_of(parts.model)
    specials = {one.content: one.id for one in parts.added}
    # A special that is written like a learned token has its id, and may be no token here.
    ids = {bytes_of(name): id_ for name, id_ in specials.items()}
    ids |= {token: id_ for id_, token in tokens.items()}
    merges = None
    if ranks.learned is not None:
        merges = [[ids[left], ids[right]] for left, right in ranks.learned]
    document = {
        "format": "tokenmill",
        "version": RANKS_VERSION,
        "pattern": rank_parts.pattern_of(parts),
        "specials": dict(sorted(specials.items(), key=lambda item: (item[1], item[0]))),
        "provenance": dict(ranks.provenance),
        "merges": merges,
        "tokens": [
            None if token is None else binascii.b2a_base64(token, newline=False).decode()
            for token in map(tokens.get, range(max(tokens, default=-1) + 1))
        ],
    }
    return _dump(document)


def _dump(document: dict[str, Any]) -> bytes:
    data = (json.dumps(document, ensure_ascii=False) + "\n").encode()
    assert data.startswith(_START)
    return data


def _read_ranks(path: Path) -> Parts:
    try:
        document = json.loads(read_bytes(path))
        tokens = {
            id_: binascii.a2b_base64(token, strict_mode=True)
            for id_, token in enumerate(document["tokens"])
            if token is not None
        }
        specials = {str(name): int(id_) for name, id_ in document["specials"].items()}
        learned = None
        if document["merges"] is not None:
            spelled = {id_: bytes_of(name) or b"" for name, id_ in specials.items()} | tokens
            learned = tuple((spelled[left], spelled[right]) for left, right in document["merges"])
        pattern = document["pattern"]
        if not isinstance(pattern, str):
            raise TypeError(f"pattern {pattern!r}")
        known = Ranks(learned, dict(document["provenance"]))
        ranks = {token: id_ for id_, token in tokens.items()}
        return replace(rank_parts.of_ranks(ranks, pattern, specials, str(path)), ranks=known)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        if isinstance(error, VocabularyError):
            raise
        raise VocabularyError(f"{path} is damaged ({error}); save the tokenizer again") from None


# ── Version 2, written ───────────────────────────────────────────────────────────────────────


def write_bare(parts: Parts) -> bytes:
    """The same in version 2, which holds any parts."""
    document = {
        "format": "tokenmill",
        "version": VERSION,
        "added": [_fields(token) for token in parts.added],
        "steps": [_typed(step) for step in parts.steps],
        "blank": parts.blank,
        "prefix": parts.prefix,
        "stages": [_fields(stage) for stage in parts.stages],
        "template": _fields(parts.template),
        "decoder": parts.decoder,
        "extra": dict(parts.extra),
        "model": _write_model(parts.model),
    }
    return _dump(document)


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}


def _typed(value: Any) -> dict[str, Any]:
    return {"type": type(value).__name__, **_fields(value)}


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case tuple():
            return [_plain(item) for item in value]
        case types.Pattern() | types.Literally():
            return _typed(value)
        case Item():
            return _fields(value)
    return value


def _write_model(model: Model) -> dict[str, Any]:
    arrays = {"lengths": "<u4", "ids": "<u4", "kinds": "u1", "merges": "<u4", "order": "<u4"}
    found: dict[str, Any] = {}
    for name in ("base", "whole", "missing", "unk", "fuse_unk", "dropout"):
        found[name] = getattr(model, name)
    for name, dtype in arrays.items():
        array = getattr(model, name)
        found[name] = None if array is None else _plain(array.astype(dtype).tobytes())
    return {**found, "data": _plain(model.data)}


# ── Version 2, read ──────────────────────────────────────────────────────────────────────────


def read_bare(data: bytes, source: str) -> Parts:
    """The parts in the bytes of a file of this version."""
    place = Place(source)
    return _read_parts(place.check(parse(data, place), dict), place)


def _read_parts(document: Mapping[str, Any], place: Place) -> Parts:
    model = _read_model(place.get(document, "model", dict), place.inside("model"))
    added = place.get(document, "added", list)
    steps = place.get(document, "steps", list)
    stages = place.get(document, "stages", list)
    if len(steps) > PARTS_MAX or len(stages) > PARTS_MAX:
        place.refuse(f"has more than {PARTS_MAX} steps or stages")
    return Parts(
        model,
        tuple(_read_added(one, place, i) for i, one in enumerate(added)),
        tuple(_read_step(one, place.inside(f"steps[{i}]")) for i, one in enumerate(steps)),
        place.get(document, "blank", bool),
        _choice(document, "prefix", _PREFIXES, place),
        tuple(_read_stage(one, place.inside(f"stages[{i}]")) for i, one in enumerate(stages)),
        _read_template(place.get(document, "template", dict), place.inside("template")),
        place.maybe(document, "decoder", dict),
        place.get(document, "extra", dict),
    )


def _choice(values: Mapping[str, Any], key: str, choices: tuple[str, ...], place: Place) -> Any:
    found = place.get(values, key, str)
    if found not in choices:
        place.refuse(f"has {key} {found!r}; there are {', '.join(choices)}")
    return found


def _bytes(values: Mapping[str, Any], key: str, place: Place) -> bytes:
    try:
        return base64.b64decode(place.get(values, key, str), validate=True)
    except (binascii.Error, ValueError) as error:
        raise place.inside(key).error(
            f"is not base64 ({error}); save the tokenizer again"
        ) from None


def _read_model(values: dict[str, Any], place: Place) -> Model:
    merges = order = None
    if values.get("merges") is not None:
        flat = _array(values, "merges", "<u4", place)
        if len(flat) % 2:
            place.refuse("has half a merge at its end; save the tokenizer again")
        merges = flat.reshape(-1, 2)
    if values.get("order") is not None:
        order = _array(values, "order", "<u4", place)
    dropout = place.maybe(values, "dropout", float)
    if dropout is not None and not 0 <= dropout <= 1:
        place.refuse(f"has dropout {dropout}: Dropout should be between 0 and 1, inclusive")
    return checked(
        Model(
            _bytes(values, "data", place),
            _array(values, "lengths", "<u4", place),
            _array(values, "ids", "<u4", place),
            _array(values, "kinds", "u1", place),
            merges,
            order,
            _choice(values, "base", ("bytes", "characters"), place),
            place.get(values, "whole", bool),
            _choice(values, "missing", ("fail", "drop", "unk", "bytes"), place),
            place.maybe(values, "unk", int),
            place.get(values, "fuse_unk", bool),
            dropout,
        ),
        place,
    )


def checked(model: Model, place: Place) -> Model:
    """A model whose arrays fit each other."""
    lengths, ids, kinds, order, unk = model.lengths, model.ids, model.kinds, model.order, model.unk
    count = len(ids)
    if model.merges is not None and model.merges.size and model.merges.max() >= count:
        place.refuse("has merges of tokens that are not there; save the tokenizer again")
    if len(lengths) != count or len(kinds) != count or (order is not None and len(order) != count):
        place.refuse("has arrays of different lengths; save the tokenizer again")
    if int(lengths.sum(dtype=np.uint64)) != len(model.data):
        place.refuse("has lengths that do not add up to its data; save the tokenizer again")
    if count and (kinds.max() > types.DECODED or lengths.max() > TOKEN_BYTES_MAX):
        place.refuse("has a token of no known kind, or a longer one than can be loaded")
    if count and (ids.max() >= IDS_END or len(np.unique(ids)) < count):
        place.refuse(f"has an id twice, or one that is {IDS_END:,} or more")
    if (unk is None and model.missing == "unk") or (unk is not None and unk not in ids):
        place.refuse(f"has unk {unk!r}, which is no id of a token")
    if model.missing == "bytes" and np.count_nonzero(kinds == types.BYTE) != 256:
        place.refuse("has not a token for each byte, and needs them")
    return model


def _array(values: Mapping[str, Any], key: str, dtype: DTypeLike, place: Place) -> NDArray[Any]:
    data = _bytes(values, key, place)
    kind = np.dtype(dtype)
    if len(data) % kind.itemsize:
        place.inside(key).refuse("is cut off; save the tokenizer again")
    return np.frombuffer(data, kind).astype(kind.newbyteorder("="), copy=False)


_ADDED = tuple(field.name for field in fields(Added))
_ADDED_KINDS = (str, int, *[bool] * (len(_ADDED) - 2))
_added_values = operator.itemgetter(*_ADDED)


def _read_added(value: Any, place: Place, index: int) -> Added:
    """An added token, of which a file may have a thousand: what is wrong is looked for later."""
    try:
        found = _added_values(value)
    except (KeyError, TypeError):
        found = ()
    is_right = tuple(map(type, found)) == _ADDED_KINDS and found[0] and 0 <= found[1] < 1 << 31
    return Added(*found) if is_right else _explain_added(value, place.inside(f"added[{index}]"))


def _explain_added(value: Any, place: Place) -> Added:
    """The same field by field."""
    values = place.check(value, dict)
    flags = {name: place.get(values, name, bool) for name in _ADDED[2:]}
    id_ = place.get(values, "id", int)
    content = place.get(values, "content", str)
    if not content or not 0 <= id_ < 1 << 31:
        place.refuse(f"has content {content!r} and id {id_}; neither may be out of range")
    return Added(content, id_, **flags)


def _read_step(value: Any, place: Place) -> Step:
    values = place.check(value, dict)
    match place.get(values, "type", str):
        case "Form":
            return types.Form(_choice(values, "name", _FORMS, place))
        case "Lower":
            return types.Lower()
        case "Prepend":
            return types.Prepend(place.get(values, "text", str))
        case "Replace":
            match = _read_match(place.get(values, "match", dict), place.inside("match"))
            return types.Replace(match, place.get(values, "content", str))
        case "Strip":
            return types.Strip(place.get(values, "left", bool), place.get(values, "right", bool))
        case "Charsmap":
            by_grapheme = place.get(values, "by_grapheme", bool)
            return types.Charsmap(_bytes(values, "data", place), by_grapheme)
        case "Squeeze":
            return types.Squeeze()
    raise place.error(f"is {values['type']!r}, which is not known; upgrade tokenmill")


def _read_match(values: Mapping[str, Any], place: Place) -> types.Pattern | types.Literally:
    text = place.get(values, "text", str)
    if _choice(values, "type", ("Pattern", "Literally"), place) == "Literally":
        return types.Literally(text)
    return types.Pattern(text, _choice(values, "dialect", ("tiktoken", "oniguruma"), place))


def _read_stage(value: Any, place: Place) -> Stage:
    values = place.check(value, dict)
    match: Any
    if isinstance(values.get("match"), str):
        match = _choice(values, "match", _CLASSES, place)
    else:
        match = _read_match(place.get(values, "match", dict), place.inside("match"))
    behaviour = _choice(values, "behaviour", _BEHAVIOURS, place)
    return Stage(match, behaviour, place.get(values, "invert", bool))


def _read_template(values: dict[str, Any], place: Place) -> Template:
    single, pair = (
        tuple(
            _read_item(item, place.inside(f"{key}[{index}]"))
            for index, item in enumerate(place.get(values, key, list))
        )
        for key in ("single", "pair")
    )
    trims = place.get(values, "trims", bool)
    return Template(single, pair, trims, place.get(values, "trim_prefix", bool))


def _read_item(value: Any, place: Place) -> Item:
    values = place.check(value, dict)
    name, type_id = place.get(values, "name", str), place.get(values, "type_id", int)
    if values.get("ids") is None:
        if name not in ("A", "B"):
            place.refuse(f"is sequence {name!r}; there are A and B")
        return Item(name, type_id, None)
    ids = tuple(place.inside("ids").check(one, int) for one in place.get(values, "ids", list))
    tokens = place.get(values, "tokens", list)
    return Item(name, type_id, ids, tuple(place.inside("tokens").check(t, str) for t in tokens))
