"""TokenizerSpec ↔ .tokenmill, the package's own format: a complete tokenizer of any kind.

The file is JSON with the fields of `spec.py`. The type hints of its dataclasses define how a field
is written and read: arrays are little-endian, arrays and bytes are in base64, and a value of a
union has a "type". A file may come from anywhere, so every value is checked. See docs/formats.md.
"""

from __future__ import annotations

import base64
import json
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tokenmill.formats.checks import PARTS_MAX, Place, parse
from tokenmill.formats.ranks import pattern_stage
from tokenmill.formats.spec import DECODED, Added, Model, Ranks, Step, TokenizerSpec
from tokenmill.patterns.schemes import Literally, Pattern

SUFFIX = ".tokenmill"
START = b'{"format": "tokenmill", "version": '
VERSION = 2

_ADDED_ID_END = 1 << 31
_AGAIN = "save the tokenizer again"


def write(spec: TokenizerSpec) -> bytes:
    """Return the file of a tokenizer."""
    document = {"format": "tokenmill", "version": VERSION, **_write(spec)}
    data = (json.dumps(document, ensure_ascii=False) + "\n").encode()
    assert data.startswith(START)
    return data


def read(data: bytes, source: str) -> TokenizerSpec:
    """Return the tokenizer of a file. Raise VocabularyError with the field that is wrong."""
    place = Place(source)
    document = place.check(parse(data, place), dict)
    if document.get("version") != VERSION:
        place.refuse(
            f"has version {document.get('version')!r} of the format, and this tokenmill reads "
            f"{VERSION}; upgrade tokenmill, or {_AGAIN}"
        )
    return _checked(_read(TokenizerSpec, document, place), place)


# ── Dataclass ↔ JSON ─────────────────────────────────────────────────────────────────────────

_WITH_TYPE = (*get_args(Step), Pattern, Literally)  # members of unions
_is_dataclass: Callable[[Any], bool] = is_dataclass


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """Return the type hints of a dataclass. Arrays are last, so that people can read the start."""
    hints = get_type_hints(kind)
    names = sorted((one.name for one in fields(kind)), key=lambda name: _is_large(hints[name]))
    return {name: hints[name] for name in names}


def _is_large(hint: Any) -> bool:
    some = (hint, *get_args(hint))
    return hint is Model or any(one is bytes or get_origin(one) is np.ndarray for one in some)


def _write(value: Any) -> Any:
    if _is_dataclass(value):
        kind: Any = type(value)
        head = {"type": kind.__name__} if kind in _WITH_TYPE else {}
        return head | {name: _write(getattr(value, name)) for name in _hints(kind)}
    if isinstance(value, tuple):
        return [_write(one) for one in value]
    if isinstance(value, np.ndarray):
        value = value.astype(value.dtype.newbyteorder("<")).tobytes()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return dict(value) if isinstance(value, Mapping) else value


def _read(hint: Any, value: Any, place: Place) -> Any:
    """Return the value of a type hint."""
    if type(value) is hint:
        return value
    origin, arguments = _parts(hint)
    if _is_dataclass(hint):
        values, hints = place.check(value, dict), _hints(hint)
        if missing := [name for name in hints if name not in values]:
            place.refuse(f"has no field {missing[0]!r}; {_AGAIN}")
        return hint(
            **{name: _read(hints[name], values[name], place.inside(name)) for name in hints}
        )
    if origin is Union:
        return _read_union(arguments, value, place)
    if origin is tuple:
        items = enumerate(place.check(value, list))
        return tuple([_read(arguments[0], one, place.inside(index)) for index, one in items])
    if origin is Literal:
        return place.choice(value, arguments)
    if hint is bytes or origin is np.ndarray:
        data = place.base64(value)
        if hint is bytes:
            return data
        dtype = np.dtype(get_args(arguments[1])[0])
        if len(data) % dtype.itemsize:
            place.refuse(f"is truncated; {_AGAIN}")
        return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype)
    return place.check(value, dict if origin is Mapping else hint)


@cache
def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    origin = get_origin(hint)
    return Union if origin is types.UnionType else origin, get_args(hint)


