"""TokenizerSpec ↔ .tokenmill, the package's own format: a complete tokenizer of any kind.

The file is JSON with the fields of `spec.py`. The type hints of its dataclasses define how a field
is written and read: arrays are little-endian, arrays and bytes are in base64, and a value of a
union has a "type". A file may come from anywhere, so every value is checked. See docs/formats.md.
"""

from __future__ import annotations

import base64
import json
import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tokenmill.formats.checks import PARTS_MAX, Place, parse, shown
from tokenmill.formats.spec import (
    BYTE,
    DECODED,
    Added,
    Model,
    Ranks,
    Template,
    TokenizerSpec,
)
from tokenmill.patterns.schemes import Pattern

SUFFIX = ".tokenmill"
START = b'{"format": "tokenmill", "version": '
VERSION = 2

IDS_END = (1 << 21) - 257
TOKEN_BYTES_MAX = 1 << 16
_ADDED_ID_END = 1 << 31
_AGAIN = "save the tokenizer again"


def write(spec: TokenizerSpec) -> bytes:
    """Return the file of a tokenizer."""
    head = {"format": "tokenmill", "version": VERSION}
    document = {**head, **_codec(TokenizerSpec).write(spec)}
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
    try:
        spec: TokenizerSpec = _codec(TokenizerSpec).read(document)
    except _FieldError as error:
        path = "".join(name if name[0] == "[" else f".{name}" for name in reversed(error.path))
        raise Place(source, path.removeprefix(".")).error(str(error)) from None
    return _checked(spec, place)


# ── Dataclass ↔ JSON ─────────────────────────────────────────────────────────────────────────


class _Codec(NamedTuple):
    """How values of a type are written as JSON, and read from it."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class _FieldError(Exception):
    """A wrong value. `path` are the names of the fields around it, the innermost first."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.path: list[str] = []


