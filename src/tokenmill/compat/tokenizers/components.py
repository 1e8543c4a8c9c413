"""The parts of a tokenizer.json as objects: data, with the attributes that the real ones have.

A component is what tokenizer.json says of it, no more. It may be changed while a tokenizer uses it:
`changes` counts that, so that a tokenizer knows when to look at its parts again.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from tokenmill.compat.tokenizers import values
from tokenmill.errors import TokenizersError

T = TypeVar("T")
# How many values of a list or mapping repr shows, and str.
_REPR_MAX = 99
STR_MAX = 5
_STR_BYTES_MAX = 100


class Changes:
    """How often any component was changed."""

    count = 0


class Bare(str):
    """A text that is shown without quotes: a variant of an enumeration."""

    __slots__ = ()


class Struct(dict[str, Any]):
    """A mapping that is shown as Name(key=value, …)."""

    def __init__(self, name: str, entries: Mapping[str, Any]) -> None:
        super().__init__(entries)
        self.name = name


class Variant(dict[str, Any]):
    """A mapping of one key that is shown as Key(value)."""


def shown(value: object, most: int = _REPR_MAX) -> str:
    """A value as the real library's repr shows it."""
    if isinstance(value, Component):
        return shown(value._shown(), most)
    if isinstance(value, Bare):
        return str(value)
    if isinstance(value, str):
        return _quoted(value, most)
    if isinstance(value, Struct):
        return f"{value.name}({', '.join(f'{k}={shown(v, most)}' for k, v in value.items())})"
    if isinstance(value, Variant):
        ((name, held),) = value.items()
        return shown(held, most) if isinstance(held, Struct) else f"{name}({shown(held, most)})"
    if isinstance(value, Mapping):
        return (
            "{"
            + _listed([f"{_quoted(k, most)}:{shown(v, most)}" for k, v in value.items()], most)
            + "}"
        )
    if isinstance(value, tuple):
        return "(" + ", ".join(shown(each, most) for each in value) + ")"
    if isinstance(value, list):
        return "[" + _listed([shown(each, most) for each in value], most) + "]"
    return repr(value)


def _quoted(text: str, most: int) -> str:
    """A text, of which nothing is escaped; str shows as much of it as fits in 100 bytes."""
    data = text.encode("utf-8", "surrogatepass")
    if most == STR_MAX and len(data) > _STR_BYTES_MAX:
        text = data[:_STR_BYTES_MAX].decode("utf-8", "ignore") + "..."
    return f'"{text}"'


def _listed(texts: list[str], most: int) -> str:
    return ", ".join(texts if len(texts) <= most else [*texts[:most], "..."])


def dump(value: object, pretty: bool = False) -> str:
    """JSON as the real library writes it."""
    separators = (",", ": ") if pretty else (",", ":")
    indent = 2 if pretty else None
    return json.dumps(value, ensure_ascii=False, separators=separators, indent=indent)


class Component:
    """A part of a tokenizer."""

    KIND: ClassVar[str]  # what the real library calls the base class
    _data: dict[str, Any]

    def __init__(self) -> None:
        if type(self).__base__ is Component:
            module = f"{type(self).__module__.rsplit('.', 1)[-1]}.{type(self).__name__}"
            raise TypeError(f"cannot create 'tokenizers.{module}' instances")
        self._data = {}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Component:
        """The component that tokenizer.json describes so, without its type."""
        made = cls.__new__(cls)
        made._data = dict(data)
        return made

    def to_json(self) -> dict[str, Any]:
        return {"type": type(self).__name__, **self._data}

    def _put(self, key: str, value: object) -> None:
        self._data = {**self._data, key: value}
        Changes.count += 1

    def _shown(self) -> Struct:
        return Struct(type(self).__name__, self._data)

    def __repr__(self) -> str:
        return shown(self)

    def __str__(self) -> str:
        return shown(self, STR_MAX)

    def __getstate__(self) -> bytes:
        return dump(self.to_json()).encode()

    def __setstate__(self, state: bytes) -> None:
        data = json.loads(state)
        del data["type"]
        vars(self).update(vars(type(self).from_data(data)))


def json_of(component: Component | None) -> dict[str, Any] | None:
    return None if component is None else component.to_json()


class Field(Generic[T]):
    """An attribute that is an entry of the component's JSON."""

    def __init__(self, key: str, check: Callable[[object], T]) -> None:
        self._key, self._check = key, check

    def __get__(self, component: Component, owner: object = None) -> T:
        found: T = component._data[self._key]
        return found

    def __set__(self, component: Component, value: T) -> None:
        component._put(self._key, self._check(value))


