"""Components of a tokenizer.json as objects, made from one table.

A row of `TABLE` gives the constructor arguments of a class, their defaults, types and JSON keys.
`Component` makes the signature, the attributes, the JSON and the pickle of the class from its row.
A component may change while a tokenizer uses it: `Component.changes` counts all changes, so that a
tokenizer can tell when to rebuild its pipeline.

**Invariant**: `Component._data` has the keys, in the order, that tokenizer.json has.
"""

from __future__ import annotations

import array
import base64
import copy
import inspect
import json
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self, SupportsFloat, TypeVar

import numpy as np

from tokenmill.errors import TokenizersError
from tokenmill.formats.spec import Added

T = TypeVar("T")
_BEHAVIORS = {
    "removed": "Removed", "isolated": "Isolated", "merged_with_previous": "MergedWithPrevious",
    "merged_with_next": "MergedWithNext", "contiguous": "Contiguous",
}  # fmt: skip
_PROGRESS_FORMATS = {"indicatif": "Indicatif", "json": "JsonLines", "silent": "Silent"}
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


# ── Checks: an argument → its value, or the exception type that the real library raises ──────────


def check_unsigned(value: object, bits: int = 64) -> int:
    """Return a number of at most `bits` bits. Sizes have 64, ids have 32."""
    number = operator.index(value)  # type: ignore[arg-type]  # raises the TypeError that is needed
    if number < 0 or number >> bits:
        raise OverflowError(f"number must be from 0 to 2**{bits} - 1, got {number}")
    return number


def check_instance(value: object, kind: type[T]) -> T:
    """Return `value` if it is an instance of `kind`."""
    if isinstance(value, kind):
        return value
    raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")


def check_text(value: object) -> str:
    return check_instance(value, str)


def check_flag(value: object) -> bool:
    return check_instance(value, bool)


def check_list(value: object) -> list[Any]:
    return check_instance(value, list)


def check_character(value: object) -> str:
    if len(check_text(value)) != 1:
        raise ValueError(f"expected one character, got {value!r}")
    return check_text(value)


def check_sequence(value: object) -> Sequence[Any]:
    """Return a sequence that is not a str, or a NumPy array."""
    is_array = hasattr(type(value), "__array__")
    if isinstance(value, str) or not (isinstance(value, Sequence) or is_array):
        raise TypeError(f"expected a sequence, got {type(value).__name__}")
    return value  # type: ignore[return-value]


def check_ids(value: object) -> list[int]:
    """Return a list of ids of 32 bits."""
    ids = check_sequence(value)
    try:
        array.array("I", ids)  # checks all ids at once if they are valid
    except (TypeError, OverflowError, ValueError):
        return [check_unsigned(id_, 32) for id_ in ids]
    return ids if isinstance(ids, list) else [operator.index(id_) for id_ in ids]


def check_choice(value: object, name: str, choices: Iterable[str]) -> str:
    """Return one of the choices of the option `name`."""
    if check_text(value) not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return check_text(value)


def maybe(check: Callable[[object], T]) -> Callable[[object], T | None]:
    """Return a check that also accepts None."""

    def check_maybe(value: object) -> T | None:
        return None if value is None else check(value)

    check_maybe.__annotations__["return"] = f"{check.__annotations__['return']} | None"
    return check_maybe


def _flag_or(default: bool) -> Callable[[object], bool]:
    """Return a check of a flag whose value None means `default`."""
    return lambda value: default if value is None else check_flag(value)


def warn_unknown(kwargs: Iterable[str], known: Iterable[str] = ()) -> None:
    """Report unknown options on standard error, as the real library does."""
    for name in kwargs:
        if name not in known:
            sys.stderr.write(f"Ignored unknown kwarg option {name}\n")


def refuse(feature: str) -> NoReturn:
    """Raise the error for a feature of the real library that tokenmill does not have."""
    raise NotImplementedError(
        f"{feature} is not supported by tokenmill; use Hugging Face's `tokenizers` for it"
    )


