"""Rank file ↔ TokenizerSpec: tiktoken's format, a line `base64 rank` for each token."""

from __future__ import annotations

import binascii
import codecs
import operator
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from tokenmill.errors import VocabularyError
from tokenmill.formats.build import added_of, build, model_of
from tokenmill.formats.checks import Place, cannot_save
from tokenmill.formats.names import byte_level, bytes_of
from tokenmill.formats.spec import DECODED, Model, Ranks, TokenizerSpec
from tokenmill.native import _native
from tokenmill.patterns.schemes import PATTERNS, Pattern, Stage, pattern_of
from tokenmill.reference import merge_symbols
from tokenmill.vocabularies import EMBEDDED, find_known

SUFFIX = ".tiktoken"
_error = partial(cannot_save, "a rank file")
_EMPTY = b"="  # Whisper's spelling of a token without bytes, which is only decoded
_LINE = re.compile(rb"\n*(?:[A-Za-z0-9+/]+=*|=) [0-9]+\s*(?:\n|$)")


def is_ranks(path: Path, data: bytes) -> bool:
    """Return whether a file has the suffix of a rank file, or begins like one."""
    return path.suffix == SUFFIX or _LINE.match(data) is not None


def read(data: bytes, source: str, pattern: str | None) -> TokenizerSpec:
    """Return the specification of a rank file. Published files need no `pattern`."""
    tokens = parse(data, source)
    known = find_known(data) if pattern is None else None
    if known is not None:
        return of_ranks(tokens, pattern_of(known.scheme), known.special_tokens, source)
    if pattern is None:
        raise VocabularyError(
            f"a rank file has no pattern, which splits text before merging; load {source} with "
            f'pattern="…", a regular expression or one of {", ".join(PATTERNS)}'
        )
    return of_ranks(tokens, pattern, {}, source)


def parse(data: bytes, source: str) -> dict[bytes, int]:
    """Return the tokens of a rank file with their ranks."""
    ranks: dict[bytes, int] = {}
    taken: dict[int, bytes] = {}
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            encoded, rank = line.split()
            token = b"" if encoded == _EMPTY else binascii.a2b_base64(encoded, strict_mode=True)
            if not rank.isdigit():
                raise ValueError
            value = int(rank)
        except ValueError:
            hint = "pass a tiktoken rank file"
            if line.startswith(codecs.BOM_UTF8):
                hint = "remove the byte-order mark"
            raise VocabularyError(
                f"{source}, line {number}: {line[:60]!r} is not a token in base64, a space and a "
                f"rank; {hint}"
            ) from None
        if token in ranks:
            raise VocabularyError(
                f"{source}, line {number}: token {token!r} occurs twice; remove one"
            )
        if value in taken:
            raise VocabularyError(
                f"{source}, line {number}: {token!r} and {taken[value]!r} share rank {value}"
            )
        taken[value] = token
        ranks[token] = value
    if not ranks:
        raise VocabularyError(f"{source} has no tokens; pass a tiktoken rank file")
    return ranks


def write_ranks(tokens: dict[int, bytes]) -> bytes:
    """Return the rank file of tokens by id."""
    encode = binascii.b2a_base64
    return b"".join(
        (encode(tokens[rank], newline=False) or _EMPTY) + b" %d\n" % rank for rank in sorted(tokens)
    )


Merge = tuple[bytes, bytes]


def find_merges(tokens: Mapping[int, bytes]) -> list[Merge]:
    """Return the pair that makes each token, in the order of the ids.

    It is the last step of merging the token's bytes with lower ids. Tokens that these merges do
    not produce have none.
    """
    ranks = {token: id_ for id_, token in tokens.items()}

    def rank_below(left: bytes, right: bytes) -> int | None:
        rank = ranks.get(left + right, id_)
        return rank if rank < id_ else None

    merges = []
    for id_ in sorted(tokens):
        symbols = [bytes([byte]) for byte in tokens[id_]]
        for _ in merge_symbols(symbols, rank_below):
            pass
        if len(symbols) == 2:
            merges.append((symbols[0], symbols[1]))
    return merges


DECODER = byte_level(True)


def pattern_stage(pattern: str) -> Stage:
    """Return the stage of a tiktoken pattern. Text between its matches is removed."""
    return Stage(Pattern(pattern, "tiktoken"), "removed", True)


def of_ranks(
    ranks: Mapping[bytes, int], pattern: str, special_tokens: Mapping[str, int], source: str
) -> TokenizerSpec:
    """Return the specification of ranks as in tiktoken: the rank of a token is its id."""
    _check_ranks(ranks, Place(source))
    by_rank = dict(sorted(ranks.items(), key=operator.itemgetter(1)))
    model = Model.of(by_rank.keys(), [*by_rank.values()], whole=True)
    return _of_model(model, pattern, special_tokens)


def _of_model(model: Model, pattern: str, special_tokens: Mapping[str, int]) -> TokenizerSpec:
    added, stages = added_of(special_tokens), (pattern_stage(pattern),)
    return TokenizerSpec(model, added, stages=stages, decoder=DECODER, ranks=Ranks())


def _check_ranks(ranks: Mapping[bytes, int], place: Place) -> None:
    """Raise VocabularyError unless tokens are bytes and ranks are ids."""
    numbers = ranks.values()
    are_typed = {*map(type, ranks)} <= {bytes} and {*map(type, numbers)} <= {int}
    if are_typed and (not ranks or (min(numbers) >= 0 and max(numbers) < 1 << 32)):
        return
    for token, rank in ranks.items():
        if type(rank) is int and rank >= 1 << 32:
            place.refuse(f"has rank {rank} for {token!r}, which is too large for an id")
        if not isinstance(token, bytes) or type(rank) is not int or rank < 0:
            place.refuse(f"has rank {rank!r} for {token!r}; ranks are of bytes, 0 or more")


