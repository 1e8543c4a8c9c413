"""Components of a tokenizer.json as objects, and added tokens.

The definition of a class names its options: the constructor arguments with their defaults, checks
and JSON keys. `Component` makes the signature, the attributes, the JSON and the pickle from them.
A component may change while a tokenizer uses it: `Component.changes` counts all changes, so that a
tokenizer can tell when to rebuild its pipeline.

**Invariant**: `Component._data` has the keys, in the order, that tokenizer.json has.
"""

from __future__ import annotations

import array
import contextlib
import copy
import functools
import inspect
import json
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self, TypeAlias, TypeVar

from tokenmill.errors import TokenizersError
from tokenmill.formats.spec import Added

T = TypeVar("T")
# A type, or a function that checks and converts a value.
Kind: TypeAlias = type[T] | Callable[[Any], T]
_REQUIRED = inspect.Parameter.empty
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


# ── Checks: an argument → its value, or the exception type that the real library raises ──────────


def check(value: Any, kind: Kind[T]) -> T:
    """Return the checked value. An int is a size: unsigned, of 64 bits."""
    if kind is int:
        return check_number(value, 64)  # type: ignore[return-value]
    if not isinstance(kind, type):
        return kind(value)
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value  # type: ignore[return-value]


def check_number(value: object, bits: int) -> int:
    """Return an unsigned number of at most `bits` bits."""
    number = operator.index(value)  # type: ignore[arg-type]  # raises the TypeError that is needed
    if number < 0 or number >> bits:
        raise OverflowError(f"number must be from 0 to 2**{bits} - 1, got {number}")
    return number


def check_id(value: object) -> int:
    return check_number(value, 32)


def check_character(value: object) -> str:
    if len(check(value, str)) != 1:
        raise ValueError(f"expected one character, got {value!r}")
    return check(value, str)


def check_sequence(value: object) -> Sequence[Any]:
    """Return a sequence that is not a str, or a NumPy array."""
    is_array = hasattr(type(value), "__array__")
    if isinstance(value, str) or not (isinstance(value, Sequence) or is_array):
        raise TypeError(f"expected a sequence, got {type(value).__name__}")
    return value  # type: ignore[return-value]


def check_items(value: object, kind: Kind[T]) -> list[T]:
    """Return the checked items of a sequence."""
    return [check(item, kind) for item in check_sequence(value)]


def check_ids(value: object) -> list[int]:
    """Return a list of ids of 32 bits."""
    ids = check_sequence(value)
    try:
        array.array("I", ids)  # checks all ids at once if they are valid
    except (TypeError, OverflowError, ValueError):
        return list(map(check_id, ids))
    return ids if isinstance(ids, list) else [operator.index(id_) for id_ in ids]


def one_of(choices: Mapping[str, str]) -> Callable[[object], str]:
    """Return a check for names of `choices`, whose values tokenizer.json has."""

    def choose(value: object) -> str:
        name = check(getattr(value, "value", value), str)  # of an enumeration
        if name not in choices:
            raise ValueError(f"expected one of {', '.join(choices)}, got {value!r}")
        return choices[name]

    return choose


def maybe(kind: Kind[T]) -> Callable[[Any], T | None]:
    """Return a check that also accepts None."""
    return lambda value: None if value is None else check(value, kind)


def flag_or(default: bool) -> Callable[[object], bool]:
    """Return a check of a flag whose value None means `default`."""
    return lambda value: default if value is None else check(value, bool)


def warn_unknown(names: Iterable[str]) -> None:
    """Report unknown options on standard error, as the real library does."""
    for name in names:
        sys.stderr.write(f"Ignored unknown kwarg option {name}\n")


@contextlib.contextmanager
def os_errors() -> Iterator[None]:
    """Replace an OS error, for which the real library raises a bare Exception."""
    try:
        yield
    except OSError as error:
        raise TokenizersError(str(error)) from None


def refuse(feature: str) -> NoReturn:
    """Raise the error for a feature of the real library that tokenmill does not have."""
    raise NotImplementedError(
        f"{feature} is not supported by tokenmill; use Hugging Face's `tokenizers` for it"
    )


def refused_call(feature: str) -> Any:
    """Return a static method that is refused."""

    def fail(*_: object, **__: object) -> NoReturn:
        """Not supported: only the real library has it."""
        refuse(feature)

    return staticmethod(fail)


