"""Files and JSON → checked values. Errors contain the file and the field."""

from __future__ import annotations

import binascii
import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from tokenmill.errors import VocabularyError, shown

Kind = TypeVar("Kind")

_NAMES = {str: "a string", bool: "true or false", int: "a whole number", list: "a list"}
_NAMES |= {dict: "an object", float: "a number", bytes: "a text"}
NESTING_MAX = 16
PARTS_MAX = 64


@dataclass(frozen=True, slots=True)
class Place:
    """The file and the field of a value, for errors. Errors without advice get `advice`."""

    source: str
    part: str = ""
    advice: str = ""

    def inside(self, name: str | int) -> Place:
        """Return the place of a field, or of an item of a list."""
        inner = f"[{name}]" if isinstance(name, int) else f".{name}"
        return Place(self.source, (self.part + inner).removeprefix("."), self.advice)

    def refuse(self, text: str) -> NoReturn:
        """Raise the error of this place."""
        raise self.error(text)

    def error(self, text: str) -> VocabularyError:
        if self.advice and ";" not in text:
            text = f"{text}; {self.advice}"
        return VocabularyError(f"{self.source}: " + f"{self.part} {text}".lstrip())

    def check(self, value: object, kind: type[Kind]) -> Kind:
        """Return the value if its type is `kind`. An int is also a float; a bool is only a bool."""
        fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if not fits and not (kind is float and type(value) is int):
            self.refuse(f"must be {_NAMES.get(kind, 'an array')}, got {shown(value)}")
        return value if fits else kind(value)  # type: ignore[call-arg, return-value]

    def get(self, values: Mapping[str, Any], key: str, kind: type[Kind]) -> Kind:
        """Return a required field."""
        if key not in values:
            self.refuse(f"has no field {key!r}, which is required; add it")
        return self.inside(key).check(values[key], kind)

    def maybe(self, values: Mapping[str, Any], key: str, kind: type[Kind]) -> Kind | None:
        """Return an optional field. None if it is missing or null."""
        return None if values.get(key) is None else self.inside(key).check(values[key], kind)

    def number(self, value: object, end: int) -> int:
        """Return the value if it is a whole number from 0 up to `end`, exclusive."""
        number = self.check(value, int)
        if not 0 <= number < end:
            self.refuse(f"must be from 0 to {end - 1:,}, got {number}")
        return number

    def fields(self, values: Mapping[str, Any], kinds: Mapping[str, Any]) -> list[Any]:
        """Return required fields. The kind of each is a type, a range of numbers, or choices."""
        found: list[Any] = []
        for key, kind in kinds.items():
            if isinstance(kind, type):
                found.append(self.get(values, key, kind))
            elif isinstance(kind, range):
                found.append(self.inside(key).number(self.get(values, key, int), kind.stop))
            else:
                found.append(self.inside(key).choice(self.get(values, key, str), kind))
        return found

    def limit(self, count: int, most: int, what: str) -> None:
        """Raise VocabularyError if there are more than `most`."""
        if count > most:
            self.refuse(f"has {count} {what}; at most {most} can be loaded")

    def items(self, values: Mapping[str, Any], key: str, most: int) -> list[Any]:
        """Return a required list of limited length."""
        found = self.get(values, key, list)
        self.inside(key).limit(len(found), most, "items")
        return found

    def base64(self, value: object) -> bytes:
        """Return the bytes of a text in base64."""
        try:
            return binascii.a2b_base64(self.check(value, str), strict_mode=True)
        except ValueError as error:
            self.refuse(f"is not base64 ({error}); download or save the file again")

    def choice(self, value: object, choices: Iterable[str]) -> str:
        """Return the value if it is one of `choices`."""
        if not isinstance(value, str) or value not in choices:
            self.refuse(f"must be one of {', '.join(choices)}, got {shown(value)}")
        return value


def parse(data: bytes | str, place: Place) -> Any:
    """Return the value of a JSON text in UTF-8. NaN and Infinity are rejected."""

    def refuse(constant: str) -> NoReturn:
        place.refuse(f"contains {constant}, which is not valid JSON; save the file again")

    try:
        text = data if isinstance(data, str) else data.decode()
        return json.loads(text, parse_constant=refuse)
    except UnicodeDecodeError as error:
        place.refuse(f"is not UTF-8 at byte {error.start}; save it as UTF-8")
    except (ValueError, RecursionError) as error:
        if isinstance(error, VocabularyError):
            raise
        place.refuse(f"is not JSON ({error}); download or save it again")


def flatten(value: Any, inner: str, place: Place) -> list[tuple[str, dict[str, Any], Place]]:
    """Return the components of nested Sequences in order, each with its type and place."""
    found: list[tuple[str, dict[str, Any], Place]] = []

    def walk(value: Any, place: Place, depth: int) -> None:
        if depth > NESTING_MAX:
            place.refuse(f"is nested more than {NESTING_MAX} times; use one Sequence")
        part = place.check(value, dict)
        name = place.get(part, "type", str)
        if name == "Sequence":
            for index, item in enumerate(place.get(part, inner, list)):
                walk(item, place.inside(inner).inside(index), depth + 1)
            return
        if len(found) == PARTS_MAX:
            place.refuse(f"is component {PARTS_MAX + 1}; use at most {PARTS_MAX}")
        found.append((name, part, place))

    if value is not None:
        walk(value, place, 0)
    return found


def cannot_save(name: str, reason: str) -> VocabularyError:
    """Return the error of a tokenizer that a format cannot express."""
    return VocabularyError(f"cannot save as {name}: {reason}; save to tokenizer.json or .tokenmill")


BYTES_MAX = 256 << 20  # Gemma 3's tokenizer.json has 33 MB


def is_file(path: Path) -> bool:
    """Return whether a file exists. Raise VocabularyError for a broken symbolic link."""
    if path.is_file():
        return True
    refuse_broken_link(path)
    return False


def refuse_broken_link(path: Path) -> None:
    """Raise VocabularyError if the path is a broken symbolic link."""
    if path.is_symlink() and not path.exists():
        raise VocabularyError(
            f"{path} is a link to {str(path.readlink())!r}, which does not exist; download the "
            "file again, or remove the link"
        )


def read_bytes(path: Path) -> bytes:
    """Return all bytes of a regular file. Pipes and devices, which may be endless, are rejected."""
    # Without O_NONBLOCK, opening a pipe blocks until a writer opens it.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise VocabularyError(f"{path} is not a regular file; pass the path of a file")
        if status.st_size > BYTES_MAX:
            raise VocabularyError(
                f"{path} has {status.st_size:,} bytes, too large for a tokenizer file; the limit "
                f"is {BYTES_MAX:,} bytes"
            )
        data = file.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise VocabularyError(f"{path} grew while it was read; try again when it is complete")
    return data
