"""Post-processors: they add special tokens to encodings and join the encodings of a pair.

The template of a post-processor has items: sequences and special tokens in order. The pipeline
replaces items by ids, and `process` replaces them by encodings.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.compat.tokenizers.components import (
    BYTE_LEVEL,
    Component,
    Option,
    Steps,
    check,
    check_id,
    check_items,
    flag_or,
    once,
    options_of,
)
from tokenmill.compat.tokenizers.encoding import Encoding, merge, of_specials
from tokenmill.errors import TokenizersError, VocabularyError
from tokenmill.formats.checks import Place
from tokenmill.formats.spec import Item, Template
from tokenmill.formats.tokenizer_json import read_template

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The characters that offsets exclude at the ends of tokens: White_Space, and the space as a byte.
_SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\u0120"
)
# A part of a template: a sequence, "$", "$A" or "$1", or a token, each with an optional type id.
_PART = re.compile(
    r"(?:\$(?:(?P<letter>[ABab])|(?P<number>\+?\d+))?|(?P<token>(?!\$)[^:]*))"
    r"(?::(?P<type>\+?\d+))?",
    re.ASCII,
)
_SECOND = "a Sequence with two post-processors that add tokens is not supported"


class PostProcessor(Component):
    """The base class of all post-processors."""

    def num_special_tokens_to_add(self, is_pair: bool) -> int:
        """Return the number of tokens that it adds to a text, or to a pair."""
        return self._added(check(is_pair, bool))

    def process(
        self, encoding: Encoding, pair: Encoding | None = None, add_special_tokens: bool = True
    ) -> Encoding:
        """Return one encoding of one or two, with the special tokens."""
        return process(self, copies_of(encoding, pair), check(add_special_tokens, bool))

    @once
    def _template(self) -> Template:
        try:
            return read_template(self.to_json(), Place("the post-processor"))
        except VocabularyError as error:
            raise TokenizersError(str(error)) from None

    def _put(self, key: str, value: object) -> None:
        super()._put(key, value)
        vars(self).pop("_template", None)

    def _added(self, is_pair: bool) -> int:
        items = self._template.pair if is_pair else self._template.single
        return sum(len(item.ids) for item in items if item.ids is not None)

    def _trims(self) -> list[bool]:
        """Return the argument `prefix` of each call of `_trim`."""
        return []

    def _prepare(self, encodings: list[Encoding], specials: bool) -> None:
        """Change the encodings before they replace the items."""

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        """Return encodings in order, which are then merged."""
        if len(encodings) > 2:
            raise TokenizersError(_SECOND)
        self._prepare(encodings, specials)
        found = []
        for item in plan(self, len(encodings) == 2, specials):
            if item.ids is not None:
                found.append(of_specials([*item.ids], [*item.tokens], item.type_id))
                continue
            sequence = int(item.name == "B")
            each = encodings[sequence]
            each._type_ids = [item.type_id] * len(each)
            each.set_sequence_id(sequence)
            found.append(each._copy())
        return found


def copies_of(*encodings: object) -> list[Encoding]:
    """Return copies of encodings; None is left out."""
    return [check(one, Encoding)._copy() for one in encodings if one is not None]


def process(processor: PostProcessor | None, encodings: list[Encoding], specials: bool) -> Encoding:
    """Return one encoding of one or two, which it may change."""
    if processor is None:
        if len(encodings) == 1:
            return encodings[0]
        for index, each in enumerate(encodings):
            each.set_sequence_id(index)
        return merge(encodings, False)
    for index, each in enumerate(encodings):
        each._type_ids = [index] * len(each)
        each._overflowing = [one._copy() for one in each._overflowing]
        for one in (each, *each._overflowing):
            one.set_sequence_id(index)
    return merge(processor._run(encodings, specials), False)


def plan(processor: PostProcessor | None, is_pair: bool, specials: bool) -> list[Item]:
    """Return the items that are replaced for one text or a pair."""
    template = Template() if processor is None else processor._template
    if not is_pair and any(item.ids is None and item.name == "B" for item in template.single):
        raise TokenizersError("the template for one sequence uses $B")
    items = template.pair if is_pair else template.single
    return [item for item in items if specials or item.ids is None]


def _trim(encodings: list[Encoding], prefix: bool) -> None:
    """Exclude whitespace at the ends of tokens from their offsets.

    With `prefix` a single leading space of the first token is the one that encoding added. It has
    no offset, so it stays. Several leading spaces are all part of the text.
    """
    for encoding in [one for each in encodings for one in (each, *each._overflowing)]:
        offsets = list(encoding._offsets)
        for i, token in enumerate(encoding._tokens):
            (start, stop) = offsets[i]
            left = len(token) - len(token.lstrip(_SPACES))
            right = len(token) - len(token.rstrip(_SPACES))
            if left > 1 or (left and not (prefix and (i == 0 or start == 0))):
                start = min(start + left, stop)
            if right and stop >= right:
                stop = max(stop - right, start)
            offsets[i] = (start, stop)
        encoding._offsets = offsets


class Margins:
    """The numbers of whitespace characters at both ends of the tokens, and `_trim` for arrays."""

    def __init__(self, name_of: Callable[[int], str]) -> None:
        self._name_of = name_of
        self._sizes = np.empty((0, 2), np.int32)  # one row per id; -1 until it is needed

    def trim(
        self, ids: NDArray[np.uint32], starts: NDArray[np.int64], stops: NDArray[np.int64],
        prefix: bool,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # fmt: skip
        """Return the starts and ends of tokens without whitespace."""
        left, right = self._of(ids)
        is_kept = (left == 1) & (starts == 0) if prefix else np.zeros(len(ids), bool)
        if prefix and len(ids):
            is_kept[0] = left[0] == 1
        starts = np.where(is_kept, starts, np.minimum(starts + left, stops))
        right = np.where(stops >= right, right, 0)
        return starts, np.where(right > 0, np.maximum(stops - right, starts), stops)

    def _of(self, ids: NDArray[np.uint32]) -> NDArray[np.int32]:
        sizes = self._sizes
        if len(ids) and int(ids.max()) >= len(sizes):
            more = np.full((int(ids.max()) + 1 - len(sizes), 2), -1, np.int32)
            self._sizes = sizes = np.concatenate([sizes, more])
        for id_ in np.unique(ids[sizes[ids, 0] < 0]).tolist():
            token = self._name_of(id_)
            sizes[id_] = [len(token) - len(kept) for kept in _stripped(token)]
        return sizes[ids].T


def _stripped(token: str) -> tuple[str, str]:
    return token.lstrip(_SPACES), token.rstrip(_SPACES)


class ByteLevel(
    PostProcessor,
    options=[Option(name, flag_or(True), None) for name in BYTE_LEVEL],
    unknown="ignore",
):
    """Removes whitespace from the offsets of byte-level tokens."""

    def _trims(self) -> list[bool]:
        return [self.add_prefix_space] if self.trim_offsets else []

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        if self.trim_offsets:
            _trim(encodings, self.add_prefix_space)
        for index, each in enumerate(encodings):
            each.set_sequence_id(index)
        return encodings


def _check_token(value: object) -> list[Any]:
    """Return a token with its id in the form of tokenizer.json."""
    pair = check(value, tuple)
    if len(pair) != 2:
        raise ValueError(f"expected a tuple of a token and its id, got {pair!r}")
    return [check(pair[0], str), check_id(pair[1])]


_TOKENS = (
    Option("sep", _check_token, read=tuple),
    Option("cls_token", _check_token, key="cls", read=tuple),
)


class BertProcessing(PostProcessor, options=_TOKENS):
    """[CLS] A [SEP] B [SEP]."""

    def _prepare(self, encodings: list[Encoding], specials: bool) -> None:
        if not specials:
            return
        for index, encoding in enumerate(encodings):
            for each in (encoding, *encoding._overflowing):
                each._special, each._attention = [0] * len(each), [1] * len(each)
                each._ranges = {index: (0, len(each))}


class RobertaProcessing(
    BertProcessing, options=[*_TOKENS, *options_of(trim_offsets=True, add_prefix_space=True)]
):
    """<s> A </s></s> B </s>, all of type 0."""

    def _trims(self) -> list[bool]:
        return [self.add_prefix_space] if self.trim_offsets else []

    def _prepare(self, encodings: list[Encoding], specials: bool) -> None:
        if self.trim_offsets:
            _trim(encodings, self.add_prefix_space)
        super()._prepare(encodings, specials)
        # The real library leaves the types of the overflow if it adds no special tokens.
        for encoding in encodings if specials else ():
            for each in encoding._overflowing:
                each._type_ids = [0] * len(each)


def _template_or(default: str) -> Any:
    """Return a check of a template, a str or a list of str; None means `default`."""

    def check_template(value: object) -> list[dict[str, Any]]:
        parts = default if value is None else value
        parts = parts.split(" ") if isinstance(parts, str) else check(parts, list)
        return [_template_part(check(part, str)) for part in parts]

    return check_template


def _template_part(text: str) -> dict[str, Any]:
    """Return "$A:1" or "[SEP]:1" in the form of tokenizer.json."""
    found = _PART.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a part of a template; write $A:0, $B:1 or TOKEN:0")
    type_id = int(found["type"] or found["number"] or 0)
    if found["token"] is not None:
        return {"SpecialToken": {"id": found["token"], "type_id": type_id}}
    return {"Sequence": {"id": (found["letter"] or "A").upper(), "type_id": type_id}}


def _check_template_tokens(value: object) -> dict[str, dict[str, Any]]:
    tokens = check_items(() if value is None else value, _template_token)
    return {token["id"]: token for token in sorted(tokens, key=lambda token: str(token["id"]))}


def _template_token(value: object) -> dict[str, Any]:
    """Return (token, id), (id, token) or a dict with several ids in the form of tokenizer.json."""
    if isinstance(value, tuple) and len(value) == 2:
        name, id_ = value if isinstance(value[0], str) else value[::-1]
        if isinstance(name, str) and isinstance(id_, int) and 0 <= id_ < 1 << 32:
            return {"id": name, "ids": [id_], "tokens": [name]}
    if not isinstance(value, dict):
        raise TypeError(f"expected (token, id), (id, token) or a dict, got {value!r}")
    if missing := {"id", "ids", "tokens"} - value.keys():
        raise ValueError(f"{', '.join(sorted(missing))} missing in {value!r}")
    ids, tokens = check_items(value["ids"], check_id), check_items(value["tokens"], str)
    if len(ids) != len(tokens):
        raise TokenizersError(f"expected as many ids as tokens, got {len(ids)} and {len(tokens)}")
    return {"id": value["id"], "ids": ids, "tokens": tokens}


class TemplateProcessing(
    PostProcessor,
    options=(
        Option("single", _template_or("$0"), None),
        Option("pair", _template_or("$A:0 $B:1"), None),
        Option("special_tokens", _check_template_tokens, None),
    ),
):
    """Special tokens at the positions of a template."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        try:
            pair = self._template.pair
        except TokenizersError as error:
            raise ValueError(str(error)) from None
        if {"A", "B"} - {item.name for item in pair if item.ids is None}:
            raise ValueError("the template for a pair must use both sequences, $A and $B")


class Sequence(PostProcessor, Steps, options=[Option("processors_py", list, key="processors")]):
    """Post-processors in order."""

    @property
    def _template(self) -> Template:  # not cached, because its parts may change
        found = [part._template for part in self._parts if not isinstance(part, ByteLevel)]
        if len(found) > 1:
            raise TokenizersError(_SECOND)
        return found[0] if found else Template()

    def _trims(self) -> list[bool]:
        return [prefix for part in self._parts for prefix in part._trims()]

    def _added(self, is_pair: bool) -> int:
        return sum(part._added(is_pair) for part in self._parts)

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        for part in self._parts:
            encodings = part._run(encodings, specials)
        return encodings