def _read_union(hints: tuple[Any, ...], value: Any, place: Place) -> Any:
    """Read None, a dataclass, which has a "type" if there are several, or another type."""
    if value is None and types.NoneType in hints:
        return None
    kinds = {one.__name__: one for one in hints if _is_dataclass(one)}
    others = [one for one in hints if not _is_dataclass(one) and one is not types.NoneType]
    if others and not (kinds and isinstance(value, dict)):
        return _read(others[0], value, place)
    name = value.get("type") if isinstance(value, dict) else value
    kind = next(iter(kinds)) if len(kinds) == 1 else place.choice(name, kinds)
    return _read(kinds[kind], value, place)


# ── Checks that types do not express ─────────────────────────────────────────────────────────


def _checked(spec: TokenizerSpec, place: Place) -> TokenizerSpec:
    if len(spec.steps) > PARTS_MAX or len(spec.stages) > PARTS_MAX:
        place.refuse(f"has more than {PARTS_MAX} steps or stages")
    for index, token in enumerate(spec.added):
        if not token.content or not 0 <= token.id < _ADDED_ID_END:
            place.inside("added").inside(index).refuse(
                f"has content {token.content!r} and id {token.id}; the content must not be empty, "
                f"and the id must be from 0 to {_ADDED_ID_END - 1:,}"
            )
    for item in (*spec.template.single, *spec.template.pair):
        if item.ids is None and item.name not in ("A", "B"):
            place.inside("template").refuse(f"has sequence {item.name!r}; use A or B")
    at = place.inside("model")
    model = replace(spec.model, merges=_pairs(spec.model.merges, at))
    _check_model(model, at)
    spec = replace(spec, model=model)
    if spec.ranks is None:
        return spec
    at = place.inside("ranks")
    ranks = replace(spec.ranks, learned=_pairs(spec.ranks.learned, at))
    _check_ranks(spec, ranks, at)
    return replace(spec, ranks=ranks)


def _pairs(flat: NDArray[Any] | None, place: Place) -> NDArray[Any] | None:
    if flat is None:
        return None
    if len(flat) % 2:
        place.refuse(f"has half a merge at its end; {_AGAIN}")
    return flat.reshape(-1, 2)


def _check_model(model: Model, place: Place) -> None:
    """Raise VocabularyError unless arrays fit each other. The core checks their values."""
    lengths, ids, kinds, order, unk = model.lengths, model.ids, model.kinds, model.order, model.unk
    count = len(ids)
    if model.merges is not None and model.merges.size and model.merges.max() >= count:
        place.refuse(f"has merges of tokens that do not exist; {_AGAIN}")
    if len(lengths) != count or len(kinds) != count or (order is not None and len(order) != count):
        place.refuse(f"has arrays of different lengths; {_AGAIN}")
    if int(lengths.sum(dtype=np.uint64)) != len(model.data):
        place.refuse(f"has lengths that do not add up to the size of its data; {_AGAIN}")
    if count and kinds.max() > DECODED:
        place.refuse(f"has a token of unknown kind; {_AGAIN}")
    if unk is not None and unk not in ids:
        place.refuse(f"has unk {unk!r}, which is not the id of a token")


def _check_ranks(spec: TokenizerSpec, ranks: Ranks, place: Place) -> None:
    """Raise VocabularyError unless all but the pattern and special tokens is the default."""
    model, stages = spec.model, spec.stages
    usual = Model(model.data, model.lengths, model.ids, model.kinds, whole=True)
    plain = TokenizerSpec(model, spec.added, ranks=spec.ranks)
    match = stages[0].match if stages else None
    is_plain = (
        isinstance(match, Pattern)
        and stages == (pattern_stage(match.text),)
        and model.merges is model.order is None
        and model == usual
        and replace(spec, stages=(), decoder=None, extra={}) == plain
        and all(token == Added(token.content, token.id) for token in spec.added)
    )
    if not is_plain:
        place.refuse(f"is set, and other fields are not those of a rank vocabulary; {_AGAIN}")
    known = [*model.ids.tolist(), *(token.id for token in spec.added)]
    if ranks.learned is not None and not bool(np.isin(ranks.learned, known).all()):
        place.refuse(f"has merges of ids that do not exist; {_AGAIN}")