def refused_class(base: type[T], name: str, feature: str, members: Iterable[str] = ()) -> type[T]:
    """Return a class whose constructor and static `members` are refused."""
    methods = dict.fromkeys(["__init__", *members], refused_call(feature))
    return type(name, (base,), {"__doc__": f"{name}: not supported.", **methods})


class once(functools.cached_property[T]):  # noqa: N801, as cached_property
    """A cached property without the lock of Python 3.11.

    The lock is that of all instances, and a process that is forked while it is held keeps it.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        super().__init__(make)
        self.lock = contextlib.nullcontext()


class Regex:
    """A regular expression in Oniguruma's syntax."""

    __slots__ = ("_pattern",)

    def __init__(self, s: str) -> None:
        self._pattern = check(s, str)


def _check_pattern(value: object) -> dict[str, str]:
    """Return a str or a Regex in the form of tokenizer.json."""
    if isinstance(value, Regex):
        return {"Regex": value._pattern}
    return {"String": check(value, str)}


# ── Options ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Option:
    """One argument of a component, which is also an attribute and a key of its JSON."""

    name: str
    kind: Kind[Any]
    default: Any = _REQUIRED
    key: str = ""  # in tokenizer.json and as a second attribute; the name if empty
    read: Callable[[Any], Any] = lambda value: value  # the stored value → the attribute
    is_locked: bool = False  # the attribute can neither be read nor set
    is_argument: bool = True

    @property
    def json_key(self) -> str:
        return self.key or self.name

    def attribute(self) -> property:
        """Return the property that reads and sets this option."""

        def get(component: Component) -> Any:
            if self.is_locked:
                raise TokenizersError(f"cannot read or set {self.name}; create a new component")
            return self.read(component._data[self.json_key])

        def put(component: Component, value: object) -> None:
            get(component)
            component._put(self.json_key, check(value, self.kind))

        return property(get, put)


def options_of(is_argument: bool = True, **defaults: bool | int | str) -> Iterator[Option]:
    """Return options whose type is that of the default."""
    for name, default in defaults.items():
        yield Option(name, type(default), default, is_argument=is_argument)


# Options of several families.
BYTE_LEVEL = {"add_prefix_space": True, "trim_offsets": True, "use_regex": True}
METASPACE = (
    Option("replacement", check_character, "▁"),
    Option("prepend_scheme", one_of({x: x for x in ("first", "never", "always")}), "always"),
    *options_of(split=True),
)
PATTERN = Option("pattern", _check_pattern, is_locked=True)
REPLACE = (PATTERN, Option("content", str))


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
    options: ClassVar[Sequence[Option]]
    warns: ClassVar[bool]  # of unknown keyword arguments
    __signature__: ClassVar[inspect.Signature]
    _data: dict[str, Any]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(
        cls,
        options: Iterable[Option] | None = None,
        unknown: Literal["refuse", "ignore", "warn"] = "refuse",
        is_keyword_only: bool = False,
    ) -> None:
        """Define a class. One without `options` is a base class, or is not supported."""
        if cls.__base__ is Component:
            cls.family, cls.classes = cls, {}
        if options is not None:
            cls.classes[cls.__name__] = cls
        cls.options, cls.warns = tuple(options or ()), unknown == "warn"
        for option in cls.options:
            for name in {option.name, option.json_key}:
                setattr(cls, name, option.attribute())
        kinds = inspect.Parameter
        kind = kinds.KEYWORD_ONLY if is_keyword_only else kinds.POSITIONAL_OR_KEYWORD
        parameters = [
            kinds(option.name, kind, default=option.default)
            for option in cls.options
            if option.is_argument
        ]
        if unknown != "refuse":
            parameters.append(kinds("kwargs", kinds.VAR_KEYWORD))
        cls.__signature__ = inspect.Signature(parameters)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if type(self).__name__ not in self.classes:
            raise TypeError(f"cannot create instances of the base class {type(self).__name__}")
        bound = self.__signature__.bind(*args, **kwargs)
        bound.apply_defaults()
        if self.warns:
            warn_unknown(bound.arguments["kwargs"])
        self._data = {
            option.json_key: check(bound.arguments.get(option.name, option.default), option.kind)
            for option in self.options
        }

    @classmethod
    def define(cls, name: str, doc: str, *options: Option, **more: Any) -> type[Self]:
        """Return a class that has no methods of its own."""
        body = {"__module__": cls.__module__, "__doc__": doc}
        return type(name, (cls,), body, options=options, **more)

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
        for option in cls.options:
            key = option.json_key
            made._data[key] = data[key] if key in data else check(option.default, option.kind)
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


