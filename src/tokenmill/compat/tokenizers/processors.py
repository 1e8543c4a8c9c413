"""Post-processors: what is put around encodings, and how they are joined.

`Processor._run` is the whole of it: encodings → encodings, which are then merged. `_plan` says the
same for ids alone where that can be said beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Sequence_
from typing import Any, TypeAlias

from tokenmill.compat.tokenizers import values
from tokenmill.compat.tokenizers.components import (
    Bare,
    Component,
    Family,
    Field,
    IndexedSteps,
    Struct,
    Variant,
    byte_level_data,
)
from tokenmill.compat.tokenizers.encoding import Encoding, merge, of_specials
from tokenmill.errors import TokenizersError

# A place in the result: the ids of a special, or None with the number of a sequence; and its type.
Place: TypeAlias = tuple[list[int] | None, int, int]
# The characters that offsets leave out at the ends of tokens: White_Space, and the blank as a byte.
_SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\u0120"
)


class PostProcessor(Component):
    """The base of all post-processors."""

    KIND = "PostProcessor"

    def num_special_tokens_to_add(self, is_pair: bool) -> int:
        """How many tokens it adds to a text, or to a pair."""
        return self._added(values.flag(is_pair))

    def process(
        self, encoding: Encoding, pair: Encoding | None = None, add_special_tokens: bool = True
    ) -> Encoding:
        """The encoding with what belongs around it."""
        first = values.instance(encoding, Encoding)._copy()
        second = None if pair is None else values.instance(pair, Encoding)._copy()
        return process(self, first, second, values.flag(add_special_tokens))

    def _added(self, is_pair: bool) -> int:
        return 0

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        raise NotImplementedError

    def _plan(self, is_pair: bool, specials: bool) -> list[Place] | None:
        """What the ids of one sequence or two become; None: only `_run` knows."""
        return None


def process(
    processor: PostProcessor | None, first: Encoding, second: Encoding | None, specials: bool
) -> Encoding:
    """One encoding of one or two, which it may change."""
    given = [first] if second is None else [first, second]
    if processor is None:
        if second is None:
            return first
        for index, each in enumerate(given):
            each.set_sequence_id(index)
        return merge(given, False)
    for index, each in enumerate(given):
        _belong(each, index)
        each._type_ids = [index] * len(each)
    return merge(processor._run(given, specials), False)


def plan(processor: PostProcessor | None, is_pair: bool, specials: bool) -> list[Place] | None:
    """The twin of `process` for ids alone."""
    if processor is None:
        return [(None, index, index) for index in range(1 + is_pair)]
    return processor._plan(is_pair, specials)


def _belong(encoding: Encoding, sequence: int) -> None:
    encoding.set_sequence_id(sequence)
    encoding._overflowing = [each._copy() for each in encoding._overflowing]
    for each in encoding._overflowing:
        each.set_sequence_id(sequence)


def _trim(encoding: Encoding, prefix: bool) -> None:
    """Leaves white space at the ends of tokens out of their offsets.

    With `prefix` one blank in front of the first one was put there by encoding, and has no place;
    of several none was.
    """
    offsets = list(encoding._whole()._offsets)
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
    """Trims the offsets of byte-level tokens."""

    def __init__(
        self,
        add_prefix_space: bool | None = None,
        trim_offsets: bool | None = None,
        use_regex: bool | None = None,
        **_kwargs: object,
    ) -> None:
        given = (add_prefix_space, trim_offsets, use_regex)
        names = ("add_prefix_space", "trim_offsets", "use_regex")
        self._data = {
            name: True if value is None else values.flag(value)
            for name, value in zip(names, given, strict=True)
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Component:
        return super().from_data(byte_level_data(data))

    add_prefix_space = Field("add_prefix_space", values.flag)
    trim_offsets = Field("trim_offsets", values.flag)
    use_regex = Field("use_regex", values.flag)

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        if self.trim_offsets:
            _trim_all(encodings, self.add_prefix_space)
        for index, each in enumerate(encodings):
            each.set_sequence_id(index)
        return encodings

    def _plan(self, is_pair: bool, specials: bool) -> list[Place] | None:
        return [(None, index, index) for index in range(1 + is_pair)]


def _pair_of(value: object) -> tuple[str, int]:
    given = values.instance(value, tuple)
    if len(given) != 2:
        raise ValueError(f"expected tuple of length 2, but got tuple of length {len(given)}")
    return values.text(given[0]), values.unsigned(given[1], 32)


class BertProcessing(PostProcessor):
    """[CLS] A [SEP] B [SEP]."""

    def __init__(self, sep: tuple[str, int], cls_token: tuple[str, int]) -> None:
        self._data = {"sep": _pair_of(sep), "cls": _pair_of(cls_token)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Component:
        return super().from_data({**data, "sep": tuple(data["sep"]), "cls": tuple(data["cls"])})

    sep = Field("sep", _pair_of)
    cls = Field("cls", _pair_of)
    _PAIR_BEGINS: bool = False  # whether a separator stands before the second as well

    def _added(self, is_pair: bool) -> int:
        return 2 + is_pair * (1 + self._PAIR_BEGINS)

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
        """One encoding between its specials; to which sequence these belong is not said."""
        type_id = 0 if self._PAIR_BEGINS else min(index, 1)
        before = self.cls if index == 0 else self.sep
        bare = encoding._slice(0, len(encoding))
        bare._special = [0] * len(bare)
        bare._attention = [1] * len(bare)
        if self._PAIR_BEGINS:
            bare._type_ids = [0] * len(bare)
        bare.set_sequence_id(min(index, 1))
        name, id_ = self.sep
        parts = [bare, of_specials([id_], [name], type_id)]
        if index == 0 or self._PAIR_BEGINS:
            parts.insert(0, of_specials([before[1]], [before[0]], type_id))
        return merge(parts, False)

    def _plan(self, is_pair: bool, specials: bool) -> list[Place] | None:
        second = 0 if self._PAIR_BEGINS else 1
        if not specials:
            bare: list[Place] = [(None, 0, 0), (None, 1, second)]
            return bare[: 1 + is_pair]
        sep = [self.sep[1]]
        places: list[Place] = [([self.cls[1]], 0, 0), (None, 0, 0), (sep, 0, 0)]
        if is_pair:
            places += [(sep, 0, 0)] * self._PAIR_BEGINS
            places += [(None, 1, second), (sep, 0, second)]
        return places


class RobertaProcessing(BertProcessing):
    """<s> A </s></s> B </s>, all of type 0."""

    _PAIR_BEGINS = True

    def __init__(
        self,
        sep: tuple[str, int],
        cls_token: tuple[str, int],
        trim_offsets: bool = True,
        add_prefix_space: bool = True,
    ) -> None:
        super().__init__(sep, cls_token)
        self._data["trim_offsets"] = values.flag(trim_offsets)
        self._data["add_prefix_space"] = values.flag(add_prefix_space)

    trim_offsets = Field("trim_offsets", values.flag)
    add_prefix_space = Field("add_prefix_space", values.flag)

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        if self.trim_offsets:
            _trim_all(encodings, self.add_prefix_space)
        for each in encodings:
            each._type_ids = [0] * len(each)
        return super()._run(encodings, specials)


class TemplateProcessing(PostProcessor):
    """Specials where a template has them."""

    def __init__(
        self,
        single: str | list[str] | None = None,
        pair: str | list[str] | None = None,
        special_tokens: Sequence_[Any] | None = None,
    ) -> None:
        one = _template("$0" if single is None else single)
        two = _template("$A:0 $B:1" if pair is None else pair)
        given = () if special_tokens is None else values.sequence(special_tokens)
        specials = {special["id"]: special for special in map(_special, given)}
        self._data = {
            "single": one,
            "pair": two,
            "special_tokens": dict(sorted(specials.items())),
        }
        if {_sequence(piece) for piece in two} < {"A", "B"}:
            raise ValueError("Template for `pair` must use both sequences")
        names = [piece["SpecialToken"]["id"] for piece in one + two if "SpecialToken" in piece]
        missing = [name for name in dict.fromkeys(names) if name not in specials]
        if missing:
            raise ValueError(f"Missing SpecialToken(s) with id(s) `{', '.join(missing)}`")

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Component:
        specials = {k: Struct("SpecialToken", v) for k, v in data["special_tokens"].items()}
        single = [_piece_of_json(piece) for piece in data["single"]]
        pair = [_piece_of_json(piece) for piece in data["pair"]]
        return super().from_data({"single": single, "pair": pair, "special_tokens": specials})

    @property
    def single(self) -> str:
        """The template of one text."""
        shown = []
        for piece in self._data["single"]:
            ((kind, held),) = piece.items()
            name = held["id"] if kind == "Sequence" else '"' + held["id"] + '"'
            shown.append(f"{kind} {{ id: {name}, type_id: {held['type_id']} }}")
        return f"Template([{', '.join(shown)}])"

    @single.setter
    def single(self, value: str | list[str]) -> None:
        self._put("single", _template(value))

    def _added(self, is_pair: bool) -> int:
        pieces = self._data["pair" if is_pair else "single"]
        known = self._data["special_tokens"]
        names = [piece["SpecialToken"]["id"] for piece in pieces if "SpecialToken" in piece]
        return sum(len(known[name]["ids"]) for name in names if name in known)

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        if len(encodings) > 2:
            raise TokenizersError("not yet implemented")  # its own words for two templates
        found = []
        for piece in self._data["single" if len(encodings) == 1 else "pair"]:
            ((kind, held),) = piece.items()
            if kind == "Sequence":
                index = int(held["id"] != "A")
                if index >= len(encodings):
                    raise TokenizersError("the template for one sequence uses the second")
                encodings[index]._type_ids = [held["type_id"]] * len(encodings[index])
                encodings[index].set_sequence_id(index)
                found.append(encodings[index]._copy())
            elif specials:
                special = self._special_of(held["id"])
                found.append(of_specials(special["ids"], special["tokens"], held["type_id"]))
        return found

    def _plan(self, is_pair: bool, specials: bool) -> list[Place] | None:
        places: list[Place] = []
        for piece in self._data["pair" if is_pair else "single"]:
            ((kind, held),) = piece.items()
            if kind == "Sequence":
                if held["id"] != "A" and not is_pair:
                    return None
                places.append((None, int(held["id"] != "A"), held["type_id"]))
            elif specials:
                places.append((self._special_of(held["id"])["ids"], 0, held["type_id"]))
        return places

    def _special_of(self, name: str) -> Mapping[str, Any]:
        known: Mapping[str, Mapping[str, Any]] = self._data["special_tokens"]
        if name not in known:
            raise TokenizersError(f"the template uses `{name}`, which has no ids")
        return known[name]


def _sequence(piece: Mapping[str, Any]) -> str | None:
    return str(piece["Sequence"]["id"]) if "Sequence" in piece else None


def _template(value: object) -> list[Variant]:
    """The pieces of a template, which is a str or a list of them."""
    if isinstance(value, str):
        return [_piece(text) for text in value.split(" ")]
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return [_piece(text) for text in value]
    raise TypeError("Expected Union[str, List[str]]")


def _piece(text: str) -> Variant:
    parts = text.split(":")
    name, type_id = parts[0], parts[1] if len(parts) == 2 else "0"
    kind, id_ = "SpecialToken", name
    bad = len(parts) > 2 or not _is_u32(type_id)
    if name.startswith("$"):
        kind, rest = "Sequence", name[1:]
        id_ = Bare(rest.upper() if rest in ("A", "a", "B", "b") else "A")
        if rest not in ("", "A", "a", "B", "b"):
            bad = bad or not _is_u32(rest)
            type_id = rest if len(parts) == 1 else type_id
    if bad:
        raise ValueError(f'Cannot build Piece from string "{text}"')
    return Variant({kind: Struct(kind, {"id": id_, "type_id": int(type_id)})})


def _is_u32(text: str) -> bool:
    digits = text.removeprefix("+")
    return digits.isascii() and digits.isdigit() and int(digits) < 1 << 32


def _piece_of_json(piece: Mapping[str, Any]) -> Variant:
    ((kind, held),) = piece.items()
    id_ = Bare(held["id"]) if kind == "Sequence" else held["id"]
    return Variant({kind: Struct(kind, {"id": id_, "type_id": held["type_id"]})})


def _special(value: object) -> Struct:
    """A special of a template: (name, id), (id, name), or a dict with several ids."""
    if isinstance(value, tuple) and len(value) == 2:
        name, id_ = value if isinstance(value[0], str) else value[::-1]
        if isinstance(name, str) and isinstance(id_, int) and 0 <= id_ < 1 << 32:
            held = {"id": name, "ids": [id_], "tokens": [name]}
            return Struct("SpecialToken", held)
    if isinstance(value, dict):
        for key in ("id", "ids", "tokens"):
            if key not in value:
                raise ValueError(f"`{key}` must be specified")
        ids = [values.unsigned(id_, 32) for id_ in value["ids"]]
        tokens = [values.text(token) for token in value["tokens"]]
        if len(ids) != len(tokens):
            raise TokenizersError("SpecialToken: ids and tokens must be of the same length")
        return Struct("SpecialToken", {"id": value["id"], "ids": ids, "tokens": tokens})
    raise TypeError("Expected Union[Tuple[str, int], Tuple[int, str], dict]")


class Sequence(PostProcessor, IndexedSteps):
    """Several post-processors, one behind the other."""

    KEY = "processors"

    def __init__(self, processors_py: list[PostProcessor]) -> None:
        self._hold(processors_py)

    def _steps(self) -> list[PostProcessor]:
        return [values.instance(part, PostProcessor) for part in self._parts]

    def _added(self, is_pair: bool) -> int:
        return sum(part._added(is_pair) for part in self._steps())

    def _run(self, encodings: list[Encoding], specials: bool) -> list[Encoding]:
        for part in self._steps():
            encodings = part._run(encodings, specials)
        return encodings

    def _plan(self, is_pair: bool, specials: bool) -> list[Place] | None:
        others = [part for part in self._steps() if not isinstance(part, ByteLevel)]
        if len(others) > 1:
            return None
        return plan(others[0] if others else None, is_pair, specials)


FAMILY = Family(
    PostProcessor, ByteLevel, BertProcessing, RobertaProcessing, TemplateProcessing, Sequence
)