def refused_class(base: type[T], name: str, feature: str, members: Iterable[str] = ()) -> type[T]:
    """Return a class whose constructor and static `members` are refused."""

    def fail(*_: object, **__: object) -> NoReturn:
        refuse(feature)

    methods: dict[str, Any] = dict.fromkeys(members, staticmethod(fail))
    return type(name, (base,), {"__init__": fail, "__doc__": f"{name}: not supported.", **methods})


class Regex:
    """A regular expression in Oniguruma's syntax."""

    __slots__ = ("_pattern",)

    def __init__(self, s: str) -> None:
        self._pattern = check_text(s)


def _check_pattern(value: object) -> dict[str, str]:
    """Return a str or a Regex in the form of tokenizer.json."""
    if isinstance(value, Regex):
        return {"Regex": value._pattern}
    if isinstance(value, str):
        return {"String": value}
    raise TypeError(f"pattern must be a str or a Regex, got {type(value).__name__}")


def _check_behavior(value: object) -> str:
    name = getattr(value, "value", value)  # of the enumeration SplitDelimiterBehavior
    return _BEHAVIORS[check_choice(name, "behavior", _BEHAVIORS)]


def _check_scheme(value: object) -> str:
    return check_choice(value, "prepend_scheme", ("first", "never", "always"))


def _check_charsmap(value: Any) -> str:
    return base64.b64encode(bytes(value)).decode()


def _check_token(value: object) -> tuple[str, int]:
    """Return a token with its id."""
    pair = check_instance(value, tuple)
    if len(pair) != 2:
        raise ValueError(f"expected a tuple of a token and its id, got {pair!r}")
    return check_text(pair[0]), check_unsigned(pair[1], 32)


def _check_alphabet(value: object) -> list[str]:
    """Return the first character of each text, in order and without duplicates."""
    return sorted({text[0] for text in map(check_text, check_sequence(value)) if text})


def _check_progress_format(value: object) -> str:
    return _PROGRESS_FORMATS.get(check_text(value), "Indicatif")


def _check_special_tokens(value: object) -> list[AddedToken]:
    return tokens_of(list(check_sequence(value)), True)


def _check_dropout(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, SupportsFloat):
        raise TypeError(f"dropout must be a number, got {type(value).__name__}")
    return float(np.float32(value))


def _template_or(default: str) -> Callable[[object], list[dict[str, Any]]]:
    """Return a check of a template, a str or a list of str; None means `default`."""

    def check_template(value: object) -> list[dict[str, Any]]:
        parts = default if value is None else value
        parts = parts.split(" ") if isinstance(parts, str) else parts
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            raise TypeError(f"template must be a str or a list of str, got {value!r}")
        return [_template_part(part) for part in parts]

    return check_template


def _template_part(text: str) -> dict[str, Any]:
    """Return "$A:1" or "[SEP]:1" in the form of tokenizer.json."""
    name, *rest = text.split(":")
    kind, id_, type_id = "SpecialToken", name, rest[0] if len(rest) == 1 else "0"
    is_valid = len(rest) <= 1 and _is_u32(type_id)
    if name.startswith("$"):
        kind, sequence = "Sequence", name[1:]
        id_ = sequence.upper() if sequence in ("A", "a", "B", "b") else "A"
        if sequence not in ("", "A", "a", "B", "b"):
            is_valid = is_valid and _is_u32(sequence)
            type_id = type_id if rest else sequence
    if not is_valid:
        raise ValueError(f"Cannot build Piece from {text!r}; write $A:0, $B:1 or TOKEN:0")
    return {kind: {"id": id_, "type_id": int(type_id)}}


def _is_u32(text: str) -> bool:
    digits = text.removeprefix("+")
    return digits.isascii() and digits.isdigit() and int(digits) < 1 << 32