def of_embedded(
    name: str, special_tokens: Mapping[str, int], core: _native.Core | None = None
) -> tuple[TokenizerSpec, _native.Core]:
    """Return the specification of an embedded vocabulary with more special tokens, and its core."""
    entry = EMBEDDED[name]
    own = entry.special_tokens
    for special, id_ in special_tokens.items():
        if own.get(special, id_) != id_:
            raise VocabularyError(
                f"special token {special!r} of {name} has id {own[special]}, not {id_}"
            )
    spec = _of_model(Model.of((), ()), pattern_of(entry.scheme), {**special_tokens, **own})
    core = core or build(spec, entry.read_image())
    spec = replace(spec, model=model_of(core))
    check_special_ids(spec, own.keys())
    return spec, core


def check_special_ids(spec: TokenizerSpec, own: Collection[str] = ()) -> None:
    """Raise VocabularyError if the id of a special token is in use.

    The special tokens `own` may share ids.
    """
    names = {token.content: token.id for token in spec.added}
    owners: dict[int, str] = {}
    for name, id_ in names.items():
        other = owners.setdefault(id_, name)
        if other != name and not (name in own and other in own):
            raise VocabularyError(f"special tokens {other!r} and {name!r} have the same id {id_}")
    ids_end = spec.model.ids_end
    taken = {name: id_ for name, id_ in names.items() if id_ < ids_end}
    tokens = spec.model.by_id() if taken else {}
    for name, id_ in taken.items():
        if tokens.get(id_, b"") not in (b"", name.encode()):
            raise VocabularyError(
                f"special token {name!r} has id {id_}, which is token {tokens[id_]!r}; give it a "
                f"free id, such as {max(ids_end, *(1 + other for other in names.values()))}"
            )


def add_special_tokens(
    spec: TokenizerSpec, special_tokens: Mapping[str, int], name: str
) -> TokenizerSpec:
    """Return the specification with more special tokens, which only ranks can have."""
    added = {token.content: token.id for token in spec.added if token.special}
    if spec.ranks is not None:
        return replace(spec, added=added_of({**added, **special_tokens}))
    for special, id_ in special_tokens.items():
        if added.get(special) != id_:
            raise VocabularyError(
                f"special token {special!r} with id {id_} is not in {name}; add it to the file"
            )
    return spec


def merges_of(spec: TokenizerSpec) -> list[Merge]:
    """Return the merges that make the tokens: the learned ones, or else derived from the ranks."""
    tokens = spec.model.by_id()
    if spec.ranks is None or spec.ranks.learned is None:
        return find_merges(tokens)
    # A special token that is written like a learned token has its id and replaces it.
    texts = {token.id: bytes_of(token.content) or b"" for token in spec.added} | tokens
    return [(texts[left], texts[right]) for left, right in spec.ranks.learned.tolist()]


def pattern_text(spec: TokenizerSpec) -> str:
    """Return the pattern of a rank vocabulary."""
    (stage,) = spec.stages
    assert isinstance(stage.match, Pattern)
    return stage.match.text


def write(spec: TokenizerSpec) -> bytes:
    """Return the rank file of a tokenizer. Raise VocabularyError if its ids are not ranks.

    Special tokens and the pattern are not in such a file.
    """
    model = spec.model
    if (feature := feature_of(spec)) is not None:
        raise _error(feature)
    tokens = _ranked(spec)
    if model.merges is not None:
        _check_merges(spec, tokens)
    elif model.order is not None:
        order = model.order[np.argsort(model.ids)]
        if np.any(order[1:] <= order[:-1]):
            raise _error("its merges are not in the order of its ids")
    return write_ranks(tokens)


def feature_of(spec: TokenizerSpec) -> str | None:
    """Return a feature that files without a normalizer and with one pattern lack, or None."""
    if spec.model.base != "bytes":
        return "its merges start with characters"
    if spec.steps or spec.blank or spec.prefix != "never":
        return "it has a normalizer"
    if len(spec.stages) != 1 or not isinstance(spec.stages[0].match, Pattern):
        return "its pre-tokenizer is not one pattern"
    return "it has dropout" if spec.model.dropout else None


def _ranked(spec: TokenizerSpec) -> dict[int, bytes]:
    """Return the tokens by id, without special tokens, which ranks never contain."""
    names = set() if spec.ranks is not None else {token.id for token in spec.added}
    tokens = spec.model.by_id()
    for id_ in spec.model.ids[spec.model.kinds == DECODED].tolist():
        if tokens[id_] and id_ not in names:
            raise _error(f"token {id_}, {tokens[id_]!r}, is only decoded")
    return {id_: token for id_, token in tokens.items() if id_ not in names}


def _check_merges(spec: TokenizerSpec, tokens: dict[int, bytes]) -> None:
    """Raise VocabularyError unless ranks give the same merges in the same order."""
    model = spec.model
    assert model.merges is not None
    texts = model.tokens()
    listed: dict[bytes, tuple[bytes, bytes]] = {}
    for left, right in model.merges.tolist():
        listed[texts[left] + texts[right]] = (texts[left], texts[right])
    found = find_merges(tokens)
    if list(listed.values()) != found or len(listed) != len(model.merges):
        raise _error("its merges are not those of its ids")
    if not model.whole and len(found) != sum(len(token) > 1 for token in tokens.values()):
        raise _error("merges do not produce all tokens, and a rank file would")