@cache
def _codec(hint: Any) -> _Codec:
    """Return the codec of a type hint."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return _dataclass_codec(hint)
    if origin in (Union, types.UnionType):
        return _union_codec(arguments)
    if origin is tuple:
        return _tuple_codec(_codec(arguments[0]))
    if origin is np.ndarray:
        return _array_codec(np.dtype(get_args(arguments[1])[0]))
    if origin is Literal:
        return _literal_codec(arguments)
    if hint is bytes:
        return _Codec(lambda value: base64.b64encode(value).decode(), _read_bytes)
    return _plain_codec(dict if origin is not None else hint)


def _dataclass_codec(kind: Any) -> _Codec:
    hints = get_type_hints(kind)
    codecs = {one.name: _codec(hints[one.name]) for one in fields(kind)}
    # Arrays come last, so that the beginning of a file can be read by people.
    order = sorted(codecs, key=lambda name: _is_large(hints[name]))

    def write(value: Any) -> dict[str, Any]:
        return {name: codecs[name].write(getattr(value, name)) for name in order}

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise _FieldError(f"must be an object, got {shown(value)}")
        found = {}
        for name, codec in codecs.items():
            if name not in value:
                raise _FieldError(f"has no field {name!r}; {_AGAIN}")
            try:
                found[name] = codec.read(value[name])
            except _FieldError as error:
                error.path.append(name)
                raise
        return kind(**found)

    return _Codec(write, read)


def _is_large(hint: Any) -> bool:
    some = (hint, *get_args(hint))
    return hint is Model or any(one is bytes or get_origin(one) is np.ndarray for one in some)


def _union_codec(hints: Any) -> _Codec:
    """Of None, a literal and dataclasses, which get a "type" if there are several."""
    types_ = [one for one in hints if isinstance(one, type)]
    kinds: dict[str, Any] = {one.__name__: one for one in types_ if is_dataclass(one)}
    others = [_codec(one) for one in hints if not is_dataclass(one) and one is not types.NoneType]

    def write(value: Any) -> Any:
        if is_dataclass(value):
            name = type(value).__name__
            named = {"type": name} if len(kinds) > 1 else {}
            return {**named, **_codec(kinds[name]).write(value)}
        return None if value is None else others[0].write(value)

    def read(value: Any) -> Any:
        if value is None and types.NoneType in hints:
            return None
        if others and not (kinds and isinstance(value, dict)):
            return others[0].read(value)
        name: Any = next(iter(kinds))
        if len(kinds) > 1:
            name = value.get("type") if isinstance(value, dict) else value
        if name not in tuple(kinds):
            raise _FieldError(f"is {shown(name)}; there are {', '.join(kinds)}")
        return _codec(kinds[name]).read(value)

    return _Codec(write, read)


def _tuple_codec(inner: _Codec) -> _Codec:
    def read(value: Any) -> tuple[Any, ...]:
        if type(value) is not list:
            raise _FieldError(f"must be a list, got {shown(value)}")
        found = []
        for index, one in enumerate(value):
            try:
                found.append(inner.read(one))
            except _FieldError as error:
                error.path.append(f"[{index}]")
                raise
        return tuple(found)

    return _Codec(lambda value: [inner.write(one) for one in value], read)


def _array_codec(dtype: np.dtype[Any]) -> _Codec:
    little = dtype.newbyteorder("<")

    def read(value: Any) -> NDArray[Any]:
        data = _read_bytes(value)
        if len(data) % little.itemsize:
            raise _FieldError(f"is cut off; {_AGAIN}")
        return np.frombuffer(data, little).astype(dtype)

    def write(value: NDArray[Any]) -> str:
        return base64.b64encode(value.astype(little).tobytes()).decode()

    return _Codec(write, read)


def _literal_codec(choices: tuple[Any, ...]) -> _Codec:
    def read(value: Any) -> Any:
        if not isinstance(value, str) or value not in choices:
            raise _FieldError(f"is {shown(value)}; there are {', '.join(choices)}")
        return value

    return _Codec(lambda value: value, read)


def _plain_codec(kind: type) -> _Codec:
    place = Place("")

    def read(value: Any) -> Any:
        if type(value) is kind:
            return value
        if kind is float and type(value) is int:
            return float(value)
        raise _FieldError(place.expected(kind, value))

    return _Codec(lambda value: dict(value) if kind is dict else value, read)


def _read_bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError) as error:
        raise _FieldError(f"is not base64 ({error}); {_AGAIN}") from None


# ── Checks that types do not express ─────────────────────────────────────────────────────────


def _checked(spec: TokenizerSpec, place: Place) -> TokenizerSpec:
    if len(spec.steps) > PARTS_MAX or len(spec.stages) > PARTS_MAX:
        place.refuse(f"has more than {PARTS_MAX} steps or stages")
    for index, token in enumerate(spec.added):
        _check_added(token, place.inside(f"added[{index}]"))
    _check_template(spec.template, place.inside("template"))
    at = place.inside("model")
    model = replace(spec.model, merges=_pairs(spec.model.merges, at))
    check_model(model, at, has_ranks=spec.ranks is not None)
    if spec.ranks is None:
        return replace(spec, model=model)
    ranks = replace(spec.ranks, learned=_pairs(spec.ranks.learned, place.inside("ranks")))
    spec = replace(spec, model=model, ranks=ranks)
    _check_ranks(spec, ranks, place.inside("ranks"))
    return spec


def _pairs(flat: NDArray[Any] | None, place: Place) -> NDArray[Any] | None:
    if flat is None:
        return None
    if len(flat) % 2:
        place.refuse(f"has half a merge at its end; {_AGAIN}")
    return flat.reshape(-1, 2)


def _check_added(token: Added, place: Place) -> None:
    if not token.content or not 0 <= token.id < _ADDED_ID_END:
        place.refuse(
            f"has content {token.content!r} and id {token.id}; neither may be out of range"
        )


def _check_template(template: Template, place: Place) -> None:
    for item in (*template.single, *template.pair):
        if item.ids is None and item.name not in ("A", "B"):
            place.refuse(f"has sequence {item.name!r}; there are A and B")


def check_model(model: Model, place: Place, *, has_ranks: bool = False) -> Model:
    """Return a model whose arrays fit each other. The core checks the ids of ranks itself."""
    lengths, ids, kinds, order, unk = model.lengths, model.ids, model.kinds, model.order, model.unk
    count = len(ids)
    if model.merges is not None and model.merges.size and model.merges.max() >= count:
        place.refuse(f"has merges of tokens that are not there; {_AGAIN}")
    if len(lengths) != count or len(kinds) != count or (order is not None and len(order) != count):
        place.refuse(f"has arrays of different lengths; {_AGAIN}")
    if int(lengths.sum(dtype=np.uint64)) != len(model.data):
        place.refuse(f"has lengths that do not add up to its data; {_AGAIN}")
    if count and (kinds.max() > DECODED or lengths.max() > TOKEN_BYTES_MAX):
        place.refuse("has a token of no known kind, or a longer one than can be loaded")
    if count and ((ids.max() >= IDS_END and not has_ranks) or len(np.unique(ids)) < count):
        place.refuse(f"has an id twice, or one that is {IDS_END:,} or more")
    if (unk is None and model.missing == "unk") or (unk is not None and unk not in ids):
        place.refuse(f"has unk {unk!r}, which is no id of a token")
    if model.missing == "bytes" and np.count_nonzero(kinds == BYTE) != 256:
        place.refuse("has not a token for each byte, and needs them")
    if model.dropout is not None and not 0 <= model.dropout <= 1:
        place.refuse(f"has dropout {model.dropout}: Dropout should be between 0 and 1, inclusive")
    return model


def _check_ranks(spec: TokenizerSpec, ranks: Ranks, place: Place) -> None:
    """Ranks have one pattern and plain special tokens. Everything else must be the default."""
    model, usual = spec.model, TokenizerSpec(spec.model)
    others = (spec.steps, spec.blank, spec.prefix, spec.template)
    of_model = (model.base, model.whole, model.missing, model.unk, model.fuse_unk, model.dropout)
    is_plain = (
        others == (usual.steps, usual.blank, usual.prefix, usual.template)
        and of_model == ("bytes", True, "fail", None, False, None)
        and model.merges is None
        and model.order is None
    )
    stage = spec.stages[0] if len(spec.stages) == 1 else None
    is_cut = (
        stage is not None
        and isinstance(stage.match, Pattern)
        and stage.match.dialect == "tiktoken"
        and (stage.behaviour, stage.invert) == ("removed", True)
    )
    is_found = all(token == Added(token.content, token.id) for token in spec.added)
    if not (is_plain and is_cut and is_found):
        place.refuse(f"is set, and other parts are not as ranks have them; {_AGAIN}")
    known = [*model.ids.tolist(), *(token.id for token in spec.added)]
    if ranks.learned is not None and not bool(np.isin(ranks.learned, known).all()):
        place.refuse(f"has merges of ids that are not there; {_AGAIN}")