class Steps(Component):
    """A component that is a list of others, which run in order."""

    is_flat: ClassVar[bool] = True  # whether a Sequence in a Sequence is replaced by its steps

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        ((key, parts),) = self._data.items()
        steps: list[Component] = []
        for part in parts:
            step = check(part, self.family)
            steps += step._parts if self.is_flat and isinstance(step, Steps) else [step]
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
        return self._parts[check(index, int)]

    def __setitem__(self, index: int, value: Any) -> None:
        self._parts[check(index, int)] = copy.copy(check(value, self.family))
        Component.changes += 1


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
        self.content = "" if content is None else check(content, str)
        self._single_word = check(single_word, bool)
        self._lstrip, self._rstrip = check(lstrip, bool), check(rstrip, bool)
        self._normalized = maybe(bool)(normalized)
        self.special = check(special, bool)

    single_word = property(lambda self: self._single_word, doc="Matches whole words only.")
    lstrip = property(lambda self: self._lstrip, doc="Also takes whitespace on its left.")
    rstrip = property(lambda self: self._rstrip, doc="Also takes whitespace on its right.")

    @property
    def normalized(self) -> bool:
        """Matches normalized text. The default is True for tokens that are not special."""
        return not self.special if self._normalized is None else self._normalized

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
        return {"content": self.content, **flags_of(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def flags_of(token: object) -> dict[str, bool]:
    """Return the flags of an added token of any class."""
    return {name: getattr(token, name) for name in _FLAGS}


def tokens_of(tokens: object, special: bool) -> list[AddedToken]:
    """Return copies of tokens; `special` makes the copies and the originals special."""
    found = []
    for each in check(tokens, list):
        token = AddedToken(each) if isinstance(each, str) else check(each, AddedToken)
        token.special = token.special or special
        found.append(copy.copy(token))
        found[-1]._normalized = token._normalized  # None follows a later change of `special`
    return found


class AddedTokens:
    """All added tokens with their ids, numbered as in the real library.

    A token text that is added again gets the new flags, but a special token stays special.
    """

    def __init__(self, tokens: Mapping[int, Any] | None = None) -> None:
        """`tokens` are added tokens of any class by id, as they are in a file."""
        self.ids: dict[str, int] = {}
        self.by_id: dict[int, AddedToken] = {}
        self.special_tokens: set[str] = set()
        found = tokens or {}
        ids = {token.content: id_ for id_, token in found.items()}
        made = (AddedToken(token.content, **flags_of(token)) for token in found.values())
        self.add(made, ids, 0)

    def add(self, tokens: Iterable[AddedToken], model: Mapping[str, int], size: int) -> int:
        """Add tokens, and return the number of new or changed ones.

        `model` has the ids of the model's tokens, and `size` is their number.
        """
        given = list(tokens)
        # The largest id before the call counts: the real library ignores ids of the model that
        # this call adds beyond the model's size.
        next_id = max(size, max(self.by_id, default=-1) + 1)
        self.special_tokens |= {token.content for token in given if token.special and token.content}
        count = 0
        for token in given:
            known = self.ids.get(token.content)
            if not token.content or (known is not None and self.by_id[known] == token):
                continue
            id_ = known if known is not None else model.get(token.content)
            if id_ is None:
                id_, next_id = next_id, next_id + 1
            self.ids[token.content] = id_
            self.by_id[id_] = token
            count += 1
        return count

    def spec(self) -> tuple[Added, ...]:
        """Return the tokens as a tokenizer specification has them."""
        made = []
        for id_, token in sorted(self.by_id.items()):
            flags = {**flags_of(token), "special": token.content in self.special_tokens}
            made.append(Added(token.content, id_, **flags))
        return tuple(made)

    def to_json(self) -> list[dict[str, Any]]:
        return [{"id": id_, **token.__getstate__()} for id_, token in sorted(self.by_id.items())]
