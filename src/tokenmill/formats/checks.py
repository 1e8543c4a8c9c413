"""Files and their JSON → checked values: an error names the file and the field."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from tokenmill.errors import VocabularyError

Kind = TypeVar("Kind")

_NAMES = {str: "a string", bool: "true or false", int: "a whole number", list: "a list"}
_NAMES |= {dict: "an object", float: "a number"}
NESTING_MAX = 16
PARTS_MAX = 64


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: in which file, and in which part of it."""

    source: str
    part: str = ""

    def inside(self, name: str) -> Place:
        return Place(self.source, f"{self.part}.{name}" if self.part else name)

    def refuse(self, text: str) -> NoReturn:
        """Raises the error: what is wrong, and the way out."""
        raise self.error(text)

    def error(self, text: str) -> VocabularyError:
        return VocabularyError(f"{self.source}: {self.part + ' ' if self.part else ''}{text}")

    def check(self, value: object, kind: type[Kind]) -> Kind:
        """A value that must be of a kind. A bool is no number here, and an int is one."""
        fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if not fits and not (kind is float and type(value) is int):
            self.refuse(self.expected(kind, value))
        return value if fits else kind(value)  # type: ignore[call-arg, return-value]

    def expected(self, kind: type, value: object) -> str:
        return f"must be {_NAMES[kind]}, not {shown(value)}"

    def get(self, values: Mapping[str, Any], key: str, kind: type[Kind]) -> Kind:
        """A field that must be there."""
        if key not in values:
            self.refuse(f"has no field {key!r}; without it Hugging Face reads no such file either")
        return self.inside(key).check(values[key], kind)

    def maybe(self, values: Mapping[str, Any], key: str, kind: type[Kind]) -> Kind | None:
        """A field that may be left out, or null."""
        return None if values.get(key) is None else self.inside(key).check(values[key], kind)


def parse(data: bytes | str, place: Place) -> Any:
    """The value of a JSON text: no NaN, no bytes that are not UTF-8."""

    def refuse(constant: str) -> NoReturn:
        place.refuse(f"holds {constant}, which is not JSON; write the file again")

    try:
        text = data if isinstance(data, str) else data.decode()
        return json.loads(text, parse_constant=refuse)
    except UnicodeDecodeError as error:
        place.refuse(f"is not UTF-8 at byte {error.start}; write it again as UTF-8")
    except (ValueError, RecursionError) as error:
        if isinstance(error, VocabularyError):
            raise
        place.refuse(f"is not JSON ({error}); load it from where it came once more")


def flatten(value: Any, inner: str, place: Place) -> list[tuple[str, dict[str, Any], Place]]:
    """The parts of nested Sequences in order, each with its type and its place."""
    found: list[tuple[str, dict[str, Any], Place]] = []

    def walk(value: Any, place: Place, depth: int) -> None:
        if depth > NESTING_MAX:
            place.refuse(f"is nested more than {NESTING_MAX} times; write it as one Sequence")
        part = place.check(value, dict)
        name = place.get(part, "type", str)
        if name == "Sequence":
            for index, item in enumerate(place.get(part, inner, list)):
                walk(item, place.inside(f"{inner}[{index}]"), depth + 1)
            return
        if len(found) == PARTS_MAX:
            place.refuse(f"is one of more than {PARTS_MAX} parts; fewer can be loaded")
        found.append((name, part, place))

    if value is not None:
        walk(value, place, 0)
    return found


def shown(value: object) -> str:
    """A value as errors name it."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


BYTES_MAX = 256 << 20  # Gemma 3's tokenizer.json has 33 MB


def is_file(path: Path) -> bool:
    """Whether a file is there; a link that leads nowhere is refused, since a file was meant."""
    if path.is_file():
        return True
    refuse_broken_link(path)
    return False


def refuse_broken_link(path: Path) -> None:
    """Raises an error that names the link, if the path is one and leads nowhere."""
    if path.is_symlink() and not path.exists():
        raise VocabularyError(
            f"{path} is a link to {str(path.readlink())!r}, which is not there; get the file "
            "again, or remove the link"
        )


def read_bytes(path: Path, limit: int = BYTES_MAX) -> bytes:
    """All bytes of a regular file; a pipe or a device could give any number of them."""
    # A pipe without a writer would not even open.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise VocabularyError(f"{path} is not a regular file")
        if status.st_size > limit:
            raise VocabularyError(
                f"{path} has {status.st_size:,} bytes: too large for a tokenizer's file"
            )
        data = file.read(limit + 1)
    if len(data) > limit:
        raise VocabularyError(f"{path} grows while it is read; wait until it is written")
    return data


def read_start(path: Path, count: int) -> bytes:
    """The first bytes of a file."""
    with path.open("rb") as file:
        return file.read(count)
