"""Post-processors: they add special tokens to encodings and join the encodings of a pair.

A post-processor describes its result as slots: sequences and special tokens in order. The pipeline
fills the slots with ids, and `process` fills them with encodings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tokenmill.compat.tokenizers.components import (
    Component,
    Steps,
    check_flag,
    check_instance,
)
from tokenmill.compat.tokenizers.encoding import Encoding, merge, of_specials
from tokenmill.errors import TokenizersError

# The characters that offsets exclude at the ends of tokens: White_Space, and the space as a byte.
_SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\u0120"
)
_SECOND = "a Sequence with two post-processors that add tokens is not supported"


class Slot(NamedTuple):
    """A part of the result: a sequence, or special tokens if there are `ids`."""

    type_id: int
    sequence: int = 0
    ids: list[int] | None = None
    tokens: list[str] | None = None


class PostProcessor(Component):
    """The base class of all post-processors."""

    def num_special_tokens_to_add(self, is_pair: bool) -> int:
        """Return the number of tokens that it adds to a text, or to a pair."""
        return self._added(check_flag(is_pair))

    def process(
        self, encoding: Encoding, pair: Encoding | None = None, add_special_tokens: bool = True
    ) -> Encoding:
        """Return one encoding of one or two, with the special tokens."""
        first = check_instance(encoding, Encoding)._copy()
        second = None if pair is None else check_instance(pair, Encoding)._copy()
        return process(self, first, second, check_flag(add_special_tokens))

    def _added(self, is_pair: bool) -> int:
        return sum(len(slot.ids) for slot in self._slots(is_pair) if slot.ids is not None)

    def _slots(self, is_pair: bool) -> list[Slot]:
        """Return the slots of the result: by default the sequences."""
        return [Slot(index, index) for index in range(1 + is_pair)]

    def _prepare(self, encodings: list[Encoding], specials: bool) -> None:
        """Change the encodings before they fill the slots."""

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        """Return encodings in order, which are then merged."""
        if len(encodings) > 2:
            raise TokenizersError(_SECOND)
        self._prepare(encodings, specials)
        found = []
        for slot in plan(self, len(encodings) == 2, specials):
            if slot.ids is not None and slot.tokens is not None:
                found.append(of_specials(slot.ids, slot.tokens, slot.type_id))
                continue
            each = encodings[slot.sequence]
            each._type_ids = [slot.type_id] * len(each)
            each.set_sequence_id(slot.sequence)
            found.append(each._copy())
        return found


def process(
    processor: PostProcessor | None, first: Encoding, second: Encoding | None, specials: bool
) -> Encoding:
    """Return one encoding of one or two, which it may change."""
    encodings = [first] if second is None else [first, second]
    if processor is None:
        if second is None:
            return first
        for index, each in enumerate(encodings):
            each.set_sequence_id(index)
        return merge(encodings, False)
    for index, each in enumerate(encodings):
        _set_sequence(each, index)
        each._type_ids = [index] * len(each)
    return merge(processor._run(encodings, specials), False)


def plan(processor: PostProcessor | None, is_pair: bool, specials: bool) -> list[Slot]:
    """Return the slots that are filled for one text or a pair."""
    if processor is None:
        return [Slot(index, index) for index in range(1 + is_pair)]
    slots = [slot for slot in processor._slots(is_pair) if specials or slot.ids is None]
    if any(slot.sequence > is_pair for slot in slots):
        raise TokenizersError("the template for one sequence uses $B")
    return slots


def _set_sequence(encoding: Encoding, sequence: int) -> None:
    encoding.set_sequence_id(sequence)
    encoding._overflowing = [each._copy() for each in encoding._overflowing]
    for each in encoding._overflowing:
        each.set_sequence_id(sequence)


def _trim(encoding: Encoding, prefix: bool) -> None:
    """Exclude whitespace at the ends of tokens from their offsets.

    With `prefix` a single leading space of the first token is the one that encoding added. It has
    no offset, so it stays. Several leading spaces are all part of the text.
    """
    offsets = list(encoding._complete()._offsets)
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


def _trim_all(encodings: list[Encoding], prefix: bool) -> None:
    for encoding in encodings:
        _trim(encoding, prefix)
        for each in encoding._overflowing:
            _trim(each, prefix)


class ByteLevel(PostProcessor):
    """Removes whitespace from the offsets of byte-level tokens."""

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        if self.trim_offsets:
            _trim_all(encodings, self.add_prefix_space)
        for index, each in enumerate(encodings):
            each.set_sequence_id(index)
        return encodings


class BertProcessing(PostProcessor):
    """[CLS] A [SEP] B [SEP]."""

    def _slots(self, is_pair: bool) -> list[Slot]:
        (sep, sep_id), (cls, cls_id) = self.sep, self.cls
        end = Slot(0, 0, [sep_id], [sep])
        first = [Slot(0, 0, [cls_id], [cls]), Slot(0), end]
        return [*first, Slot(1, 1), end._replace(type_id=1)] if is_pair else first

    def _prepare(self, encodings: list[Encoding], specials: bool) -> None:
        if not specials:
            return
        for index, encoding in enumerate(encodings):
            for each in (encoding, *encoding._overflowing):
                each._special, each._attention = [0] * len(each), [1] * len(each)
                each._ranges = {index: (0, len(each))}


class RobertaProcessing(BertProcessing):
    """<s> A </s></s> B </s>, all of type 0."""

    def _slots(self, is_pair: bool) -> list[Slot]:
        slots = super()._slots(is_pair)
        between = [slots[2]] if is_pair else []
        return [slot._replace(type_id=0) for slot in (*slots[:3], *between, *slots[3:])]

    def _prepare(self, encodings: list[Encoding], specials: bool) -> None:
        if self.trim_offsets:
            _trim_all(encodings, self.add_prefix_space)
        super()._prepare(encodings, specials)
        # The real library leaves the types of the overflow if it adds no special tokens.
        for encoding in encodings if specials else ():
            for each in encoding._overflowing:
                each._type_ids = [0] * len(each)


class TemplateProcessing(PostProcessor):
    """Special tokens at the positions of a template."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        single, pair = self._items(False), self._items(True)
        if {"A", "B"} - {part["id"] for kind, part in pair if kind == "Sequence"}:
            raise ValueError("the template for a pair must use both sequences, $A and $B")
        tokens = [part["id"] for kind, part in single + pair if kind == "SpecialToken"]
        missing = [name for name in dict.fromkeys(tokens) if name not in self.special_tokens]
        if missing:
            raise ValueError(f"Missing SpecialToken(s) with id(s) `{', '.join(missing)}`")

    def _items(self, is_pair: bool) -> list[tuple[str, dict[str, Any]]]:
        """Return each part of a template: its kind, and its id and type."""
        template: list[dict[str, Any]] = self._data["pair" if is_pair else "single"]
        return [item for part in template for item in part.items()]

    def _slots(self, is_pair: bool) -> list[Slot]:
        slots = []
        for kind, part in self._items(is_pair):
            if kind == "Sequence":
                slots.append(Slot(part["type_id"], int(part["id"] != "A")))
            else:
                token = self._token(part["id"])
                slots.append(Slot(part["type_id"], 0, token["ids"], token["tokens"]))
        return slots

    def _token(self, name: str) -> Mapping[str, Any]:
        known: Mapping[str, Mapping[str, Any]] = self._data["special_tokens"]
        if name not in known:
            raise TokenizersError(f"special_tokens has no ids for {name!r}")
        return known[name]


class Sequence(PostProcessor, Steps):
    """Post-processors in order."""

    def _added(self, is_pair: bool) -> int:
        return sum(part._added(is_pair) for part in self._parts)

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        for part in self._parts:
            encodings = part._run(encodings, specials)
        return encodings

    def _slots(self, is_pair: bool) -> list[Slot]:
        others = [part for part in self._parts if not isinstance(part, ByteLevel)]
        if len(others) > 1:
            raise TokenizersError(_SECOND)
        (only,) = others or (ByteLevel(),)
        return only._slots(is_pair)  # type: ignore[no-any-return]
