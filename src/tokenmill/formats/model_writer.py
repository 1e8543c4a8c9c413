"""Parts → .model, for what SentencePiece can express: it gives the same ids, or nothing is written.

Scores are places: of two pieces the one that is merged first has the higher one. A list of merges
is written, too, if it says the same as places do: of every token all pairs that spell it stand
there, and those of two tokens do not mix.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tokenmill.errors import VocabularyError
from tokenmill.formats import model as reader
from tokenmill.formats.parts import BYTE, TOKEN, Added, Charsmap, Model, Parts, Squeeze
from tokenmill.formats.pieces import BYTES, CONTROL, NORMAL, SPACE, UNKNOWN, USER_DEFINED
from tokenmill.formats.protobuf import write_bytes, write_float, write_number

_WAY_OUT = "save to tokenizer.json or .tokenmill"


def write(parts: Parts) -> bytes:
    """The file .model."""
    _check(parts)
    texts = _texts(parts)
    types = [NORMAL] * len(texts)
    for one in parts.added:
        types[one.id] = CONTROL if one.special else USER_DEFINED
    for id_ in parts.model.ids[parts.model.kinds == BYTE].tolist():
        types[id_] = BYTES
    assert parts.model.unk is not None
    types[parts.model.unk] = UNKNOWN
    order = _order(parts.model)
    message = bytearray()
    for id_, (text, type_) in enumerate(zip(texts, types, strict=True)):
        score = -float(order.get(id_, 0)) if type_ == NORMAL else 0.0
        entry = write_bytes(1, text) + write_float(2, score)
        if type_ != NORMAL:
            entry += write_number(3, type_)
        message += write_bytes(1, entry)
    data = bytes(message) + write_bytes(2, _trainer(parts)) + write_bytes(3, _normalizer(parts))
    _check_again(parts, data, types)
    return data


def _refuse(what: str) -> VocabularyError:
    return VocabularyError(f"{what}, which SentencePiece's .model cannot say; {_WAY_OUT}")


def _check(parts: Parts) -> None:
    model = parts.model
    if model.base != "characters":
        raise _refuse("tokens are merged from bytes")
    if model.whole or model.dropout:
        raise _refuse("the model takes whole pretokens, or drops merges at random")
    if model.missing not in ("unk", "bytes") or model.unk is None:
        raise _refuse("characters that are no tokens have no token of their own")
    if model.missing == "unk" and not model.fuse_unk:
        raise _refuse("unknown characters that stand together are not one token")
    if parts.stages or parts.prefix not in ("always", "never"):
        raise _refuse("text is cut before merging, or gets a blank only where there is none")
    names = [type(step).__name__ for step in parts.steps]
    if names not in ([], ["Charsmap"], ["Squeeze"], ["Charsmap", "Squeeze"]):
        raise _refuse(f"normalisers are {', '.join(names)}")
    if any(isinstance(step, Charsmap) and step.by_grapheme for step in parts.steps):
        raise _refuse("the normaliser Precompiled is Hugging Face's")
    for one in parts.added:
        if not _is_symbol(one, parts):
            raise _refuse(f"{one} is found otherwise")


def _is_symbol(one: Added, parts: Parts) -> bool:
    """Whether it is found as control pieces or user-defined symbols are."""
    if one.lstrip or one.rstrip or one.single_word:
        return False
    if one.special or one.literal:
        return True
    # In the text as it was, which is the one that SentencePiece looks at if nothing changes it.
    plain = not parts.steps and parts.prefix == "never"
    return plain and not one.normalized and SPACE not in one.content and " " not in one.content


def _texts(parts: Parts) -> list[bytes]:
    """The pieces by id."""
    found = {one.id: one.content.encode() for one in parts.added}
    ends = np.cumsum(parts.model.lengths, dtype=np.int64).tolist()
    for id_, kind, start, end in zip(
        parts.model.ids.tolist(), parts.model.kinds.tolist(), [0, *ends], ends, strict=False
    ):
        text = parts.model.data[start:end]
        found[id_] = b"<0x%02X>" % text[0] if kind == BYTE else text
    if sorted(found) != list(range(len(found))):
        raise _refuse("ids have gaps")
    return [found[id_] for id_ in range(len(found))]


def _order(model: Model) -> dict[int, int]:
    """Which token is merged when, by id."""
    if model.merges is None:
        order = model.ids if model.order is None else model.order
        return dict(zip(model.ids.tolist(), order.tolist(), strict=True))
    ends = np.cumsum(model.lengths, dtype=np.int64).tolist()
    spans = zip([0, *ends], ends, strict=False)
    texts = [model.data[start:end].decode(errors="replace") for start, end in spans]
    tokens = {text for text, kind in zip(texts, model.kinds.tolist(), strict=True) if kind == TOKEN}
    pairs: dict[str, list[int]] = {}
    there = set()
    for place, (left, right) in enumerate(model.merges.reshape(-1, 2).tolist()):
        pairs.setdefault(texts[left] + texts[right], []).append(place)
        there.add((texts[left], texts[right]))
    for text in tokens:
        for at in range(1, len(text)):
            pair = (text[:at], text[at:])
            if pair[0] in tokens and pair[1] in tokens and pair not in there:
                raise _refuse(f"{pair} are not merged, though {text!r} is a token")
    ranges = sorted((min(places), max(places), text) for text, places in pairs.items())
    for (_, last, text), (first, _, other) in pairwise(ranges):
        if first < last:
            raise _refuse(f"merges that make {text!r} and {other!r} are mixed")
    places = {text: place for place, (_, _, text) in enumerate(ranges)}
    return {id_: places.get(text, 0) for id_, text in zip(model.ids.tolist(), texts, strict=True)}


def _trainer(parts: Parts) -> bytes:
    found = write_number(3, 2)  # BPE
    found += write_number(4, len(parts.model.ids))
    names = parts.extra.get(reader.EXTRA, {})
    if reader.COVERAGE in names:
        found += write_float(10, names[reader.COVERAGE])
    if reader.LENGTH_MAX in names:
        found += write_number(20, names[reader.LENGTH_MAX])
    found += b"".join(write_bytes(31, t.content.encode()) for t in parts.added if not t.special)
    if parts.model.missing == "bytes":
        found += write_number(35, 1)
    for field, name in reader.NAMES.items():
        if name in names:
            found += write_bytes(field, names[name].encode())
    return found


def _normalizer(parts: Parts) -> bytes:
    rules = b"".join(step.data for step in parts.steps if isinstance(step, Charsmap))
    found = write_bytes(1, b"user_defined" if rules else b"identity") + write_bytes(2, rules)
    # As SentencePiece writes them: not where they are set, which is usual.
    settings = {3: parts.prefix == "always", 4: Squeeze() in parts.steps, 5: parts.blank}
    return found + b"".join(write_number(n, 0) for n, is_set in settings.items() if not is_set)


def _check_again(parts: Parts, data: bytes, types: list[int]) -> None:
    """That every token is read as what it is here: some that are only decoded would be found."""
    kinds = reader.read(data, "this tokenizer as a .model").model.kinds.tolist()
    for id_, kind in zip(parts.model.ids.tolist(), parts.model.kinds.tolist(), strict=True):
        if types[id_] == NORMAL and kinds[id_] != kind:
            raise _refuse(f"token {id_} is found in no text")