class Steps(Component):
    """A component that is a list of others, which are run in order."""

    KEY: ClassVar[str]
    FLAT: ClassVar[bool] = True  # whether a Sequence in a Sequence becomes its steps
    _family: ClassVar[Family]
    _parts: list[Component]

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Component:
        made = cls.__new__(cls)
        made._parts = [cls._family.read(part) for part in data[cls.KEY]]
        return made

    def _hold(self, parts: object) -> None:
        self._parts = []
        for part in values.instance(parts, list):
            found = values.instance(part, self._family.base)
            self._parts += found._parts if self.FLAT and isinstance(found, Steps) else [found]

    def to_json(self) -> dict[str, Any]:
        return {"type": "Sequence", self.KEY: [part.to_json() for part in self._parts]}

    def _shown(self) -> Struct:
        return Struct("Sequence", {self.KEY: self._parts})


class IndexedSteps(Steps):
    """Steps that are reached by their places; decoders' are not."""

    def __getitem__(self, index: int) -> Any:
        return self._parts[self._place(index)]

    def __setitem__(self, index: int, value: Any) -> None:
        part = values.instance(value, self._family.base)
        self._parts[self._place(index)] = copy.copy(part)
        Changes.count += 1

    def _place(self, index: object) -> int:
        place = values.unsigned(index)
        if place >= len(self._parts):
            raise IndexError("Index not found")
        return place


def scheme_of(value: object) -> Bare:
    """Where a Metaspace puts its first blank."""
    found = values.text(value)
    if found not in ("first", "never", "always"):
        raise ValueError(
            f"{found} is an unknown variant, should be one of ['first', 'never', 'always']"
        )
    return Bare(found)


def metaspace_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """A Metaspace of a file, which may be an old one."""
    old = "always" if data.get("add_prefix_space", True) else "never"
    scheme = Bare(data.get("prepend_scheme", old))
    split = data.get("split", True)
    return {"replacement": data["replacement"], "prepend_scheme": scheme, "split": split}


class MetaspaceOptions(Component):
    """What both of the name Metaspace have: how blanks are shown, and where one is put in front."""

    def __init__(
        self, replacement: str = "▁", prepend_scheme: str = "always", split: bool = True
    ) -> None:
        self._data = {
            "replacement": values.character(replacement),
            "prepend_scheme": scheme_of(prepend_scheme),
            "split": values.flag(split),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Component:
        return super().from_data(metaspace_data(data))

    replacement = Field("replacement", values.character)
    prepend_scheme = Field[str]("prepend_scheme", scheme_of)
    split = Field("split", values.flag)


class Family:
    """The components of one base class by the names that tokenizer.json gives them."""

    def __init__(self, base: type[Component], *classes: type[Component]) -> None:
        self.base = base
        self._classes = {each.__name__: each for each in classes}
        for each in classes:
            if issubclass(each, Steps):
                each._family = self

    def read(self, data: Mapping[str, Any] | None) -> Any:
        """The component of a JSON; None is none."""
        if data is None:
            return None
        name = data.get("type")
        found = self._classes.get(str(name))
        if found is None:
            raise TokenizersError(f"{self.base.KIND} of type {name!r} is not known")
        return found.from_data({key: value for key, value in data.items() if key != "type"})


def byte_level_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a ByteLevel of a file, which may be an old one."""
    names = ("add_prefix_space", "trim_offsets", "use_regex")
    return {name: data.get(name, True) for name in names}


def pattern_of(value: object) -> Variant:
    """A str or a Regex, as tokenizer.json has it."""
    if isinstance(value, str):
        return Variant({"String": value})
    if isinstance(value, Regex):
        return Variant({"Regex": value._pattern})
    name = type(value).__name__
    raise TypeError(
        "failed to extract enum PyPattern ('str | tokenizers.Regex')\n"
        "- variant Str (str): TypeError: failed to extract field PyPattern::Str.0, "
        f"caused by TypeError: '{name}' object is not an instance of 'str'\n"
        "- variant Regex (tokenizers.Regex): TypeError: failed to extract field "
        f"PyPattern::Regex.0, caused by TypeError: '{name}' object is not an instance of 'Regex'"
    )


class Regex:
    """A regular expression, as Oniguruma reads it."""

    __slots__ = ("_pattern",)

    def __init__(self, s: str) -> None:
        self._pattern = values.text(s)


class PatternField:
    """The pattern of a component, which can be neither read nor changed there."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, component: Component, owner: object = None) -> None:
        raise TokenizersError("Cannot get pattern")

    def __set__(self, component: Component, value: object) -> None:
        said = f"Cannot set pattern, please instantiate a new {self._name} pattern instead"
        raise TokenizersError(said)
