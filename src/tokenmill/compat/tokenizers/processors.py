"""Post-processors: they add special tokens to encodings and join the encodings of a pair.

`PostProcessor._run` maps encodings to encodings, which are then merged. `_plan` describes the same
result for ids alone, without encodings; the pipeline uses it where it exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from tokenmill.compat.tokenizers.components import (
    Component,
    Steps,
    check_flag,
    check_instance,
)
from tokenmill.compat.tokenizers.encoding import Encoding, merge, of_specials
from tokenmill.errors import TokenizersError

# A part of the result: the ids of a special token, or None and the index of a sequence; the type.
Slot: TypeAlias = tuple[list[int] | None, int, int]
# The characters that offsets exclude at the ends of tokens: White_Space, and the space as a byte.
_SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\u0120"
)


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
        return 0

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        raise NotImplementedError

    def _plan(self, is_pair: bool, specials: bool) -> list[Slot] | None:
        """Return the slots of the result; None if only `_run` can tell."""
        return None


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


def plan(processor: PostProcessor | None, is_pair: bool, specials: bool) -> list[Slot] | None:
    """Return the slots that `process` fills, for ids alone."""
    if processor is None:
        return [(None, index, index) for index in range(1 + is_pair)]
    return processor._plan(is_pair, specials)


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

    def _plan(self, is_pair: bool, specials: bool) -> list[Slot] | None:
        return [(None, index, index) for index in range(1 + is_pair)]


class BertProcessing(PostProcessor):
    """[CLS] A [SEP] B [SEP]."""

    _HAS_PAIR_START: bool = False  # whether a separator is also before the second sequence

    def _added(self, is_pair: bool) -> int:
        return 2 + is_pair * (1 + self._HAS_PAIR_START)

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        if not specials:
            return encodings
        found = []
        for index, each in enumerate(encodings):
            around = self._around(each, index)
            around._overflowing = [self._around(one, index) for one in each._overflowing]
            found.append(around)
        return found

    def _around(self, encoding: Encoding, index: int) -> Encoding:
        """Return an encoding between its special tokens, which belong to no sequence."""
        type_id = 0 if self._HAS_PAIR_START else min(index, 1)
        bare = encoding._slice(0, len(encoding))
        bare._special = [0] * len(bare)
        bare._attention = [1] * len(bare)
        if self._HAS_PAIR_START:
            bare._type_ids = [0] * len(bare)
        bare.set_sequence_id(min(index, 1))
        parts = [bare, of_specials([self.sep[1]], [self.sep[0]], type_id)]
        if index == 0 or self._HAS_PAIR_START:
            token, id_ = self.cls if index == 0 else self.sep
            parts.insert(0, of_specials([id_], [token], type_id))
        return merge(parts, False)

    def _plan(self, is_pair: bool, specials: bool) -> list[Slot] | None:
        second = 0 if self._HAS_PAIR_START else 1
        if not specials:
            bare: list[Slot] = [(None, 0, 0), (None, 1, second)]
            return bare[: 1 + is_pair]
        sep = [self.sep[1]]
        slots: list[Slot] = [([self.cls[1]], 0, 0), (None, 0, 0), (sep, 0, 0)]
        if is_pair:
            slots += [(sep, 0, 0)] * self._HAS_PAIR_START
            slots += [(None, 1, second), (sep, 0, second)]
        return slots


class RobertaProcessing(BertProcessing):
    """<s> A </s></s> B </s>, all of type 0."""

    _HAS_PAIR_START = True

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        if self.trim_offsets:
            _trim_all(encodings, self.add_prefix_space)
        for each in encodings:
            each._type_ids = [0] * len(each)
        return super()._run(encodings, specials)


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

    def _added(self, is_pair: bool) -> int:
        parts, known = self._items(is_pair), self._data["special_tokens"]
        names = [part["id"] for kind, part in parts if kind == "SpecialToken"]
        return sum(len(known[name]["ids"]) for name in names if name in known)

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        if len(encodings) > 2:
            raise TokenizersError("a second template in a Sequence is not supported")
        found = []
        for kind, part in self._items(len(encodings) == 2):
            if kind == "Sequence":
                index = int(part["id"] != "A")
                if index >= len(encodings):
                    raise TokenizersError("the template for one sequence uses $B")
                encodings[index]._type_ids = [part["type_id"]] * len(encodings[index])
                encodings[index].set_sequence_id(index)
                found.append(encodings[index]._copy())
            elif specials:
                token = self._token(part["id"])
                found.append(of_specials(token["ids"], token["tokens"], part["type_id"]))
        return found

    def _plan(self, is_pair: bool, specials: bool) -> list[Slot] | None:
        slots: list[Slot] = []
        for kind, part in self._items(is_pair):
            if kind == "Sequence":
                if part["id"] != "A" and not is_pair:
                    return None
                slots.append((None, int(part["id"] != "A"), part["type_id"]))
            elif specials:
                slots.append((self._token(part["id"])["ids"], 0, part["type_id"]))
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

    def _plan(self, is_pair: bool, specials: bool) -> list[Slot] | None:
        others = [part for part in self._parts if not isinstance(part, ByteLevel)]
        if len(others) > 1:
            return None
        return plan(others[0] if others else None, is_pair, specials)  # type: ignore[arg-type]