def _check_template_tokens(value: object) -> dict[str, dict[str, Any]]:
    tokens = [_template_token(each) for each in (() if value is None else check_sequence(value))]
    return {token["id"]: token for token in sorted(tokens, key=lambda token: str(token["id"]))}


def _template_token(value: object) -> dict[str, Any]:
    """Return (token, id), (id, token) or a dict with several ids in the form of tokenizer.json."""
    if isinstance(value, tuple) and len(value) == 2:
        name, id_ = value if isinstance(value[0], str) else value[::-1]
        if isinstance(name, str) and isinstance(id_, int) and 0 <= id_ < 1 << 32:
            return {"id": name, "ids": [id_], "tokens": [name]}
    if not isinstance(value, dict):
        raise TypeError(f"expected (token, id), (id, token) or a dict, got {value!r}")
    for key in ("id", "ids", "tokens"):
        if key not in value:
            raise ValueError(f"{key!r} is missing in {value!r}")
    ids = [check_unsigned(id_, 32) for id_ in value["ids"]]
    tokens = [check_text(token) for token in value["tokens"]]
    if len(ids) != len(tokens):
        raise TokenizersError(f"expected as many ids as tokens, got {len(ids)} and {len(tokens)}")
    return {"id": value["id"], "ids": ids, "tokens": tokens}


# ── The table ────────────────────────────────────────────────────────────────────────────────────

_REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Option:
    """One argument of a component, which is also an attribute and a key of its JSON."""

    name: str
    check: Callable[[Any], Any]
    default: Any = _REQUIRED
    key: str = ""  # in tokenizer.json and as a second attribute; the name if empty
    read: Callable[[Any], Any] | None = None  # the stored value → the attribute
    is_locked: bool = False  # the attribute can neither be read nor set
    is_argument: bool = True

    @property
    def json_key(self) -> str:
        return self.key or self.name

    def parameter(self, kind: Any) -> inspect.Parameter:
        annotations = getattr(self.check, "__annotations__", {})
        annotation = annotations.get("return", _REQUIRED)
        return inspect.Parameter(self.name, kind, default=self.default, annotation=annotation)


class Row:
    """One class: its docstring and its options."""

    def __init__(
        self,
        doc: str,
        *options: Option,
        unknown: Literal["refuse", "ignore", "warn"] = "refuse",
        is_keyword_only: bool = False,
    ) -> None:
        self.doc, self.options = doc, options
        self.unknown = unknown  # what happens to other keyword arguments
        self.is_keyword_only = is_keyword_only


def _fields(is_argument: bool = True, **defaults: bool | int | str) -> Iterator[Option]:
    """Return options whose type is that of the default."""
    checks: dict[type, Callable[[Any], Any]] = {
        bool: check_flag, int: check_unsigned, str: check_text,
    }  # fmt: skip
    for name, default in defaults.items():
        yield Option(name, checks[type(default)], default, is_argument=is_argument)


_BYTE_LEVEL = {"add_prefix_space": True, "trim_offsets": True, "use_regex": True}
_METASPACE = (
    Option("replacement", check_character, "▁"),
    Option("prepend_scheme", _check_scheme, "always"),
    *_fields(split=True),
)
_PATTERN = Option("pattern", _check_pattern, is_locked=True)
_REPLACE = (_PATTERN, Option("content", check_text))
_TOKENS = (
    Option("sep", _check_token, read=tuple),
    Option("cls_token", _check_token, key="cls", read=tuple),
)

