"""Post-processors: they add special tokens to encodings and join the encodings of a pair."""

from __future__ import annotations

from functools import partial
from typing import Any

from tokenmill.compat.tokenizers.components import Component, Steps, check_flag, check_instance
from tokenmill.compat.tokenizers.encoding import Columns, Encoding, merge, of_specials
from tokenmill.errors import TokenizersError

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
        """Return encodings in order, which are then merged. The arguments may change."""
        raise NotImplementedError


def process(
    processor: PostProcessor | None, first: Encoding, second: Encoding | None, specials: bool
) -> Encoding:
    """Return one encoding of one or two, which it may change."""
    encodings = [first] if second is None else [first, second]
    if processor is None and second is None:
        return first
    for index, encoding in enumerate(encodings):
        if processor is None:
            encoding.set_sequence_id(index)
        else:
            encoding._change(partial(Encoding.set_sequence_id, sequence_id=index))
            encoding._type_ids = [index] * len(encoding)
    return merge(encodings if processor is None else processor._run(encodings, specials), False)


def _trim(encodings: list[Encoding], prefix: bool) -> None:
    """Exclude whitespace at the ends of tokens from their offsets.

    With `prefix` a single leading space of the first token is the one that encoding added. It has
    no offset, so it stays. Several leading spaces are all part of the text.
    """

    def trim(columns: Columns) -> Columns:
        offsets = list(columns.offsets)
        for i, token in enumerate(columns.tokens):
            (start, stop) = offsets[i]
            left = len(token) - len(token.lstrip(_SPACES))
            right = len(token) - len(token.rstrip(_SPACES))
            if left > 1 or (left and not (prefix and (i == 0 or start == 0))):
                start = min(start + left, stop)
            if right and stop >= right:
                stop = max(stop - right, start)
            offsets[i] = (start, stop)
        return columns._replace(offsets=offsets)

    for encoding in encodings:
        encoding._change(lambda each: each._change_text(trim))


class ByteLevel(PostProcessor):
    """Removes whitespace from the offsets of byte-level tokens."""

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        if self.trim_offsets:
            _trim(encodings, self.add_prefix_space)
        for index, each in enumerate(encodings):
            each.set_sequence_id(index)
        return encodings


class BertProcessing(PostProcessor):
    """[CLS] A [SEP] B [SEP]."""

    def _added(self, is_pair: bool) -> int:
        return 2 + is_pair

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        if not specials:
            return encodings
        return [self._frame(each, min(index, 1)) for index, each in enumerate(encodings)]

    def _frame(self, encoding: Encoding, sequence: int) -> Encoding:
        """Return the encoding between special tokens."""
        start = [] if sequence else [_special(self.cls, 0)]
        return merge([*start, _alone(encoding, sequence), _special(self.sep, sequence)], False)


class RobertaProcessing(BertProcessing):
    """<s> A </s></s> B </s>, all of type 0."""

    def _added(self, is_pair: bool) -> int:
        return 2 + 2 * is_pair

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        if self.trim_offsets:
            _trim(encodings, self.add_prefix_space)
        for encoding in encodings:
            # The real library leaves the types of the overflow if it adds no special tokens.
            if specials:
                encoding._change(_set_type)
            else:
                _set_type(encoding)
        return super()._run(encodings, specials)

    def _frame(self, encoding: Encoding, sequence: int) -> Encoding:
        start = _special(self.sep if sequence else self.cls, 0)
        return merge([start, _alone(encoding, sequence), _special(self.sep, 0)], False)


def _special(token: tuple[str, int], type_id: int) -> Encoding:
    return of_specials([token[1]], [token[0]], type_id)


def _set_type(encoding: Encoding) -> None:
    encoding._type_ids = [0] * len(encoding)


def _alone(encoding: Encoding, sequence: int) -> Encoding:
    """Return the encoding with the masks and ranges of a single sequence."""

    def change(each: Encoding) -> None:
        each._special, each._attention = [0] * len(each), [1] * len(each)
        each._ranges = {sequence: (0, len(each))}

    encoding._change(change)
    return encoding


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

    def _ids(self, name: str) -> dict[str, Any]:
        known: dict[str, dict[str, Any]] = self._data["special_tokens"]
        if name not in known:
            raise TokenizersError(f"special_tokens has no ids for {name!r}")
        return known[name]

    def _added(self, is_pair: bool) -> int:
        items = self._items(is_pair)
        return sum(len(self._ids(part["id"])["ids"]) for kind, part in items if kind != "Sequence")

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        if len(encodings) > 2:
            raise TokenizersError(
                "TemplateProcessing takes one or two encodings, and the post-processor before it "
                f"returns {len(encodings)}; use one TemplateProcessing for all special tokens"
            )
        found = []
        for kind, part in self._items(len(encodings) == 2):
            if kind == "Sequence":
                index = int(part["id"] != "A")
                if index >= len(encodings):
                    raise TokenizersError("the template for one sequence uses $B")
                encoding = encodings[index]
                encoding._type_ids = [part["type_id"]] * len(encoding)
                encoding.set_sequence_id(index)
                found.append(encoding._copy())
            elif specials:
                token = self._ids(part["id"])
                found.append(of_specials(token["ids"], token["tokens"], part["type_id"]))
        return found


class Sequence(PostProcessor, Steps):
    """Post-processors in order."""

    def _added(self, is_pair: bool) -> int:
        return sum(part._added(is_pair) for part in self._parts)

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        for part in self._parts:
            encodings = part._run(encodings, specials)
        return encodings
