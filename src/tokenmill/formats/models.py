"""The model of a tokenizer.json ↔ tokens and merges: what its options mean, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import VocabularyError
from tokenmill.formats.byte_characters import shown
from tokenmill.formats.merges import find_merges
from tokenmill.formats.parts import BYTE, DECODED, TOKEN, Model, Parts
from tokenmill.formats.places import Place
from tokenmill.formats.spelling import Names
from tokenmill.formats.steps import Cutting
from tokenmill.native import _native


def read(
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
    pairs: NDArray[np.uint32],
    kinds: NDArray[np.uint8],
    names: Names,
    unk: int | None,
    place: Place,
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


def write_merges(parts: Parts, names: list[str]) -> list[tuple[str, str]]:
    """Pairs of names in order; found if there are none."""
    model = parts.model
    if model.merges is not None:
        return [(names[left], names[right]) for left, right in model.merges.tolist()]
    if model.base != "bytes":
        return _splits(model, names)
    learned = None if parts.ranks is None else parts.ranks.learned
    pairs = _ranked_merges(model) if learned is None else learned
    return [(shown(left), shown(right)) for left, right in pairs]


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