TABLE: dict[str, dict[str, Row]] = {
    "normalizers": {
        "NFC": Row("Unicode normalization form C."),
        "NFD": Row("Unicode normalization form D."),
        "NFKC": Row("Unicode normalization form KC."),
        "NFKD": Row("Unicode normalization form KD."),
        "Lowercase": Row("Lower case."),
        "Nmt": Row("Control characters as in Google's NMT; cannot be run."),
        "StripAccents": Row("Removes combining marks; cannot be run."),
        "ByteLevel": Row("Bytes as printable characters."),
        "Strip": Row(
            "Removes whitespace at the ends.",
            Option("left", check_flag, True, "strip_left"),
            Option("right", check_flag, True, "strip_right"),
        ),
        "Prepend": Row("Adds a prefix.", *_fields(prepend="▁")),
        "Replace": Row("Replaces each match.", *_REPLACE),
        "BertNormalizer": Row(
            "BERT's normalizer; cannot be run.",
            *_fields(clean_text=True, handle_chinese_chars=True),
            Option("strip_accents", maybe(check_flag), None),
            *_fields(lowercase=True),
        ),
        "Precompiled": Row(
            "SentencePiece's character map.", Option("precompiled_charsmap", _check_charsmap)
        ),
        "Sequence": Row("Normalizers in order.", Option("normalizers", check_list)),
    },
    "pre_tokenizers": {
        "ByteLevel": Row(
            "GPT-2's pattern, then bytes as printable characters.",
            *_fields(**_BYTE_LEVEL),
            unknown="ignore",
        ),
        "Split": Row(
            "Splits at matches.",
            _PATTERN,
            Option("behavior", _check_behavior, read=str.lower),
            *_fields(invert=False),
        ),
        "Digits": Row("Splits numbers from other text.", *_fields(individual_digits=False)),
        "Punctuation": Row(
            "Splits at punctuation.",
            Option("behavior", _check_behavior, "isolated", read=str.lower),
        ),
        "Metaspace": Row("SentencePiece's split, where a space is part of a word.", *_METASPACE),
        "CharDelimiterSplit": Row(
            "Splits at a character and removes it.", Option("delimiter", check_character)
        ),
        "FixedLength": Row("Chunks of `length` characters.", *_fields(length=5)),
        "Whitespace": Row(r"Splits by `\w+|[^\w\s]+`."),
        "WhitespaceSplit": Row("Splits at whitespace."),
        "BertPreTokenizer": Row("BERT's pre-tokenizer; cannot be run."),
        "UnicodeScripts": Row("Splits between scripts; cannot be run."),
        "Sequence": Row(
            "Pre-tokenizers in order, each on the pretokens of the one before.",
            Option("pre_tokenizers", check_list, key="pretokenizers"),
        ),
    },
    "decoders": {
        "ByteLevel": Row(
            "Printable characters back to bytes.",
            *_fields(is_argument=False, **_BYTE_LEVEL),
            unknown="ignore",
        ),
        "ByteFallback": Row('Tokens such as "<0xE4>" back to bytes.'),
        "Fuse": Row("Joins all tokens."),
        "Replace": Row("Replaces each match.", *_REPLACE),
        "Strip": Row(
            "Removes a character at the ends of each token, at most `left` and `right` times.",
            Option("content", check_character, " "),
            Option("left", check_unsigned, 0, "start"),
            Option("right", check_unsigned, 0, "stop"),
        ),
        "Metaspace": Row("The replacement character back to spaces.", *_METASPACE),
        "BPEDecoder": Row("The end-of-word suffix back to spaces.", *_fields(suffix="</w>")),
        "WordPiece": Row(
            "WordPiece tokens to text; cannot be run.", *_fields(prefix="##", cleanup=True)
        ),
        "CTC": Row(
            "CTC tokens of speech models to text; cannot be run.",
            *_fields(pad_token="<pad>", word_delimiter_token="|", cleanup=True),
        ),
        "Sequence": Row("Decoders in order.", Option("decoders_py", check_list, key="decoders")),
    },
    "processors": {
        "ByteLevel": Row(
            "Removes whitespace from the offsets of byte-level tokens.",
            *(Option(name, _flag_or(True), None) for name in _BYTE_LEVEL),
            unknown="ignore",
        ),
        "BertProcessing": Row("[CLS] A [SEP] B [SEP].", *_TOKENS),
        "RobertaProcessing": Row(
            "<s> A </s></s> B </s>, all of type 0.",
            *_TOKENS,
            *_fields(trim_offsets=True, add_prefix_space=True),
        ),
        "TemplateProcessing": Row(
            "Special tokens at the positions of a template.",
            Option("single", _template_or("$0"), None),
            Option("pair", _template_or("$A:0 $B:1"), None),
            Option("special_tokens", _check_template_tokens, None),
        ),
        "Sequence": Row(
            "Processors in order.", Option("processors_py", check_list, key="processors")
        ),
    },
    "models": {
        "BPE": Row(
            "Byte-pair encoding.",
            Option("dropout", _check_dropout, None),
            Option("unk_token", maybe(check_text), None),
            Option("continuing_subword_prefix", maybe(check_text), None),
            Option("end_of_word_suffix", maybe(check_text), None),
            Option("fuse_unk", _flag_or(False), None),
            *_fields(byte_fallback=False, ignore_merges=False),
            unknown="warn",
        ),
    },
    "trainers": {
        "BpeTrainer": Row(
            "Options for training BPE.",
            *_fields(vocab_size=30000, min_frequency=0, show_progress=True),
            Option(
                "progress_format",
                _check_progress_format,
                "indicatif",
                read={shown: name for name, shown in _PROGRESS_FORMATS.items()}.__getitem__,
            ),
            Option("special_tokens", _check_special_tokens, (), read=list),
            Option("limit_alphabet", maybe(check_unsigned), None),
            Option("initial_alphabet", _check_alphabet, ()),
            Option("continuing_subword_prefix", maybe(check_text), None),
            Option("end_of_word_suffix", maybe(check_text), None),
            Option("max_token_length", maybe(check_unsigned), None),
            Option("words", dict, {}, is_argument=False),
            unknown="warn",
            is_keyword_only=True,
        ),
    },
}


# ── Components ───────────────────────────────────────────────────────────────────────────────────


def dump(value: object, pretty: bool = False) -> str:
    """Return JSON as the real library writes it."""
    separators = (",", ": ") if pretty else (",", ":")
    indent = 2 if pretty else None
    return json.dumps(value, ensure_ascii=False, separators=separators, indent=indent)


class Component:
    """A part of a tokenizer. The direct subclasses are the families of components."""

    changes: ClassVar[int] = 0  # of all components
    classes: ClassVar[dict[str, type[Component]]]  # of a family, by the type in tokenizer.json
    family: ClassVar[type[Component]]
    __signature__: ClassVar[inspect.Signature]
    _row: ClassVar[Row]
    _data: dict[str, Any]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(cls) -> None:
        if cls.__base__ is Component:
            cls.family, cls.classes = cls, {}
            cls.__signature__ = inspect.Signature()
        module = cls.__module__.rpartition(".")[2]
        row = TABLE.get(module, {}).get(cls.__name__)
        if row is None:
            return
        cls.classes[cls.__name__] = cls
        cls.__doc__ = cls.__doc__ or row.doc
        cls._row = row
        for option in row.options:
            for name in {option.name, option.json_key}:
                setattr(cls, name, _attribute(option))
        cls.__signature__ = _signature(row)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not hasattr(self, "_row"):
            raise TypeError(f"cannot create instances of the base class {type(self).__name__}")
        bound = type(self).__signature__.bind(*args, **kwargs)
        bound.apply_defaults()
        if self._row.unknown == "warn":
            warn_unknown(bound.arguments["kwargs"])
        self._data = {
            option.json_key: option.check(bound.arguments.get(option.name, option.default))
            for option in self._row.options
        }

    @classmethod
    def define(cls, name: str) -> type[Self]:
        """Return the class of a row that has no methods of its own."""
        return type(name, (cls,), {"__module__": cls.__module__})

    @classmethod
    def read(cls, data: Mapping[str, Any] | None) -> Any:
        """Return the component of this family that a JSON object describes; None for null."""
        if data is None:
            return None
        found = cls.classes.get(str(data.get("type")))
        if found is None:
            raise TokenizersError(f"{cls.__name__} of type {data.get('type')!r} is not supported")
        return found.from_data(data)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return the component of a JSON object. Keys that old files lack have the defaults."""
        if "prepend_scheme" not in data and data.get("add_prefix_space") is False:
            data = {**data, "prepend_scheme": "never"}  # an old Metaspace
        made = cls.__new__(cls)
        made._data = {}
        for option in cls._row.options:
            key = option.json_key
            made._data[key] = data[key] if key in data else option.check(option.default)
        return made

    def to_json(self) -> dict[str, Any]:
        return {"type": type(self).__name__, **self._data}

    def _put(self, key: str, value: object) -> None:
        self._data = {**self._data, key: value}
        Component.changes += 1

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={value!r}" for key, value in self._data.items())
        return f"{type(self).__name__}({shown})"

    def __getstate__(self) -> bytes:
        return dump(self.to_json()).encode()

    def __setstate__(self, state: bytes) -> None:
        vars(self).update(vars(self.from_data(json.loads(state))))


def json_of(component: Component | None) -> dict[str, Any] | None:
    return None if component is None else component.to_json()


def _attribute(option: Option) -> property:
    key, read = option.json_key, option.read

    def get(component: Component) -> Any:
        if option.is_locked:
            raise TokenizersError(f"cannot read {option.name} of a component")
        found = component._data[key]
        return found if read is None else read(found)

    def put(component: Component, value: object) -> None:
        if option.is_locked:
            raise TokenizersError(f"cannot set {option.name}; create a new component")
        component._put(key, option.check(value))

    return property(get, put)


def _signature(row: Row) -> inspect.Signature:
    kinds = inspect.Parameter
    kind = kinds.KEYWORD_ONLY if row.is_keyword_only else kinds.POSITIONAL_OR_KEYWORD
    parameters = [option.parameter(kind) for option in row.options if option.is_argument]
    if row.unknown != "refuse":
        parameters.append(kinds("kwargs", kinds.VAR_KEYWORD))
    return inspect.Signature(parameters)


class Steps(Component):
    """A component that is a list of others, which run in order."""

    IS_FLAT: ClassVar[bool] = True  # whether a Sequence in a Sequence is replaced by its steps

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        ((key, parts),) = self._data.items()
        steps: list[Component] = []
        for part in parts:
            step = self._check_part(part)
            steps += step._parts if self.IS_FLAT and isinstance(step, Steps) else [step]
        self._data = {key: steps}

    @property
    def _parts(self) -> list[Component]:
        (parts,) = self._data.values()
        return parts  # type: ignore[no-any-return]

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        made = super().from_data(data)
        made._data = {key: list(map(cls.read, parts)) for key, parts in made._data.items()}
        return made

    def to_json(self) -> dict[str, Any]:
        (key,) = self._data
        return {"type": "Sequence", key: [part.to_json() for part in self._parts]}

    def __getitem__(self, index: int) -> Any:
        return self._parts[self._check_index(index)]

    def __setitem__(self, index: int, value: Any) -> None:
        self._parts[self._check_index(index)] = copy.copy(self._check_part(value))
        Component.changes += 1

    def _check_part(self, part: object) -> Component:
        return check_instance(part, self.family)

    def _check_index(self, index: object) -> int:
        number = check_unsigned(index)
        if number >= len(self._parts):
            raise IndexError(f"index must be below {len(self._parts)}, got {number}")
        return number


# ── Added tokens ─────────────────────────────────────────────────────────────────────────────────


class AddedToken:
    """A token that is found in a text before the text is normalized and split."""

    def __init__(
        self,
        content: str | None = None,
        *,
        single_word: bool = False,
        lstrip: bool = False,
        rstrip: bool = False,
        normalized: bool | None = None,
        special: bool = False,
        **kwargs: object,
    ) -> None:
        warn_unknown(kwargs)
        self.content = "" if content is None else check_text(content)
        self._single_word = check_flag(single_word)
        self._lstrip, self._rstrip = check_flag(lstrip), check_flag(rstrip)
        self._normalized = None if normalized is None else check_flag(normalized)
        self.special = check_flag(special)

    single_word = property(lambda self: self._single_word, doc="Matches whole words only.")
    lstrip = property(lambda self: self._lstrip, doc="Also takes whitespace on its left.")
    rstrip = property(lambda self: self._rstrip, doc="Also takes whitespace on its right.")

    @property
    def normalized(self) -> bool:
        """Matches normalized text. The default is True for tokens that are not special."""
        return not self.special if self._normalized is None else self._normalized

    def _flags(self) -> dict[str, bool]:
        return {name: getattr(self, name) for name in _FLAGS}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AddedToken) and self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash(self.content)

    def __str__(self) -> str:
        return self.content

    def __repr__(self) -> str:
        names = ("rstrip", "lstrip", "single_word", "normalized", "special")
        flags = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f'AddedToken("{self.content}", {flags})'

    def __getstate__(self) -> dict[str, Any]:
        return {"content": self.content, **self._flags()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def tokens_of(tokens: object, special: bool) -> list[AddedToken]:
    """Return copies of tokens; `special` makes the copies and the originals special."""
    found = []
    for each in check_list(tokens):
        if isinstance(each, str):
            each = AddedToken(each)
        token = check_instance(each, AddedToken)
        token.special = token.special or special
        found.append(copy.copy(token))
        found[-1]._normalized = token._normalized  # None follows a later change of `special`
    return found


class AddedTokens:
    """All added tokens with their ids, numbered as in the real library.

    A token text that is added again gets the new flags, but a special token stays special.
    """

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.by_id: dict[int, AddedToken] = {}
        self.special_tokens: set[str] = set()

    def add(
        self,
        tokens: Iterable[AddedToken],
        find: Callable[[str], int | None],
        size: Callable[[], int],
    ) -> int:
        """Add tokens, and return the number of new or changed ones.

        `find` and `size` are the model's. They are called only for tokens that are not added yet.
        """
        given = list(tokens)
        # The largest id before the call counts: the real library ignores ids of the model that
        # this call adds beyond the model's size.
        last = max(self.by_id, default=-1)
        next_id: int | None = None
        self.special_tokens |= {token.content for token in given if token.special and token.content}
        count = 0
        for token in given:
            known = self.ids.get(token.content)
            if not token.content or (known is not None and self.by_id[known] == token):
                continue
            id_ = known if known is not None else find(token.content)
            if id_ is None:
                id_ = next_id = max(size(), last + 1) if next_id is None else next_id + 1
            self.ids[token.content] = id_
            self.by_id[id_] = token
            count += 1
        return count

    def read(self, tokens: Iterable[Added]) -> None:
        """Add the tokens of a file, which have ids."""
        ids = {token.content: token.id for token in tokens}
        made = (
            AddedToken(token.content, **{name: getattr(token, name) for name in _FLAGS})
            for token in tokens
        )
        self.add(made, ids.get, lambda: 0)

    def spec(self) -> tuple[Added, ...]:
        """Return the tokens as a tokenizer specification has them."""
        made = []
        for id_, token in sorted(self.by_id.items()):
            flags = {**token._flags(), "special": token.content in self.special_tokens}
            made.append(Added(token.content, id_, **flags))
        return tuple(made)

    def to_json(self) -> list[dict[str, Any]]:
        return [{"id": id_, **token.__getstate__()} for id_, token in sorted(self.by_id.items())]
